//! Upkeep: streams whose time has run out, events that no stream shows any more, and the log's next
//! partition. Nodes may sweep at the same time.

use deadpool_postgres::ClientWrapper;
use tokio_postgres::Error;

use super::error::broken;
use super::load;
use super::partitions::Partitions;
use super::query::{execute, limit, query, sql, texts};
use tidewire_store::error::StoreError;
use tidewire_store::log::{SWEPT_EVENTS_MAX, SWEPT_PURGES_MAX, SWEPT_STREAMS_MAX};

/// Streams whose time has run out.
pub(crate) async fn expired(client: &ClientWrapper) -> Result<Vec<String>, StoreError> {
    let streams_max = limit(SWEPT_STREAMS_MAX);
    let read = async { texts(&query(client, sql!("streams_expired"), &[&streams_max]).await?) };
    read.await.map_err(broken("find expired streams"))
}

/// Removes events of deleted streams, at most [`SWEPT_EVENTS_MAX`]. The offset lock is not needed: an
/// event that is not the tip never becomes it.
pub(crate) async fn purge(client: &ClientWrapper) -> Result<usize, StoreError> {
    let work = async {
        client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED").await?;
        let removed = purge_some(client).await?;
        client.batch_execute("COMMIT").await?;
        Ok(removed)
    };
    work.await.map_err(broken("remove a deleted stream's events"))
}

async fn purge_some(client: &ClientWrapper) -> Result<usize, Error> {
    let mut removed = 0;
    for due in query(client, sql!("purges_due"), &[&limit(SWEPT_PURGES_MAX)]).await? {
        let (stream, after, up_to): (&str, i64, i64) =
            (due.try_get(0)?, due.try_get(1)?, due.try_get(2)?);
        let left = SWEPT_EVENTS_MAX - removed;
        let purge =
            execute(client, sql!("purge_events"), &[&stream, &after, &up_to, &limit(left)]).await?;
        let rows = usize::try_from(purge).unwrap_or(left);
        removed += rows;
        if rows >= left {
            break;
        }
        execute(client, sql!("purge_done"), &[&stream, &after]).await?;
    }
    Ok(removed)
}

/// Makes the log's next partition, long before it is needed.
pub(crate) async fn partition(
    client: &ClientWrapper,
    partitions: &Partitions,
) -> Result<(), StoreError> {
    let tip = load::tip(client).await?;
    partitions.ensure_ahead(client, tip).await.map_err(broken("make a partition of the log"))
}
