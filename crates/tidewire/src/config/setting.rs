//! One value of the configuration, and its origin.

use std::fmt;
use std::path::PathBuf;

use super::environment::PREFIX;
use super::secret;

/// Where a value was given. People are told, because "which file was that?" is the usual question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File { path: PathBuf, line: usize },
    Variable(String),
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("the default"),
            Origin::File { path, line } => write!(f, "{} line {line}", path.display()),
            Origin::Variable(name) => f.write_str(name),
            Origin::Flag(flag) => f.write_str(flag),
        }
    }
}

/// A value, by its full name: `streams.long_poll_ms`.
#[derive(Clone, PartialEq)]
pub(crate) struct Setting {
    pub(crate) key: String,
    pub(crate) value: toml::Value,
    pub(crate) origin: Origin,
}

impl Setting {
    /// The value as TOML, without what is secret in it.
    pub(crate) fn shown(&self) -> String {
        match &self.value {
            toml::Value::String(url) if self.key == "database" => {
                toml::Value::String(secret::shown_url(url)).to_string()
            }
            value => value.to_string(),
        }
    }

    /// The table it stands in; empty at the top.
    pub(crate) fn table(&self) -> &str {
        self.key.rsplit_once('.').map_or("", |(table, _)| table)
    }

    /// Its name in that table.
    pub(crate) fn name(&self) -> &str {
        self.key.rsplit_once('.').map_or(&self.key, |(_, name)| name)
    }

    /// The environment variable that sets it.
    pub(crate) fn variable(&self) -> String {
        format!("{PREFIX}{}", self.key.replace('.', "_").to_ascii_uppercase())
    }
}

impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {} from {}", self.key, self.shown(), self.origin)
    }
}
