//! The log's partitions: one must be there before the first event that belongs in it.

use std::sync::atomic::{AtomicI64, Ordering};

use deadpool_postgres::ClientWrapper;
use tokio_postgres::Error;

use super::query::{query_one, sql};
use crate::offset::Position;

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
