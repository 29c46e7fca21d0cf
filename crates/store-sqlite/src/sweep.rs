//! Upkeep: streams whose time has run out, and events that no stream shows any more.

use rusqlite::Connection;

use super::error::{broken, now_ms};
use super::session_sweep::limit;
use super::writer::Writer;
use super::{capture, sql};
use tidewire_store::error::StoreError;
use tidewire_store::log::{SWEPT_EVENTS_MAX, SWEPT_PURGES_MAX, SWEPT_STREAMS_MAX};
use tidewire_store::offset::Position;

/// Streams whose time has run out.
pub(crate) fn expired(connection: &Connection) -> Result<Vec<String>, StoreError> {
    let read = || -> rusqlite::Result<Vec<String>> {
        let mut query = connection.prepare_cached(sql!("streams_expired"))?;
        query.query_map((now_ms(), limit(SWEPT_STREAMS_MAX)), |row| row.get(0))?.collect()
    };
    read().map_err(broken("find expired streams"))
}

/// Removes events of deleted streams, at most [`SWEPT_EVENTS_MAX`].
pub(crate) fn purge(writer: &mut Writer) -> Result<usize, StoreError> {
    let failed = broken("remove a deleted stream's events");
    let transaction = writer.transaction()?;
    let due: Vec<(String, i64, i64)> = {
        let mut query = transaction.prepare_cached(sql!("purges_due")).map_err(&failed)?;
        query
            .query_map((now_ms(), limit(SWEPT_PURGES_MAX)), |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })
            .and_then(Iterator::collect)
            .map_err(&failed)?
    };
    let mut removed = 0;
    for (stream, after, up_to) in due {
        let left = SWEPT_EVENTS_MAX - removed;
        capture::before_removal(&transaction, &stream, Position::from_sql(up_to))
            .map_err(&failed)?;
        let rows = transaction
            .prepare_cached(sql!("purge_events"))
            .and_then(|mut delete| delete.execute((&stream, after, up_to, limit(left))))
            .map_err(&failed)?;
        removed += rows;
        if rows == left {
            break;
        }
        transaction
            .prepare_cached(sql!("purge_done"))
            .and_then(|mut delete| delete.execute((&stream, after)))
            .map_err(&failed)?;
    }
    transaction.commit().map_err(&failed)?;
    Ok(removed)
}
