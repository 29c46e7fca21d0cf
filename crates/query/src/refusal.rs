//! Why a predicate is not taken: what is wrong, where, and what to write instead.

use std::fmt;

/// A predicate that cannot be tested exactly as the database would, or is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// One of the codes below: stable, for programs.
    pub code: &'static str,
    /// What is wrong, for people.
    pub message: String,
    /// What to do instead, if something can be done.
    pub hint: Option<String>,
    /// Where, in characters from 1.
    pub position: Option<usize>,
}

/// The text is no condition in SQL.
pub(crate) const SYNTAX: &str = "predicate_syntax";

impl Refusal {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Refusal {
        Refusal { code, message: message.into(), hint: None, position: None }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}
