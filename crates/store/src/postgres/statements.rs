//! The user's own SQL.

use async_trait::async_trait;

use super::PostgresStore;
use crate::error::StoreError;
use crate::log::Log;
use crate::offset::Position;
use crate::sql::{Sql, SqlAnswer, SqlError, Statements};

#[async_trait]
impl Sql for PostgresStore {
    async fn run_sql(&self, _statements: Statements) -> Result<SqlAnswer, SqlError> {
        Err(StoreError::Refused("SQL cannot be run yet".to_owned()).into())
    }

    async fn caught_up(&self, _timeout_ms: u64) -> Result<Position, StoreError> {
        self.tip().await
    }
}
