//! Reading streams, and following the log.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use deadpool_postgres::ClientWrapper;
use tokio_postgres::{Error, Row};

use super::error::broken;
use super::load::state_of_row;
use super::query::{Params, limit as rows_max, moment_ms, query, sql, texts};
use tidewire_store::decide::FORK_DEPTH_MAX;
use tidewire_store::entity::{EntityAction, EntityChange, EntityHeader};
use tidewire_store::error::StoreError;
use tidewire_store::event::{Control, Event, TailEvent};
use tidewire_store::log::{Found, Page, PageLimit, Run, StreamView};
use tidewire_store::offset::Position;
use tidewire_store::row::{Operation, RowChange, TABLE_PREFIX};
use tidewire_store::stream::{self, Segment, StreamState};

/// Reads a stream. Its row, its end and the log's tip come from one snapshot; the events are read
/// after it, but none past that tip, so the page is what one snapshot would have shown. (Events of
/// a stream deleted meanwhile stay on disk for longer than a read takes.)
pub(crate) async fn read(
    client: &ClientWrapper,
    name: &str,
    after: Position,
    limit: PageLimit,
) -> Result<Found, StoreError> {
    let Some(Snapshot { chain, now_ms, tip, own_tail }) = snapshot(client, name).await? else {
        return Ok(Found::NotFound);
    };
    let Some(state) = chain.first().cloned() else {
        return Ok(Found::NotFound);
    };
    if state.soft_deleted {
        return Ok(Found::Gone { host_id: state.host_id });
    }
    if state.expired(now_ms) {
        return Ok(Found::NotFound);
    }
    let tail = state.tail(own_tail);
    let run = if limit.events == 0 || after >= tail {
        Run { events: Vec::new(), complete: after >= tail }
    } else {
        segments(client, &stream::segments(&chain), after, tip, limit).await?
    };
    let (lost, root) = (stream::lost(&chain), stream::root(&chain));
    let view = StreamView { state, tail, lost, root };
    Ok(Found::Stream(Box::new(Page::of_run(view, run, after, tip))))
}

/// What is known of a stream at one moment.
struct Snapshot {
    /// The stream, its source, that one's source, and so on.
    chain: Vec<StreamState>,
    now_ms: i64,
    tip: Position,
    own_tail: Option<Position>,
}

async fn snapshot(client: &ClientWrapper, name: &str) -> Result<Option<Snapshot>, StoreError> {
    // PostgreSQL's text holds every character but this one, so no stream has it in its name.
    if name.contains('\0') {
        return Ok(None);
    }
    let read = async {
        let mut rows = query(client, sql!("stream_view"), &[&name]).await?;
        if let Some(stream) = rows.first()
            && state_of_row(stream)?.fork.is_some()
        {
            let depth_max = i32::try_from(FORK_DEPTH_MAX).unwrap_or(i32::MAX);
            rows = query(client, sql!("stream_chain"), &[&name, &depth_max]).await?;
        }
        let Some(first) = rows.first() else {
            return Ok(None);
        };
        Ok(Some(Snapshot {
            chain: rows.iter().map(state_of_row).collect::<Result<_, Error>>()?,
            now_ms: first.try_get(19)?,
            tip: Position::from_sql(first.try_get(20)?),
            own_tail: first.try_get::<_, Option<i64>>(21)?.map(Position::from_sql),
        }))
    };
    read.await.map_err(broken("read a stream"))
}

/// Reads runs of events one after the other up to the tip, until a limit is reached. The statement
/// decides where a page is cut, and says the size of each event and whether another follows it.
pub(crate) async fn segments(
    client: &ClientWrapper,
    segments: &[Segment],
    after: Position,
    tip: Position,
    limit: PageLimit,
) -> Result<Run, StoreError> {
    let mut events = Vec::new();
    let mut bytes = 0;
    for segment in segments.iter().filter(|segment| segment.up_to > after) {
        if limit.is_reached(events.len(), bytes) {
            return Ok(Run { events, complete: false });
        }
        let (from, to) = (segment.after.max(after).to_sql(), segment.up_to.min(tip).to_sql());
        // The statement looks at one more.
        let rows_left = rows_max(limit.events - events.len()).min(i64::MAX - 1);
        // At least one byte, so that an event is read however small the limit.
        let bytes_left = rows_max(limit.bytes.saturating_sub(bytes).max(1));
        let params: Params<'_> = &[&segment.stream, &from, &to, &rows_left, &bytes_left];
        let of_table = segment.stream.starts_with(TABLE_PREFIX);
        let text = if of_table { sql!("segment_rows") } else { sql!("segment") };
        let rows = query(client, text, params).await.map_err(broken("read a stream"))?;
        let mut follows = false;
        for row in rows {
            let taken = if of_table { change_event_of_row(&row) } else { event_of_row(&row) };
            let taken = taken.map_err(broken("read a stream"))?;
            bytes += taken.bytes;
            follows = taken.follows;
            events.push(taken.event);
        }
        if follows {
            return Ok(Run { events, complete: false });
        }
    }
    Ok(Run { events, complete: true })
}

/// An event of a page, and what the statement says of its place there.
struct PageEvent {
    event: Event,
    /// Its size, by which the page is cut.
    bytes: usize,
    /// Whether there is another after it, in the page or past its limits.
    follows: bool,
}

impl PageEvent {
    /// The columns of the size and of what follows are the last two.
    fn of(event: Event, row: &Row) -> Result<PageEvent, Error> {
        let columns = row.len();
        let bytes: i32 = row.try_get(columns - 2)?;
        let bytes = usize::try_from(bytes).unwrap_or(0);
        Ok(PageEvent { event, bytes, follows: row.try_get(columns - 1)? })
    }
}

fn event_of_row(row: &Row) -> Result<PageEvent, Error> {
    let payload: Option<&[u8]> = row.try_get(2)?;
    let event = Event {
        position: Position::from_sql(row.try_get(0)?),
        append_id: Position::from_sql(row.try_get(1)?),
        payload: Bytes::copy_from_slice(payload.unwrap_or_default()),
        row: None,
    };
    PageEvent::of(event, row)
}

fn change_event_of_row(row: &Row) -> Result<PageEvent, Error> {
    let event = Event {
        position: Position::from_sql(row.try_get(0)?),
        append_id: Position::from_sql(row.try_get(1)?),
        payload: Bytes::new(),
        row: change_of_row(row)?,
    };
    PageEvent::of(event, row)
}

/// The change of a row. None of an event that is no change.
fn change_of_row(row: &Row) -> Result<Option<Arc<RowChange>>, Error> {
    let Some(operation) = row.try_get::<_, Option<&str>>(2)?.and_then(Operation::parse) else {
        return Ok(None);
    };
    let image = |column: usize| -> Result<Option<Bytes>, Error> {
        let text: Option<&str> = row.try_get(column)?;
        Ok(text.map(|text| Bytes::copy_from_slice(text.as_bytes())))
    };
    Ok(Some(Arc::new(RowChange {
        table: row.try_get::<_, Option<String>>(3)?.unwrap_or_default(),
        operation,
        entity_code: row.try_get(4)?,
        entity_id: row.try_get(5)?,
        before: image(6)?,
        after: image(7)?,
        host_id: row.try_get(8)?,
        user_id: row.try_get(9)?,
        txid: row.try_get(10)?,
        tx_last: row.try_get(11)?,
        created_at_ms: moment_ms(row, 12)?,
    })))
}

/// Reads the log after a position: the headers first, then the payloads that are wanted, so that
/// those nobody wants are not fetched.
pub(crate) async fn follow(
    client: &ClientWrapper,
    after: Position,
    limit: PageLimit,
    wants_payload: &(dyn Fn(&str) -> bool + Send + Sync),
) -> Result<Vec<TailEvent>, StoreError> {
    let read = async {
        let rows =
            query(client, sql!("follow"), &[&after.to_sql(), &rows_max(limit.events)]).await?;
        let mut events = Vec::with_capacity(rows.len());
        let (mut documents, mut changes) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        for row in rows {
            let (event, length) = header_of_row(&row)?;
            if let Some(length) = length
                && wants_payload(&event.stream)
            {
                let wanted = if row.try_get(5)? { &mut changes } else { &mut documents };
                wanted.push(event.position.to_sql());
                bytes += length;
            }
            events.push(event);
            if limit.is_reached(events.len(), bytes) {
                break;
            }
        }
        let mut payloads = payloads(client, &documents).await?;
        let mut changes = changes_at(client, &changes).await?;
        for event in &mut events {
            event.payload = payloads.remove(&event.position);
            event.row = changes.remove(&event.position);
        }
        Ok(events)
    };
    read.await.map_err(broken("follow the log"))
}

/// An event without its payload, and the payload's length if it has one.
fn header_of_row(row: &Row) -> Result<(TailEvent, Option<usize>), Error> {
    let length: Option<i32> = row.try_get(4)?;
    let event = TailEvent {
        entity: entity_of_row(row)?,
        position: Position::from_sql(row.try_get(0)?),
        stream: row.try_get(1)?,
        control: row.try_get::<_, Option<&str>>(2)?.and_then(Control::parse),
        payload: None,
        row: None,
        txid: row.try_get(12)?,
        tx_last: row.try_get::<_, Option<bool>>(13)?.unwrap_or(false),
        created_at_ms: moment_ms(row, 3)?,
    };
    Ok((event, length.and_then(|length| usize::try_from(length).ok())))
}

/// The change of an entity that an event is, if it is one.
fn entity_of_row(row: &Row) -> Result<Option<EntityChange>, Error> {
    let Some(code) = row.try_get::<_, Option<String>>(6)? else { return Ok(None) };
    let header = EntityHeader {
        code,
        id: row.try_get(7)?,
        was: row.try_get(8)?,
        operation: row.try_get::<_, Option<&str>>(9)?.and_then(Operation::parse),
        action: row.try_get::<_, Option<&str>>(10)?.and_then(EntityAction::parse),
    };
    Ok(header.change(row.try_get(11)?))
}

/// The payloads at positions, which are in order.
async fn payloads(
    client: &ClientWrapper,
    positions: &[i64],
) -> Result<HashMap<Position, Bytes>, Error> {
    let (Some(first), Some(last)) = (positions.first(), positions.last()) else {
        return Ok(HashMap::new());
    };
    let rows = query(client, sql!("payloads"), &[first, last, &positions]).await?;
    let of_row = |row: &Row| {
        let position = Position::from_sql(row.try_get(0)?);
        Ok((position, Bytes::copy_from_slice(row.try_get(1)?)))
    };
    rows.iter().map(of_row).collect()
}

/// The changes of rows at positions, which are in order.
async fn changes_at(
    client: &ClientWrapper,
    positions: &[i64],
) -> Result<HashMap<Position, Arc<RowChange>>, Error> {
    let (Some(first), Some(last)) = (positions.first(), positions.last()) else {
        return Ok(HashMap::new());
    };
    let mut changes = HashMap::with_capacity(positions.len());
    for row in query(client, sql!("rows"), &[first, last, &positions]).await? {
        if let Some(change) = change_of_row(&row)? {
            changes.insert(Position::from_sql(row.try_get(0)?), change);
        }
    }
    Ok(changes)
}

/// Names of streams in order.
pub(crate) async fn names(
    client: &ClientWrapper,
    prefix: &str,
    after: &str,
    limit: usize,
) -> Result<Vec<String>, StoreError> {
    let end = prefix_end(prefix);
    let read = async {
        texts(&query(client, sql!("names"), &[&prefix, &after, &end, &rows_max(limit)]).await?)
    };
    read.await.map_err(broken("list streams"))
}

/// The least text that comes after all texts with this prefix. Code points are ordered as their
/// bytes are.
fn prefix_end(prefix: &str) -> String {
    let mut end = prefix.to_owned();
    while let Some(last) = end.pop() {
        if let Some(next) = (last..=char::MAX).nth(1) {
            end.push(next);
            return end;
        }
    }
    // Nothing comes after all texts, but a key that is too long for the index is not there.
    String::from(char::MAX).repeat(700)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_prefix_comes_after_all_that_have_it() {
        for (prefix, end) in [("a", "b"), ("doc/", "doc0"), ("é", "ê"), ("a\u{10FFFF}", "b")] {
            assert_eq!(prefix_end(prefix), end);
            assert!(format!("{prefix}\u{10FFFF}x").as_str() < end);
        }
        assert_eq!(prefix_end("\u{D7FF}"), "\u{E000}", "there are no characters between");
        assert!(prefix_end("").as_str() > "\u{10FFFF}x");
    }
}
