//! Stretches of the log, and the positions that starts mean.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Row, Statement};

use crate::error::broken;
use crate::{load, sql};
use tidewire_store::error::StoreError;
use tidewire_store::groups::{Entry, GroupError, GroupEvent, LogPage, Start, Wants};
use tidewire_store::offset::{Epoch, Position};
use tidewire_store::retention::BUCKET_OFFSETS;
use tidewire_store::row::{Operation, RowChange};

/// What an event's header takes in memory.
const HEADER_BYTES: usize = 80;

/// Reads a page. Headers are read of all events, the rest of those that are wanted.
pub(super) fn read(
    connection: &mut Connection,
    after: Position,
    up_to: Position,
    wants: &Arc<Wants>,
) -> Result<LogPage, StoreError> {
    let snapshot = connection.transaction().map_err(broken("begin a read"))?;
    let scanned_to = up_to.min(load::tip(&snapshot)?).max(after);
    let (wants, entries, bytes) = (Arc::clone(wants), Vec::new(), 0);
    let mut page = LogPage { wants, after, scanned_to, entries, bytes };
    fill(&snapshot, &mut page).map_err(broken("read the log for a group"))?;
    Ok(page)
}

fn fill(connection: &Connection, page: &mut LogPage) -> rusqlite::Result<()> {
    let mut partitions: HashMap<Option<String>, u32> = HashMap::new();
    let mut rest = connection.prepare_cached(sql!("group_event"))?;
    let mut headers = connection.prepare_cached(sql!("group_headers"))?;
    let mut rows = headers.query((page.after.to_sql(), page.scanned_to.to_sql()))?;
    while let Some(row) = rows.next()? {
        let host_id: Option<String> = row.get(3)?;
        let partition = match partitions.get(&host_id) {
            Some(partition) => *partition,
            None => {
                let partition = page.wants.partition(host_id.as_deref());
                partitions.insert(host_id.clone(), partition);
                partition
            }
        };
        let mut entry = Entry {
            position: Position::from_sql(row.get(0)?),
            partition,
            txid: row.get(4)?,
            append_id: Position::from_sql(row.get(2)?),
            tx_last: row.get(5)?,
            control: row.get(6)?,
            created_at_ms: row.get(7)?,
            event: None,
        };
        let stream = row.get_ref(1)?.as_str()?;
        page.bytes += HEADER_BYTES;
        if !entry.control && page.wants.takes(stream, partition) {
            let event = event(&mut rest, &entry, stream, host_id)?;
            page.bytes += event.bytes();
            entry.event = Some(Arc::new(event));
        }
        page.entries.push(entry);
        if page.bytes >= page.wants.page_bytes {
            page.scanned_to = page.entries.last().map_or(page.scanned_to, |last| last.position);
            break;
        }
    }
    Ok(())
}

fn event(
    rest: &mut Statement<'_>,
    header: &Entry,
    stream: &str,
    host_id: Option<String>,
) -> rusqlite::Result<GroupEvent> {
    rest.query_row([header.position.to_sql()], |row| {
        let event = GroupEvent {
            position: header.position,
            append_id: header.append_id,
            stream: stream.to_owned(),
            host_id,
            user_id: row.get(0)?,
            txid: header.txid,
            tx_last: header.tx_last,
            created_at_ms: header.created_at_ms,
            trace_context: row.get(1)?,
            change: None,
            payload: None,
            content_type: row.get(2)?,
        };
        with_content(event, row, 3)
    })
}

/// An event with its document or its row's change, whose columns start at `at`.
pub(super) fn with_content(
    mut event: GroupEvent,
    row: &Row<'_>,
    at: usize,
) -> rusqlite::Result<GroupEvent> {
    let image = |column: usize| -> rusqlite::Result<Option<Bytes>> {
        let text = row.get_ref(column)?.as_str_or_null()?;
        Ok(text.map(|text| Bytes::copy_from_slice(text.as_bytes())))
    };
    match row.get_ref(at + 1)?.as_str_or_null()?.and_then(Operation::parse) {
        None => {
            let payload = row.get_ref(at)?.as_blob_or_null()?.unwrap_or_default();
            event.payload = Some(Bytes::copy_from_slice(payload));
        }
        Some(operation) => {
            event.change = Some(Arc::new(RowChange {
                table: row.get::<_, Option<String>>(at + 2)?.unwrap_or_default(),
                operation,
                entity_code: row.get(at + 3)?,
                entity_id: row.get(at + 4)?,
                before: image(at + 5)?,
                after: image(at + 6)?,
                host_id: event.host_id.clone(),
                user_id: event.user_id.clone(),
                txid: event.txid,
                tx_last: event.tx_last,
                created_at_ms: event.created_at_ms,
            }));
        }
    }
    Ok(event)
}

/// The `next` that a start means.
pub(super) fn place_at(
    connection: &mut Connection,
    epoch: Epoch,
    start: Start,
) -> Result<Position, GroupError> {
    let snapshot = connection.transaction().map_err(broken("begin a read"))?;
    place(&snapshot, epoch, start)
}

/// The same in a transaction that is open.
pub(super) fn place(
    connection: &Connection,
    epoch: Epoch,
    start: Start,
) -> Result<Position, GroupError> {
    let tip = load::tip(connection)?;
    let at_ms = match start {
        Start::Beginning => return Ok(Position::START.next()),
        Start::Now => return Ok(tip.next()),
        Start::After(offset) => {
            let position = offset.position_in(epoch).map_err(|foreign| {
                let now = tip.in_epoch(epoch);
                GroupError::Invalid(format!("{offset}: {foreign}, which ends at {now} now"))
            })?;
            if position > tip {
                let end = tip.in_epoch(epoch);
                let what = format!("{offset} is past the end of the log, which is {end}");
                return Err(GroupError::Invalid(what));
            }
            return Ok(position.next());
        }
        Start::Time(at_ms) => at_ms,
    };
    let query = connection.prepare_cached(sql!("group_place_at"));
    let found: Option<i64> = query
        .and_then(|mut query| query.query_row((at_ms, BUCKET_OFFSETS), |row| row.get(0)).optional())
        .map_err(broken("find a time in the log"))?;
    Ok(found.map_or_else(|| tip.next(), Position::from_sql))
}
