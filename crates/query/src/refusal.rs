//! Why a predicate or a query is not taken: what is wrong, where, and what to write instead.

use std::fmt;

/// A predicate that cannot be tested exactly as the database would, or is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// One of [`Refusal::CODES`]: stable, for programs.
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
/// It is longer, deeper or has more in it than a predicate may have.
pub(crate) const TOO_LARGE: &str = "predicate_too_large";
/// It has something in it that is not evaluated here: a function, arithmetic, a subquery.
pub(crate) const NOT_SUPPORTED: &str = "predicate_not_supported";
/// The table has no such column.
pub(crate) const NO_COLUMN: &str = "column_not_found";
/// Values of these types cannot be compared here exactly as the database would.
pub(crate) const NOT_EXACT: &str = "comparison_not_exact";
/// A value is not of the type that it is compared with.
pub(crate) const NOT_OF_TYPE: &str = "value_not_of_type";
/// The text is no SELECT in SQL.
pub(crate) const QUERY_SYNTAX: &str = "query_syntax";
/// It is longer, deeper or has more in it than a query may have.
pub(crate) const QUERY_TOO_LARGE: &str = "query_too_large";
/// It has something in it that no live query may have.
pub(crate) const QUERY_NOT_SUPPORTED: &str = "query_not_supported";
/// A function that live queries may not call.
pub(crate) const NO_FUNCTION: &str = "function_not_allowed";
/// A table that is not there, or is not watched.
pub(crate) const NO_TABLE: &str = "table_not_found";
/// A rule for a table's rows, which is the operator's, cannot be kept.
pub(crate) const RULE: &str = "rule_not_supported";
/// A parameter that was not given, or cannot be one.
pub(crate) const PARAMETER: &str = "query_parameter";

impl Refusal {
    /// All codes there are.
    pub const CODES: [&'static str; 13] = [
        SYNTAX,
        TOO_LARGE,
        NOT_SUPPORTED,
        NO_COLUMN,
        NOT_EXACT,
        NOT_OF_TYPE,
        QUERY_SYNTAX,
        QUERY_TOO_LARGE,
        QUERY_NOT_SUPPORTED,
        NO_FUNCTION,
        NO_TABLE,
        RULE,
        PARAMETER,
    ];

    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Refusal {
        Refusal { code, message: message.into(), hint: None, position: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Refusal {
        self.hint = Some(hint.into());
        self
    }

    /// Says where, unless that is known better already.
    pub(crate) fn at(mut self, position: Option<usize>) -> Refusal {
        self.position = self.position.or(position);
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match self.position {
            Some(position) => write!(f, " (at character {position})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Refusal {}
