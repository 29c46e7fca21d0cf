//! Tickets.

use deadpool_postgres::ClientWrapper;

use super::error::broken;
use super::query::{execute, query, sql};
use tidewire_store::error::StoreError;
use tidewire_store::keys::duration;

/// Puts a ticket.
pub(crate) async fn put(
    client: &ClientWrapper,
    hash: &str,
    holder: &str,
    ttl_ms: u64,
) -> Result<(), StoreError> {
    let put = execute(client, sql!("ticket_put"), &[&hash, &holder, &duration(ttl_ms)]).await;
    put.map(drop).map_err(broken("put a ticket"))
}

/// Takes a ticket. Of two that come at once, the one that waits finds no row.
pub(crate) async fn take(client: &ClientWrapper, hash: &str) -> Result<Option<String>, StoreError> {
    // PostgreSQL's text holds every character but this one, so no ticket has it.
    if hash.contains('\0') {
        return Ok(None);
    }
    let take = async {
        let rows = query(client, sql!("ticket_take"), &[&hash]).await?;
        rows.first().map_or(Ok(None), |row| row.try_get(0))
    };
    take.await.map_err(broken("take a ticket"))
}
