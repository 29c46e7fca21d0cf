//! The log's events, and the streams that are its subsequences.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::ops::Bound::{Excluded, Included, Unbounded};

use crate::command::Command;
use crate::decide::{LoadedState, Plan, Purge};
use crate::event::{Event, TailEvent};
use crate::log::{
    PURGE_DELAY_MS, PageLimit, Run, SWEPT_EVENTS_MAX, SWEPT_PURGES_MAX, SWEPT_STREAMS_MAX,
};
use crate::offset::Position;
use crate::source::{self, Source};
use crate::stream::{ProducerState, Segment, StreamState};

/// The log.
#[derive(Debug, Default, Clone)]
pub(crate) struct Events {
    /// By position. The last one *is* the log's end.
    events: BTreeMap<Position, StoredEvent>,
    /// Positions of the events of a name that are no control events. No name has an empty set.
    by_name: BTreeMap<String, BTreeSet<Position>>,
    pub(crate) streams: BTreeMap<String, StreamState>,
    /// By stream and id.
    pub(crate) producers: BTreeMap<(String, String), ProducerState>,
    /// Events that no stream shows, and when they may go. By stream and first position.
    purges: BTreeMap<(String, Position), (Purge, i64)>,
}

#[derive(Debug, Clone)]
struct StoredEvent {
    append_id: Position,
    event: TailEvent,
}

impl Events {
    pub(crate) fn tip(&self) -> Position {
        self.events.last_key_value().map_or(Position::START, |(position, _)| *position)
    }

    /// All events after a position.
    pub(crate) fn after(&self, after: Position) -> impl Iterator<Item = &TailEvent> {
        self.events.range((Excluded(after), Unbounded)).map(|(_, kept)| &kept.event)
    }

    /// The log as it is at a moment.
    pub(crate) fn at(&self, now_ms: i64) -> LogSnapshot<'_> {
        LogSnapshot { log: self, now_ms }
    }

    /// Keeps what was decided.
    pub(crate) fn save(&mut self, plan: &Plan, now_ms: i64) {
        for event in &plan.events {
            if event.control.is_none() {
                self.by_name.entry(event.stream.clone()).or_default().insert(event.position);
            }
            let kept = StoredEvent { append_id: event.append_id, event: event.followed(now_ms) };
            self.events.insert(event.position, kept);
        }
        for name in &plan.removed {
            self.streams.remove(name);
        }
        self.producers.retain(|(stream, _), _| !plan.producers_cleared.contains(stream));
        for state in &plan.streams {
            self.streams.insert(state.name.clone(), state.clone());
        }
        for (stream, id, state) in &plan.producers {
            self.producers.insert((stream.clone(), id.clone()), *state);
        }
        for purge in &plan.purges {
            let key = (purge.stream.clone(), purge.after);
            self.purges.entry(key).or_insert((purge.clone(), now_ms + PURGE_DELAY_MS));
        }
    }

    /// Names of streams in order.
    pub(crate) fn names(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
        now_ms: i64,
    ) -> Vec<String> {
        let from = if after >= prefix { Excluded(after) } else { Included(prefix) };
        self.streams
            .range::<str, _>((from, Unbounded))
            .take_while(|(name, _)| name.starts_with(prefix))
            .filter(|(_, state)| !state.soft_deleted && !state.expired(now_ms))
            .map(|(name, _)| name.clone())
            .take(limit)
            .collect()
    }

    /// Streams whose time has run out.
    pub(crate) fn expired(&self, now_ms: i64) -> Vec<String> {
        let expired = self.streams.values().filter(|state| state.expired(now_ms));
        expired.map(|state| state.name.clone()).take(SWEPT_STREAMS_MAX).collect()
    }

    /// Removes events of deleted streams, a bounded number, and says how many.
    pub(crate) fn purge(&mut self, now_ms: i64) -> usize {
        let due = self.purges.values().filter(|(_, due_at_ms)| *due_at_ms <= now_ms);
        let due: Vec<Purge> = due.map(|(purge, _)| purge.clone()).take(SWEPT_PURGES_MAX).collect();
        let tip = self.tip();
        let mut removed = 0;
        for Purge { stream, after, up_to } in due {
            let left = SWEPT_EVENTS_MAX - removed;
            let positions: Vec<Position> = self
                .own(&stream, after, up_to)
                .filter(|position| *position < tip)
                .take(left)
                .collect();
            for position in &positions {
                self.events.remove(position);
                if let Some(of_name) = self.by_name.get_mut(&stream) {
                    of_name.remove(position);
                }
            }
            if self.by_name.get(&stream).is_some_and(BTreeSet::is_empty) {
                self.by_name.remove(&stream);
            }
            removed += positions.len();
            if positions.len() == left {
                break;
            }
            self.purges.remove(&(stream, after));
        }
        removed
    }

    /// Where a name has events, after a position and up to another.
    fn own(
        &self,
        name: &str,
        after: Position,
        up_to: Position,
    ) -> impl DoubleEndedIterator<Item = Position> {
        // A range that ends before it begins is an error to the map, and empty to everyone else.
        let range = (Excluded(after), Included(up_to.max(after)));
        let some = (up_to > after).then(|| self.by_name.get(name)).flatten();
        some.into_iter().flat_map(move |positions| positions.range(range)).copied()
    }

    fn event(&self, position: Position) -> Option<Event> {
        let StoredEvent { append_id, event } = self.events.get(&position)?;
        let payload = event.payload.clone().unwrap_or_default();
        Some(Event { position, append_id: *append_id, payload, row: event.row.clone() })
    }
}

/// The log at a moment.
#[derive(Debug)]
pub(crate) struct LogSnapshot<'a> {
    log: &'a Events,
    now_ms: i64,
}

impl LogSnapshot<'_> {
    /// Everything that commands need to know.
    pub(crate) fn loaded(&mut self, commands: &[Command]) -> LoadedState {
        let Ok(loaded) = source::load(self, commands);
        loaded
    }
}

impl Source for LogSnapshot<'_> {
    type Error = Infallible;

    fn now_ms(&self) -> i64 {
        self.now_ms
    }

    fn tip(&self) -> Result<Position, Infallible> {
        Ok(self.log.tip())
    }

    fn stream(&mut self, name: &str) -> Result<Option<StreamState>, Infallible> {
        Ok(self.log.streams.get(name).cloned())
    }

    fn own_tail(&self, state: &StreamState) -> Result<Option<Position>, Infallible> {
        Ok(self.log.own(&state.name, state.created, self.log.tip()).next_back())
    }

    fn producer(&self, stream: &str, id: &str) -> Result<Option<ProducerState>, Infallible> {
        Ok(self.log.producers.get(&(stream.to_owned(), id.to_owned())).copied())
    }

    fn run(
        &self,
        segments: &[Segment],
        after: Position,
        limit: PageLimit,
    ) -> Result<Run, Infallible> {
        let positions = segments
            .iter()
            .flat_map(|run| self.log.own(&run.stream, run.after.max(after), run.up_to));
        let (mut events, mut bytes) = (Vec::new(), 0);
        for event in positions.filter_map(|position| self.log.event(position)) {
            if limit.is_reached(events.len(), bytes) {
                return Ok(Run { events, complete: false });
            }
            bytes += event.payload.len() + event.row.as_ref().map_or(0, |row| row.bytes());
            events.push(event);
        }
        Ok(Run { events, complete: true })
    }

    fn names(&self, prefix: &str, after: &str, limit: usize) -> Result<Vec<String>, Infallible> {
        Ok(self.log.names(prefix, after, limit, self.now_ms))
    }
}
