//! The open transaction, as a handler sees it.

use std::time::Duration;

use serde_json::value::{RawValue, to_raw_value};
use tidewire_store::groups::{GroupError, Work};
use tidewire_store::{SqlAnswer, SqlError, SqlLimits, SqlProblem};
use tidewire_store_postgres::PostgresWork;
use tidewire_store_postgres::driver::types::ToSql;
use tidewire_store_postgres::driver::{self, Row};

use crate::error::HandlerError;
use crate::policy::{driver_is_weather, sql_is_weather, sql_overran};

/// Rows that one statement may give a handler, and their bytes: more is an error, not a part.
const ROWS_MAX: usize = 100_000;
const ROWS_BYTES_MAX: usize = 64 << 20;

/// What was seen of a handler's statements.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// One failed, whatever the handler made of it.
    pub failed: Option<String>,
    /// One failed for a reason that passes by itself.
    pub weather: Option<String>,
    /// One came when the batch had held the only writer for too long. That is not this handler's fault alone.
    pub overran: Option<String>,
}

impl Seen {
    fn note(&mut self, error: &impl ToString, weather: bool) {
        let text = error.to_string();
        if weather {
            self.weather.get_or_insert_with(|| text.clone());
        }
        self.failed.get_or_insert(text);
    }
}

/// The open transaction. It commits, with the group's progress, after the last handler of the batch.
#[derive(Debug)]
pub struct Context<'a> {
    work: &'a mut dyn Work,
    seen: &'a mut Seen,
    limits: SqlLimits,
}

impl<'a> Context<'a> {
    pub(crate) fn new(
        work: &'a mut dyn Work,
        seen: &'a mut Seen,
        timeout: Duration,
    ) -> Context<'a> {
        Context { work, seen, limits: limits(timeout) }
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
            self.seen.note(error, sql_is_weather(error));
            if sql_overran(error) {
                self.seen.overran.get_or_insert_with(|| error.to_string());
            }
        }
        answer
    }

    /// The same in PostgreSQL's own protocol; none on SQLite.
    pub fn postgres(&mut self) -> Option<Postgres<'_>> {
        let seen = &mut *self.seen;
        PostgresWork::of(self.work).map(|work| Postgres { work, seen })
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
    seen: &'a mut Seen,
}

impl Postgres<'_> {
    /// Runs a statement; how many rows it changed.
    pub async fn execute(
        &mut self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, HandlerError> {
        let statement = self.work.prepared(sql).await.map_err(|error| note(self.seen, &error))?;
        let client = self.work.client().map_err(|error| note(self.seen, &error))?;
        let changed = client.execute(&statement, params).await;
        changed.map_err(|error| driven(self.seen, error))
    }

    /// Runs a statement; its rows.
    pub async fn query(
        &mut self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, HandlerError> {
        let statement = self.work.prepared(sql).await.map_err(|error| note(self.seen, &error))?;
        let client = self.work.client().map_err(|error| note(self.seen, &error))?;
        let rows = client.query(&statement, params).await;
        rows.map_err(|error| driven(self.seen, error))
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

fn note(seen: &mut Seen, error: &GroupError) -> HandlerError {
    let weather = match error {
        GroupError::Sql(error) => sql_is_weather(error),
        other => other.temporary(),
    };
    seen.note(error, weather);
    HandlerError::retry(error)
}

fn driven(seen: &mut Seen, error: driver::Error) -> HandlerError {
    let weather = driver_is_weather(&error);
    let error = HandlerError::from(error);
    seen.note(&error.text, weather);
    error
}
