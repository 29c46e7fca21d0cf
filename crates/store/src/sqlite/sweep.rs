//! Upkeep: streams whose time has run out, and events that no stream shows any more.

use rusqlite::Connection;

use super::error::{broken, now_ms};
use super::writer::Writer;
use super::{capture, sql};
use crate::error::StoreError;
use crate::offset::Position;

/// Streams expired a call.
const STREAMS_MAX: i64 = 500;
/// Purges looked at a call.
const PURGES_MAX: i64 = 20;
/// Events removed a call: few enough that appends do not notice.
const EVENTS_MAX: usize = 2_000;

/// Streams whose time has run out.
pub(crate) fn expired(connection: &Connection) -> Result<Vec<String>, StoreError> {
    let read = || -> rusqlite::Result<Vec<String>> {
        let mut query = connection.prepare_cached(sql!("streams_expired"))?;
        query.query_map((now_ms(), STREAMS_MAX), |row| row.get(0))?.collect()
    };
    read().map_err(broken("find expired streams"))
}

/// Removes events of deleted streams, at most [`EVENTS_MAX`].
pub(crate) fn purge(writer: &mut Writer) -> Result<usize, StoreError> {
    let failed = broken("remove a deleted stream's events");
    let transaction = writer.transaction()?;
    let due: Vec<(String, i64, i64)> = {
        let mut query = transaction.prepare_cached(sql!("purges_due")).map_err(&failed)?;
        query
            .query_map((now_ms(), PURGES_MAX), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .and_then(Iterator::collect)
            .map_err(&failed)?
    };
    let mut removed = 0;
    for (stream, after, up_to) in due {
        let left = EVENTS_MAX - removed;
        capture::before_removal(&transaction, &stream, Position::from_sql(up_to))
            .map_err(&failed)?;
        let rows = transaction
            .prepare_cached(sql!("purge_events"))
            .and_then(|mut delete| {
                delete.execute((&stream, after, up_to, i64::try_from(left).unwrap_or(i64::MAX)))
            })
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
