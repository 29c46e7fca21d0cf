//! What a repair reads: the tables as they are in one snapshot, against what the log says of them.

use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use futures_util::{TryStreamExt, pin_mut};
use tokio_postgres::types::ToSql;

use tidewire_store_postgres::captured::{broken, execute, query, query_one};

use crate::query::sql;
use tidewire_store::Operation;
use tidewire_store::StoreError;

const OPERATION: &str = "compare the tables with the log";

/// How often to look whether everyone sees what the snapshot does.
const HIDDEN_POLL: Duration = Duration::from_millis(20);

/// A change that was not captured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Difference {
    /// What must have been done.
    pub(crate) operation: Operation,
    /// The row as the log knows it.
    pub(crate) before: Option<String>,
    /// The row as it is.
    pub(crate) after: Option<String>,
}

/// Notes that the tables are to be compared, until that is done.
pub(crate) async fn begin_repair(client: &ClientWrapper, why: &str) -> Result<(), StoreError> {
    let noted = execute(client, sql!("wal_repairing"), &[&why]).await;
    noted.map(drop).map_err(broken(OPERATION))
}

/// A look at the database in one snapshot.
#[derive(Debug)]
pub(crate) struct Gap<'a> {
    client: &'a ClientWrapper,
    snapshot: String,
}

impl<'a> Gap<'a> {
    /// Begins to look, in a snapshot that another session has exported. The session is for this alone.
    pub(crate) async fn open(
        client: &'a ClientWrapper,
        exported: &str,
    ) -> Result<Gap<'a>, StoreError> {
        let quoted = exported.replace('\'', "");
        let begin = async {
            client
                .batch_execute(&format!(
                    "SET idle_in_transaction_session_timeout = 0; SET statement_timeout = 0;
                     SET enable_nestloop = on;
                     BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
                     SET TRANSACTION SNAPSHOT '{quoted}'"
                ))
                .await?;
            query_one(client, sql!("wal_repair_snapshot"), &[]).await?.try_get(0)
        };
        let snapshot = begin.await.map_err(broken(OPERATION))?;
        Ok(Gap { client, snapshot })
    }

    /// Waits, on another session, until everyone sees what the snapshot does.
    pub(crate) async fn wait_until_visible(&self, other: &ClientWrapper) -> Result<(), StoreError> {
        loop {
            let hidden = query_one(other, sql!("wal_repair_hidden"), &[&self.snapshot]).await;
            let hidden: bool = hidden.and_then(|row| row.try_get(0)).map_err(broken(OPERATION))?;
            if !hidden {
                return Ok(());
            }
            tokio::time::sleep(HIDDEN_POLL).await;
        }
    }

    /// How a watched table differs from the log, a few rows at a time: as many as `take` asks for are
    /// held at once.
    pub(crate) async fn differences<E, F>(
        &self,
        table_id: u32,
        mut take: impl FnMut(Difference) -> F,
    ) -> Result<(), E>
    where
        E: From<StoreError>,
        F: Future<Output = Result<(), E>>,
    {
        let failed = |error| E::from(broken(OPERATION)(error));
        let statement =
            self.client.prepare_cached(sql!("wal_repair_differences")).await.map_err(failed)?;
        let params: [&(dyn ToSql + Sync); 1] = [&table_id];
        let rows = self.client.query_raw(&statement, params).await.map_err(failed)?;
        pin_mut!(rows);
        while let Some(row) = rows.try_next().await.map_err(failed)? {
            let word: &str = row.try_get(0).map_err(failed)?;
            take(Difference {
                operation: Operation::parse(word).unwrap_or(Operation::Update),
                before: row.try_get(1).map_err(failed)?,
                after: row.try_get(2).map_err(failed)?,
            })
            .await?;
        }
        Ok(())
    }

    /// What is staged: ids, transactions, and whether it is a transaction's last.
    pub(crate) async fn staged(&self) -> Result<Vec<(i64, i64, bool)>, StoreError> {
        let read = async {
            let rows = query(self.client, sql!("wal_repair_staged"), &[]).await?;
            rows.iter()
                .map(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?)))
                .collect::<Result<Vec<_>, tokio_postgres::Error>>()
        };
        read.await.map_err(broken(OPERATION))
    }
}

/// A number of its own for what a repair finds, and the time in microseconds since 2000.
pub(crate) async fn repair_number(client: &ClientWrapper) -> Result<(i64, i64), StoreError> {
    let read = async {
        let row = query_one(client, sql!("wal_repair_number"), &[]).await?;
        Ok((row.try_get(0)?, row.try_get(1)?))
    };
    read.await.map_err(broken(OPERATION))
}
