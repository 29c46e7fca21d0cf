//! Saving what was decided: the second round trip of a commit.

use deadpool_postgres::ClientWrapper;

use super::columns::{Events, Producers, Purges, Streams};
use super::error::broken;
use super::partitions::Partitions;
use super::pipeline::{self, AfterPipeline, Query};
use super::query::sql;
use tidewire_store::decide::Plan;
use tidewire_store::error::StoreError;
use tidewire_store::log::PURGE_DELAY_MS;

const OPERATION: &str = "write to the log";

/// Writes a plan and commits, in one round trip. Events are announced to all nodes with the commit.
pub(crate) async fn commit(
    client: &ClientWrapper,
    plan: &Plan,
    now_ms: i64,
    partitions: &Partitions,
) -> Result<(), StoreError> {
    let events = Events::of(plan);
    let (streams, producers) = (Streams::of(plan)?, Producers::of(plan)?);
    let (purges, due_at_ms) = (Purges::of(plan), now_ms + PURGE_DELAY_MS);
    let tip = plan.events.last().map(|event| event.position.number().to_string());
    let known_end = match (plan.events.first(), plan.events.last()) {
        (Some(first), Some(last)) => {
            let ensured = partitions.ensure(client, first.position, last.position).await;
            ensured.map_err(broken(OPERATION))?
        }
        _ => 0,
    };
    let queries: [Query<'_>; 7] = [
        (!plan.events.is_empty(), sql!("events_insert"), &events.params(&now_ms)),
        (!plan.removed.is_empty(), sql!("streams_remove"), &[&plan.removed]),
        (!plan.producers_cleared.is_empty(), sql!("producers_clear"), &[&plan.producers_cleared]),
        (!plan.streams.is_empty(), sql!("streams_save"), &streams.params()),
        (!plan.producers.is_empty(), sql!("producers_save"), &producers.params()),
        (!plan.purges.is_empty(), sql!("purges_add"), &purges.params(&due_at_ms)),
        (tip.is_some(), sql!("notify"), &[&tip]),
    ];
    match pipeline::send(client, OPERATION, &queries, AfterPipeline::Commit).await {
        Ok(()) => {
            partitions.known(known_end);
            Ok(())
        }
        Err(error) => {
            partitions.forget();
            Err(error)
        }
    }
}
