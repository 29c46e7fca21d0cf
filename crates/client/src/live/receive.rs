//! What each message of the server, and each answer to a read over HTTP, does to the [`state`](super::state). Pure.

use std::sync::Arc;

use bytes::Bytes;

use super::lane::{Lane, LaneState};
use super::query::Query;
use super::result::ResultUpdate;
use super::state::State;
use super::subscription::Subscription;
use super::update::Update;
use super::wire::{Created, Message};
use crate::error::Problem;
use crate::events::EventPage;

/// A read over HTTP that must be made: of a stream, after an offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Read {
    number: u64,
    query_id: Arc<str>,
    pub(super) stream: Arc<str>,
    pub(super) offset: String,
    /// Of the rows of a table, those that are wanted.
    pub(super) filter: Option<String>,
}

impl State {
    pub(super) fn receive(&mut self, message: Message<'_>) {
        match message {
            Message::Event { query_id, offset, payload, is_json } => {
                self.event(&query_id, &offset, payload, is_json);
            }
            Message::Notify { query_id, offset } => self.notify(&query_id, &offset),
            Message::Gap { query_id } => self.gap(&query_id),
            Message::Invalidate { query_id, offset, changed } => {
                if let Some(subscription) = live(&mut self.lanes, &query_id) {
                    subscription.invalidated(&offset, changed, &mut self.updates);
                }
            }
            Message::Progress { query_id: None, offset } => self.progress(&offset),
            Message::Progress { query_id: Some(query_id), offset } => {
                self.of_query(&query_id, |query| query.settled(&offset));
            }
            Message::Batch { query_id, rows, more } => {
                self.of_query(&query_id, |query| query.batch(rows, more));
            }
            Message::Change { query_id, part } => {
                self.of_query(&query_id, |query| query.change(*part));
            }
            Message::Created(created) => created.iter().for_each(|one| self.created(one)),
            Message::SchemaChanged { query_id, offset, what } => {
                self.schema_changed(&query_id, &offset, what);
            }
            Message::Ended { query_id, reason, what } => self.ended(&query_id, reason, what),
            Message::Problem { query_id, problem } => self.problem(query_id.as_deref(), problem),
            Message::Hello { connection_id, node } => {
                self.updates.push_back(Update::Connected { node, connection_id });
            }
            Message::Closing { .. } | Message::Other => {}
        }
    }

    /// The read to be made next, if there is one.
    pub(super) fn next_read(&mut self) -> Option<Read> {
        while let Some(query_id) = self.to_read.pop_front() {
            let lane = self.lanes.get_mut(&query_id);
            let Some(subscription) = lane.and_then(|lane| lane.subscription.as_mut()) else {
                continue;
            };
            self.reads += 1;
            if let Some(offset) = subscription.begin_read(self.reads) {
                let (number, stream) = (self.reads, subscription.stream.clone());
                let filter = subscription.rows.as_ref().and_then(|rows| rows.filter.clone());
                return Some(Read { number, query_id, stream, offset, filter });
            }
        }
        None
    }

    /// What a read brought.
    pub(super) fn was_read(&mut self, read: Read, page: EventPage) {
        let Some(subscription) = awaiting(&mut self.lanes, &read) else {
            return;
        };
        match subscription.read(page, &mut self.updates) {
            None => self.to_read.push_back(read.query_id),
            Some(ended) => {
                if ended {
                    self.lanes.remove(&read.query_id);
                }
                self.give_progress();
            }
        }
    }

    /// A read failed for now, and is to be made again.
    pub(super) fn read_later(&mut self, read: Read) {
        if awaiting(&mut self.lanes, &read).is_some() {
            self.to_read.push_back(read.query_id);
        }
    }

    /// A read was refused for good: what it was for cannot go on.
    pub(super) fn read_refused(&mut self, read: &Read, problem: Problem) {
        if awaiting(&mut self.lanes, read).is_some() {
            let query_id = read.query_id.clone();
            self.unsubscribe(&query_id);
            self.updates.push_back(Update::Problem { query_id: Some(query_id), problem });
        }
    }

    fn event(&mut self, query_id: &str, offset: &str, payload: Bytes, is_json: bool) {
        if let Some(subscription) = live(&mut self.lanes, query_id) {
            subscription.event(offset, payload, is_json, &mut self.updates);
        }
    }

    fn notify(&mut self, query_id: &str, offset: &str) {
        if let Some(subscription) = live(&mut self.lanes, query_id)
            && subscription.notify(offset)
        {
            self.to_read.push_back(subscription.query_id.clone());
        }
    }

    fn schema_changed(&mut self, query_id: &str, offset: &str, what: String) {
        if let Some(subscription) = live(&mut self.lanes, query_id) {
            self.updates.push_back(Update::SchemaChanged {
                query_id: subscription.query_id.clone(),
                stream: subscription.stream.clone(),
                offset: offset.to_owned(),
                what,
            });
        }
    }

    fn gap(&mut self, query_id: &str) {
        if let Some(lane) = self.lanes.get_mut(query_id) {
            let fate = lane.gap();
            // What it was reading is let go, and a progress that waited for that speaks of too much.
            self.progress = None;
            self.meet(query_id, fate);
        }
    }

    fn created(&mut self, created: &Created<'_>) {
        let (query_id, content_type) = (&*created.query_id, created.content_type.as_deref());
        let Some(lane) = self.lanes.get_mut(query_id) else {
            return self.brought(created);
        };
        let (fate, wanted) = lane.created();
        let subscription = lane.subscription.as_mut().filter(|_| wanted);
        let is_query = subscription.as_ref().is_some_and(|one| one.query.is_some());
        if let Some(subscription) = subscription.filter(|_| !is_query) {
            let offset = created.offset.as_deref().unwrap_or_default();
            subscription.created(offset, content_type, &mut self.updates);
        }
        self.meet(query_id, fate);
        if is_query {
            self.of_query(query_id, |query| query.begin(created));
        }
    }

    /// Something is told of a query's result.
    fn of_query(&mut self, query_id: &str, tell: impl FnOnce(&mut Query) -> ResultUpdate) {
        let Some(subscription) = live(&mut self.lanes, query_id) else { return };
        let Some(query) = &mut subscription.query else { return };
        let told = tell(query);
        let query_id = subscription.query_id.clone();
        let offset = query.result.offset().map(ToOwned::to_owned);
        self.updates.push_back(match told {
            ResultUpdate::Nothing => return,
            ResultUpdate::Began => Update::ResultBegan { query_id, offset },
            ResultUpdate::Changed(changes) => Update::ResultChanged { query_id, changes, offset },
            ResultUpdate::Settled => Update::ResultSettled { query_id, offset },
            ResultUpdate::OutOfStep => {
                tracing::warn!(
                    query = &*query_id,
                    "a change does not fit the result of its query; reading the result again"
                );
                query.begin_anew();
                return self.gap(&query_id);
            }
        });
    }

    /// The session follows something that the caller did not ask for here.
    fn brought(&mut self, created: &Created<'_>) {
        if !self.session {
            return;
        }
        let known = self
            .lanes
            .values()
            .find(|lane| *lane.stream == *created.stream && !lane.is_of_connection());
        let unwanted = known.map(|lane| lane.subscription.is_none());
        let (query_id, stream): (Arc<str>, Arc<str>) =
            (created.query_id.as_ref().into(), created.stream.as_ref().into());
        let (wire, subscription) = match unwanted {
            // Its place is taken by what the caller asks for under another name.
            Some(false) => return,
            Some(true) => {
                self.requests_due = true;
                (LaneState::LeaveDue, None)
            }
            None => {
                let content_type = created.content_type.as_deref();
                let mut subscription = Subscription::of_session(query_id.clone(), stream.clone());
                let offset = created.offset.as_deref().unwrap_or_default();
                subscription.created(offset, content_type, &mut self.updates);
                (LaneState::Live, Some(subscription))
            }
        };
        self.lanes.insert(query_id, Lane { stream, wire, subscription });
    }

    fn ended(&mut self, query_id: &str, reason: String, what: Option<String>) {
        let Some(lane) = self.lanes.get_mut(query_id) else {
            return;
        };
        let (fate, wanted) = lane.ended(&reason);
        if let Some(subscription) = lane.subscription.as_mut().filter(|_| wanted)
            && subscription.end(reason, what, &mut self.updates)
        {
            self.lanes.remove(query_id);
        } else {
            self.meet(query_id, fate);
        }
    }

    fn problem(&mut self, query_id: Option<&str>, problem: Problem) {
        let Some(lane) = query_id.and_then(|query_id| self.lanes.get_mut(query_id)) else {
            let query_id = query_id.map(Arc::from);
            return self.updates.push_back(Update::Problem { query_id, problem });
        };
        let (fate, wanted) = lane.refused(problem.temporary == Some(true));
        self.progress = None;
        self.resting |= lane.wire == LaneState::Resting;
        if wanted {
            let query_id = query_id.map(Arc::from);
            self.updates.push_back(Update::Problem { query_id, problem });
        }
        if let Some(query_id) = query_id {
            self.meet(query_id, fate);
        }
    }

    /// Everything up to `offset` was sent. That it was given out too is so when nothing is being
    /// read or asked for again; where that is not so, a later progress will say it.
    fn progress(&mut self, offset: &str) {
        for lane in self.lanes.values_mut().filter(|lane| lane.is_live()) {
            if let Some(query) = lane.subscription.as_mut().and_then(|one| one.query.as_mut()) {
                query.result.passed(offset);
            }
        }
        let unsettled = |lane: &Lane| !lane.is_live() && !lane.is_of_session();
        let wanted = self.lanes.values().filter(|lane| lane.subscription.is_some());
        self.progress = (!wanted.into_iter().any(unsettled)).then(|| offset.into());
        self.give_progress();
    }

    fn give_progress(&mut self) {
        let subscriptions = || self.lanes.values().filter_map(|lane| lane.subscription.as_ref());
        if subscriptions().any(Subscription::is_behind) {
            return;
        }
        let Some(offset) = self.progress.take() else {
            return;
        };
        for lane in self.lanes.values_mut().filter(|lane| lane.is_live()) {
            if let Some(subscription) = &mut lane.subscription {
                subscription.progress(&offset);
            }
        }
        self.updates.push_back(Update::Progress { offset: offset.to_string() });
    }
}

type Lanes = std::collections::BTreeMap<Arc<str>, Lane>;

/// The subscription whose events count.
fn live<'a>(lanes: &'a mut Lanes, query_id: &str) -> Option<&'a mut Subscription> {
    lanes.get_mut(query_id).filter(|lane| lane.is_live())?.subscription.as_mut()
}

/// The subscription that waits for this read, and not for a later one.
fn awaiting<'a>(lanes: &'a mut Lanes, read: &Read) -> Option<&'a mut Subscription> {
    let subscription = lanes.get_mut(&read.query_id)?.subscription.as_mut()?;
    Some(subscription).filter(|subscription| subscription.awaits(read.number))
}
