//! From a sight of the log to the outboxes.
//!
//! A stream with few followers is served at once. One with many is served in slices, and between two
//! slices everything else gets its turn, so that a crowd delays nobody but itself.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use tidewire_store::{Event, Position};

use super::audience::Member;
use super::connection::{Key, State};
use super::frames::{Dialect, Envelope};
use super::outbox::{Cargo, Parcel, Slot};
use super::shard::Shard;
use super::stats::add;
use crate::tail::{Chunk, Ending, Sight};
use crate::websocket::deflate::Deflater;

/// A chunk on its way to the followers that gave their subscription one name.
#[derive(Debug)]
pub(super) struct Job {
    stream: Arc<str>,
    query_id: Arc<str>,
    members: Arc<Vec<Member>>,
    /// `next <= members.len()`: those before it have been served.
    next: usize,
    chunk: Arc<Chunk>,
    /// The chunk as bytes, in each dialect that was needed so far.
    bytes: [Option<Bytes>; 4],
    /// There is nothing else to serve in this turn: what a socket takes at once need not wait for
    /// company.
    alone: bool,
    /// Events that went straight to their sockets.
    straight: u64,
}

/// A chunk for an SSE connection that is to be put into the log's order with others.
#[derive(Debug)]
pub(super) struct Delivery {
    slot: Slot,
    chunk: Arc<Chunk>,
    after: Position,
}

impl Job {
    fn bytes(
        &mut self,
        dialect: Dialect,
        envelope: &Envelope,
        deflater: &mut Option<Deflater>,
    ) -> Bytes {
        let bytes = &mut self.bytes[dialect as usize];
        bytes
            .get_or_insert_with(|| {
                envelope.encode_shared(dialect, &self.query_id, &self.chunk, deflater)
            })
            .clone()
    }
}

impl Shard {
    /// Takes a look at the log.
    pub(super) fn see(&mut self, sight: &Sight) {
        for glimpse in &sight.streams {
            let stream = glimpse.topic.stream();
            let Some(audience) = self.audiences.get(stream) else { continue };
            if !Arc::ptr_eq(audience.attendance.topic(), &glimpse.topic) {
                continue;
            }
            let stream = Arc::clone(stream);
            if let Some(unseen) = glimpse.unseen {
                self.read_again(&stream, unseen);
            }
            if let Some(chunk) = &glimpse.chunk {
                let alone = sight.streams.len() == 1 && self.slow.is_empty();
                self.begin(&stream, chunk, alone);
            }
            if let Some(ending) = glimpse.ending {
                self.finish(&stream);
                self.end_stream(&stream, ending);
            }
        }
        self.position = sight.position;
    }

    fn begin(&mut self, stream: &Arc<str>, chunk: &Arc<Chunk>, alone: bool) {
        let Some(audience) = self.audiences.get(stream) else { return };
        let large = audience.size() > self.node.options.live.fan_out_threshold;
        let alone = alone && audience.groups().count() == 1;
        let job = |(query_id, members): (&Arc<str>, &Arc<Vec<Member>>)| Job {
            stream: Arc::clone(stream),
            query_id: Arc::clone(query_id),
            members: Arc::clone(members),
            next: 0,
            chunk: Arc::clone(chunk),
            bytes: [const { None }; 4],
            alone,
            straight: 0,
        };
        let jobs: Vec<Job> = audience.groups().map(job).collect();
        // A stream's chunks go out in order, so one that is being served in slices stays so.
        if large || self.slow.iter().any(|slow| slow.stream == *stream) {
            self.slow.extend(jobs);
        } else {
            for mut job in jobs {
                self.serve(&mut job, usize::MAX);
            }
        }
    }

    /// Serves a slice of the first large audience that waits.
    pub(super) fn slice(&mut self) {
        let Some(mut job) = self.slow.pop_front() else { return };
        job.alone = self.slow.is_empty();
        let slice = self.node.options.live.fan_out_threshold.max(1);
        self.serve(&mut job, slice);
        if job.next < job.members.len() {
            self.slow.push_front(job);
        }
    }

    /// Serves all that waits for a stream.
    fn finish(&mut self, stream: &str) {
        let (of_stream, others): (Vec<Job>, Vec<Job>) =
            self.slow.drain(..).partition(|job| *job.stream == *stream);
        self.slow = others.into();
        for mut job in of_stream {
            self.serve(&mut job, usize::MAX);
        }
    }

    fn serve(&mut self, job: &mut Job, budget: usize) {
        let members = Arc::clone(&job.members);
        let end = members.len().min(job.next.saturating_add(budget));
        for member in &members[job.next..end] {
            self.deliver(*member, job);
        }
        job.next = end;
        let straight = std::mem::take(&mut job.straight);
        if straight > 0 {
            self.stats.pushed(straight, self.wall_ms - job.chunk.created_at_ms);
        }
    }

    /// Gives a chunk to one follower, unless it has it.
    fn deliver(&mut self, member: Member, job: &mut Job) {
        let Some(connection) = self.connections.get_mut(member.key.index) else { return };
        if connection.serial != member.key.serial || connection.closing {
            return;
        }
        let (dialect, idle) = (connection.dialect(), connection.is_idle());
        let Some(subscription) = connection.subscription(member.slot) else { return };
        let (after, last) = (subscription.sent, job.chunk.last());
        if subscription.state != State::Live || after >= last {
            return;
        }
        let Some(envelope) = &subscription.envelope else { return };
        if job.alone && after < job.chunk.first() && idle {
            subscription.sent = last;
            let bytes = job.bytes(dialect, envelope, &mut self.deflater);
            let events = job.chunk.events.len();
            let parcel = live_parcel(member.slot, bytes, (after, last), events, &job.chunk);
            connection.furthest = connection.furthest.max(last);
            if connection.send_straight(member.slot, parcel, self.now_ms) {
                job.straight += events as u64;
                return;
            }
        } else if dialect.has_one_cursor() {
            subscription.sent = last;
            let chunk = Arc::clone(&job.chunk);
            connection.unsorted.push(Delivery { slot: member.slot, chunk, after });
        } else {
            let (bytes, events) = if after < job.chunk.first() {
                let bytes = job.bytes(dialect, envelope, &mut self.deflater);
                (bytes, job.chunk.events.len())
            } else {
                let rest = job.chunk.events.iter().filter(|event| event.position > after);
                let rest: Vec<Event> = rest.cloned().collect();
                (envelope.encode(dialect, &rest, &mut self.deflater), rest.len())
            };
            subscription.sent = last;
            let parcel = live_parcel(member.slot, bytes, (after, last), events, &job.chunk);
            self.push_live(member.key, member.slot, parcel);
        }
        self.touch(member.key.index);
    }

    /// Puts what an SSE connection is to get into the log's order, so that the last offset it got is
    /// always one up to which it got everything. What still waits for it in a slice comes along.
    pub(super) fn sort(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        if connection.unsorted.is_empty() {
            return;
        }
        let mut unsorted = std::mem::take(&mut connection.unsorted);
        for job in &self.slow {
            let Some(slot) = connection.find(&job.query_id) else { continue };
            let Some(subscription) = connection.subscription(slot) else { continue };
            let (after, last) = (subscription.sent, job.chunk.last());
            if subscription.stream == job.stream
                && subscription.state == State::Live
                && after < last
            {
                subscription.sent = last;
                unsorted.push(Delivery { slot, chunk: Arc::clone(&job.chunk), after });
            }
        }
        let key = Key { index, serial: connection.serial };
        let dialect = connection.dialect();
        let events: usize = unsorted.iter().map(|delivery| delivery.chunk.events.len()).sum();
        let bytes: usize = unsorted.iter().map(|delivery| delivery.chunk.bytes()).sum();
        if !connection.has_room(events, bytes, &self.node.options.live) {
            self.fall_back(key, &unsorted);
            return;
        }
        let last = unsorted.iter().map(|delivery| delivery.chunk.last()).max();
        connection.furthest = connection.furthest.max(last.unwrap_or(Position::START));
        if let [delivery] = &unsorted[..]
            && delivery.after < delivery.chunk.first()
            && let Some(subscription) = connection.subscription(delivery.slot)
            && let Some(envelope) = &subscription.envelope
        {
            let query_id = Arc::clone(&subscription.query_id);
            let chunk = &delivery.chunk;
            let bytes = envelope.encode_shared(dialect, &query_id, chunk, &mut self.deflater);
            let range = (delivery.after, chunk.last());
            let parcel = live_parcel(delivery.slot, bytes, range, chunk.events.len(), chunk);
            self.queue_live(key, delivery.slot, parcel);
            return;
        }
        let mut events: Vec<(&Delivery, &Event)> = Vec::new();
        for delivery in &unsorted {
            let new = delivery.chunk.events.iter().filter(|e| e.position > delivery.after);
            events.extend(new.map(|event| (delivery, event)));
        }
        events.sort_by_key(|(_, event)| event.position);
        let mut reached: HashMap<Slot, Position> = HashMap::new();
        for (delivery, event) in events {
            let Some(connection) = self.connections.get_mut(index) else { return };
            let Some(subscription) = connection.subscription(delivery.slot) else { continue };
            let Some(envelope) = &subscription.envelope else { continue };
            let one = std::slice::from_ref(event);
            let bytes = envelope.encode(dialect, one, &mut self.deflater);
            let before = reached.insert(delivery.slot, event.position);
            let range = (before.unwrap_or(delivery.after), event.position);
            let parcel = live_parcel(delivery.slot, bytes, range, 1, &delivery.chunk);
            self.queue_live(key, delivery.slot, parcel);
        }
    }

    /// Sends an SSE connection back to the store when it has no room for what happens. Its cursor
    /// stands for all of its streams, so it cannot be told of a gap in one of them: what waits is
    /// dropped, and read again in the log's order, at the client's pace.
    fn fall_back(&mut self, key: Key, unsorted: &[Delivery]) {
        let Some(connection) = self.connection(key) else { return };
        let waiting = connection.outbox.withdraw_all();
        let unsorted = unsorted.iter().map(|delivery| (delivery.slot, delivery.after));
        let mut slots = Vec::new();
        // What waits is older than what was to be added, so it is looked at last.
        for (slot, sent) in unsorted.chain(waiting) {
            if let Some(subscription) = connection.subscription(slot) {
                subscription.sent = sent;
                subscription.waiting = 0;
                slots.push(slot);
            }
        }
        self.begin_replay(key, slots);
    }

    /// What has waited for too long on an SSE connection is dropped and read again.
    pub(super) fn fall_back_if_stuck(&mut self, key: Key) -> bool {
        let connection = self.connection(key);
        let stuck = connection.is_some_and(|c| c.dialect().has_one_cursor() && c.outbox.events > 0);
        if stuck {
            self.sort(key.index);
            self.fall_back(key, &[]);
        }
        stuck
    }

    fn queue_live(&mut self, key: Key, slot: Slot, parcel: Parcel) {
        if let Some(connection) = self.connections.get_mut(key.index) {
            connection.queue_live(slot, parcel, self.now_ms);
        }
    }

    fn push_live(&mut self, key: Key, slot: Slot, parcel: Parcel) {
        let Some(connection) = self.connections.get_mut(key.index) else { return };
        if !connection.push_live(slot, parcel, &self.node.options.live, self.now_ms) {
            add(&self.stats.gaps, 1);
        }
    }

    /// Ends what follows a stream that ends.
    fn end_stream(&mut self, stream: &Arc<str>, ending: Ending) {
        let Some(audience) = self.audiences.get_mut(stream) else { return };
        if ending == Ending::Closed {
            audience.closed = true;
        }
        let members = audience.groups().flat_map(|(_, members)| members.iter().copied());
        let members: Vec<Member> = members.collect();
        for member in members {
            let Some(connection) = self.connection(member.key) else { continue };
            let Some(subscription) = connection.subscription(member.slot) else { continue };
            match (ending, subscription.state) {
                (Ending::Gone, _) => self.end(member.key, member.slot, "stream_deleted"),
                (Ending::Closed, State::Live) => {
                    self.sort(member.key.index);
                    self.end(member.key, member.slot, "stream_closed");
                }
                // It learns so when it has read the rest.
                (Ending::Closed, State::Replaying(_)) => {}
            }
        }
    }
}

fn live_parcel(
    slot: Slot,
    bytes: Bytes,
    (from, to): (Position, Position),
    events: usize,
    chunk: &Chunk,
) -> Parcel {
    let events = u32::try_from(events).unwrap_or(u32::MAX);
    let created_at_ms = chunk.created_at_ms;
    Parcel { bytes, cargo: Cargo::Live { slot, from, to, events, created_at_ms }, queued_ms: 0 }
}
