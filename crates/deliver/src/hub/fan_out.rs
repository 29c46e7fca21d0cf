//! From a sight of the log to the outboxes.
//!
//! A stream with few followers is served at once. One with many is served in slices, and between two
//! slices everything else gets its turn, so that a crowd delays nobody but itself.

use std::sync::Arc;

use super::audience::{Circle, Member};
use super::connection::{Key, State};
use super::job::Job;
use super::outbox::{Cargo, Parcel, Slot};
use super::shard::Shard;
use super::stats::add;
use super::unsorted::Delivery;
use crate::tail::{Ending, Glimpse, Notice, Sight};

/// Followers of a large audience that are served before all else gets its turn. A write to a socket
/// takes some microseconds, and whoever waits for this shard, or for the thread it runs on, waits for
/// so many of them, several times on the way from an append to its delivery. The turn itself costs a
/// microsecond or two, so fewer would not gain much.
const SLICE_MAX: usize = 16;

impl Shard {
    /// Takes a look at the log, which is the last for now or one of several.
    pub(super) fn see(&mut self, sight: &Sight, is_last: bool) {
        for glimpse in &sight.streams {
            let Some(audience) = self.audiences.get_mut(glimpse.topic.stream()) else { continue };
            if !Arc::ptr_eq(audience.attendance.topic(), &glimpse.topic) {
                continue;
            }
            if glimpse.ending == Some(Ending::Closed) {
                audience.closed = true;
            }
            if let Some(unseen) = glimpse.unseen {
                self.read_again(glimpse.topic.stream(), unseen);
            }
            let Glimpse { chunk, notice, ending, .. } = glimpse;
            if chunk.is_some() || notice.is_some() || ending.is_some() {
                let alone = is_last && sight.streams.len() == 1 && self.backlog.is_empty();
                self.begin(glimpse, alone);
            }
        }
        self.see_entities(&sight.entities);
        self.position = sight.position;
    }

    fn begin(&mut self, glimpse: &Glimpse, alone: bool) {
        let topic = &glimpse.topic;
        let Some(audience) = self.audiences.get(topic.stream()) else { return };
        let large = audience.size() > self.node.options.live.fan_out_threshold;
        let job =
            |(circle, members): (&Circle, &Arc<Vec<Member>>)| Job::new(glimpse, circle, members);
        let jobs: Vec<Job> = audience.groups().map(job).collect();
        // A stream's chunks go out in order, so one that is being served in slices stays so.
        if large || self.backlog.holds(topic) {
            jobs.into_iter().for_each(|job| self.backlog.push(job));
            return;
        }
        let alone = alone && jobs.len() == 1;
        for mut job in jobs {
            job.alone = alone;
            self.serve(&mut job, usize::MAX);
        }
    }

    /// Serves a slice of a large audience.
    pub(super) fn slice(&mut self) {
        let Some(mut job) = self.backlog.turn() else { return };
        // A reader follows one stream, so nothing else comes for it in this turn.
        job.alone = self.backlog.iter().next().is_none() || job.circle == Circle::Readers;
        self.serve(&mut job, self.node.options.live.fan_out_threshold.clamp(1, SLICE_MAX));
        self.backlog.end_turn(job);
    }

    fn serve(&mut self, job: &mut Job, count: usize) {
        let (members, taken) = job.take(count);
        let to_readers = job.circle == Circle::Readers;
        for member in &members[taken] {
            if to_readers {
                self.deliver_to_reader(member.key, job);
                if let Some(notice) = &job.notice {
                    self.mention(member.key, notice);
                }
                continue;
            }
            if !job.chunks.is_empty() {
                self.deliver(*member, job);
            }
            if let Some(notice) = &job.notice {
                self.deliver_notice(*member, notice);
            }
            if let Some(ending) = job.ending {
                self.deliver_ending(*member, ending);
            }
        }
        let straight = std::mem::take(&mut job.straight);
        if straight > 0 {
            self.stats.pushed(straight, self.wall_ms - job.created_at_ms());
        }
    }

    /// Gives a round's events to one follower, unless it has them.
    fn deliver(&mut self, member: Member, job: &mut Job) {
        let Some(connection) = self.connections.get_mut(member.key.index) else { return };
        if connection.serial != member.key.serial || connection.closing {
            return;
        }
        let (dialect, idle) = (connection.dialect(), connection.is_idle());
        let Some(subscription) = connection.subscription(member.slot) else { return };
        let (after, last) = (subscription.sent, job.last());
        if subscription.state != State::Live || after >= last {
            return;
        }
        let Some(envelope) = &subscription.envelope else { return };
        let whole = after < job.first();
        if whole && idle && job.alone {
            subscription.sent = last;
            let bytes = job.bytes(dialect, envelope, &mut self.deflater);
            let events = job.event_count();
            let cargo = Cargo::live(member.slot, (after, last), events, job.created_at_ms());
            connection.furthest = connection.furthest.max(last);
            if connection.send_straight(bytes, cargo, self.now_ms) {
                job.straight += events as u64;
                return;
            }
        } else if dialect.has_one_cursor() {
            subscription.sent = last;
            connection.unsorted.extend(Delivery::after(after, member.slot, &job.chunks));
        } else {
            let (bytes, events) = if whole {
                (job.bytes(dialect, envelope, &mut self.deflater), job.event_count())
            } else {
                let rest = job.events_after(after);
                (envelope.encode(dialect, &rest, &mut self.deflater), rest.len())
            };
            subscription.sent = last;
            let cargo = Cargo::live(member.slot, (after, last), events, job.created_at_ms());
            self.push_live(member.key, member.slot, Parcel { bytes, cargo, queued_ms: 0 });
        }
        self.touch(member.key.index);
    }

    fn push_live(&mut self, key: Key, slot: Slot, parcel: Parcel) {
        let Some(connection) = self.connections.get_mut(key.index) else { return };
        if !connection.push_live(slot, parcel, &self.node.options.live, self.now_ms) {
            add(&self.stats.gaps, 1);
        }
    }

    /// Tells one follower that the columns of the stream's table changed, after the rows before that.
    /// One that reads the store is told at once: the message says where in the log it belongs.
    fn deliver_notice(&mut self, member: Member, notice: &Notice) {
        if self.connection(member.key).is_none() {
            return;
        }
        self.sort(member.key.index);
        let offset = self.node.offset(notice.position);
        let subscription = self.connection(member.key).and_then(|c| c.subscription(member.slot));
        let Some(subscription) = subscription.filter(|s| s.announced) else { return };
        let (query_id, stream) = (&subscription.query_id, &subscription.stream);
        let message = super::frames::schema_changed(query_id, stream, &notice.what, offset);
        self.say(member.key, &message);
    }

    /// Ends what follows a stream that has ended, after what came before.
    fn deliver_ending(&mut self, member: Member, ending: Ending) {
        if self.connection(member.key).is_none() {
            return;
        }
        self.sort(member.key.index);
        let subscription = self.connection(member.key).and_then(|c| c.subscription(member.slot));
        match (ending, subscription.map(|s| s.state)) {
            (Ending::Gone, _) => self.end(member.key, member.slot, "stream_deleted"),
            (Ending::Closed, Some(State::Live)) => {
                self.end(member.key, member.slot, "stream_closed");
            }
            // Who reads the store learns of it there, after the rest.
            (Ending::Closed, _) => {}
        }
    }
}
