//! A client that reads more slowly than things happen: what waits for it is bounded, and a subscription
//! for which there is no room loses its place. What it does about that is its kind's to say: of a stream or
//! a table what does not fit becomes a gap that says what is missing.
//!
//! ```text
//!   outbox   [ a1-a5 ][ b1 ][ a6 ][ a7 ]      a8 does not fit: a6 and a7, which wait, are dropped
//!   outbox   [ a1-a5 ][ b1 ][ gap a5..a8 ]    (a1-a5 is half out, and stays)
//! ```
//!
//! An SSE connection is not told of gaps: its shard sends it back to the store (`fan_out`).
//!
//! The gap's bytes are made when its turn comes: until then it grows with what is dropped after it.

use bytes::Bytes;

use tidewire_store::Position;

use super::connection::Connection;
use super::outbox::{OutboxItem, QueuedItem, Slot};
use crate::kinds::Lost;
use tidewire_access::options::LiveOptions;

impl Connection {
    /// Whether so much more may wait. A socket that takes everything is never over its bounds,
    /// however much comes at once.
    pub(super) fn has_room(&self, events: usize, bytes: usize, limits: &LiveOptions) -> bool {
        self.outbox.is_empty()
            || (self.outbox.events + events <= limits.queue_events_max
                && self.outbox.bytes + bytes <= limits.queue_bytes_max)
    }

    /// Queues events that happen, where there is room.
    pub(super) fn queue_live(&mut self, slot: Slot, queued: QueuedItem) {
        self.outbox.push(queued);
        if let Some(subscription) = self.subscription(slot) {
            subscription.waiting += 1;
        }
    }

    /// Has a subscription lose its place, for what was to come between two places: what waits for it is
    /// taken out, and what stands for all that is its kind's to say.
    pub(super) fn lose(&mut self, slot: Slot, (from, to): (Position, Position), now_ms: u64) {
        let withdrawn = self.outbox.withdraw(slot);
        let Some(subscription) = self.subscription(slot) else { return };
        let lost = Lost {
            from: withdrawn.as_ref().map_or(from, |withdrawn| withdrawn.from),
            to,
            withdrawn: withdrawn.is_some(),
        };
        let items = withdrawn.map_or(0, |withdrawn| withdrawn.items);
        subscription.waiting = subscription.waiting.saturating_sub(items);
        if let Some(ticket) = subscription.kind.subject_mut().lose(lost) {
            self.queue(Bytes::new(), OutboxItem::Turn { slot, ticket }, now_ms);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use proptest::prelude::*;

    use tidewire_store::{Epoch, Event};

    use super::super::audience::ViewMode;
    use super::super::connection::StartFrom;
    use super::super::frames::{Dialect, Envelope, Form};
    use super::super::slow_client::SlowClient;
    use super::*;
    use crate::log_feed::State;
    use crate::log_feed::StreamRequest;

    const SUBSCRIPTIONS: usize = 3;

    /// A client that follows some streams.
    struct Slow {
        client: SlowClient,
        slots: Vec<Slot>,
        sent: Vec<Position>,
    }

    impl Slow {
        fn new() -> Slow {
            let mut client = SlowClient::new();
            let connection = &mut client.connection;
            let mut slots = Vec::new();
            for name in 0..SUBSCRIPTIONS {
                let name: Arc<str> = name.to_string().into();
                let request = StreamRequest {
                    query_id: Arc::clone(&name),
                    stream: Arc::clone(&name),
                    reach: crate::lookup::Reach::everything(),
                    start: StartFrom::Now,
                    min_offset: crate::min_offset::MinOffset::default(),
                    link: None,
                    mode: ViewMode::default(),
                    patterns: None,
                };
                let slot = connection.put(Arc::clone(&name), None, request.kind(), false);
                let envelope = Envelope::new(&name, &name, Epoch::FIRST, 1_000, Form::Json);
                let feed = connection.feed(slot).expect("just added");
                feed.state = State::Live;
                feed.envelope = Some(envelope);
                slots.push(slot);
            }
            let sent = vec![Position::START; SUBSCRIPTIONS];
            Slow { client, slots, sent }
        }

        fn happens(&mut self, which: usize, position: u64, limits: &LiveOptions) {
            let (slot, position) = (self.slots[which], Position::new(position));
            let payload = Bytes::from_static(b"1");
            let event = Event { position, append_id: position, payload, row: None };
            let feed = self.client.connection.feed(slot).expect("there");
            let envelope = feed.envelope.clone().expect("known");
            let bytes = envelope.encode(Dialect::ServerSent, &[event], &mut None);
            let from = std::mem::replace(&mut self.sent[which], position);
            let item = OutboxItem::Live { slot, from, to: position, events: 1, created_at_ms: 0 };
            let queued = QueuedItem { bytes, item, queued_ms: 0 };
            if self.client.connection.has_room(1, queued.bytes.len(), limits) {
                self.client.connection.queue_live(slot, queued);
            } else {
                self.client.connection.lose(slot, (from, position), 0);
            }
        }
    }

    /// What a subscription was told, one number for each event or gap's end; and what was missing.
    fn told(got: &str, which: usize) -> (Vec<u64>, BTreeSet<(u64, u64)>) {
        let number = |value: &serde_json::Value| -> u64 {
            value.as_str().and_then(|text| text.get(5..)?.parse().ok()).expect("an offset")
        };
        let (mut events, mut gaps) = (Vec::new(), BTreeSet::new());
        for line in got.lines().filter_map(|line| line.strip_prefix("data: ")) {
            let message: serde_json::Value = serde_json::from_str(line).expect("JSON");
            if message["query_id"].as_str() != Some(which.to_string().as_str()) {
                continue;
            }
            if message["type"] == "gap" {
                gaps.insert((number(&message["from"]), number(&message["to"])));
                events.push(number(&message["to"]));
            } else {
                events.push(number(&message["offset"]));
            }
        }
        (events, gaps)
    }

    proptest! {
        /// Invariant 5, for one connection: what waits is bounded. Invariant 3, for one connection:
        /// every event arrives once and in order, or lies in a gap that was told in its place.
        #[test]
        fn what_is_not_sent_lies_in_a_gap(
            steps in proptest::collection::vec((0..SUBSCRIPTIONS, 0usize..4), 1..200),
            queue_events_max in 1usize..8,
        ) {
            let limits = LiveOptions { queue_events_max, ..LiveOptions::default() };
            let mut slow = Slow::new();
            let mut happened = vec![Vec::new(); SUBSCRIPTIONS];
            for (position, (which, pieces)) in (1u64..).zip(&steps) {
                slow.happens(*which, position, &limits);
                happened[*which].push(position);
                prop_assert!(slow.client.connection.outbox.events <= queue_events_max);
                slow.client.reads(*pieces);
            }
            slow.client.reads(steps.len() * 2 + 10);
            for (which, happened) in happened.iter().enumerate() {
                let (told, gaps) = told(&slow.client.got, which);
                prop_assert!(told.is_sorted_by(|a, b| a < b), "{told:?}");
                for event in happened {
                    let in_gap = gaps.iter().any(|(from, to)| from < event && event <= to);
                    let sent = slow.client.got.contains(&format!("\"{which}\",\"offset\":\"0001_{event:016}\""));
                    prop_assert!(sent != in_gap, "event {} of {}: sent {}", event, which, sent);
                }
            }
            prop_assert!(slow.client.connection.outbox.is_empty());
            prop_assert_eq!(slow.client.connection.outbox.bytes, 0);
        }
    }
}
