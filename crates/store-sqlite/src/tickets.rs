//! Tickets.

use rusqlite::OptionalExtension;

use super::error::{broken, now_ms};
use super::sql;
use super::writer::Writer;
use tidewire_store::error::StoreError;
use tidewire_store::keys::duration;

/// Puts a ticket.
pub(crate) fn put(
    writer: &mut Writer,
    hash: &str,
    holder: &str,
    ttl_ms: u64,
) -> Result<(), StoreError> {
    let failed = broken("put a ticket");
    let transaction = writer.transaction()?;
    transaction
        .prepare_cached(sql!("ticket_put"))
        .and_then(|mut put| put.execute((hash, holder, now_ms() + duration(ttl_ms))))
        .map_err(&failed)?;
    transaction.commit().map_err(&failed)
}

/// Takes a ticket. There is one writer, so two that come at once take turns.
pub(crate) fn take(writer: &mut Writer, hash: &str) -> Result<Option<String>, StoreError> {
    let failed = broken("take a ticket");
    let transaction = writer.transaction()?;
    let taken = transaction
        .prepare_cached(sql!("ticket_take"))
        .and_then(|mut take| take.query_row((hash, now_ms()), |row| row.get(0)).optional())
        .map_err(&failed)?;
    transaction.commit().map_err(&failed)?;
    Ok(taken.flatten())
}
