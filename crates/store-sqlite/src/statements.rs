//! The user's own SQL: reads beside the writer, writes on its thread.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use async_trait::async_trait;

use super::{SqliteStore, capture};
use tidewire_store::error::StoreError;
use tidewire_store::log::Log;
use tidewire_store::offset::Position;
use tidewire_store::sql::{Sql, SqlAnswer, SqlError, Statements};

#[async_trait]
impl Sql for SqliteStore {
    async fn run_sql(&self, mut statements: Statements) -> Result<SqlAnswer, SqlError> {
        if let Cow::Owned(sql) = capture::with_view(&statements.sql) {
            statements.sql = sql;
        }
        let statements = Arc::new(statements);
        let read = Arc::clone(&statements);
        let answer = self
            .readers
            .run_sql(statements.actor.account.as_ref(), move |connection, guard| {
                capture::read(connection, guard, &read)
            })
            .await?;
        if let Some(answer) = answer {
            return Ok(answer);
        }
        let account = statements.actor.account.clone();
        self.exclusively_for(account, move |writer| {
            // Whatever someone sends, the writer goes on.
            let write = catch_unwind(AssertUnwindSafe(|| capture::write(writer, &statements)));
            write.unwrap_or_else(|_| {
                let reason = "it panicked; nothing was kept".to_owned();
                Err(StoreError::Broken { operation: "run SQL", reason }.into())
            })
        })
        .await
    }

    async fn caught_up(&self, _timeout_ms: u64) -> Result<Position, StoreError> {
        self.exclusively(capture::notice).await?;
        self.tip().await
    }
}
