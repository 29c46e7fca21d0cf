//! Watched tables.

use async_trait::async_trait;

use super::SqliteStore;
use crate::error::StoreError;
use crate::sql::SqlError;
use crate::watch::{CaptureMode, CaptureView, NewWatch, WatchView, Watches};

#[async_trait]
impl Watches for SqliteStore {
    async fn watch(&self, _watch: NewWatch) -> Result<WatchView, SqlError> {
        Err(StoreError::Refused("tables cannot be watched yet".to_owned()).into())
    }

    async fn unwatch(&self, _table: &str) -> Result<bool, SqlError> {
        Ok(false)
    }

    async fn watches(&self) -> Result<Vec<WatchView>, StoreError> {
        Ok(Vec::new())
    }

    async fn capture(&self) -> Result<CaptureView, StoreError> {
        Err(StoreError::Refused("tables cannot be watched yet".to_owned()))
    }

    async fn switch_capture(&self, _mode: CaptureMode) -> Result<CaptureView, SqlError> {
        Err(StoreError::Refused("tables cannot be watched yet".to_owned()).into())
    }
}
