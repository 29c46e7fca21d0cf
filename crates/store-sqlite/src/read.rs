//! Reading streams, and following the log.

use std::sync::Arc;

use bytes::Bytes;
use rusqlite::{Connection, Row};

use super::error::{broken, now_ms};
use super::load::LogSnapshot;
use super::sql;
use tidewire_store::entity::{EntityAction, EntityChange, EntityHeader};
use tidewire_store::error::StoreError;
use tidewire_store::event::{Control, Event, TailEvent};
use tidewire_store::log::{Found, PageLimit, Run};
use tidewire_store::offset::Position;
use tidewire_store::row::{Operation, RowChange, TABLE_PREFIX};
use tidewire_store::source;
use tidewire_store::stream::Segment;

/// Reads a stream, all of it in one snapshot.
pub(crate) fn read(
    connection: &mut Connection,
    name: &str,
    after: Position,
    limit: PageLimit,
) -> Result<Found, StoreError> {
    let snapshot = connection.transaction().map_err(broken("begin a read"))?;
    source::read(&mut LogSnapshot::new(&snapshot, now_ms()), name, after, limit)
}

/// Reads runs of events one after the other, until a limit is reached.
pub(crate) fn segments(
    connection: &Connection,
    segments: &[Segment],
    after: Position,
    limit: PageLimit,
) -> Result<Run, StoreError> {
    let mut events = Vec::new();
    let mut bytes = 0;
    for segment in segments.iter().filter(|segment| segment.up_to > after) {
        if limit.is_reached(events.len(), bytes) {
            return Ok(Run { events, complete: false });
        }
        let follows = segment_events(connection, segment, after, limit, &mut bytes, &mut events)
            .map_err(broken("read a stream"))?;
        if follows {
            return Ok(Run { events, complete: false });
        }
    }
    Ok(Run { events, complete: true })
}

/// Takes what a page has room for, and returns whether another event follows.
fn segment_events(
    connection: &Connection,
    segment: &Segment,
    after: Position,
    limit: PageLimit,
    bytes: &mut usize,
    events: &mut Vec<Event>,
) -> rusqlite::Result<bool> {
    let of_table = segment.stream.starts_with(TABLE_PREFIX);
    let query = if of_table { sql!("segment_rows") } else { sql!("segment") };
    let mut query = connection.prepare_cached(query)?;
    // One more, to see whether it is there.
    let rows_max = (limit.events - events.len()).saturating_add(1);
    let mut rows = query.query((
        &segment.stream,
        segment.after.max(after).to_sql(),
        segment.up_to.to_sql(),
        i64::try_from(rows_max).unwrap_or(i64::MAX),
    ))?;
    while let Some(row) = rows.next()? {
        if limit.is_reached(events.len(), *bytes) {
            return Ok(true);
        }
        let (payload, change) = if of_table {
            (Bytes::new(), change_of_row(row, 2, 8, row.get(12)?)?)
        } else {
            let payload = row.get_ref(2)?.as_blob_or_null()?.unwrap_or_default();
            (Bytes::copy_from_slice(payload), None)
        };
        *bytes += payload.len() + change.as_ref().map_or(0, |change| change.bytes());
        events.push(Event {
            position: Position::from_sql(row.get(0)?),
            append_id: Position::from_sql(row.get(1)?),
            payload,
            row: change,
        });
    }
    Ok(false)
}

/// The change of a row, whose columns start at `at` and, those of its maker, at `maker_at`. None of
/// an event that is no change.
fn change_of_row(
    row: &Row<'_>,
    at: usize,
    maker_at: usize,
    created_at_ms: i64,
) -> rusqlite::Result<Option<Arc<RowChange>>> {
    let Some(operation) = row.get_ref(at)?.as_str_or_null()?.and_then(Operation::parse) else {
        return Ok(None);
    };
    let image = |column: usize| -> rusqlite::Result<Option<Bytes>> {
        Ok(row
            .get_ref(column)?
            .as_str_or_null()?
            .map(|text| Bytes::copy_from_slice(text.as_bytes())))
    };
    Ok(Some(Arc::new(RowChange {
        table: row.get::<_, Option<String>>(at + 1)?.unwrap_or_default(),
        operation,
        entity_code: row.get(at + 2)?,
        entity_id: row.get(at + 3)?,
        before: image(at + 4)?,
        after: image(at + 5)?,
        host_id: row.get(maker_at)?,
        user_id: row.get(maker_at + 1)?,
        txid: row.get(maker_at + 2)?,
        tx_last: row.get(maker_at + 3)?,
        created_at_ms,
    })))
}

/// Reads the log after a position. SQLite fetches a column only when asked for it, so the payloads
/// that nobody wants are not even read from disk.
pub(crate) fn follow(
    connection: &mut Connection,
    after: Position,
    limit: PageLimit,
    wants_payload: &dyn Fn(&str) -> bool,
) -> Result<Vec<TailEvent>, StoreError> {
    let read = |connection: &Connection| -> rusqlite::Result<Vec<TailEvent>> {
        let mut query = connection.prepare_cached(sql!("follow"))?;
        let rows_max = i64::try_from(limit.events).unwrap_or(i64::MAX);
        let mut rows = query.query((after.to_sql(), rows_max))?;
        let mut events = Vec::new();
        let mut bytes = 0;
        while let Some(row) = rows.next()? {
            let stream: String = row.get(1)?;
            let control = row.get_ref(2)?.as_str_or_null()?.and_then(Control::parse);
            let created_at_ms = row.get(3)?;
            let (payload, change) = if wants_payload(&stream) {
                let payload = row.get_ref(4)?.as_blob_or_null()?.map(Bytes::copy_from_slice);
                (payload, change_of_row(row, 5, 11, created_at_ms)?)
            } else {
                (None, None)
            };
            bytes += payload.as_ref().map_or(0, Bytes::len);
            bytes += change.as_ref().map_or(0, |change| change.bytes());
            events.push(TailEvent {
                entity: entity_of_row(row)?,
                position: Position::from_sql(row.get(0)?),
                stream,
                control,
                payload,
                row: change,
                txid: row.get(13)?,
                tx_last: row.get::<_, Option<bool>>(14)?.unwrap_or(false),
                created_at_ms,
            });
            if limit.is_reached(events.len(), bytes) {
                break;
            }
        }
        Ok(events)
    };
    read(connection).map_err(broken("follow the log"))
}

/// The change of an entity that an event is, if it is one. Most are not, and cost one look.
fn entity_of_row(row: &Row<'_>) -> rusqlite::Result<Option<EntityChange>> {
    let Some(code) = row.get::<_, Option<String>>(7)? else { return Ok(None) };
    let header = EntityHeader {
        code,
        id: row.get(8)?,
        was: row.get(15)?,
        operation: row.get_ref(5)?.as_str_or_null()?.and_then(Operation::parse),
        action: row.get_ref(16)?.as_str_or_null()?.and_then(EntityAction::parse),
    };
    Ok(header.change(row.get(11)?))
}

/// Names of streams in order.
pub(crate) fn names(
    connection: &Connection,
    prefix: &str,
    after: &str,
    limit: usize,
) -> Result<Vec<String>, StoreError> {
    let read = || -> rusqlite::Result<Vec<String>> {
        let mut query = connection.prepare_cached(sql!("names"))?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut rows = query.query((prefix, after, now_ms(), limit))?;
        let mut names = Vec::new();
        while let Some(row) = rows.next()? {
            let name: String = row.get(0)?;
            if !name.starts_with(prefix) {
                break;
            }
            names.push(name);
        }
        Ok(names)
    };
    read().map_err(broken("list streams"))
}
