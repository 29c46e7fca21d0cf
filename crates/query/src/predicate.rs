//! A condition over the columns of one table, for one caller.

use std::hash::{Hash, Hasher};

use crate::bind::bind;
use crate::caller::Caller;
use crate::condition::Condition;
use crate::parse::Source;
use crate::refusal::Refusal;
use crate::row::{Row, Unsure};
use crate::table::Table;
use crate::truth::Truth;

/// A condition that rows are tested on. Equal ones, however they were written, give equal answers, so
/// that their work can be shared.
#[derive(Debug, Clone)]
pub struct Predicate {
    /// The condition in one normal form: what makes two of them equal.
    key: String,
    condition: Condition,
    /// Those that the text names, in the order of the table.
    columns: Vec<String>,
}

impl Predicate {
    /// Reads a condition in the SQL of the table's database, for a caller.
    pub fn parse(text: &str, table: &Table, caller: &dyn Caller) -> Result<Predicate, Refusal> {
        let source = Source::new(text);
        let expression = source.parse(table.dialect)?;
        let (condition, columns) = bind(&source, &expression, table, caller)?;
        Ok(Predicate { key: condition.to_string(), condition, columns })
    }

    /// What the condition is for a row.
    pub fn test(&self, row: &Row<'_>) -> Result<Truth, Unsure> {
        self.condition.test(row)
    }

    /// The columns it names, each once: also those that turned out not to matter.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The condition in one normal form, with the caller's identity in it. Predicates over one table
    /// with equal keys are equal.
    pub fn key(&self) -> &str {
        &self.key
    }
}

impl PartialEq for Predicate {
    fn eq(&self, other: &Predicate) -> bool {
        self.key == other.key
    }
}

impl Eq for Predicate {}

impl Hash for Predicate {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key.hash(state);
    }
}

#[cfg(test)]
mod tests;
