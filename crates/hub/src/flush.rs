//! Flushing: writes each connection's outbox to its socket in one go.

use std::io::IoSlice;
use std::sync::Arc;

use bytes::{Buf, Bytes};

use super::connection::{Connection, Key, Subscription};
use super::frames::Dialect;
use super::outbox::{Flushed, OutboxItem, QueuedItem, Sent, Slot};
use super::shard::Shard;
use super::stats::{Stats, add};
use crate::Hub;
use crate::kinds::Written;
use crate::log_feed::replay::ReplayDecision;
use tidewire_wire::websocket::deflate::Deflater;

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
        let hub = Arc::clone(&self.hub);
        let Some(connection) = self.connections.get_mut(index) else { return };
        connection.dirty = false;
        if connection.blocked {
            connection.note_debt();
            return;
        }
        let Connection { outbox, transport, subscriptions, .. } = connection;
        let dialect = transport.dialect();
        let mut flush_state = FlushState {
            subscriptions,
            room: WriteBudget {
                stats: &self.stats,
                deflater: &mut self.deflater,
                dialect,
                wall_ms: self.wall_ms,
            },
            go_on: Vec::new(),
        };
        let flushed = outbox.flush(transport, &mut flush_state);
        let go_on = flush_state.go_on;
        connection.note_debt();
        let key = Key { index, serial: connection.serial };
        match flushed {
            Flushed::Empty => {
                for reply in connection.draining.drain(..) {
                    let _ = reply.send(ReplayDecision::Continue);
                }
                if connection.is_hungry() {
                    self.hungry.push_back(key);
                }
                connection.take_up_postponed(&self.hub);
            }
            Flushed::Blocked => {
                connection.blocked = true;
                connection.progress_ms = self.now_ms;
                self.blocked.push(connection.transport.writable(key));
            }
            Flushed::Finished => {
                connection.transport.finish();
                self.remove(index);
            }
            Flushed::Gone => {
                add(&self.stats.push_failures, 1);
                self.remove(index);
            }
        }
        for slot in go_on {
            if let Some(subscription) = self.connection(key).and_then(|c| c.subscription(slot)) {
                subscription.kind.subject_mut().go_on(&hub);
            }
        }
    }
}

impl Connection {
    /// Whether nothing waits for it, and nothing is about to.
    pub(super) fn is_idle(&self) -> bool {
        self.outbox.is_empty() && self.unsorted.is_empty() && !self.blocked
    }

    /// Has the next of those go on that were put off until the client has taken everything.
    fn take_up_postponed(&mut self, hub: &Hub) {
        while let Some(slot) = self.postponed.pop_front() {
            let subscription = self.subscription(slot);
            if subscription.is_some_and(|s| s.kind.subject_mut().go_on(hub)) {
                return;
            }
        }
    }

    /// Sends something to a client for whom nothing waits, without a stop in the outbox. Returns
    /// whether all of it is out; else the rest waits there.
    pub(super) fn send_straight(
        &mut self,
        mut bytes: Bytes,
        item: OutboxItem,
        now_ms: u64,
    ) -> bool {
        // A socket that refuses is asked again by the flush, which knows what to do about it.
        let written = self.transport.write(&[IoSlice::new(&bytes)], &bytes).unwrap_or(0);
        if written == bytes.len() {
            return true;
        }
        bytes.advance(written);
        let queued = QueuedItem { bytes, item, queued_ms: now_ms };
        match item {
            OutboxItem::Live { slot, .. } => self.queue_live(slot, queued),
            _ => self.outbox.push(queued),
        }
        if written > 0 {
            self.outbox.begin();
        }
        false
    }
}

/// What a subscription writes with.
#[derive(Debug)]
pub struct WriteBudget<'a> {
    pub stats: &'a Stats,
    pub(crate) deflater: &'a mut Option<Deflater>,
    pub dialect: Dialect,
    pub(crate) wall_ms: i64,
}

/// Has subscriptions write when their turn comes, and notes what a flush has sent.
#[derive(Debug)]
pub(super) struct FlushState<'a> {
    pub(super) subscriptions: &'a mut Vec<Option<Subscription>>,
    pub(super) room: WriteBudget<'a>,
    /// Those that go on in another way.
    pub(super) go_on: Vec<Slot>,
}

impl FlushState<'_> {
    fn subscription(&mut self, slot: Slot) -> Option<&mut Subscription> {
        let place = self.subscriptions.get_mut(slot.index as usize)?;
        place.as_mut().filter(|subscription| subscription.serial == slot.serial)
    }
}

impl Sent for FlushState<'_> {
    fn write(&mut self, slot: Slot, ticket: u32) -> Written {
        let place = self.subscriptions.get_mut(slot.index as usize).and_then(Option::as_mut);
        let subscription = place.filter(|subscription| subscription.serial == slot.serial);
        let Some(subscription) = subscription else { return Written::default() };
        let (mut about, subject) = subscription.split();
        let written = subject.write(&mut about, ticket, &mut self.room);
        if written.goes_on {
            self.go_on.push(slot);
        }
        written
    }

    fn sent(&mut self, item: &OutboxItem) {
        let (OutboxItem::Live { events, created_at_ms, .. }
        | OutboxItem::Made { events, created_at_ms }) = *item
        else {
            return;
        };
        if events > 0 {
            let latency_ms = self.room.wall_ms - created_at_ms;
            self.room.stats.pushed(u64::from(events), latency_ms);
        }
        if let OutboxItem::Live { slot, .. } = *item
            && let Some(subscription) = self.subscription(slot)
        {
            subscription.waiting = subscription.waiting.saturating_sub(1);
        }
    }
}
