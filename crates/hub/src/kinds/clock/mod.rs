//! A clock that ticks: the smallest kind of subscription there is. It exists for tests, and as the example to
//! begin from when you add a kind.
//!
//! What it has to say itself is in this file. What it gets for nothing is in [`tests`]: admission, the word that
//! it has begun, slices, backpressure, progress, ending and metrics. That scopes hold for it is shown where clients
//! are heard (`live::subscribe`).

#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use serde::Serialize;

use tidewire_store::Position;

use crate::admit::Admission;
use crate::announce::Announcement;
use crate::audience::Follower;
use crate::connection::{Key, Subscription};
use crate::flush::WriteBudget;
use crate::frames::put;
use crate::kinds::{About, Detach, Kind, KindRequest, Lost, Subject, Written};
use crate::messages::{CreatedOf, ServerMessage};
use crate::outbox::OutboxItem;
use crate::round::Serving;
use crate::shard::Shard;

/// A clock that a client wants to follow.
#[derive(Debug)]
pub struct ClockRequest {
    pub query_id: Arc<str>,
}

impl KindRequest for ClockRequest {
    fn query_id(&self) -> &Arc<str> {
        &self.query_id
    }
}

/// The clock has ticked. The messages of a kind that clients know stand with all others, in `hub::messages`.
#[derive(Debug, Serialize)]
struct TickMessage<'a> {
    query_id: &'a str,
    tick: u64,
}

impl ServerMessage for TickMessage<'_> {
    const TYPE: &'static str = "tick";
}

/// Ticks that were not told: after one, up to another.
#[derive(Debug, Serialize)]
struct MissedMessage<'a> {
    query_id: &'a str,
    from: u64,
    to: u64,
}

impl ServerMessage for MissedMessage<'_> {
    const TYPE: &'static str = "missed";
}

/// What a subscription to the clock has besides its name.
#[derive(Debug, Default)]
pub struct Clock {
    /// Ticks that are lost and not yet told: after, up to.
    missed: Option<(Position, Position)>,
}

impl Subject for Clock {
    fn caught_up(&self, _: &Subscription, shard: &Shard) -> Option<Position> {
        self.missed.is_none().then_some(shard.position)
    }

    fn has_lost(&self) -> bool {
        self.missed.is_some()
    }

    fn write(&mut self, about: &mut About<'_>, _: u32, room: &mut WriteBudget<'_>) -> Written {
        let mut bytes = BytesMut::new();
        if let Some((from, to)) = self.missed.take() {
            let (query_id, from, to) = (&**about.query_id, from.number(), to.number());
            let message = MissedMessage { query_id, from, to }.text();
            put(&mut bytes, room.dialect, message.as_bytes(), None, room.deflater);
        }
        Written { bytes: bytes.freeze(), ..Written::default() }
    }

    fn lose(&mut self, lost: Lost) -> Option<u32> {
        let waits = self.missed.is_some();
        let from = self.missed.map_or(lost.from, |(first, _)| first);
        self.missed = Some((from, lost.to));
        (!waits).then_some(0)
    }

    fn leave(&self, shard: &mut Shard, follower: Follower, _: &Arc<str>, _: Detach) {
        shard.rosters.clock.leave(follower);
    }
}

/// A tick, on its way to those who follow the clock.
#[derive(Debug)]
pub struct Tick(Position);

impl Tick {
    /// Tells one follower.
    pub(crate) fn tell(&self, shard: &mut Shard, follower: Follower, serving: &mut Serving) {
        let (deflater, connections) = (&mut shard.deflater, &mut shard.connections);
        let connection = connections.get_mut(follower.key.index);
        let connection = connection.filter(|c| c.serial == follower.key.serial && !c.closing);
        let Some(connection) = connection else { return };
        let dialect = connection.dialect();
        let Some(subscription) = connection.subscription(follower.slot) else { return };
        let after = std::mem::replace(&mut subscription.sent, self.0);
        let message =
            TickMessage { query_id: &subscription.query_id, tick: self.0.number() }.text();
        let mut bytes = BytesMut::new();
        put(&mut bytes, dialect, message.as_bytes(), None, deflater);
        let item = OutboxItem::live(follower.slot, (after, self.0), 1, shard.wall_ms);
        shard.hand_over(follower, Bytes::from(bytes), item, serving);
    }
}

impl Shard {
    /// Begins to follow the clock.
    pub(super) fn follow_clock(&mut self, key: Key, request: ClockRequest, admission: Admission) {
        let Admission::Begins { renewed } = admission else { return };
        let kind = Kind::Clock(Clock::default());
        let Some(slot) = self.add(key, (request.query_id, None), kind, renewed) else { return };
        self.rosters.clock.enter(Follower { key, slot });
        let (after, of) = (Some(self.position), CreatedOf::Clock {});
        self.announce(key, vec![Announcement { slot, after, reset: renewed, of }]);
    }

    /// The clock ticks.
    #[cfg(test)]
    pub(crate) fn strike(&mut self, tick: u64) {
        let news = crate::kinds::News::Clock(Tick(Position::new(tick)));
        let round = crate::round::Round::new(news, self.rosters.clock.list());
        self.fan_out(vec![round], true);
    }
}
