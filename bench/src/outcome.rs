//! A measurement that may have failed: a failure is a row of the table, never a missing one.

use anyhow::Result;
use serde::Serialize;

use crate::report::Report;
use crate::servers::Kind;

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome<T> {
    Measured(T),
    Failed(String),
}

impl<T> Outcome<T> {
    /// A failure of a peer is its row; one of Tidewire's also fails the run, at its end.
    pub(crate) fn of(kind: Kind, result: Result<T>, report: &mut Report) -> Self {
        match result {
            Ok(measured) => Self::Measured(measured),
            Err(error) => {
                let error = format!("{error:#}");
                if kind.is_tidewire() {
                    report.note_failure(format!("{}: {error}", kind.name()));
                }
                Self::Failed(error)
            }
        }
    }

    pub(crate) fn measured(&self) -> Option<&T> {
        match self {
            Self::Measured(measured) => Some(measured),
            Self::Failed(_) => None,
        }
    }

    pub(crate) fn describe(&self, describe: impl FnOnce(&T) -> String) -> String {
        match self {
            Self::Measured(measured) => describe(measured),
            Self::Failed(error) => format!("FAILED: {error}"),
        }
    }
}
