//! Watched tables.

use async_trait::async_trait;

use super::{SqliteStore, capture};
use crate::error::StoreError;
use crate::sql::{SqlError, SqlProblem};
use crate::watch::{CaptureMode, CaptureView, NewWatch, WatchView, Watches};

#[async_trait]
impl Watches for SqliteStore {
    async fn watch(&self, watch: NewWatch) -> Result<WatchView, SqlError> {
        self.exclusively(move |writer| capture::watch(writer, &watch)).await
    }

    async fn unwatch(&self, table: &str) -> Result<bool, SqlError> {
        let table = table.to_owned();
        self.exclusively(move |writer| capture::unwatch(writer, &table)).await
    }

    async fn watches(&self) -> Result<Vec<WatchView>, StoreError> {
        self.readers.run(|connection| capture::list(connection)).await
    }

    async fn capture(&self) -> Result<CaptureView, StoreError> {
        self.readers.check_open()?;
        Ok(CaptureView {
            mode: CaptureMode::Embedded,
            reason: "the tables are in the embedded store, whose changes are made by this server \
                     and come into the log with them"
                .to_owned(),
            advice: Vec::new(),
            leader: None,
            waiting: 0,
            waiting_ms: 0,
            failed: 0,
            dead: 0,
            retained_wal_bytes: None,
        })
    }

    async fn switch_capture(&self, mode: CaptureMode) -> Result<CaptureView, SqlError> {
        if mode == CaptureMode::Embedded {
            return Ok(self.capture().await?);
        }
        Err(SqlError::Wrong(Box::new(SqlProblem {
            code: "capture_mode_refused",
            message: format!("the embedded store cannot capture by {}", mode.as_str()),
            position: None,
            hint: Some(
                "there is one way on SQLite, and nothing to switch; triggers and the write-ahead log \
                 are for PostgreSQL (--database postgres://…)"
                    .to_owned(),
            ),
        })))
    }
}
