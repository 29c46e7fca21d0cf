//! Fan-out: puts news into the outboxes of its followers.
//!
//! News with few followers is handed out at once. News with many is handed out in slices, and between two
//! slices everything else gets its turn, so that a crowd delays nobody but itself. That is the same for
//! every kind of subscription; what a follower is told of the news is its kind's to say.

use std::sync::Arc;

use bytes::Bytes;

use super::audience::Follower;
use super::outbox::{OutboxItem, QueuedItem};
use super::round::{Round, Serving};
use super::shard::Shard;
use super::stats::add;
use crate::tail::LogBatch;

/// Followers of a large audience that are served before all else gets its turn. A write to a socket
/// takes some microseconds, and whoever waits for this shard, or for the thread it runs on, waits for
/// so many of them, several times on the way from an append to its delivery. The turn itself costs a
/// microsecond or two, so fewer would not gain much.
const SLICE_MAX: usize = 16;

/// Rounds of a lane that look at their events together, so that those are read once for all.
const LOOK_MAX: usize = 64;

impl Shard {
    /// Takes a look at the log, which is the last for now or one of several.
    pub(super) fn see(&mut self, batch: &LogBatch, is_last: bool) {
        let alone = is_last && batch.streams.len() == 1;
        for stream_slice in &batch.streams {
            self.see_stream(stream_slice, alone);
        }
        self.see_entities(&batch.entities);
        self.position = batch.position;
    }

    /// Hands out news of one lane, one round for each cohort. `alone` if nothing else happened.
    pub(crate) fn fan_out(&mut self, mut rounds: Vec<Round>, alone: bool) {
        let Some(first) = rounds.first() else { return };
        let size: usize = rounds.iter().map(Round::size).sum();
        let large = size > self.hub.options.live.fan_out_threshold;
        // What happened in a lane goes out in order, so one that is being served in slices stays so.
        if large || self.backlog.holds(&first.news.lane()) {
            return self.backlog.push(rounds);
        }
        let alone = alone && rounds.len() == 1 && self.backlog.is_empty();
        super::kinds::look_together(rounds.iter_mut(), &self.hub);
        for mut round in rounds {
            round.serving.alone = alone;
            self.serve(&mut round, usize::MAX);
        }
    }

    /// Serves a slice of a large audience.
    pub(super) fn slice(&mut self) {
        let Some(mut round) = self.backlog.turn() else { return };
        // A reader follows one stream, so nothing else comes for it in this turn.
        round.serving.alone = round.news.is_for_readers() || !self.backlog.has_more();
        if round.news.is_unseen() {
            let alike = self.backlog.lane_mut().into_iter().flatten().take(LOOK_MAX);
            super::kinds::look_together(std::iter::once(&mut round).chain(alike), &self.hub);
        }
        let count = self.hub.options.live.fan_out_threshold.clamp(1, SLICE_MAX);
        self.serve(&mut round, count);
        self.backlog.end_turn(round);
    }

    fn serve(&mut self, round: &mut Round, count: usize) {
        round.news.look(&self.hub);
        let mut left = count;
        while left > 0 {
            let (followers, taken) = round.take(left);
            if taken.is_empty() && round.is_done() {
                break;
            }
            left -= taken.len();
            let Round { news, serving, .. } = round;
            for slice in followers[taken].chunks(SLICE_MAX) {
                self.prefetch(slice);
                for follower in slice {
                    news.tell(self, *follower, serving);
                }
            }
        }
        let serving = &mut round.serving;
        let straight = std::mem::take(&mut serving.straight);
        if straight > 0 {
            self.stats.pushed(straight, self.wall_ms - serving.created_at_ms);
        }
    }

    /// Gives a follower what happened: straight to its socket if that is free, else into its outbox. If
    /// there is no room, or its kind holds it back and has none, it loses its place. One that says what there
    /// is when its turn comes is given a place among what waits, which needs no room.
    pub(crate) fn hand_over(
        &mut self,
        follower: Follower,
        bytes: Bytes,
        item: OutboxItem,
        serving: &mut Serving,
    ) {
        let (now_ms, limits) = (self.now_ms, &self.hub.options.live);
        let connection = self.connections.get_mut(follower.key.index);
        let Some(connection) = connection.filter(|c| c.serial == follower.key.serial) else {
            return;
        };
        let idle = connection.is_idle();
        let Some(subscription) = connection.subscription(follower.slot) else { return };
        let queued = QueuedItem { bytes, item, queued_ms: now_ms };
        let queued = match subscription.kind.subject_mut().hold(queued, limits) {
            PendingAction::Not(queued) => Some(queued),
            PendingAction::Held => return,
            PendingAction::Full => None,
        };
        let OutboxItem::Live { from, to, events, created_at_ms, .. } = item else {
            if let Some(QueuedItem { bytes, item, .. }) = queued {
                connection.queue(bytes, item, now_ms);
                self.touch(follower.key.index);
            }
            return;
        };
        let kept = match queued {
            Some(QueuedItem { bytes, item, .. }) if idle && serving.alone => {
                serving.created_at_ms = created_at_ms;
                if connection.send_straight(bytes, item, now_ms) {
                    serving.straight += u64::from(events);
                    return;
                }
                true
            }
            Some(queued) if connection.has_room(events as usize, queued.bytes.len(), limits) => {
                connection.queue_live(follower.slot, queued);
                true
            }
            _ => false,
        };
        if !kept {
            connection.lose(follower.slot, (from, to), now_ms);
            add(&self.stats.gaps, 1);
        }
        self.touch(follower.key.index);
    }
}

/// What a kind does with something that happened while it is not yet to be sent.
#[derive(Debug)]
pub enum PendingAction {
    /// It is sent.
    Not(QueuedItem),
    /// It is kept until its turn comes.
    Held,
    /// It cannot be kept: the subscription loses its place.
    Full,
}

/// Followers as a list that rounds share.
pub(crate) fn listed(followers: impl IntoIterator<Item = Follower>) -> Arc<Vec<Follower>> {
    Arc::new(followers.into_iter().collect())
}
