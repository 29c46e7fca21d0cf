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

/// Lines that are not written, whatever is asked for. The driver of PostgreSQL tells of each statement
/// with all that goes into it: signing keys, hashes of keys, what streams hold.
const NEVER: &str = "tokio_postgres::query=info";

fn filter(wanted: &str) -> anyhow::Result<EnvFilter> {
    let filter = EnvFilter::try_new(wanted).with_context(|| {
        format!("TIDEWIRE_LOG={wanted} is no filter such as warn,tidewire=debug")
    })?;
    Ok(filter.add_directive(NEVER.parse()?))
}

fn install(wanted: &str, json: bool) -> anyhow::Result<()> {
    let filter = filter(wanted)?;
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

    #[test]
    fn what_goes_into_statements_is_never_written() {
        for wanted in ["trace", "tokio_postgres=debug", "tokio_postgres::query=trace", "off"] {
            let filter = filter(wanted).expect("a filter").to_string();
            let of_query = filter.split(',').filter(|one| one.starts_with("tokio_postgres::query"));
            assert_eq!(of_query.collect::<Vec<_>>(), [NEVER], "{wanted}: {filter}");
        }
    }
}
