//! The open transaction that a handler writes into.

use std::time::Duration;

use serde_json::value::{RawValue, to_raw_value};
use tidewire_store::groups::{GroupError, Work};
use tidewire_store::{SqlAnswer, SqlError, SqlLimits, SqlProblem};
use tidewire_store_postgres::PostgresWork;
use tidewire_store_postgres::driver::types::ToSql;
use tidewire_store_postgres::driver::{self, Row};

use crate::error::HandlerError;
use crate::policy::{driver_is_transient, sql_is_transient, sql_overran};

/// Rows that one statement may give a handler, and their bytes: more is an error, not a part.
const ROWS_MAX: usize = 100_000;
const ROWS_BYTES_MAX: usize = 64 << 20;

/// What was seen of a handler's statements.
#[derive(Debug, Default)]
pub(crate) struct StatementErrors {
    /// The first that failed, even if the handler ignored it.
    pub failed: Option<String>,
    /// The first that failed for a transient reason.
    pub transient: Option<String>,
    /// The first that came after the batch had held the only writer for too long. Earlier handlers of the batch
    /// may be the cause.
    pub overran: Option<String>,
}

impl StatementErrors {
    fn note(&mut self, error: &impl ToString, transient: bool) {
        let text = error.to_string();
        if transient {
            self.transient.get_or_insert_with(|| text.clone());
        }
        self.failed.get_or_insert(text);
    }
}

/// The open transaction. It commits, with the group's progress, after the last handler of the batch.
#[derive(Debug)]
pub struct Context<'a> {
    work: &'a mut dyn Work,
    errors: &'a mut StatementErrors,
    limits: SqlLimits,
}

impl<'a> Context<'a> {
    pub(crate) fn new(
        work: &'a mut dyn Work,
        errors: &'a mut StatementErrors,
        timeout: Duration,
    ) -> Context<'a> {
        Context { work, errors, limits: limits(timeout) }
    }

    /// Runs one statement, with JSON values for `$1`, `$2` and so on. On both stores.
    pub async fn sql(
        &mut self,
        sql: &str,
        params: &[serde_json::Value],
    ) -> Result<SqlAnswer, SqlError> {
        let params = params.iter().map(raw).collect::<Result<Vec<_>, _>>()?;
        let answer = self.work.sql(sql, &params, self.limits).await;
        if let Err(error) = &answer {
            self.errors.note(error, sql_is_transient(error));
            if sql_overran(error) {
                self.errors.overran.get_or_insert_with(|| error.to_string());
            }
        }
        answer
    }

    /// The same in PostgreSQL's own protocol; none on SQLite.
    pub fn postgres(&mut self) -> Option<Postgres<'_>> {
        let errors = &mut *self.errors;
        PostgresWork::of(self.work).map(|work| Postgres { work, errors })
    }
}

/// What bounds a statement that runs for a handler, or for the library beside it.
pub(crate) fn limits(timeout: Duration) -> SqlLimits {
    let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    SqlLimits { timeout_ms, rows_max: ROWS_MAX, bytes_max: ROWS_BYTES_MAX }
}

fn raw(value: &serde_json::Value) -> Result<Box<RawValue>, SqlError> {
    to_raw_value(value).map_err(|error| {
        let message = format!("a parameter cannot be written as JSON: {error}");
        let problem = SqlProblem { code: "sql_syntax", message, position: None, hint: None };
        SqlError::Wrong(Box::new(problem))
    })
}

/// A handler's own use of PostgreSQL. Statements are prepared once for each session.
#[expect(missing_debug_implementations, reason = "a session of the driver has nothing to show")]
pub struct Postgres<'a> {
    work: &'a mut PostgresWork,
    errors: &'a mut StatementErrors,
}

impl Postgres<'_> {
    /// Runs a statement; how many rows it changed.
    pub async fn execute(
        &mut self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, HandlerError> {
        let statement = self.work.prepared(sql).await.map_err(|error| note(self.errors, &error))?;
        let client = self.work.client().map_err(|error| note(self.errors, &error))?;
        let changed = client.execute(&statement, params).await;
        changed.map_err(|error| driven(self.errors, error))
    }

    /// Runs a statement; its rows.
    pub async fn query(
        &mut self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, HandlerError> {
        let statement = self.work.prepared(sql).await.map_err(|error| note(self.errors, &error))?;
        let client = self.work.client().map_err(|error| note(self.errors, &error))?;
        let rows = client.query(&statement, params).await;
        rows.map_err(|error| driven(self.errors, error))
    }

    /// Runs a statement; its row, if there is one. More than one is an error.
    pub async fn query_opt(
        &mut self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, HandlerError> {
        let mut rows = self.query(sql, params).await?;
        if rows.len() > 1 {
            return Err(HandlerError::retry(format!(
                "{} rows came where at most one may",
                rows.len()
            )));
        }
        Ok(rows.pop())
    }

    /// Runs a statement; its one row.
    pub async fn query_one(
        &mut self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Row, HandlerError> {
        let row = self.query_opt(sql, params).await?;
        row.ok_or_else(|| HandlerError::retry("no row came where one must"))
    }
}

fn note(errors: &mut StatementErrors, error: &GroupError) -> HandlerError {
    let transient = match error {
        GroupError::Sql(error) => sql_is_transient(error),
        other => other.temporary(),
    };
    errors.note(error, transient);
    HandlerError::retry(error)
}

fn driven(errors: &mut StatementErrors, error: driver::Error) -> HandlerError {
    let transient = driver_is_transient(&error);
    let error = HandlerError::from(error);
    errors.note(&error.text, transient);
    error
}
