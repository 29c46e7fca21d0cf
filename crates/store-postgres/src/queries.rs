//! Reading for live queries, and the list of them.

use async_trait::async_trait;

use super::PostgresStore;
use tidewire_store::error::StoreError;
use tidewire_store::queries::{
    CheckedQuery, LiveQueryEdit, LiveQueryRow, LiveRead, LiveRows, Queries, ShapeView, TableRef,
};
use tidewire_store::sql::SqlError;

#[async_trait]
impl Queries for PostgresStore {
    async fn shapes(&self, tables: &[TableRef]) -> Result<Vec<ShapeView>, StoreError> {
        self.live_shapes(tables).await
    }

    async fn check_query(&self, read: &LiveRead) -> Result<CheckedQuery, SqlError> {
        self.check_live(read).await
    }

    async fn live_query_needs(&self, table: Option<&str>) -> Result<Vec<String>, StoreError> {
        self.live_needs(table).await
    }

    async fn read_query(&self, read: LiveRead) -> Result<LiveRows, SqlError> {
        self.read_live(&read).await
    }

    async fn edit_live_queries(&self, edits: Vec<LiveQueryEdit>) -> Result<(), StoreError> {
        self.edit_list(edits).await
    }

    async fn live_query(&self, live_id: &str) -> Result<Option<LiveQueryRow>, StoreError> {
        self.listed(live_id).await
    }

    async fn sweep_live_queries(&self) -> Result<u64, StoreError> {
        self.sweep_list().await
    }
}
