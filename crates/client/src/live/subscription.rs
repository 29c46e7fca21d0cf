//! One subscription: what of that which arrives is given out, and where it goes on after a break.
//! Pure: [`state`](super::state) tells it what happened.
//!
//! ```text
//!    given out            being read over HTTP        held until that is done
//!  ───────────────┤ ──────────────────────────────┤ ───────────────────────────►  offsets
//!             position                     catch_up.target
//! ```
//!
//! Nothing at or before `position` is given out again, whatever arrives and however often. So every
//! doubt is settled the same way: ask from `position` on, and let what is known fall out.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use super::query::Query;
use super::update::{LiveEvent, Update};
use super::wire::{Changed, Entities, Rows};
use crate::events::{Event, EventPage};
use crate::follow::ReadFrom;
use crate::message::is_json;

/// How much is held while a large event is read over HTTP. Past either bound it is let go, and read
/// over HTTP too. (So few in tests that the simulation gets there.)
const HELD_EVENTS_MAX: usize = if cfg!(test) { 3 } else { 1_000 };
const HELD_BYTES_MAX: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Subscription {
    pub(super) query_id: Arc<str>,
    pub(super) stream: Arc<str>,
    /// The session brought it: the server takes it up again by itself.
    pub(super) of_session: bool,
    /// Set if it is to the rows of a table: that is the connection's, also where there is a session.
    pub(super) rows: Option<Rows>,
    start: Option<ReadFrom>,
    /// What the log must have reached before the server begins.
    min_offset: Option<String>,
    /// Set if it is about entities, and not about the events of its stream.
    pub(super) entities: Option<Entities>,
    /// Set if it is to the result of a query: that is the connection's too, and has no stream.
    pub(super) query: Option<Box<Query>>,
    /// The stream does not hold JSON, so a JSON string is only how its text came.
    is_text: bool,
    /// All up to here was given out. Known once the subscription stood for the first time.
    position: Option<String>,
    /// Something was too large to be pushed, and is read over HTTP.
    catch_up: Option<CatchUp>,
    /// The last progress that was given out while this stood.
    progress: Option<Arc<str>>,
}

#[derive(Debug)]
struct CatchUp {
    /// The read that is under way for it.
    read: Option<u64>,
    target: String,
    /// `held.len() <= HELD_EVENTS_MAX`, and `held_bytes <= HELD_BYTES_MAX` plus one event.
    held: VecDeque<Event>,
    held_bytes: usize,
    /// The subscription has ended, once this is caught up.
    end: Option<(String, Option<String>)>,
}

impl Subscription {
    pub(super) fn new(query_id: Arc<str>, stream: Arc<str>, start: Option<ReadFrom>) -> Self {
        Subscription {
            query_id,
            stream,
            of_session: false,
            rows: None,
            start,
            min_offset: None,
            entities: None,
            query: None,
            is_text: false,
            position: None,
            catch_up: None,
            progress: None,
        }
    }

    /// The same, begun only where the log has reached `min_offset`.
    pub(super) fn after(self, min_offset: Option<String>) -> Self {
        Subscription { min_offset, ..self }
    }

    /// One that is about entities.
    pub(super) fn of_entities(self, entities: Entities) -> Self {
        Subscription { entities: Some(entities), ..self }
    }

    /// One that is to a query's result.
    pub(super) fn of_query(self, query: Query) -> Self {
        Subscription { query: Some(Box::new(query)), ..self }
    }

    /// The same, to the rows of a table.
    pub(super) fn of_rows(self, rows: Option<Rows>) -> Self {
        Subscription { rows, ..self }
    }

    /// One that the session brings.
    pub(super) fn of_session(query_id: Arc<str>, stream: Arc<str>) -> Self {
        Subscription { of_session: true, ..Subscription::new(query_id, stream, None) }
    }

    /// Where to ask the server to begin. With a session, asking moves its pointer: so never past
    /// what was acknowledged, if anything was.
    pub(super) fn ask_from(&self, acked: Option<&str>) -> Option<String> {
        if let Some(query) = &self.query {
            return query.ask_from();
        }
        let Some(position) = self.position.as_deref() else {
            return self.start.as_ref().map(|start| start.as_offset().to_owned());
        };
        Some(acked.map_or(position, |acked| acked.min(position)).to_owned())
    }

    /// What the log must have reached when the server begins. Where more was given out already,
    /// asking from there says it.
    pub(super) fn ask_min_offset(&self) -> Option<String> {
        self.min_offset.clone().filter(|min_offset| !self.has(min_offset))
    }

    pub(super) fn created(
        &mut self,
        offset: &str,
        content_type: Option<&str>,
        out: &mut VecDeque<Update>,
    ) {
        let resumed = self.position.is_some();
        self.is_text = content_type.is_some_and(|content_type| !is_json(content_type));
        self.position.get_or_insert_with(|| offset.to_owned());
        out.push_back(Update::Created {
            query_id: self.query_id.clone(),
            stream: self.stream.clone(),
            offset: offset.to_owned(),
            resumed,
        });
    }

    pub(super) fn event(
        &mut self,
        offset: &str,
        payload: Bytes,
        is_json: bool,
        out: &mut VecDeque<Update>,
    ) {
        if self.has(offset) {
            return;
        }
        let event = Event { offset: offset.to_owned(), payload, is_json };
        match &mut self.catch_up {
            Some(catch_up) => catch_up.hold(event),
            None => self.give(event, out),
        }
    }

    /// Entities changed. That is given out whatever was before: being told twice does no harm, and
    /// several messages may be up to the same place.
    pub(super) fn invalidated(
        &mut self,
        offset: &str,
        changed: Changed,
        out: &mut VecDeque<Update>,
    ) {
        if !self.has(offset) {
            self.position = Some(offset.to_owned());
        }
        out.push_back(Update::Invalidated {
            query_id: self.query_id.clone(),
            entity_code: changed.entity_code,
            changes: changed.changes,
            offset: offset.to_owned(),
        });
    }

    /// Something too large to be pushed is there. Whether a read must be started.
    pub(super) fn notify(&mut self, offset: &str) -> bool {
        if self.has(offset) {
            return false;
        }
        if let Some(catch_up) = &mut self.catch_up {
            catch_up.reach(offset.to_owned());
            return false;
        }
        self.catch_up = Some(CatchUp::to(offset.to_owned()));
        true
    }

    /// Nothing more comes from the server. Whether all of it was given out already.
    pub(super) fn end(
        &mut self,
        reason: String,
        what: Option<String>,
        out: &mut VecDeque<Update>,
    ) -> bool {
        if let Some(catch_up) = &mut self.catch_up {
            catch_up.end = Some((reason, what));
            return false;
        }
        let (query_id, stream) = (self.query_id.clone(), self.stream.clone());
        out.push_back(Update::Ended { query_id, stream, reason, what });
        true
    }

    /// The server will begin anew after `position`, so what was half done is let go.
    pub(super) fn interrupt(&mut self) {
        self.catch_up = None;
        if let Some(query) = &mut self.query {
            query.interrupt();
        }
    }

    /// Whether something must be read before what comes next can be given out.
    pub(super) fn is_behind(&self) -> bool {
        self.catch_up.is_some()
    }

    /// A progress is given out that speaks for this subscription too.
    pub(super) fn progress(&mut self, offset: &Arc<str>) {
        self.progress = Some(offset.clone());
    }

    /// Whether a progress of this offset spoke for this subscription.
    pub(super) fn took_part_in(&self, offset: &str) -> bool {
        self.progress.as_deref().is_some_and(|progress| progress >= offset)
    }

    /// Begins the read with this number: from where.
    pub(super) fn begin_read(&mut self, number: u64) -> Option<String> {
        self.catch_up.as_mut()?.read = Some(number);
        self.position.clone()
    }

    /// Whether the read with this number is still wanted.
    pub(super) fn awaits(&self, number: u64) -> bool {
        self.catch_up.as_ref().is_some_and(|catch_up| catch_up.read == Some(number))
    }

    /// What was read. `Some`: all is caught up, and says whether the subscription has ended by it.
    pub(super) fn read(&mut self, page: EventPage, out: &mut VecDeque<Update>) -> Option<bool> {
        for event in page.events {
            if !self.has(&event.offset) {
                self.give(event, out);
            }
        }
        if !self.has(&page.next_offset) {
            self.position = Some(page.next_offset);
        }
        let catch_up = self.catch_up.take_if(|catch_up| {
            self.position.as_ref().is_some_and(|position| *position >= catch_up.target)
        })?;
        for event in catch_up.held {
            if !self.has(&event.offset) {
                self.give(event, out);
            }
        }
        Some(catch_up.end.is_some_and(|(reason, what)| self.end(reason, what, out)))
    }

    fn has(&self, offset: &str) -> bool {
        self.position.as_deref().is_some_and(|position| position >= offset)
    }

    fn give(&mut self, mut event: Event, out: &mut VecDeque<Update>) {
        if self.is_text && event.is_json {
            event = event.unquoted();
        }
        let position = self.position.get_or_insert_default();
        position.clone_from(&event.offset);
        out.push_back(Update::Event(LiveEvent {
            query_id: self.query_id.clone(),
            stream: self.stream.clone(),
            offset: event.offset,
            payload: event.payload,
            is_json: event.is_json,
        }));
    }
}

impl CatchUp {
    fn to(target: String) -> CatchUp {
        CatchUp { read: None, target, held: VecDeque::new(), held_bytes: 0, end: None }
    }

    /// Reads up to `offset` at least; what is held up to there need not be.
    fn reach(&mut self, offset: String) {
        self.held.retain(|event| event.offset > offset);
        self.held_bytes = self.held.iter().map(|event| event.payload.len()).sum();
        if offset > self.target {
            self.target = offset;
        }
    }

    fn hold(&mut self, event: Event) {
        if event.offset <= self.target {
            return;
        }
        if self.held.len() == HELD_EVENTS_MAX || self.held_bytes > HELD_BYTES_MAX {
            return self.reach(event.offset);
        }
        self.held_bytes += event.payload.len();
        self.held.push_back(event);
    }
}
