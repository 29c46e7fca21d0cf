//! `tidewire config`: the configuration in force, or the default one.

use std::io::Write as _;
use std::process::ExitCode;

use crate::config::{Config, file, show};

/// The embedded default file, as it is.
pub(crate) fn print_default() -> anyhow::Result<ExitCode> {
    print(file::DEFAULT)
}

/// Every value with its origin; secrets hidden.
pub(crate) fn print_effective(config: &Config) -> anyhow::Result<ExitCode> {
    print(&show::effective(config))
}

fn print(text: &str) -> anyhow::Result<ExitCode> {
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
