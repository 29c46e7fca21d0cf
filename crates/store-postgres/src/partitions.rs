//! The log's partitions: one must be there before the first event that belongs in it, and goes when
//! nothing of it is left.

use std::sync::atomic::{AtomicI64, Ordering};

use deadpool_postgres::ClientWrapper;
use tokio_postgres::Error;

use super::error::broken;
use super::query::{query, query_one, sql};
use tidewire_store::error::StoreError;
use tidewire_store::offset::Position;
use tidewire_store::retention::BUCKET_OFFSETS;

/// How far ahead of the tip there is always a partition. A partition holds 10,000,000 events, so
/// there is hardly ever one to make, and the sweep makes it long before the writer comes by.
const AHEAD: i64 = 5_000_000;

/// Up to where partitions are known to exist.
#[derive(Debug, Default)]
pub(crate) struct Partitions {
    /// Every position that is given out and `< known_end` has its partition.
    known_end: AtomicI64,
}

impl Partitions {
    /// Makes what is missing for `first..=last`, in the caller's transaction. Returns what
    /// [`Partitions::known`] is to be told once that is committed.
    pub(crate) async fn ensure(
        &self,
        client: &ClientWrapper,
        first: Position,
        last: Position,
    ) -> Result<i64, Error> {
        let mut end = self.known_end.load(Ordering::Relaxed);
        while end <= last.to_sql() {
            end = make(client, end.max(first.to_sql())).await?;
        }
        Ok(end)
    }

    /// Makes the partition some way after the tip.
    pub(crate) async fn ensure_ahead(
        &self,
        client: &ClientWrapper,
        tip: Position,
    ) -> Result<(), Error> {
        let (next, ahead) = (tip.next(), Position::from_sql(tip.to_sql() + AHEAD));
        let end = self.ensure(client, next, ahead).await?;
        self.known(end);
        Ok(())
    }

    /// Partitions up to here are committed.
    pub(crate) fn known(&self, end: i64) {
        self.known_end.fetch_max(end, Ordering::Relaxed);
    }

    /// Something went wrong: better to look again than to trust what is remembered.
    pub(crate) fn forget(&self) {
        self.known_end.store(0, Ordering::Relaxed);
    }
}

async fn make(client: &ClientWrapper, position: i64) -> Result<i64, Error> {
    query_one(client, sql!("ensure_partition"), &[&position]).await?.try_get(0)
}

/// How long to wait for those who use the log while a partition is taken out of it. They are not kept
/// from anything meanwhile; what is not finished by then is finished by the next call.
const DETACH_TIMEOUT: &str = "SET statement_timeout = '3s'";
/// What the pool's connections have otherwise.
const USUAL_TIMEOUT: &str = "SET statement_timeout = '5s'";

/// Drops the partitions that nothing is left of, and returns how many. A partition leaves the log
/// CONCURRENTLY, for which nobody has to wait, and is dropped when it is a table of its own.
pub(crate) async fn drop_empty(client: &ClientWrapper) -> Result<usize, StoreError> {
    let mut dropped = 0;
    let work = async {
        for row in query(client, sql!("partitions_below"), &[&BUCKET_OFFSETS]).await? {
            let (name, pending): (&str, bool) = (row.try_get(0)?, row.try_get(1)?);
            let some = format!("SELECT 1 FROM tidewire.{name} LIMIT 1");
            if !pending && client.query_opt(&some, &[]).await?.is_some() {
                continue;
            }
            client.batch_execute(DETACH_TIMEOUT).await?;
            let how = if pending { "FINALIZE" } else { "CONCURRENTLY" };
            let detach = format!("ALTER TABLE tidewire.log DETACH PARTITION tidewire.{name} {how}");
            let detached = client.batch_execute(&detach).await;
            client.batch_execute(USUAL_TIMEOUT).await?;
            if let Err(error) = detached {
                tracing::debug!(%error, name, "a partition is still in use; it goes later");
                break;
            }
            client.batch_execute(&format!("DROP TABLE IF EXISTS tidewire.{name}")).await?;
            tracing::info!(name, "dropped a partition of the log that nothing was left of");
            dropped += 1;
        }
        Ok(())
    };
    work.await.map_err(broken("drop a partition of the log"))?;
    Ok(dropped)
}
