//! From the outboxes to the sockets, each connection's in one go.

use std::io::IoSlice;

use bytes::{Buf, Bytes, BytesMut};

use super::connection::{Connection, Key, Subscription};
use super::frames::{self, Dialect};
use super::outbox::{Cargo, Flushed, Parcel, Sent, Slot};
use super::shard::Shard;
use super::stats::{Stats, add};
use crate::hub::kinds::query::Piece;
use crate::hub::log_feed::Feed;
use crate::hub::log_feed::replay::Verdict;
use crate::wire::websocket::deflate::Deflater;

impl Shard {
    /// Notes that a connection has something to flush.
    pub(super) fn touch(&mut self, index: usize) {
        if let Some(connection) = self.connections.get_mut(index)
            && !connection.dirty
        {
            connection.dirty = true;
            self.dirty.push(index);
        }
    }

    /// Writes out what this turn brought, each connection's in one go.
    pub(super) fn flush_all(&mut self) {
        let mut dirty = std::mem::take(&mut self.dirty);
        for index in dirty.drain(..) {
            self.flush(index);
        }
        // What a flush has touched is for the next turn.
        dirty.append(&mut self.dirty);
        self.dirty = dirty;
    }

    pub(super) fn flush(&mut self, index: usize) {
        self.sort(index);
        let Some(connection) = self.connections.get_mut(index) else { return };
        connection.dirty = false;
        if connection.blocked {
            connection.note_debt();
            return;
        }
        let Connection { outbox, outlet, subscriptions, .. } = connection;
        let dialect = outlet.dialect();
        let mut departing = Departing {
            subscriptions,
            stats: &self.stats,
            deflater: &mut self.deflater,
            dialect,
            wall_ms: self.wall_ms,
            fresh: Vec::new(),
        };
        let flushed = outbox.flush(outlet, &mut departing);
        let mut fresh = departing.fresh;
        connection.note_debt();
        let key = Key { index, serial: connection.serial };
        match flushed {
            Flushed::Empty => {
                for reply in connection.draining.drain(..) {
                    let _ = reply.send(Verdict::Continue);
                }
                if connection.is_hungry() {
                    self.hungry.push_back(key);
                }
                fresh.extend(connection.next_postponed());
            }
            Flushed::Blocked => {
                connection.blocked = true;
                connection.progress_ms = self.now_ms;
                self.blocked.push(connection.outlet.writable(key));
            }
            Flushed::Finished => {
                connection.outlet.finish();
                self.remove(index);
            }
            Flushed::Gone => {
                add(&self.stats.push_failures, 1);
                self.remove(index);
            }
        }
        if !fresh.is_empty() {
            self.ask_again(key, fresh);
        }
    }
}

impl Connection {
    /// Whether nothing waits for it, and nothing is about to.
    pub(super) fn is_idle(&self) -> bool {
        self.outbox.is_empty() && self.unsorted.is_empty() && !self.blocked
    }

    /// Sends something to a client for whom nothing waits, without a stop in the outbox. Returns
    /// whether all of it is out; else the rest waits there.
    pub(super) fn send_straight(&mut self, mut bytes: Bytes, cargo: Cargo, now_ms: u64) -> bool {
        // A socket that refuses is asked again by the flush, which knows what to do about it.
        let written = self.outlet.write(&[IoSlice::new(&bytes)], &bytes).unwrap_or(0);
        if written == bytes.len() {
            return true;
        }
        bytes.advance(written);
        let parcel = Parcel { bytes, cargo, queued_ms: now_ms };
        match cargo {
            Cargo::Live { slot, .. } => self.queue_live(slot, parcel),
            _ => self.outbox.push(parcel),
        }
        if written > 0 {
            self.outbox.begin();
        }
        false
    }
}

/// Notes what a flush has sent.
pub(super) struct Departing<'a> {
    pub(super) subscriptions: &'a mut Vec<Option<Subscription>>,
    pub(super) stats: &'a Stats,
    pub(super) deflater: &'a mut Option<Deflater>,
    pub(super) dialect: Dialect,
    pub(super) wall_ms: i64,
    /// Live queries that are to get all rows.
    pub(super) fresh: Vec<Slot>,
}

impl Departing<'_> {
    pub(super) fn subscription(&mut self, slot: Slot) -> Option<&mut Subscription> {
        let place = self.subscriptions.get_mut(slot.index as usize)?;
        place.as_mut().filter(|subscription| subscription.serial == slot.serial)
    }
}

impl Sent for Departing<'_> {
    fn gap(&mut self, slot: Slot) -> Bytes {
        let dialect = self.dialect;
        let feed = self.subscription(slot).and_then(|s| s.kind.feed_mut());
        let message = feed.and_then(Feed::take_gap);
        let mut bytes = BytesMut::new();
        if let Some(message) = message {
            frames::put(&mut bytes, dialect, message.as_bytes(), None, self.deflater);
        }
        bytes.freeze()
    }

    fn invalidation(&mut self, slot: Slot) -> Bytes {
        self.tell(slot)
    }

    fn piece(&mut self, slot: Slot, result: u32) -> Piece {
        self.next_piece(slot, result)
    }

    fn fresh(&mut self, slot: Slot) {
        self.fresh.push(slot);
    }

    fn sent(&mut self, cargo: &Cargo) {
        if let Cargo::Live { slot, events, created_at_ms, .. } = *cargo {
            if events > 0 {
                self.stats.pushed(u64::from(events), self.wall_ms - created_at_ms);
            }
            if let Some(subscription) = self.subscription(slot) {
                subscription.waiting = subscription.waiting.saturating_sub(1);
            }
        }
    }
}
