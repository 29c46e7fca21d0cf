//! Saving what was decided: the second flight of a commit.

use deadpool_postgres::ClientWrapper;
use futures_util::future::{BoxFuture, FutureExt, try_join_all};
use tokio_postgres::{Error, Statement};

use super::columns::{Events, Producers, Purges, Streams};
use super::error::{broken, broken_commit};
use super::partitions::Partitions;
use super::query::{Params, prepare, sql};
use crate::decide::Plan;
use crate::error::StoreError;

/// How long the events of a deleted stream stay on disk, so that a read under way finishes.
pub(crate) const PURGE_DELAY_MS: i64 = 60_000;

/// A statement on its way. The flag of an error says that it was COMMIT's.
type Sent<'a> = BoxFuture<'a, Result<(), (bool, Error)>>;

/// Writes a plan and commits, in one flight. Events are announced to all nodes with the commit.
///
/// The flight is polled in order, so its statements are sent in order, and not one is sent after
/// one that could not be. The server runs none after one that failed: COMMIT then rolls back.
pub(crate) async fn commit(
    client: &ClientWrapper,
    plan: &Plan,
    now_ms: i64,
    partitions: &Partitions,
) -> Result<(), StoreError> {
    let failed = broken("write to the log");
    let events = Events::of(plan);
    let (streams, producers) = (Streams::of(plan)?, Producers::of(plan)?);
    let (purges, due_at_ms) = (Purges::of(plan), now_ms + PURGE_DELAY_MS);
    let tip = plan.events.last().map(|event| event.position.number().to_string());
    let known_end = match (plan.events.first(), plan.events.last()) {
        (Some(first), Some(last)) => {
            partitions.ensure(client, first.position, last.position).await.map_err(&failed)?
        }
        _ => 0,
    };
    let statements = prepare(
        client,
        [
            sql!("events_insert"),
            sql!("streams_remove"),
            sql!("producers_clear"),
            sql!("streams_save"),
            sql!("producers_save"),
            sql!("purges_add"),
            sql!("notify"),
        ],
    );
    let statements = statements.await.map_err(&failed)?;
    let params: [(bool, Params<'_>); 7] = [
        (!plan.events.is_empty(), &events.params(&now_ms)),
        (!plan.removed.is_empty(), &[&plan.removed]),
        (!plan.producers_cleared.is_empty(), &[&plan.producers_cleared]),
        (!plan.streams.is_empty(), &streams.params()),
        (!plan.producers.is_empty(), &producers.params()),
        (!plan.purges.is_empty(), &purges.params(&due_at_ms)),
        (tip.is_some(), &[&tip]),
    ];
    let mut flight: Vec<Sent<'_>> = statements
        .iter()
        .zip(params)
        .filter(|(_, (needed, _))| *needed)
        .map(|(statement, (_, params))| send(client, statement, params))
        .collect();
    flight.push(client.batch_execute("COMMIT").map(|done| done.map_err(|e| (true, e))).boxed());
    match try_join_all(flight).await {
        Ok(_) => {
            partitions.known(known_end);
            Ok(())
        }
        Err((of_commit, error)) => {
            partitions.forget();
            Err(broken_commit(of_commit, &error))
        }
    }
}

fn send<'a>(client: &'a ClientWrapper, statement: &'a Statement, params: Params<'a>) -> Sent<'a> {
    async move {
        let sent = client.execute(statement, params).await;
        sent.map(drop).map_err(|error| (false, error))
    }
    .boxed()
}
