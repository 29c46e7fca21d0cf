//! The control channel, and the upkeep of it and of tickets.

use deadpool_postgres::ClientWrapper;
use tokio_postgres::{Error, Row};

use super::error::broken;
use super::pipeline::{self, AfterPipeline, Query};
use super::query::{Params, execute, limit, query, sql};
use tidewire_store::control::{
    ControlCursor, ControlMessage, Present, SETTLED_AFTER_MS, SWEPT_MAX,
};
use tidewire_store::error::StoreError;
use tidewire_store::keys::duration;

/// Writes a message and tells all nodes of it, in one transaction.
pub(crate) async fn send(client: &ClientWrapper, kind: &str, body: &str) -> Result<(), StoreError> {
    let operation = "send a control message";
    let begun = client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED").await;
    begun.map_err(broken(operation))?;
    let queries: [Query<'_>; 2] =
        [(true, sql!("control_send"), &[&kind, &body]), (true, sql!("control_notify"), &[])];
    pipeline::send(client, operation, &queries, AfterPipeline::Commit).await
}

/// What a cursor has not seen, and the cursor that has. What is swept between the two statements is
/// not given: it was old enough.
pub(crate) async fn since(
    client: &ClientWrapper,
    mut cursor: ControlCursor,
) -> Result<(Vec<ControlMessage>, ControlCursor), StoreError> {
    let read = async {
        let params: Params<'_> = &[&cursor.floor(), &SETTLED_AFTER_MS];
        let rows = query(client, sql!("control_present"), params).await?;
        let of_row = |row: &Row| Ok(Present { id: row.try_get(0)?, settled: row.try_get(1)? });
        let present: Vec<Present> = rows.iter().map(of_row).collect::<Result<_, Error>>()?;
        let news = cursor.advance(&present);
        if news.is_empty() {
            return Ok(Vec::new());
        }
        let rows = query(client, sql!("control_messages"), &[&news]).await?;
        let of_row = |row: &Row| {
            Ok(ControlMessage { id: row.try_get(0)?, kind: row.try_get(1)?, body: row.try_get(2)? })
        };
        rows.iter().map(of_row).collect::<Result<_, Error>>()
    };
    let messages = read.await.map_err(broken("read the control messages"))?;
    Ok((messages, cursor))
}

/// Removes old messages, and tickets whose time is over. Says how many.
pub(crate) async fn sweep(client: &ClientWrapper, keep_ms: u64) -> Result<usize, StoreError> {
    let sweep = async {
        let swept_max = limit(SWEPT_MAX);
        let params: Params<'_> = &[&duration(keep_ms), &swept_max];
        let messages = execute(client, sql!("control_sweep"), params).await?;
        let tickets = execute(client, sql!("tickets_sweep"), &[&swept_max]).await?;
        Ok(usize::try_from(messages + tickets).unwrap_or(usize::MAX))
    };
    sweep.await.map_err(broken("remove old control messages"))
}
