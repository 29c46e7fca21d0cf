//! What the process says about itself: log lines on the standard error, as text or JSON.
//!
//! The standard output is for what a command was asked for. Secrets have types whose debug form
//! hides them, so that no line can show one.

use std::io::IsTerminal as _;

use anyhow::{Context as _, anyhow};
use tracing_subscriber::EnvFilter;

use crate::config::{Config, LEVELS};

/// Starts logging as the configuration says.
pub(crate) fn start(config: &Config) -> anyhow::Result<()> {
    let telemetry = &config.settings.telemetry;
    let filter = match &config.log_filter {
        Some(filter) => filter.clone(),
        None => default_filter(&telemetry.level),
    };
    install(&filter, telemetry.format == "json")
}

/// Starts logging for a command that talks to a server: its troubles only.
pub(crate) fn start_for_client() -> anyhow::Result<()> {
    let filter = std::env::var("TIDEWIRE_LOG").unwrap_or_else(|_| default_filter("warn"));
    install(&filter, false)
}

/// Our own lines at `level`; those of libraries only when something is wrong, for they speak of
/// matters nobody here can act on.
fn default_filter(level: &str) -> String {
    let libraries = if level == LEVELS[0] { level } else { "warn" };
    // A target is matched by its beginning, so this holds for all crates of ours.
    format!("{libraries},tidewire={level}")
}

fn install(filter: &str, json: bool) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(filter).with_context(|| {
        format!("TIDEWIRE_LOG={filter} is no filter such as warn,tidewire=debug")
    })?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let installed =
        if json { lines.json().flatten_event(true).try_init() } else { lines.try_init() };
    installed.map_err(|error| anyhow!("cannot start logging: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_as_silent_as_we_are() {
        assert_eq!(default_filter("error"), "error,tidewire=error");
        assert_eq!(default_filter("trace"), "warn,tidewire=trace");
    }
}
