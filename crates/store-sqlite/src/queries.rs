//! Reading for live queries, and the list of them.

use std::sync::Arc;

use async_trait::async_trait;

use super::{SqliteStore, capture, live_queries};
use tidewire_store::error::StoreError;
use tidewire_store::queries::{
    CheckedQuery, LiveQueryEdit, LiveQueryRow, LiveRead, LiveRows, Queries, ShapeView, TableRef,
};
use tidewire_store::sql::SqlError;

/// How often a query is read again because another process wrote to the file meanwhile.
const READS_MAX: usize = 4;

#[async_trait]
impl Queries for SqliteStore {
    async fn shapes(&self, tables: &[TableRef]) -> Result<Vec<ShapeView>, StoreError> {
        let tables = tables.to_vec();
        self.readers.run(move |connection| capture::shapes(connection, &tables)).await
    }

    async fn check_query(&self, read: &LiveRead) -> Result<CheckedQuery, SqlError> {
        let (read, account) = (read.clone(), read.account.as_ref());
        let check =
            move |connection: &mut _, guard: &_| capture::check_live(connection, guard, &read);
        self.readers.run_sql(account, check).await
    }

    /// What another process wrote is in the rows before it is in the log. So whether one did is looked
    /// at afterwards, and if so, its changes are in the log by then, and the rows are read again.
    async fn read_query(&self, read: LiveRead) -> Result<LiveRows, SqlError> {
        let read = Arc::new(read);
        let disturbances = || self.counters.snapshot().foreign_writes;
        for _ in 0..READS_MAX {
            let before = disturbances();
            let asked = Arc::clone(&read);
            let run =
                move |connection: &mut _, guard: &_| capture::read_live(connection, guard, &asked);
            let rows = self.readers.run_sql(read.account.as_ref(), run).await?;
            self.exclusively(capture::notice).await?;
            if disturbances() == before {
                return Ok(rows);
            }
        }
        let reason = "another process keeps writing to the file".to_owned();
        Err(StoreError::Unavailable(reason).into())
    }

    async fn edit_live_queries(&self, edits: Vec<LiveQueryEdit>) -> Result<(), StoreError> {
        self.exclusively(move |writer| live_queries::edit(writer, &edits)).await
    }

    async fn live_query(&self, live_id: &str) -> Result<Option<LiveQueryRow>, StoreError> {
        let live_id = live_id.to_owned();
        self.readers.run(move |connection| live_queries::find(connection, &live_id)).await
    }

    async fn sweep_live_queries(&self) -> Result<u64, StoreError> {
        let mut swept = 0;
        loop {
            let removed = self.exclusively(live_queries::sweep).await?;
            swept += removed;
            if removed < live_queries::SWEPT_MAX {
                return Ok(swept);
            }
        }
    }
}
