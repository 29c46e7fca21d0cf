//! The user's own SQL, run by the server.
//!
//! Whoever may do this is trusted with the database: no scope narrows what a statement reads. What
//! it writes to watched tables is in the log when the answer is given, and the answer says where.

use async_trait::async_trait;
use serde_json::value::RawValue;

use crate::command::Actor;
use crate::error::StoreError;
use crate::offset::Position;

/// One or more statements, run in one transaction.
#[derive(Debug, Clone)]
pub struct Statements {
    /// Their text.
    pub sql: String,
    /// What stands for `$1`, `$2` and so on (`?1`, `?2` in SQLite), each a JSON value with every digit
    /// as it came. Only a single statement may have any.
    pub params: Vec<Box<RawValue>>,
    /// Who runs them, for the events that come of it.
    pub actor: Actor,
    /// How much may come back, and how long it may take.
    pub limits: SqlLimits,
}

/// What bounds the work of a statement.
#[derive(Debug, Clone, Copy)]
pub struct SqlLimits {
    /// For so long it may run.
    pub timeout_ms: u64,
    /// So many rows may come back; more are an error, not a part.
    pub rows_max: usize,
    /// So many bytes of rows.
    pub bytes_max: usize,
}

/// A column of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlColumn {
    /// Its name.
    pub name: String,
    /// Its type, as the database calls it. Empty where it has none: an expression in SQLite.
    pub type_name: String,
}

/// What the last statement gave.
#[derive(Debug, Clone, Default)]
pub struct SqlAnswer {
    /// Its columns; none if it gives no rows.
    pub columns: Vec<SqlColumn>,
    /// Its rows, each with a JSON value for each column, in the canonical form of events.
    pub rows: Vec<Vec<Box<RawValue>>>,
    /// How many rows came back, or were changed.
    pub row_count: u64,
    /// For a write, a place in the log at or after its events; for a read, one whose events the read
    /// has seen. None if a write is committed and did not reach the log in time: it will.
    pub offset: Option<Position>,
}

/// Why SQL was not run to its end. Nothing of it was kept, unless the store's error says that this is
/// not known.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SqlError {
    /// It is wrong, or may not be run.
    #[error("{}", .0.message)]
    Wrong(Box<SqlProblem>),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What is wrong with SQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlProblem {
    /// For programs: `sql_syntax`, `sql_timeout`, `sql_refused`, …
    pub code: &'static str,
    /// What is wrong, as the database says it.
    pub message: String,
    /// Where, in characters of the text from 1.
    pub position: Option<usize>,
    /// What to do about it.
    pub hint: Option<String>,
}

/// Running SQL. See the [module documentation](self).
#[async_trait]
pub trait Sql: Send + Sync {
    /// Runs statements in one transaction.
    async fn run_sql(&self, statements: Statements) -> Result<SqlAnswer, SqlError>;

    /// A place in the log by which every change is there that was committed before this was asked,
    /// by anyone. Waits until it is so, and for `timeout_ms` at most.
    async fn caught_up(&self, timeout_ms: u64) -> Result<Position, StoreError>;
}
