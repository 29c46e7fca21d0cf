//! What an SSE connection of a session is to get, put into the log's order.
//!
//! Its one cursor (`Last-Event-ID`) stands for all of its streams, so the last offset it got must
//! always be one up to which it got everything.

use std::collections::HashMap;
use std::sync::Arc;

use tidewire_store::{Event, Position};

use crate::audience::EncodingGroup;
use crate::connection::{Connection, Key};
use crate::kinds::News;
use crate::outbox::{OutboxItem, QueuedItem, Slot};
use crate::shard::Shard;
use crate::tail::Chunk;

/// A chunk that is to be put into the log's order with others.
#[derive(Debug)]
pub(crate) struct Delivery {
    slot: Slot,
    chunk: Arc<Chunk>,
    /// The subscription has everything up to here.
    after: Position,
}

impl Delivery {
    /// Those of some chunks, which are in order, that a subscription lacks.
    pub(crate) fn after(
        mut after: Position,
        slot: Slot,
        chunks: &[Arc<Chunk>],
    ) -> impl Iterator<Item = Delivery> {
        chunks.iter().filter_map(move |chunk| {
            if chunk.last() <= after {
                return None;
            }
            let before = std::mem::replace(&mut after, chunk.last());
            Some(Delivery { slot, chunk: Arc::clone(chunk), after: before })
        })
    }
}

impl Connection {
    /// Its subscription that a round of the backlog is for, if it is live.
    fn waits_for(&mut self, encoding_group: &EncodingGroup, stream: &str) -> Option<Slot> {
        let EncodingGroup::Named(query_id, _) = encoding_group else { return None };
        let slot = self.find(query_id)?;
        let subscription = self.subscription(slot)?;
        let feed = subscription.kind.feed()?;
        let is_its = *feed.stream == *stream
            && feed.encoding_group(&subscription.query_id) == *encoding_group;
        (is_its && feed.is_live()).then_some(slot)
    }

    /// Takes along what still waits for it in the backlog.
    fn take_along(&mut self, slot: Slot, chunks: &[Arc<Chunk>]) {
        let Some(subscription) = self.subscription(slot) else { return };
        let after = subscription.sent;
        let last = chunks.last().map_or(after, |chunk| chunk.last());
        subscription.sent = after.max(last);
        self.unsorted.extend(Delivery::after(after, slot, chunks));
    }
}

impl Shard {
    /// Puts what an SSE connection is to get into the log's order and queues it.
    pub(crate) fn sort(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        if connection.unsorted.is_empty() {
            return;
        }
        let (mut seen, epoch) = (true, self.hub.store.epoch());
        // One who follows a single stream gets its rounds in order anyway.
        let several = connection.slots().nth(1).is_some();
        for round in self.backlog.iter_mut().filter(|_| several) {
            let News::Stream(news) = &mut round.news else { continue };
            let Some(slot) = connection.waits_for(&news.encoding_group, news.topic.stream()) else {
                continue;
            };
            match news.look(&self.hub.tables, epoch) {
                true => connection.take_along(slot, &news.chunks),
                false => seen = false,
            }
        }
        let unsorted = std::mem::take(&mut connection.unsorted);
        let key = Key { index, serial: connection.serial };
        if !seen {
            self.fall_back(key, &unsorted);
            return;
        }
        let events: usize = unsorted.iter().map(|delivery| delivery.chunk.events.len()).sum();
        let bytes: usize = unsorted.iter().map(|delivery| delivery.chunk.bytes()).sum();
        if !connection.has_room(events, bytes, &self.hub.options.live) {
            self.fall_back(key, &unsorted);
            return;
        }
        let last = unsorted.iter().map(|delivery| delivery.chunk.last()).max();
        connection.furthest = connection.furthest.max(last.unwrap_or(Position::START));
        let slot = unsorted[0].slot;
        let is_whole = |d: &Delivery| d.slot == slot && d.after < d.chunk.first();
        if unsorted.iter().all(is_whole) {
            self.queue_whole(index, slot, &unsorted);
        } else {
            self.queue_sorted(index, &unsorted);
        }
    }

    /// Chunks of one subscription are in order as they are, and their bytes are shared.
    fn queue_whole(&mut self, index: usize, slot: Slot, deliveries: &[Delivery]) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        let dialect = connection.dialect();
        for Delivery { chunk, after, .. } in deliveries {
            let Some(subscription) = connection.subscription(slot) else { return };
            let feed = subscription.kind.feed();
            let Some(envelope) = feed.and_then(|f| f.envelope.as_ref()) else { return };
            if chunk.events.is_empty() {
                continue;
            }
            let query_id = &subscription.query_id;
            let bytes = envelope.encode_shared(dialect, query_id, chunk, &mut self.deflater);
            let (range, count) = ((*after, chunk.last()), chunk.events.len());
            let item = OutboxItem::live(slot, range, count, chunk.created_at_ms);
            connection.queue_live(slot, QueuedItem { bytes, item, queued_ms: self.now_ms });
        }
    }

    fn queue_sorted(&mut self, index: usize, deliveries: &[Delivery]) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        let dialect = connection.dialect();
        let mut events: Vec<(&Delivery, &Event)> = Vec::new();
        for delivery in deliveries {
            let new = delivery.chunk.events.iter().filter(|e| e.position > delivery.after);
            events.extend(new.map(|event| (delivery, event)));
        }
        events.sort_by_key(|(_, event)| event.position);
        let mut reached: HashMap<Slot, Position> = HashMap::new();
        for (Delivery { slot, chunk, after }, event) in events {
            let Some(subscription) = connection.subscription(*slot) else { continue };
            let feed = subscription.kind.feed();
            let Some(envelope) = feed.and_then(|f| f.envelope.as_ref()) else { continue };
            let one = std::slice::from_ref(event);
            let bytes = envelope.encode(dialect, one, &mut self.deflater);
            let before = reached.insert(*slot, event.position);
            let range = (before.unwrap_or(*after), event.position);
            let item = OutboxItem::live(*slot, range, 1, chunk.created_at_ms);
            connection.queue_live(*slot, QueuedItem { bytes, item, queued_ms: self.now_ms });
        }
    }

    /// Sends an SSE connection back to the store when it has no room for what happens. It cannot be
    /// told of a gap in one of its streams: what waits is dropped, and read again in the log's order,
    /// at the client's pace.
    fn fall_back(&mut self, key: Key, unsorted: &[Delivery]) {
        let Some(connection) = self.connection(key) else { return };
        let waiting = connection.outbox.withdraw_all();
        // Of each subscription the first counts, which is the oldest.
        let unsorted = unsorted.iter().rev().map(|delivery| (delivery.slot, delivery.after));
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
    pub(crate) fn fall_back_if_stuck(&mut self, key: Key) -> bool {
        let connection = self.connection(key);
        let stuck = connection.is_some_and(|c| c.dialect().has_one_cursor() && c.outbox.events > 0);
        if stuck {
            self.sort(key.index);
            self.fall_back(key, &[]);
        }
        stuck
    }
}
