//! The subscriptions of a live connection, and what must still be sent to the server or given to the caller. Pure: no
//! socket and no clock; [`Live`](super::Live) moves the bytes, [`receive`](super::receive) handles each message.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::acks::Acks;
use super::lane::{DUE, Lane, LaneOutcome, LaneState};
use super::query::Query;
use super::result::QueryResult;
use super::subscription::Subscription;
use super::update::{LiveEvent, Update};
use super::wire::{Acked, Entities, Request, Rows, Sql, Subscribe};
use crate::follow::ReadFrom;

/// Bytes of names in one message to the server: far below what any server may refuse.
const REQUEST_BYTES: usize = 16 << 10;

#[derive(Debug, Default)]
pub(super) struct State {
    /// Whether the connections belong to a session.
    pub(super) session: bool,
    pub(super) lanes: BTreeMap<Arc<str>, Lane>,
    pub(super) acks: Acks,
    /// A progress that counts once all that is being read over HTTP was given out.
    pub(super) progress: Option<Arc<str>>,
    /// Whose large events are to be read.
    pub(super) to_read: VecDeque<Arc<str>>,
    /// How many reads there were.
    pub(super) reads: u64,
    /// Some lane may be `Due` or `LeaveDue`.
    pub(super) requests_due: bool,
    /// Some lane may be `Resting`.
    pub(super) resting: bool,
    /// What the caller has yet to take: at most what one message or one read brought.
    pub(super) updates: VecDeque<Update>,
}

impl State {
    pub(super) fn new(session: bool) -> State {
        State { session, ..State::default() }
    }

    pub(super) fn subscribe(
        &mut self,
        query_id: &str,
        stream: &str,
        from: Option<ReadFrom>,
        min_offset: Option<String>,
    ) {
        let subscription = Subscription::new(query_id.into(), stream.into(), from);
        self.begin(subscription.after(min_offset));
    }

    /// Begins a subscription that is about entities.
    pub(super) fn subscribe_entities(
        &mut self,
        query_id: &str,
        entities: Entities,
        from: Option<ReadFrom>,
    ) {
        let stream = format!("entity/{}", entities.code).into();
        let subscription = Subscription::new(query_id.into(), stream, from);
        self.begin(subscription.of_entities(entities));
    }

    fn begin(&mut self, subscription: Subscription) {
        let (query_id, stream) = (subscription.query_id.clone(), subscription.stream.clone());
        if self.session {
            // A session follows a stream once: this takes the place of what the session brought.
            self.lanes.retain(|_, lane| !(lane.is_of_session() && lane.stream == stream));
        }
        self.insert(query_id, stream, subscription);
    }

    /// Follows the rows of a table.
    pub(super) fn subscribe_to_rows(&mut self, query_id: &str, rows: Rows, from: Option<ReadFrom>) {
        let (query_id, stream): (Arc<str>, Arc<str>) = (query_id.into(), rows.stream().into());
        let subscription = Subscription::new(query_id.clone(), Arc::clone(&stream), from);
        self.insert(query_id, stream, subscription.of_rows(Some(rows)));
    }

    /// Follows the result of a query.
    pub(super) fn subscribe_to_query(&mut self, query_id: &str, sql: Sql) {
        // No stream: a name that none has, because a session may bring any that there is.
        let (query_id, stream): (Arc<str>, Arc<str>) = (query_id.into(), "".into());
        let subscription = Subscription::new(query_id.clone(), Arc::clone(&stream), None);
        self.insert(query_id, stream, subscription.of_query(Query::new(sql)));
    }

    fn insert(&mut self, query_id: Arc<str>, stream: Arc<str>, subscription: Subscription) {
        self.forget_updates(&query_id);
        self.progress = None;
        self.requests_due = true;
        let wire = self.lanes.get(&query_id).map_or(DUE, Lane::restart);
        self.lanes.insert(query_id, Lane { stream, wire, subscription: Some(subscription) });
    }

    pub(super) fn unsubscribe(&mut self, query_id: &str) {
        self.forget_updates(query_id);
        if let Some(lane) = self.lanes.get_mut(query_id) {
            let fate = lane.leave(self.session && !lane.is_of_connection());
            self.meet(query_id, fate);
        }
    }

    pub(super) fn ack(&mut self, event: &LiveEvent) {
        if self.session {
            self.acks.stream(&event.stream, &event.offset);
        }
    }

    pub(super) fn ack_progress(&mut self, offset: &str) {
        if self.session {
            let subscriptions = self.lanes.values().filter_map(|lane| lane.subscription.as_ref());
            // What is about entities or a query is the connection's, not the session's.
            let of_streams = subscriptions.filter(|subscription| {
                subscription.entities.is_none() && subscription.query.is_none()
            });
            let covered = of_streams.filter(|subscription| subscription.took_part_in(offset));
            self.acks.progress(offset, covered.map(|subscription| &subscription.stream));
        }
    }

    /// The rows of a query that is followed.
    pub(super) fn result(&self, query_id: &str) -> Option<&QueryResult> {
        Some(&self.lanes.get(query_id)?.subscription.as_ref()?.query.as_ref()?.result)
    }

    pub(super) fn next_update(&mut self) -> Option<Update> {
        self.updates.pop_front()
    }

    /// Whether nothing can ever come: no subscription, and no session to bring one.
    pub(super) fn is_idle(&self) -> bool {
        !self.session && self.lanes.values().all(|lane| lane.subscription.is_none())
    }

    /// What the server is to be told about subscriptions, in this order.
    pub(super) fn take_requests(&mut self) -> Vec<Request> {
        if !std::mem::take(&mut self.requests_due) {
            return Vec::new();
        }
        let (mut unwanted, mut wanted) = (Vec::new(), Vec::new());
        for (query_id, lane) in &mut self.lanes {
            match (lane.wire, &lane.subscription) {
                (LaneState::LeaveDue, _) => {
                    lane.wire = LaneState::Leaving;
                    unwanted.push(query_id.to_string());
                }
                (LaneState::Due { anew }, Some(subscription)) => {
                    lane.wire = LaneState::Asked { anew, stale: false };
                    let table = subscription.rows.clone();
                    let acked = self.acks.of(&lane.stream).filter(|_| table.is_none());
                    let offset = subscription.ask_from(acked);
                    let min_offset = subscription.ask_min_offset();
                    let entities = subscription.entities.clone();
                    let query = subscription.query.as_ref().map(|query| query.asked());
                    let named = table.is_none() && entities.is_none() && query.is_none();
                    let stream = if named { lane.stream.to_string() } else { String::new() };
                    let query_id = query_id.to_string();
                    wanted.push(Subscribe {
                        query_id,
                        stream,
                        table,
                        entities,
                        query,
                        offset,
                        min_offset,
                    });
                }
                _ => {}
            }
        }
        let unwanted = in_messages(unwanted, String::len).into_iter();
        let wanted = in_messages(wanted, Subscribe::bytes).into_iter();
        unwanted
            .map(|query_ids| Request::Unsubscribe { query_ids })
            .chain(wanted.map(|subscriptions| Request::Subscribe { subscriptions }))
            .collect()
    }

    /// What was processed and the server was not told.
    pub(super) fn take_acked(&mut self) -> Vec<Acked> {
        let lanes = &self.lanes;
        self.acks.take(|stream| lanes.values().any(|lane| *lane.stream == *stream))
    }

    /// The same as messages.
    pub(super) fn take_acks(&mut self) -> Vec<Request> {
        let acked = self.take_acked();
        let size = |one: &Acked| one.stream_id.as_ref().map_or(0, String::len);
        let messages = in_messages(acked, size).into_iter();
        messages.map(|offsets| Request::Ack { offsets }).collect()
    }

    /// What had a temporary problem is asked for again.
    pub(super) fn wake(&mut self) {
        self.resting = false;
        for lane in self.lanes.values_mut().filter(|lane| lane.wire == LaneState::Resting) {
            lane.wire = DUE;
            self.requests_due = true;
        }
    }

    /// The connection is gone.
    pub(super) fn disconnected(&mut self) {
        let session = self.session;
        self.lanes.retain(|_, lane| lane.disconnected(session));
        self.acks.interrupt();
        self.progress = None;
        self.to_read.clear();
        self.resting = false;
        self.requests_due = true;
    }

    pub(super) fn meet(&mut self, query_id: &str, fate: LaneOutcome) {
        match fate {
            LaneOutcome::Stays => {}
            LaneOutcome::Asks => self.requests_due = true,
            LaneOutcome::Gone => {
                self.lanes.remove(query_id);
            }
        }
    }

    fn forget_updates(&mut self, query_id: &str) {
        self.updates.retain(|update| update.query_id() != Some(query_id));
    }
}

/// Items in as many messages as they need.
fn in_messages<T>(items: Vec<T>, bytes: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let mut messages: Vec<Vec<T>> = Vec::new();
    let mut room = 0;
    for item in items {
        match messages.last_mut().filter(|_| bytes(&item) <= room) {
            Some(message) => {
                room -= bytes(&item);
                message.push(item);
            }
            None => {
                room = REQUEST_BYTES.saturating_sub(bytes(&item));
                messages.push(vec![item]);
            }
        }
    }
    messages
}
