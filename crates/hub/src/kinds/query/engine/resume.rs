//! Resumes a query from an offset: reads from the log what changed since.
//!
//! Only a filter can: what it tells of an event needs nothing but the event. Who comes back with the
//! offset of another kind of query, or after too much or something that no event tells, gets all rows.
//!
//! This is no replay of a stream (`log_feed::replay`): what is read is all of the log, because transactions of others
//! bound what is told together, and it goes to the engine and not to a client. Nor is a store asked again that does
//! not answer: all rows are read then, which is asked again (`reads`).

use std::sync::Arc;

use tidewire_query::PlanName;
use tidewire_store::{
    Found, Operation, PageLimit, Position, SharedStore, StoreError, TABLE_PREFIX, TailEvent,
    WantsPayload,
};

use super::catalogue::changes_table;
use super::compile::Compiled;
use crate::Hub;

/// Events read from the log at once.
const PAGE: PageLimit = PageLimit { events: 2_000, bytes: 8 << 20 };

/// What happened after an offset, up to a place.
#[derive(Debug)]
pub(super) struct ReplayedChanges {
    /// Those of the query's tables, and of others what says where transactions begin and end.
    pub(super) events: Vec<TailEvent>,
    pub(super) up_to: Position,
    from: Position,
    /// Events that were read, kept or not.
    seen: usize,
    /// The transaction whose events are coming.
    open: Option<i64>,
}

impl ReplayedChanges {
    /// Nothing yet of what came after an offset, and the event at it.
    fn since(from: Position) -> ReplayedChanges {
        // From the event itself on, to see whether its transaction ended there.
        let up_to = Position::new(from.number().saturating_sub(1));
        ReplayedChanges { events: Vec::new(), up_to, from, seen: 0, open: None }
    }

    /// Takes what is needed of the events that come next.
    fn extend(&mut self, events: Vec<TailEvent>, streams: &[String]) {
        for event in events {
            self.seen += 1;
            self.up_to = event.position;
            let begins = event.txid.is_some() && self.open != event.txid;
            let ends = event.txid.is_some() && event.tx_last;
            // A transaction of one event bounds nothing, unless the end of the one before did not come.
            let is_alone = begins && ends && self.open.is_none();
            if event.txid.is_some() {
                self.open = event.txid.filter(|_| !ends);
            }
            let is_needed = ((begins || ends) && !is_alone)
                || event.position == self.from
                || streams.contains(&event.stream);
            if is_needed {
                self.events.push(event);
            }
        }
    }
}

/// Whether a query can go on from an offset: one that this node has seen, and not too long ago.
pub(super) fn may_resume(hub: &Hub, compiled: &Compiled, from: Position) -> bool {
    let behind = hub.tail.position().number().checked_sub(from.number());
    let events_max = hub.options.queries.resume_events_max;
    compiled.query.plan.name() == PlanName::Filter
        && behind.is_some_and(|events| usize::try_from(events).is_ok_and(|n| n <= events_max))
}

/// Reads what happened after an offset, up to where the log ends. None if that cannot be told by events.
pub(super) async fn read(
    hub: &Hub,
    compiled: &Compiled,
    from: Position,
) -> Result<Option<ReplayedChanges>, StoreError> {
    let streams = streams(compiled);
    if !has_all(hub, &streams, from).await? {
        return Ok(None);
    }
    let mut past = ReplayedChanges::since(from);
    let events_max = hub.options.queries.resume_events_max + 1;
    while past.seen <= events_max {
        if !read_on(&hub.store, &streams, &mut past).await? {
            // Some may have been given up while it was read.
            let is_whole = has_all(hub, &streams, from).await?;
            return Ok(tellable(past).filter(|_| is_whole));
        }
    }
    Ok(None)
}

/// Whether nothing was given up of what some streams had after an offset.
async fn has_all(hub: &Hub, streams: &[String], from: Position) -> Result<bool, StoreError> {
    let nothing = PageLimit { events: 0, bytes: 0 };
    for stream in streams {
        match hub.store.read(stream, Position::START, nothing).await? {
            Found::Stream(page) if !page.view.has_lost(from) => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// Reads one more page. Returns whether there was one.
pub(super) async fn read_on(
    store: &SharedStore,
    streams: &Arc<[String]>,
    past: &mut ReplayedChanges,
) -> Result<bool, StoreError> {
    let wanted = Arc::clone(streams);
    let wants: WantsPayload = Arc::new(move |stream: &str| wanted.iter().any(|own| own == stream));
    let events = store.follow(past.up_to, PAGE, wants).await?;
    let is_more = !events.is_empty();
    past.extend(events, streams);
    Ok(is_more)
}

/// The streams of a query's tables.
pub(super) fn streams(compiled: &Compiled) -> Arc<[String]> {
    let tables = compiled.query.dependencies.iter();
    tables.map(|table| format!("{TABLE_PREFIX}{}", table.table)).collect()
}

/// The past after an offset, if that is where a transaction ended.
fn tellable(mut past: ReplayedChanges) -> Option<ReplayedChanges> {
    let from = past.from;
    past.up_to = past.up_to.max(from);
    if let Some(event) = past.events.iter().find(|event| event.position == from)
        && event.txid.is_some()
        && !event.tx_last
    {
        return None;
    }
    past.events.retain(|event| event.position > from);
    Some(past)
}

/// Whether all that happened to a query's tables is told by rows' images.
pub(super) fn is_told_by_rows(events: &[TailEvent], streams: &[String]) -> bool {
    let mut own = events.iter().filter(|event| streams.contains(&event.stream));
    own.all(|event| {
        let truncates = |operation| operation == Operation::Truncate;
        changes_table(event).is_none()
            && (event.control.is_some()
                || event.row.as_ref().is_some_and(|row| !truncates(row.operation)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(at: u64, stream: &str, txid: Option<i64>, tx_last: bool) -> TailEvent {
        TailEvent {
            position: Position::new(at),
            stream: stream.to_owned(),
            control: None,
            payload: None,
            row: None,
            entity: None,
            txid,
            tx_last,
            created_at_ms: 0,
        }
    }

    fn kept(from: u64, events: Vec<TailEvent>) -> Vec<u64> {
        let mut past = ReplayedChanges::since(Position::new(from));
        let seen = events.len();
        past.extend(events, &["own".to_owned()]);
        assert_eq!(past.seen, seen);
        past.events.iter().map(|event| event.position.number()).collect()
    }

    #[test]
    fn of_other_streams_only_what_bounds_transactions_is_kept() {
        let other = |at, txid, tx_last| event(at, "other", txid, tx_last);
        let events = vec![
            other(1, None, false),
            other(2, Some(7), false),
            other(3, Some(7), false),
            event(4, "own", Some(7), false),
            other(5, None, false),
            other(6, Some(7), true),
            other(7, Some(8), true),
        ];
        assert_eq!(kept(0, events), [2, 4, 6]);
    }

    #[test]
    fn what_comes_after_a_transaction_without_an_end_is_kept() {
        let events = vec![event(1, "own", Some(7), false), event(2, "other", Some(8), true)];
        assert_eq!(kept(0, events), [1, 2]);
    }

    #[test]
    fn an_offset_within_a_transaction_of_others_cannot_be_gone_on_from() {
        let past = |tx_last| {
            let mut past = ReplayedChanges::since(Position::new(2));
            let first = event(2, "other", Some(7), tx_last);
            past.extend(vec![first, event(3, "own", Some(8), true)], &["own".to_owned()]);
            tellable(past).map(|past| past.events.len())
        };
        assert_eq!(past(false), None);
        assert_eq!(past(true), Some(1));
    }
}
