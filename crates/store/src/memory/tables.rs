//! Tables, which this store does not have: nothing is watched, and whatever needs SQL is refused.

use async_trait::async_trait;

use super::MemoryStore;
use crate::error::StoreError;
use crate::offset::Position;
use crate::queries::{
    CheckedQuery, LiveQueryEdit, LiveQueryRow, LiveRead, LiveRows, Queries, ShapeView, TableRef,
};
use crate::retention::{Retained, Retention, RetentionRules};
use crate::sql::{Sql, SqlAnswer, SqlError, Statements};
use crate::watch::{
    CaptureMode, CaptureView, NewWatch, TableView, WatchView, WatchedName, Watches,
};

/// The answer to whoever needs what is not here.
pub(super) fn without(what: &str) -> StoreError {
    StoreError::Refused(format!("the in-memory store has no {what}; use SQLite or PostgreSQL"))
}

#[async_trait]
impl Watches for MemoryStore {
    async fn watch(&self, _watch: NewWatch) -> Result<WatchView, SqlError> {
        Err(without("tables").into())
    }

    async fn unwatch(&self, _table: &str) -> Result<bool, SqlError> {
        Ok(false)
    }

    async fn watches(&self) -> Result<Vec<WatchView>, StoreError> {
        Ok(Vec::new())
    }

    async fn watched_names(&self) -> Result<Vec<WatchedName>, StoreError> {
        Ok(Vec::new())
    }

    async fn columns(&self, _table: &str) -> Result<TableView, StoreError> {
        Ok(TableView::Unknown)
    }

    async fn capture(&self) -> Result<CaptureView, StoreError> {
        Err(without("tables"))
    }

    async fn switch_capture(&self, _mode: CaptureMode) -> Result<CaptureView, SqlError> {
        Err(without("tables").into())
    }
}

#[async_trait]
impl Sql for MemoryStore {
    async fn run_sql(&self, _statements: Statements) -> Result<SqlAnswer, SqlError> {
        Err(without("SQL").into())
    }

    /// Whatever is committed is in the log.
    async fn caught_up(&self, _timeout_ms: u64) -> Result<Position, StoreError> {
        self.run(|rows, _| rows.log.tip()).await
    }
}

#[async_trait]
impl Queries for MemoryStore {
    async fn shapes(&self, tables: &[TableRef]) -> Result<Vec<ShapeView>, StoreError> {
        Ok(tables.iter().map(|_| ShapeView::Unknown).collect())
    }

    async fn check_query(&self, _read: &LiveRead) -> Result<CheckedQuery, SqlError> {
        Err(without("SQL").into())
    }

    async fn read_query(&self, _read: LiveRead) -> Result<LiveRows, SqlError> {
        Err(without("SQL").into())
    }

    /// The list is empty, so there is nothing to end or to count for.
    async fn edit_live_queries(&self, edits: Vec<LiveQueryEdit>) -> Result<(), StoreError> {
        let opens = edits.iter().any(|edit| matches!(edit, LiveQueryEdit::Open(_)));
        if opens { Err(without("live queries")) } else { Ok(()) }
    }

    async fn live_query(&self, _live_id: &str) -> Result<Option<LiveQueryRow>, StoreError> {
        Ok(None)
    }

    async fn sweep_live_queries(&self) -> Result<u64, StoreError> {
        Ok(0)
    }
}

#[async_trait]
impl Retention for MemoryStore {
    /// There are no captured rows. Other streams keep everything, and a rule that says otherwise is
    /// refused.
    async fn retain(&self, rules: &RetentionRules, _from: &str) -> Result<Retained, StoreError> {
        if rules.streams.is_empty() { Ok(Retained::default()) } else { Err(without("retention")) }
    }
}
