//! Prefetches followers' memory before writing to them.
//!
//! A write to a socket leaves little of the processor's caches, so that each follower would cost several
//! waits for memory, one after another. Read for a slice of followers first, they all wait at once.
//! `./bench/run fanout --part prefetch` measures that against a server that does without.

use std::hint::black_box;

use super::audience::Follower;
use super::connection::Connection;
use super::outbox::Slot;
use super::shard::Shard;

impl Shard {
    /// Reads what telling these is going to read, for nothing but that it is in the caches then.
    pub(super) fn prefetch(&self, slice: &[Follower]) {
        if cfg!(feature = "without-prefetch") {
            return;
        }
        let prefetch = |follower: &Follower| {
            let connection = self.connections.get(follower.key.index);
            connection.map_or(0, |connection| connection.prefetch(follower.slot))
        };
        black_box(slice.iter().map(prefetch).fold(0, u64::wrapping_add));
    }
}

impl Connection {
    fn prefetch(&self, slot: Slot) -> u64 {
        let subscription = self.subscriptions.get(slot.index as usize).and_then(Option::as_ref);
        let of_slot = subscription.map_or(0, |subscription| {
            let is_live = subscription.kind.feed().is_some_and(|feed| feed.is_live());
            u64::from(subscription.serial) ^ subscription.sent.number() ^ u64::from(is_live)
        });
        let is_free = self.is_idle() && !self.closing;
        let of_itself = self.serial ^ self.furthest.number() ^ u64::from(is_free);
        of_slot ^ of_itself ^ self.transport.prefetch()
    }
}
