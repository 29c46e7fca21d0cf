//! The hand-over from a replay to live events.
//!
//! A replay has given everything up to `reached`; the shard has seen the log up to `position`. If the
//! replay is ahead, the subscriptions simply go live: what the shard sees next is dropped up to where
//! the replay got. If it is behind, what lies between is taken from what the tail remembers of each
//! stream, and given in the log's order; where memory does not reach back far enough the replay reads
//! on. Either way nothing is missing and nothing comes twice, because the shard decides it alone,
//! between two looks at the log.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::messages::AsMessage as _;
use tidewire_store::{Event, Position, SessionChange};

use super::replay::{End, ReplayDecision, ReplayPage, ReplayStart};
use crate::announce::Announcement;
use crate::connection::Key;
use crate::log_feed::State;
use crate::messages::CreatedOf;
use crate::min_offset::MinOffset;
use crate::outbox::{OutboxItem, Slot};
use crate::shard::Shard;
use crate::stats::add;

impl Shard {
    /// Takes what a replay brought.
    pub(crate) fn replayed(
        &mut self,
        key: Key,
        replay: u32,
        step: ReplayPage,
        reply: oneshot::Sender<ReplayDecision>,
    ) {
        for (slot, problem) in &step.failed {
            if self.replays(key, *slot, replay) {
                match problem.code() {
                    "stream_not_found" | "stream_deleted" if self.announced(key, *slot) => {
                        self.end(key, *slot, "stream_deleted");
                    }
                    // What it may see cannot be told of the table as it is, and trying again will
                    // not mend that.
                    _ if !problem.is_temporary()
                        && self.announced(key, *slot)
                        && self.sees_part(key, *slot) =>
                    {
                        let query_id = self.query_id(key, *slot);
                        self.say(key, &problem.message(query_id.as_deref()));
                        self.end(key, *slot, "columns_changed");
                    }
                    _ => self.fail(key, *slot, problem),
                }
            }
        }
        for (slot, row_filter) in &step.lenses {
            if let Some(feed) = self.connection(key).and_then(|c| c.feed(*slot)) {
                feed.row_filter = Some(Arc::clone(row_filter));
            }
        }
        self.begin_feeds(key, replay, &step.begun);
        let now_ms = self.now_ms;
        for piece in step.items {
            if self.replays(key, piece.slot, replay) {
                add(&self.stats.replayed_events, piece.events as u64);
                add(&self.stats.replayed_bytes, piece.bytes.len() as u64);
                if let Some(connection) = self.connection(key) {
                    connection.queue(piece.bytes, OutboxItem::Replayed, now_ms);
                }
            }
        }
        let Some(connection) = self.connection(key) else { return };
        connection.furthest = connection.furthest.max(step.reached);
        let mut wanted = false;
        for subscription in connection.subscriptions.iter_mut().flatten() {
            let feed = subscription.kind.feed();
            if feed.is_some_and(|feed| feed.state == State::Replaying(replay)) {
                subscription.sent = subscription.sent.max(step.reached);
                wanted = true;
            }
        }
        let joined = match step.ends {
            Some(ends) => self.join(key, replay, ends, step.reached),
            None => false,
        };
        self.touch(key.index);
        if joined || !wanted {
            let _ = reply.send(ReplayDecision::Done);
        } else if let Some(connection) = self.connection(key) {
            // Answered by the flush at the end of this turn, or by the one that empties the outbox.
            connection.draining.push(reply);
        }
    }

    /// Whether a subscription is still this replay's business.
    fn replays(&mut self, key: Key, slot: Slot, replay: u32) -> bool {
        let feed = self.connection(key).and_then(|c| c.feed(slot));
        feed.is_some_and(|feed| feed.state == State::Replaying(replay))
    }

    fn announced(&mut self, key: Key, slot: Slot) -> bool {
        let subscription = self.connection(key).and_then(|c| c.subscription(slot));
        subscription.is_some_and(|s| s.announced)
    }

    fn sees_part(&mut self, key: Key, slot: Slot) -> bool {
        let feed = self.connection(key).and_then(|c| c.feed(slot));
        feed.is_some_and(|feed| feed.mode.view.is_some())
    }

    /// Notes which subscriptions have begun, and announces those that did for the first time.
    fn begin_feeds(&mut self, key: Key, replay: u32, begun: &[ReplayStart]) {
        let mut fresh = Vec::new();
        for ReplayStart { slot, after, envelope, renew_every, content_type } in begun {
            if !self.replays(key, *slot, replay) {
                continue;
            }
            let Some(connection) = self.connection(key) else { return };
            let Some(subscription) = connection.subscription(*slot) else { continue };
            subscription.sent = *after;
            let (announced, reset) = (subscription.announced, subscription.is_begun_anew());
            let Some(feed) = subscription.kind.feed_mut() else { continue };
            feed.envelope = Some(envelope.clone());
            // This node is there: later replays need not wait for it.
            feed.min_offset = MinOffset::default();
            let stream = feed.stream.clone();
            if connection.dialect().has_one_cursor() {
                // From here on it comes in the log's order with all else: a cursor past what was sent
                // until now covers it, also if the client does not stay for all of the replay.
                let furthest = connection.furthest;
                self.note_live(key, *slot, furthest);
            }
            self.renew_every(&stream, *renew_every);
            if !announced {
                fresh.push((*slot, *after, reset, stream, content_type));
            }
        }
        let mut announcements = Vec::with_capacity(fresh.len());
        for (slot, after, reset, stream_id, content_type) in &fresh {
            let of = CreatedOf::Stream { stream_id, content_type };
            announcements.push(Announcement {
                slot: *slot,
                after: Some(*after),
                reset: *reset,
                of,
            });
        }
        self.announce(key, announcements);
    }

    /// Lets subscriptions go live. Returns whether they did.
    fn join(&mut self, key: Key, replay: u32, ends: Vec<End>, reached: Position) -> bool {
        let position = self.position;
        let mut late: Vec<(Slot, Event)> = Vec::new();
        for end in ends.iter().filter(|_| position > reached) {
            let Some(connection) = self.connection(key) else { return true };
            let Some(feed) = connection.feed(end.slot) else { continue };
            let (stream, view) = (feed.stream.clone(), feed.mode.view.clone());
            let known = end.rest.iter().filter(|event| event.position <= position);
            late.extend(known.map(|event| (end.slot, event.clone())));
            if end.min_offset < position {
                let Some(audience) = self.audiences.get(&stream) else { continue };
                let topic = audience.topic_guard.topic();
                let Some(events) = topic.between(end.min_offset, position) else { return false };
                let seen = self.hub.remembered(view.as_ref(), events);
                let Some(events) = seen else { return false };
                late.extend(events.into_iter().map(|event| (end.slot, event)));
            }
        }
        late.sort_by_key(|(_, event)| event.position);
        for (slot, event) in &late {
            self.queue_late(key, replay, *slot, event);
        }
        let live_from = position.max(reached);
        for end in &ends {
            if self.replays(key, end.slot, replay) {
                self.go_live(key, end, live_from);
            }
        }
        true
    }

    fn queue_late(&mut self, key: Key, replay: u32, slot: Slot, event: &Event) {
        if !self.replays(key, slot, replay) {
            return;
        }
        let Some(connection) = self.connections.get_mut(key.index) else { return };
        let dialect = connection.dialect();
        let Some(feed) = connection.feed(slot) else { return };
        let Some(envelope) = &feed.envelope else { return };
        let one = std::slice::from_ref(event);
        let bytes = envelope.encode(dialect, one, &mut self.deflater);
        add(&self.stats.replayed_events, 1);
        connection.queue(bytes, OutboxItem::Replayed, self.now_ms);
    }

    fn go_live(&mut self, key: Key, end: &End, live_from: Position) {
        self.note_live(key, end.slot, live_from);
        let Some(connection) = self.connection(key) else { return };
        connection.furthest = connection.furthest.max(live_from);
        let Some(subscription) = connection.subscription(end.slot) else { return };
        subscription.sent = live_from;
        let Some(feed) = subscription.kind.feed_mut() else { return };
        feed.state = State::Live;
        let stream = feed.stream.clone();
        let closed = end.closed.is_some_and(|last| last <= live_from)
            || self.audiences.get(&stream).is_some_and(|audience| audience.closed);
        if closed {
            self.end(key, end.slot, "stream_closed");
        }
    }

    /// Lets the session know that a cursor past `position` covers a subscription.
    fn note_live(&mut self, key: Key, slot: Slot, position: Position) {
        let Some(connection) = self.connection(key) else { return };
        let Some(session) = connection.session.clone() else { return };
        let Some(subscription) = connection.subscription(slot) else { return };
        let Some(link) = subscription.link.as_mut().filter(|link| !link.went_live) else { return };
        let Some(feed) = subscription.kind.feed() else { return };
        link.went_live = true;
        let change = SessionChange::WentLive {
            session: session.to_string(),
            stream: feed.stream.to_string(),
            epoch: link.epoch,
            position,
        };
        self.hub.session_notes.note(vec![change]);
    }
}
