//! A condition over the columns of one table, for one caller.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use crate::bind::bind;
use crate::caller::Caller;
use crate::condition::Condition;
use crate::evaluate::Effort;
use crate::names;
use crate::parse::Source;
use crate::refusal::Refusal;
use crate::row::{Row, Unsure};
use crate::table::Table;
use crate::truth::Truth;

/// A condition that rows are tested on. Equal ones, however they were written, give equal answers, so
/// that their work can be shared.
#[derive(Debug, Clone)]
pub struct Predicate {
    condition: Condition,
    /// Those that the text names, in the order of the table.
    columns: Arc<[String]>,
    /// The condition in one normal form, once someone has asked for it: there may be a million of
    /// these, and a text is more than all the rest.
    key: OnceLock<Box<str>>,
}

impl Predicate {
    /// Reads a condition in the SQL of the table's database, for a caller: one that whoever runs the server
    /// wrote.
    pub fn parse(text: &str, table: &Table, caller: &dyn Caller) -> Result<Predicate, Refusal> {
        Predicate::read(text, table, caller, false)
    }

    /// The same of a condition that a client sent: its patterns are bounded.
    pub fn of_client(text: &str, table: &Table, caller: &dyn Caller) -> Result<Predicate, Refusal> {
        Predicate::read(text, table, caller, true)
    }

    fn read(
        text: &str,
        table: &Table,
        caller: &dyn Caller,
        of_client: bool,
    ) -> Result<Predicate, Refusal> {
        let source = Source::new(text);
        let expression = source.parse(table.dialect)?;
        let (condition, columns) = bind(&source, &expression, table, caller, of_client)?;
        Ok(Predicate { condition, columns: names::columns(columns), key: OnceLock::new() })
    }

    /// What the condition is for a row, where others wait for the answer.
    pub fn test(&self, row: &Row<'_>) -> Result<Truth, Unsure> {
        self.test_with(row, Effort::Shared)
    }

    /// What the condition is for a row.
    pub fn test_with(&self, row: &Row<'_>, effort: Effort) -> Result<Truth, Unsure> {
        self.condition.test(row, effort)
    }

    /// How many patterns of a client are in it.
    pub fn patterns(&self) -> usize {
        self.condition.patterns()
    }

    /// The columns it names, each once: also those that turned out not to matter.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The condition in one normal form, with the caller's identity in it. Predicates over one table
    /// with equal keys are equal. It is kept: who only wants to hash it writes the predicate as text.
    pub fn key(&self) -> &str {
        self.key.get_or_init(|| self.condition.to_string().into())
    }

    /// What is tested.
    pub(crate) fn condition(&self) -> &Condition {
        &self.condition
    }
}

/// The normal form: what [`Predicate::key`] is, without keeping it.
impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.condition)
    }
}

impl PartialEq for Predicate {
    fn eq(&self, other: &Predicate) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for Predicate {}

impl Hash for Predicate {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.to_string().hash(state);
    }
}

#[cfg(test)]
mod tests;
