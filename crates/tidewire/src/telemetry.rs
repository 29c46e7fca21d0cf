//! Log lines of the process, on the standard error, as text or JSON.
//!
//! The standard output is for the result of a command. Secrets have types whose debug form hides them, so that no log
//! line can show one.

use std::io::IsTerminal as _;

use anyhow::{Context as _, anyhow};
use tracing::Level;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

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

/// Libraries that write whatever SQL goes through them. The driver of PostgreSQL tells of each statement with
/// all that goes into it (signing keys, hashes of keys, what streams hold), and of what functions raise; the
/// parser tells of each word. Nothing of theirs is written but warnings, whatever is asked for.
const TALKERS: [&str; 3] = ["tokio_postgres", "postgres", "sqlparser"];

/// Whether a line may be written, if it is asked for.
fn may_be_said(target: &str, level: Level) -> bool {
    let crate_name = target.split("::").next().unwrap_or_default();
    level <= Level::WARN || !TALKERS.contains(&crate_name)
}

fn filter(wanted: &str) -> anyhow::Result<EnvFilter> {
    EnvFilter::try_new(wanted).with_context(|| {
        format!("TIDEWIRE_LOG={wanted} is not a filter; write one such as warn,tidewire=debug")
    })
}

fn install(wanted: &str, json: bool) -> anyhow::Result<()> {
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let lines = if json { lines.json().flatten_event(true).boxed() } else { lines.boxed() };
    let said = filter_fn(|line| may_be_said(line.target(), *line.level()));
    let installed = tracing_subscriber::registry().with(lines).with(filter(wanted)?).with(said);
    installed.try_init().map_err(|error| anyhow!("cannot start logging: {error}"))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn libraries_are_as_silent_as_we_are() {
        assert_eq!(default_filter("error"), "error,tidewire=error");
        assert_eq!(default_filter("trace"), "warn,tidewire=trace");
    }

    #[test]
    fn what_goes_into_statements_is_never_written() {
        for target in ["tokio_postgres", "tokio_postgres::prepare", "sqlparser::parser"] {
            for level in [Level::TRACE, Level::DEBUG, Level::INFO] {
                assert!(!may_be_said(target, level), "{target} at {level}");
            }
            assert!(may_be_said(target, Level::WARN), "{target}");
        }
        assert!(may_be_said("tidewire_deliver::metrics", Level::TRACE));
        assert!(may_be_said("tokio_postgres_rustls", Level::DEBUG));
    }

    /// Lines of libraries that write by another way are under the same rule: their own target counts.
    #[test]
    fn no_filter_opens_what_is_closed() {
        for wanted in ["trace", "tokio_postgres=debug", "warn,tokio_postgres::query=trace"] {
            let said = Arc::new(Mutex::new(Vec::new()));
            let into = Arc::clone(&said);
            let lines = tracing_subscriber::fmt::layer()
                .with_ansi(false)
                .with_writer(move || LogSink(Arc::clone(&into)));
            let rule = filter_fn(|line| may_be_said(line.target(), *line.level()));
            let all =
                tracing_subscriber::registry().with(lines).with(filter(wanted).expect("a filter"));
            tracing::subscriber::with_default(all.with(rule), || {
                tracing::debug!(target: "tokio_postgres::prepare", "preparing SELECT 'a secret'");
                tracing::debug!(target: "tokio_postgres::query", "parameters: a secret");
                tracing::info!(target: "tokio_postgres::connection", "NOTICE: a secret");
                tracing::warn!(target: "tokio_postgres::connection", "it broke");
            });
            let said = String::from_utf8(said.lock().expect("no panic").clone()).expect("text");
            assert!(said.contains("it broke"), "{wanted}: {said}");
            assert!(!said.contains("secret"), "{wanted}: {said}");
        }
    }

    struct LogSink(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for LogSink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("no panic").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
}
