//! Subscriptions to entities.

use async_trait::async_trait;

use super::PostgresStore;
use crate::entity::{Entities, EntityChange, EntityCount, EntityEdit};
use crate::error::StoreError;
use crate::offset::Position;

#[async_trait]
impl Entities for PostgresStore {
    async fn edit_entities(&self, _edits: Vec<EntityEdit>) -> Result<(), StoreError> {
        Ok(())
    }

    async fn entities_of(
        &self,
        _connection_id: &str,
    ) -> Result<Vec<(String, Vec<String>)>, StoreError> {
        Ok(Vec::new())
    }

    async fn entity_changes(
        &self,
        _code: &str,
        _ids: &[String],
        _after: Position,
        _changes_max: usize,
    ) -> Result<Vec<(Position, EntityChange)>, StoreError> {
        Ok(Vec::new())
    }

    async fn entity_counts(&self, _user_id: Option<&str>) -> Result<Vec<EntityCount>, StoreError> {
        Ok(Vec::new())
    }

    async fn sweep_entities(&self, _stale_ms: u64) -> Result<u64, StoreError> {
        Ok(0)
    }
}
