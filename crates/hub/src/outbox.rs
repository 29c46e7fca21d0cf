//! What waits for one connection: a bounded queue of bytes that others may share.
//!
//! `queued_events <= events_max` and `queued_bytes <= bytes_max` for what is pushed live; replays are
//! paced by their readers and do not count against the bounds, or they would push live events out.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes};

use tidewire_store::Position;

use super::transport::{Refused, Transport};
use crate::kinds::Written;

/// Pieces that go out in one write.
const PIECES_MAX: usize = 64;

/// One piece of what waits.
#[derive(Debug)]
pub struct QueuedItem {
    pub(super) bytes: Bytes,
    pub(super) item: OutboxItem,
    pub(super) queued_ms: u64,
}

/// What a piece is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutboxItem {
    /// Events of a subscription that were pushed live: the last one's position, how many, and when
    /// the first was appended.
    Live { slot: Slot, from: Position, to: Position, events: u32, created_at_ms: i64 },
    /// Of a subscription, and paced by the socket: what was replayed.
    Replayed,
    /// The same, made in its turn: how many things it tells that happened, and when the first did.
    Made { events: u32, created_at_ms: i64 },
    /// Stands where a subscription has something to say. Its bytes are made when its turn comes, because
    /// until then that may change, and no more is made than the socket takes. What the ticket means is
    /// known to the subscription.
    Turn { slot: Slot, ticket: u32 },
    /// A message of the connection's own.
    Message,
    /// The question whether the client is there.
    Ping,
    /// After this the connection is closed. May be without bytes.
    Last,
}

impl OutboxItem {
    /// Events that happen, after one position up to another.
    pub(super) fn live(
        slot: Slot,
        (from, to): (Position, Position),
        events: usize,
        created_at_ms: i64,
    ) -> OutboxItem {
        let events = u32::try_from(events).unwrap_or(u32::MAX);
        OutboxItem::Live { slot, from, to, events, created_at_ms }
    }
}

/// A subscription of a connection: its place, and which of those that have had the place it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Slot {
    pub index: u32,
    pub(crate) serial: u32,
}

impl Slot {
    /// A reader has no subscriptions.
    pub(super) const OF_READER: Slot = Slot { index: u32::MAX, serial: 0 };
}

/// The queue.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    items: VecDeque<QueuedItem>,
    pub(super) events: usize,
    pub(super) bytes: usize,
    /// Bytes of messages of the connection's own.
    pub(super) message_bytes: usize,
    /// The first item is out in part.
    begun: bool,
    ping_waits: bool,
}

/// What was taken out.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RemovedItems {
    /// The client has everything up to here.
    pub(super) from: Position,
    pub(super) items: u32,
}

/// What a flush did.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Flushed {
    /// Everything is out.
    Empty,
    /// The socket takes no more for now.
    Blocked,
    /// The last there was to be is out.
    Finished,
    /// The client is gone.
    Gone,
}

/// What the flush tells of each item that is out.
pub(super) trait Sent {
    /// What a subscription says, now that its turn has come.
    fn write(&mut self, slot: Slot, ticket: u32) -> Written;
    /// An item is out.
    fn sent(&mut self, item: &OutboxItem);
}

impl Outbox {
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Bytes of all that waits, counted against its bounds or not.
    pub(super) fn total_bytes(&self) -> usize {
        self.items.iter().map(|queued| queued.bytes.len()).sum()
    }

    /// When the oldest of what waits was put there.
    pub(super) fn oldest_ms(&self) -> Option<u64> {
        self.items.front().map(|queued| queued.queued_ms)
    }

    pub(super) fn push(&mut self, queued: QueuedItem) {
        match queued.item {
            OutboxItem::Live { events, .. } => {
                self.events += events as usize;
                self.bytes += queued.bytes.len();
            }
            OutboxItem::Ping => {
                if self.ping_waits {
                    return;
                }
                self.ping_waits = true;
                // Before what waits, so that a slow client can answer in time; but not inside a
                // frame that is half out.
                self.items.insert(usize::from(self.begun), queued);
                return;
            }
            OutboxItem::Message => self.message_bytes += queued.bytes.len(),
            _ => {}
        }
        self.items.push_back(queued);
    }

    /// Notes that the first of what waits is out in part.
    pub(super) fn begin(&mut self) {
        self.begun = true;
    }

    /// Takes out what waits live for a subscription.
    pub(super) fn withdraw(&mut self, wanted: Slot) -> Option<RemovedItems> {
        let mut withdrawn: Option<RemovedItems> = None;
        let begun = usize::from(self.begun);
        let mut index = 0;
        let (mut events_out, mut bytes_out) = (0, 0);
        self.items.retain(|queued| {
            index += 1;
            match queued.item {
                OutboxItem::Live { slot, from, events, .. } if slot == wanted && index > begun => {
                    withdrawn.get_or_insert(RemovedItems { from, items: 0 }).items += 1;
                    events_out += events as usize;
                    bytes_out += queued.bytes.len();
                    false
                }
                _ => true,
            }
        });
        self.events -= events_out;
        self.bytes -= bytes_out;
        withdrawn
    }

    /// Takes out all that waits live. Returns from where on each subscription lacks something.
    pub(super) fn withdraw_all(&mut self) -> Vec<(Slot, Position)> {
        let mut lacking: Vec<(Slot, Position)> = Vec::new();
        for queued in self.items.iter().skip(usize::from(self.begun)) {
            if let OutboxItem::Live { slot, from, .. } = queued.item
                && !lacking.iter().any(|(known, _)| *known == slot)
            {
                lacking.push((slot, from));
            }
        }
        for (slot, _) in &lacking {
            self.withdraw(*slot);
        }
        lacking
    }

    /// Writes what the transport takes.
    pub(super) fn flush(&mut self, transport: &Transport, sent: &mut impl Sent) -> Flushed {
        while let Some(first) = self.items.front_mut() {
            if let OutboxItem::Turn { slot, ticket } = first.item {
                let queued_ms = first.queued_ms;
                let Written { bytes, again, then, happened, .. } = sent.write(slot, ticket);
                first.bytes = bytes;
                // Not counted against the bounds: the socket paces it.
                let (events, created_at_ms) = happened.unwrap_or_default();
                let events = u32::try_from(events).unwrap_or(u32::MAX);
                first.item = OutboxItem::Made { events, created_at_ms };
                if let Some(ticket) = again {
                    let item = OutboxItem::Turn { slot, ticket };
                    self.push(QueuedItem { bytes: Bytes::new(), item, queued_ms });
                }
                then.into_iter().for_each(|queued| self.push(queued));
                continue;
            }
            if first.bytes.is_empty() {
                // Of a subscription that had nothing to say, or an end without a word.
                let is_last = first.item == OutboxItem::Last;
                self.items.pop_front();
                if is_last {
                    return Flushed::Finished;
                }
                continue;
            }
            let written = if transport.takes_pieces() && self.items.len() > 1 {
                let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
                let mut count = 0;
                for (piece, queued) in pieces.iter_mut().zip(&self.items) {
                    if matches!(queued.item, OutboxItem::Turn { .. }) {
                        break;
                    }
                    *piece = IoSlice::new(&queued.bytes);
                    count += 1;
                }
                transport.write(&pieces[..count], &self.items[0].bytes)
            } else {
                let first = &self.items[0].bytes;
                transport.write(&[IoSlice::new(first)], first)
            };
            match written {
                Ok(count) => {
                    if self.advance(count, sent) {
                        return Flushed::Finished;
                    }
                }
                Err(Refused::Full) => return Flushed::Blocked,
                Err(Refused::Gone) => return Flushed::Gone,
            }
        }
        if self.items.capacity() > 8 {
            // An idle connection holds next to nothing.
            self.items = VecDeque::new();
        }
        Flushed::Empty
    }

    /// Takes away what was written. Returns whether that was the last there is to be.
    fn advance(&mut self, mut written: usize, sent: &mut impl Sent) -> bool {
        while written > 0 {
            let Some(first) = self.items.front_mut() else { return false };
            if written < first.bytes.len() {
                match first.item {
                    OutboxItem::Live { .. } => self.bytes -= written,
                    OutboxItem::Message => self.message_bytes -= written,
                    _ => {}
                }
                first.bytes.advance(written);
                self.begun = true;
                return false;
            }
            written -= first.bytes.len();
            self.begun = false;
            let Some(done) = self.items.pop_front() else { return false };
            match done.item {
                OutboxItem::Live { events, .. } => {
                    self.events -= events as usize;
                    self.bytes -= done.bytes.len();
                }
                OutboxItem::Message => self.message_bytes -= done.bytes.len(),
                OutboxItem::Ping => self.ping_waits = false,
                OutboxItem::Last => return true,
                _ => {}
            }
            sent.sent(&done.item);
        }
        false
    }
}
