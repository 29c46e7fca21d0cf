//! Stretches of the log, as members read them, and positions in it.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use deadpool_postgres::ClientWrapper;
use futures_util::future::try_join;
use tokio_postgres::{Error, Row};

use super::super::load;
use super::super::query::{Params, limit, moment_ms, prepare, query, query_one, sql};
use super::step::StepResult;
use tidewire_store::groups::{Entry, GroupError, GroupEvent, LogPage, Start, Wants, partition_of};
use tidewire_store::offset::{Epoch, Position};
use tidewire_store::retention::BUCKET_OFFSETS;
use tidewire_store::row::{Operation, RowChange};

/// Bytes that a header takes to hold, roughly.
const HEADER_BYTES: usize = 64;

/// Reads `(after, up_to]`, but not past the log's tip. Where everything is wanted whole it is one query;
/// elsewhere the headers come first, so that nothing is fetched that is not wanted.
pub(super) async fn page(
    client: &ClientWrapper,
    after: Position,
    up_to: Position,
    wants: &Arc<Wants>,
) -> Result<LogPage, Error> {
    if wants.filter.is_all() && wants.partitions.is_none() {
        whole(client, after, up_to, wants).await
    } else {
        by_headers(client, after, up_to, wants).await
    }
}

async fn whole(
    client: &ClientWrapper,
    after: Position,
    up_to: Position,
    wants: &Arc<Wants>,
) -> Result<LogPage, Error> {
    let [tip, log] = prepare(client, [sql!("tip"), sql!("group_log")]).await?;
    let bytes_max = limit(wants.page_bytes.max(1));
    let (from, to) = (after.to_sql(), up_to.to_sql());
    // The tip is read before the events, so all up to it are among them.
    let (tip, rows) =
        try_join(client.query_one(&tip, &[]), client.query(&log, &[&from, &to, &bytes_max]))
            .await?;
    let end = up_to.min(Position::from_sql(tip.try_get(0)?)).max(after);
    let mut page = empty(wants, after, rows.len());
    let mut hosts = Hosts::of(wants);
    for row in &rows {
        let partition = hosts.partition(row.try_get(4)?);
        let event = event_of_row(row)?;
        let control: bool = row.try_get(3)?;
        page.bytes += HEADER_BYTES + event.bytes();
        page.entries.push(Entry {
            position: event.position,
            partition,
            txid: event.txid,
            append_id: event.append_id,
            tx_last: event.tx_last,
            control,
            created_at_ms: event.created_at_ms,
            event: (!control).then(|| Arc::new(event)),
        });
    }
    let is_cut = rows.last().map_or(Ok(false), |row| row.try_get(18))?;
    page.scanned_to = match page.entries.last() {
        Some(last) if is_cut => last.position,
        _ => end,
    };
    // What came after the tip was read is left for the next page.
    page.entries.truncate(page.entries.partition_point(|entry| entry.position <= page.scanned_to));
    Ok(page)
}

async fn by_headers(
    client: &ClientWrapper,
    after: Position,
    up_to: Position,
    wants: &Arc<Wants>,
) -> Result<LogPage, Error> {
    let [tip, headers] = prepare(client, [sql!("tip"), sql!("group_log_headers")]).await?;
    let (from, to) = (after.to_sql(), up_to.to_sql());
    let (tip, rows) =
        try_join(client.query_one(&tip, &[]), client.query(&headers, &[&from, &to])).await?;
    let end = up_to.min(Position::from_sql(tip.try_get(0)?)).max(after);
    let mut page = empty(wants, after, rows.len());
    page.scanned_to = end;
    let mut hosts = Hosts::of(wants);
    let (mut wanted, mut stored) = (Vec::new(), 0);
    for row in &rows {
        let position: i64 = row.try_get(0)?;
        let entry = Entry {
            position: Position::from_sql(position),
            partition: hosts.partition(row.try_get(4)?),
            txid: row.try_get(5)?,
            append_id: Position::from_sql(row.try_get(1)?),
            tx_last: row.try_get(6)?,
            control: row.try_get(3)?,
            created_at_ms: moment_ms(row, 7)?,
            event: None,
        };
        if entry.position > end {
            break;
        }
        let takes = !entry.control && wants.takes(row.try_get(2)?, entry.partition);
        page.bytes += HEADER_BYTES;
        page.entries.push(entry);
        if takes {
            wanted.push(position);
            stored += usize::try_from(row.try_get::<_, i32>(8)?).unwrap_or(0);
        }
        if stored >= wants.page_bytes {
            page.scanned_to = Position::from_sql(position);
            break;
        }
    }
    fetch(client, &wanted, &mut page).await?;
    Ok(page)
}

/// Puts the events at positions, which are in order, into their page.
async fn fetch(client: &ClientWrapper, wanted: &[i64], page: &mut LogPage) -> Result<(), Error> {
    let (Some(first), Some(last)) = (wanted.first(), wanted.last()) else { return Ok(()) };
    for row in query(client, sql!("group_log_at"), &[first, last, &wanted]).await? {
        let event = event_of_row(&row)?;
        let found = page.entries.binary_search_by_key(&event.position, |entry| entry.position);
        if let Ok(at) = found {
            page.bytes += event.bytes();
            page.entries[at].event = Some(Arc::new(event));
        }
    }
    // One that retention took in between is as if it had not been there.
    let gone = |entry: &Entry| {
        entry.event.is_none() && wanted.binary_search(&entry.position.to_sql()).is_ok()
    };
    page.entries.retain(|entry| !gone(entry));
    Ok(())
}

fn empty(wants: &Arc<Wants>, after: Position, entries: usize) -> LogPage {
    LogPage {
        wants: Arc::clone(wants),
        after,
        scanned_to: after,
        entries: Vec::with_capacity(entries),
        bytes: 0,
    }
}

/// Partitions of the hosts that a page has, each hashed once.
struct Hosts<'a> {
    wants: &'a Wants,
    known: HashMap<&'a str, u32>,
}

impl<'a> Hosts<'a> {
    fn of(wants: &'a Wants) -> Hosts<'a> {
        Hosts { wants, known: HashMap::new() }
    }

    fn partition(&mut self, host: Option<&'a str>) -> u32 {
        let (host, total) = (host.unwrap_or_default(), self.wants.total);
        *self.known.entry(host).or_insert_with(|| partition_of(host, total))
    }
}

/// An event, from the columns that `group_log.sql`, `group_log_at.sql` and the letters have.
pub(super) fn event_of_row(row: &Row) -> Result<GroupEvent, Error> {
    let change = change_of_row(row)?;
    let payload: Option<&[u8]> = row.try_get(16)?;
    Ok(GroupEvent {
        position: Position::from_sql(row.try_get(0)?),
        append_id: Position::from_sql(row.try_get(1)?),
        stream: row.try_get(2)?,
        host_id: row.try_get(4)?,
        user_id: row.try_get(5)?,
        txid: row.try_get(6)?,
        tx_last: row.try_get(7)?,
        created_at_ms: moment_ms(row, 8)?,
        trace_context: row.try_get(9)?,
        payload: match change {
            Some(_) => None,
            None => Some(Bytes::copy_from_slice(payload.unwrap_or_default())),
        },
        change,
        content_type: row.try_get(17)?,
    })
}

fn change_of_row(row: &Row) -> Result<Option<Arc<RowChange>>, Error> {
    let Some(operation) = row.try_get::<_, Option<&str>>(10)?.and_then(Operation::parse) else {
        return Ok(None);
    };
    let image = |column: usize| -> Result<Option<Bytes>, Error> {
        let text: Option<&str> = row.try_get(column)?;
        Ok(text.map(|text| Bytes::copy_from_slice(text.as_bytes())))
    };
    Ok(Some(Arc::new(RowChange {
        table: row.try_get::<_, Option<String>>(11)?.unwrap_or_default(),
        operation,
        entity_code: row.try_get(12)?,
        entity_id: row.try_get(13)?,
        before: image(14)?,
        after: image(15)?,
        host_id: row.try_get(4)?,
        user_id: row.try_get(5)?,
        txid: row.try_get(6)?,
        tx_last: row.try_get(7)?,
        created_at_ms: moment_ms(row, 8)?,
    })))
}

/// The `next` that a start means now.
pub(super) async fn place_at(
    client: &ClientWrapper,
    epoch: Epoch,
    start: Start,
) -> StepResult<Position> {
    let tip = load::tip(client).await?;
    match start {
        Start::Beginning => Ok(Position::new(1)),
        Start::Now => Ok(tip.next()),
        Start::After(offset) => match offset.position_in(epoch) {
            Ok(position) if position <= tip => Ok(position.next()),
            Ok(_) => {
                let end = tip.in_epoch(epoch);
                let text = format!("the offset {offset} is past the end of the log, {end}");
                Err(GroupError::Invalid(text).into())
            }
            Err(_) => {
                let text = format!(
                    "the offset {offset} belongs to another epoch of the log, which was restored \
                     since; take one from {:04}_ or a time",
                    epoch.number()
                );
                Err(GroupError::Invalid(text).into())
            }
        },
        Start::Time(at_ms) => {
            let params: Params<'_> = &[&at_ms, &BUCKET_OFFSETS];
            let from = query_one(client, sql!("group_time_bucket"), params).await?;
            let from: i64 = from.try_get(0)?;
            let found = query(client, sql!("group_time_place"), &[&from, &at_ms]).await?;
            match found.first() {
                Some(row) => Ok(Position::from_sql(row.try_get(0)?)),
                None => Ok(tip.next()),
            }
        }
    }
}
