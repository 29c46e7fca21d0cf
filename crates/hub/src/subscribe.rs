//! What connections follow: beginning, replacing and ending subscriptions.

use std::collections::HashMap;
use std::sync::Arc;

use crate::messages::AsMessage as _;
use tidewire_store::{Position, SessionChange};

use super::audience::{Audience, EncodingGroup, Follower};
use super::connection::{Key, MissingStreams, SessionLink, StartFrom, Subscription};
use super::outbox::Slot;
use super::shard::Shard;
use super::stats::{add, set, subtract};
use crate::kinds::{Detach, Kind, SubscribeRequest};
use crate::log_feed::StreamRequest;
use crate::log_feed::replay;
use crate::log_feed::replay::ReplayRequest;
use crate::log_feed::{Feed, State};
use crate::messages::{ServerMessage as _, SubscriptionEnded};
use crate::reader_frame::Frame;
use tidewire_access::problem::Problem;

impl Shard {
    /// Begins what a client asks for, or its session follows.
    pub(super) fn subscribe(&mut self, key: Key, requests: Vec<SubscribeRequest>) {
        let mut slots = Vec::with_capacity(requests.len());
        for request in requests {
            if let Some(admission) = self.admit(key, request.wanted()) {
                slots.extend(request.begin(self, key, admission));
            }
        }
        self.begin_replay(key, slots);
    }

    /// Makes a subscription, which is yet to begin.
    pub(super) fn add(
        &mut self,
        key: Key,
        (query_id, link): (Arc<str>, Option<SessionLink>),
        kind: Kind,
        renewed: bool,
    ) -> Option<Slot> {
        let slot = self.connection(key)?.put(query_id, link, kind, renewed);
        add(&self.stats.subscriptions, 1);
        Some(slot)
    }

    /// Ends what a client has under a name.
    pub(super) fn unsubscribe(&mut self, key: Key, query_id: &str) {
        let Some(connection) = self.connection(key) else { return };
        connection.unread.retain(|(name, _)| **name != *query_id);
        let Some(slot) = connection.find(query_id) else {
            return self.say(key, &unknown_subscription().message(Some(query_id)));
        };
        let link = connection.subscription(slot).and_then(|s| s.link);
        if let Some(link) = link {
            connection.left.push((query_id.into(), link.epoch));
        }
        self.end(key, slot, "unsubscribed");
    }

    /// Takes over what a session follows, as the store had it at a revision. What was made since, and
    /// came here by another way, stays: of that the revision knows nothing. `unread` is what the session
    /// follows and this connection may not read.
    pub(super) fn follow(
        &mut self,
        key: Key,
        mut requests: Vec<StreamRequest>,
        unread: Vec<MissingStreams>,
        revision: u64,
    ) {
        let Some(connection) = self.connection(key) else { return };
        connection.unread = unread;
        // Whoever looked before the client unsubscribed says it still. It is forgotten when someone who looked
        // after it was made does not.
        let names = |request: &StreamRequest, (name, epoch): &(Arc<str>, u64)| {
            request.query_id == *name && request.link.is_some_and(|link| link.epoch == *epoch)
        };
        let left = &mut connection.left;
        left.retain(|one| one.1 > revision || requests.iter().any(|request| names(request, one)));
        requests.retain(|request| !left.iter().any(|one| names(request, one)));
        let wanted = |query_id: &str| requests.iter().any(|r| *r.query_id == *query_id);
        let (mut dropped, mut newer) = (Vec::new(), Vec::new());
        for (slot, subscription) in connection.slots() {
            match subscription.link {
                Some(link) if link.epoch > revision => {
                    newer.push(Arc::clone(&subscription.query_id))
                }
                Some(_) if !wanted(&subscription.query_id) => dropped.push(slot),
                _ => {}
            }
        }
        requests.retain(|request| !newer.contains(&request.query_id));
        for slot in dropped {
            self.end(key, slot, "unsubscribed");
        }
        self.subscribe(key, requests.into_iter().map(SubscribeRequest::Stream).collect());
    }

    /// Takes a place in a stream's audience.
    pub(super) fn enter(
        &mut self,
        stream: &Arc<str>,
        encoding_group: EncodingGroup,
        follower: Follower,
    ) {
        if self.audiences.get(stream).is_some_and(|audience| audience.topic_guard.ended()) {
            // The stream was deleted, and this shard is about to see that. Who comes now means the
            // next stream of its name.
            self.retire(stream);
        }
        let tail = &self.hub.tail;
        let audience = self.audiences.entry(Arc::clone(stream));
        let audience = audience.or_insert_with(|| Audience::new(tail.attend(stream)));
        audience.enter(encoding_group, follower);
        set(&self.stats.streams, self.audiences.len());
    }

    /// Ends all that follow a stream that is gone.
    fn retire(&mut self, stream: &Arc<str>) {
        let Some(audience) = self.audiences.get(stream) else { return };
        for (encoding_group, follower) in audience.followers() {
            match encoding_group {
                EncodingGroup::Named(..) => self.end(follower.key, follower.slot, "stream_deleted"),
                EncodingGroup::Readers(_) => self.end_reader(follower.key, &Frame::default()),
            }
        }
        self.audiences.remove(stream);
    }

    /// Reads the store for subscriptions, from where they stand. An SSE connection's subscriptions
    /// are all read together, in the log's order, so that its one cursor stays true.
    pub(super) fn begin_replay(&mut self, key: Key, slots: Vec<Slot>) {
        if slots.is_empty() {
            return;
        }
        let Some(connection) = self.connection(key) else { return };
        connection.next_replay += 1;
        let replay = connection.next_replay;
        let dialect = connection.dialect();
        let slots = if dialect.has_one_cursor() {
            connection.slots().map(|(slot, _)| slot).collect()
        } else {
            slots
        };
        let mut wanted = Vec::with_capacity(slots.len());
        for slot in slots {
            let Some(subscription) = connection.subscription(slot) else { continue };
            let Some(feed) = subscription.kind.feed_mut() else { continue };
            feed.state = State::Replaying(replay);
            wanted.push(ReplayRequest {
                slot,
                query_id: Arc::clone(&subscription.query_id),
                stream: Arc::clone(&feed.stream),
                reach: feed.reach.clone(),
                start: if subscription.announced {
                    StartFrom::After(subscription.sent)
                } else {
                    feed.start
                },
                min_offset: feed.min_offset,
                mode: feed.mode.clone(),
                envelope: feed.envelope.clone(),
            });
        }
        add(&self.stats.replays, 1);
        let task = replay::run(
            Arc::clone(&self.hub),
            self.handle.clone(),
            replay::Target { key, replay, dialect },
            wanted,
        );
        self.hub.tasks.spawn(task);
    }

    /// Sends those of a stream's followers back to the store that have not got an event there.
    pub(super) fn read_again(&mut self, stream: &Arc<str>, unseen: Position) {
        let Some(audience) = self.audiences.get(stream) else { return };
        for (encoding_group, follower) in audience.followers() {
            if encoding_group.is_of_readers() {
                self.send_back(follower.key, unseen);
                continue;
            }
            let behind = self
                .connection(follower.key)
                .and_then(|connection| connection.subscription(follower.slot))
                .is_some_and(|s| s.kind.feed().is_some_and(Feed::is_live) && s.sent < unseen);
            if behind {
                self.begin_replay(follower.key, vec![follower.slot]);
            }
        }
    }

    /// Ends a subscription and says why. What waits for it is sent before.
    pub(super) fn end(&mut self, key: Key, slot: Slot, reason: &str) {
        self.end_with(key, slot, reason, None);
    }

    /// The same, with what it is about in words.
    pub(super) fn end_with(&mut self, key: Key, slot: Slot, reason: &str, what: Option<&str>) {
        let Some(connection) = self.connection(key) else { return };
        let Some(subscription) = connection.subscription(slot) else { return };
        let (query_id, stream) = (&subscription.query_id, subscription.kind.subject().stream_id());
        let stream_id = stream.as_deref();
        let ended = SubscriptionEnded { query_id, stream_id, reason, what }.text();
        let link = subscription.link;
        let (mut about, subject) = subscription.split();
        let last_words = subject.last_words(&mut about);
        if let (Some(session), Some(_), Some(stream), "stream_deleted") =
            (&connection.session, link, stream, reason)
        {
            // Else it would be asked for again when the session returns.
            let (session, stream) = (session.to_string(), stream.to_string());
            self.hub.session_notes.note(vec![SessionChange::Unsubscribe { session, stream }]);
        }
        self.drop_subscription(key, slot);
        for message in last_words.iter().chain([&ended]) {
            self.say(key, message);
        }
    }

    /// Ends a subscription that could not be begun, or broke. If it is a session's, that follows it still.
    pub(super) fn fail(&mut self, key: Key, slot: Slot, problem: &Problem) {
        let Some(connection) = self.connection(key) else { return };
        let Some(subscription) = connection.subscription(slot) else { return };
        let query_id = Arc::clone(&subscription.query_id);
        if let (Some(_), Some(feed)) = (subscription.link, subscription.kind.feed()) {
            let unread = (Arc::clone(&query_id), Arc::clone(&feed.stream));
            connection.unread.push(unread);
        }
        self.drop_subscription(key, slot);
        self.say(key, &problem.message(Some(&query_id)));
    }

    /// The client's name of a subscription.
    pub(super) fn query_id(&mut self, key: Key, slot: Slot) -> Option<Arc<str>> {
        let subscription = self.connection(key).and_then(|c| c.subscription(slot));
        subscription.map(|subscription| Arc::clone(&subscription.query_id))
    }

    pub(super) fn drop_subscription(&mut self, key: Key, slot: Slot) {
        let Some(connection) = self.connection(key) else { return };
        if connection.subscription(slot).is_none() {
            return;
        }
        let place = &mut connection.subscriptions[slot.index as usize];
        if let Some(Subscription { query_id, kind, .. }) = place.take() {
            subtract(&self.stats.subscriptions, 1);
            kind.subject().leave(self, Follower { key, slot }, &query_id, Detach::Alone);
        }
        set(&self.stats.streams, self.audiences.len());
    }
}

pub(super) fn leave(
    audiences: &mut HashMap<Arc<str>, Audience>,
    stream: &Arc<str>,
    encoding_group: &EncodingGroup,
    follower: Follower,
) {
    if let Some(audience) = audiences.get_mut(stream) {
        audience.leave(encoding_group, follower);
        if audience.is_empty() {
            audiences.remove(stream);
        }
    }
}

pub(super) fn unknown_subscription() -> Problem {
    Problem::new(
        axum::http::StatusCode::NOT_FOUND,
        "no_such_subscription",
        "the connection has no subscription of this query_id",
        "subscribe first, or ignore this: it has ended already",
    )
}
