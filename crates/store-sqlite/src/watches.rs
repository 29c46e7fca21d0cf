//! Watched tables.

use async_trait::async_trait;

use super::{SqliteStore, capture};
use tidewire_store::error::StoreError;
use tidewire_store::sql::{SqlError, SqlProblem};
use tidewire_store::watch::{
    CaptureMode, CaptureView, NewWatch, TableView, WatchView, WatchedName, Watches,
};

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

    async fn watched_names(&self) -> Result<Vec<WatchedName>, StoreError> {
        self.readers.run(|connection| capture::names(connection)).await
    }

    async fn columns(&self, table: &str) -> Result<TableView, StoreError> {
        let table = table.to_owned();
        self.readers.run(move |connection| capture::describe(connection, &table)).await
    }

    async fn capture(&self) -> Result<CaptureView, StoreError> {
        self.readers.check_open()?;
        let foreign_writes = self.counters.snapshot().foreign_writes;
        let advice = (foreign_writes > 0).then(|| {
            format!(
                "another process has written to the file ({foreign_writes} times noticed); let it use \
                 POST /v1/sql, so that its changes are captured as they are made"
            )
        });
        Ok(CaptureView {
            mode: CaptureMode::Embedded,
            decided: true,
            reason: "the tables are in the embedded store, whose changes are made by this server \
                     and come into the log with them"
                .to_owned(),
            advice: advice.into_iter().collect(),
            leader: None,
            waiting: 0,
            waiting_ms: 0,
            failed: 0,
            dead: 0,
            retained_wal_bytes: None,
            repairs: Vec::new(),
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
