//! Collecting the append that a fork's sub-offset cuts through.
//!
//! The stores read, this decides what and how much: one event where bytes are cut, and no further
//! than the append's end where messages are counted, however large a number the client asked for.

use crate::event::Event;
use crate::log::PageLimit;
use crate::offset::Position;

/// Messages read at once.
const EVENTS_AT_ONCE: usize = 1_000;

/// The events after an offset that belong to one append.
#[derive(Debug)]
pub struct CutAppend {
    after: Position,
    wanted: usize,
    complete: bool,
    events: Vec<Event>,
}

impl CutAppend {
    /// The append after `after`, as far as a sub-offset reaches into it.
    pub fn new(after: Position, sub_offset: u64, json: bool) -> CutAppend {
        let messages = if json { usize::try_from(sub_offset).unwrap_or(usize::MAX) } else { 1 };
        CutAppend { after, wanted: messages, complete: false, events: Vec::new() }
    }

    /// What to read next; `None` when there is enough.
    pub fn next(&self) -> Option<(Position, PageLimit)> {
        let missing = self.wanted - self.events.len();
        let events = missing.min(EVENTS_AT_ONCE);
        let after = self.events.last().map_or(self.after, |event| event.position);
        (missing > 0 && !self.complete).then_some((after, PageLimit { events, bytes: usize::MAX }))
    }

    /// Takes what was read, and whether the stream has no more.
    pub fn take(&mut self, events: Vec<Event>, complete: bool) {
        let append_id = self.events.first().or(events.first()).map(|event| event.append_id);
        let read = events.len();
        let before = self.events.len();
        let same = events.into_iter().take_while(|event| Some(event.append_id) == append_id);
        self.events.extend(same);
        self.complete = complete || self.events.len() - before < read || read == 0;
    }

    pub fn into_events(self) -> Vec<Event> {
        self.events
    }
}
