//! From a sight of the log to the outboxes.
//!
//! A stream with few followers is served at once. One with many is served in slices, and between two
//! slices everything else gets its turn, so that a crowd delays nobody but itself.

use std::hint::black_box;
use std::sync::Arc;

use super::audience::{Circle, Member};
use super::connection::Key;
use super::job::Job;
use super::outbox::{Cargo, Parcel, Slot};
use super::shard::Shard;
use super::stats::add;
use crate::hub::log_feed::State;
use crate::hub::log_feed::unsorted::Delivery;
use crate::hub::messages::{SchemaChanged, ServerMessage as _};
use crate::hub::reader_frame::Frame;
use crate::hub::tail::{Ending, Glimpse, Notice, Sight};

/// Followers of a large audience that are served before all else gets its turn. A write to a socket
/// takes some microseconds, and whoever waits for this shard, or for the thread it runs on, waits for
/// so many of them, several times on the way from an append to its delivery. The turn itself costs a
/// microsecond or two, so fewer would not gain much.
const SLICE_MAX: usize = 16;

/// Rounds of a lane that look at their events together, so that those are read once for all.
const LOOK_MAX: usize = 64;

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
        let large = audience.size() > self.hub.options.live.fan_out_threshold;
        let job =
            |(circle, members): (&Circle, &Arc<Vec<Member>>)| Job::new(glimpse, circle, members);
        let mut jobs: Vec<Job> = audience.groups().map(job).collect();
        // A stream's chunks go out in order, so one that is being served in slices stays so.
        if large || self.backlog.holds(topic) {
            self.backlog.push(jobs);
            return;
        }
        let alone = alone && jobs.len() == 1;
        Job::look_together(jobs.iter_mut(), &self.hub.tables, self.hub.store.epoch());
        for mut job in jobs {
            job.alone = alone;
            self.serve(&mut job, usize::MAX);
        }
    }

    /// Serves a slice of a large audience.
    pub(super) fn slice(&mut self) {
        let Some(mut job) = self.backlog.turn() else { return };
        // A reader follows one stream, so nothing else comes for it in this turn.
        job.alone = self.backlog.iter().next().is_none() || job.circle.is_of_readers();
        if job.is_unseen() {
            let alike = self.backlog.lane_mut().take(LOOK_MAX);
            let jobs = std::iter::once(&mut job).chain(alike);
            Job::look_together(jobs, &self.hub.tables, self.hub.store.epoch());
        }
        self.serve(&mut job, self.hub.options.live.fan_out_threshold.clamp(1, SLICE_MAX));
        self.backlog.end_turn(job);
    }

    fn serve(&mut self, job: &mut Job, count: usize) {
        let (members, taken) = job.take(count);
        let to_readers = job.circle.is_of_readers();
        if !job.look(&self.hub.tables, self.hub.store.epoch()) {
            members[taken].iter().for_each(|member| self.look_again(*member, job));
            return;
        }
        for slice in members[taken].chunks(SLICE_MAX) {
            self.look_ahead(slice);
            for member in slice {
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
        }
        let straight = std::mem::take(&mut job.straight);
        if straight > 0 {
            self.stats.pushed(straight, self.wall_ms - job.created_at_ms());
        }
    }

    /// Reads what serving these is going to read. A write to a socket leaves little of the caches, so that
    /// each follower would cost several waits for memory, one after another; here all wait at once.
    fn look_ahead(&self, slice: &[Member]) {
        let glance = |member: &Member| {
            let connection = self.connections.get(member.key.index);
            connection.map_or(0, |connection| connection.glance(member.slot))
        };
        black_box(slice.iter().map(glance).fold(0, u64::wrapping_add));
    }

    /// Sends one who sees a part of a table back to the store, because the table is not what it was when
    /// it was last looked at.
    fn look_again(&mut self, member: Member, job: &Job) {
        if let Some(notice) = job.notice.as_ref().filter(|_| !job.circle.is_of_readers()) {
            self.deliver_notice(member, notice);
        }
        match job.ending {
            Some(Ending::Gone) if job.circle.is_of_readers() => {
                self.end_reader(member.key, &Frame::default());
            }
            Some(Ending::Gone) => self.end(member.key, member.slot, "stream_deleted"),
            _ if job.circle.is_of_readers() => self.send_to_store(member.key),
            _ => self.replay_if_live(member),
        }
    }

    /// Reads the store for one who got what happens until now.
    fn replay_if_live(&mut self, member: Member) {
        let feed = self.connection(member.key).and_then(|c| c.feed(member.slot));
        if feed.is_some_and(|feed| feed.is_live()) {
            self.begin_replay(member.key, vec![member.slot]);
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
        let Some(feed) = subscription.kind.feed() else { return };
        if !feed.is_live() || after >= last {
            return;
        }
        let Some(envelope) = &feed.envelope else { return };
        if job.event_count() == 0 {
            // There was nothing that it sees.
            subscription.sent = last;
            return;
        }
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
            if events == 0 {
                return;
            }
            let cargo = Cargo::live(member.slot, (after, last), events, job.created_at_ms());
            self.push_live(member.key, member.slot, Parcel { bytes, cargo, queued_ms: 0 });
        }
        self.touch(member.key.index);
    }

    fn push_live(&mut self, key: Key, slot: Slot, parcel: Parcel) {
        let Some(connection) = self.connections.get_mut(key.index) else { return };
        if !connection.push_live(slot, parcel, &self.hub.options.live, self.now_ms) {
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
        let offset = self.hub.offset(notice.position);
        let subscription = self.connection(member.key).and_then(|c| c.subscription(member.slot));
        let Some(subscription) = subscription.filter(|s| s.announced) else { return };
        let Some(feed) = subscription.kind.feed() else { return };
        let (query_id, stream) = (&subscription.query_id, &feed.stream);
        let view = feed.manner.view.as_ref();
        let what = notice.told_to(view);
        let message = SchemaChanged { query_id, stream_id: stream, what, offset }.text();
        let sees_part = view.is_some();
        self.say(member.key, &message);
        if sees_part {
            // Whether it can still be seen is found out now, and not when the next row comes.
            self.replay_if_live(member);
        }
    }

    /// Ends what follows a stream that has ended, after what came before.
    fn deliver_ending(&mut self, member: Member, ending: Ending) {
        if self.connection(member.key).is_none() {
            return;
        }
        self.sort(member.key.index);
        let feed = self.connection(member.key).and_then(|c| c.feed(member.slot));
        match (ending, feed.map(|feed| feed.state)) {
            (Ending::Gone, _) => self.end(member.key, member.slot, "stream_deleted"),
            (Ending::Closed, Some(State::Live)) => {
                self.end(member.key, member.slot, "stream_closed");
            }
            // Who reads the store learns of it there, after the rest.
            (Ending::Closed, _) => {}
        }
    }
}
