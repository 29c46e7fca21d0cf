//! A client that reads more slowly than things happen: what waits for it is bounded, and what does
//! not fit becomes a gap that says what is missing.
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
use super::outbox::{Cargo, Parcel, Slot};
use crate::access::options::LiveOptions;

impl Connection {
    /// Whether so much more may wait. A socket that takes everything is never over its bounds,
    /// however much comes at once.
    pub(super) fn has_room(&self, events: usize, bytes: usize, limits: &LiveOptions) -> bool {
        self.outbox.is_empty()
            || (self.outbox.events + events <= limits.queue_events_max
                && self.outbox.bytes + bytes <= limits.queue_bytes_max)
    }

    /// Queues events that happen, or what stands for them if too much waits already. Returns whether
    /// they were queued.
    pub(super) fn push_live(
        &mut self,
        slot: Slot,
        parcel: Parcel,
        limits: &LiveOptions,
        now_ms: u64,
    ) -> bool {
        let Cargo::Live { from, to, events, .. } = parcel.cargo else { return false };
        if !self.has_room(events as usize, parcel.bytes.len(), limits) {
            self.drop_waiting(slot, from, to, now_ms);
            return false;
        }
        self.queue_live(slot, Parcel { queued_ms: now_ms, ..parcel });
        true
    }

    /// Queues events that happen, where there is room.
    pub(super) fn queue_live(&mut self, slot: Slot, parcel: Parcel) {
        self.outbox.push(parcel);
        if let Some(subscription) = self.subscription(slot) {
            subscription.waiting += 1;
        }
    }

    /// Puts a gap in place of what waits for a subscription, and of what was to come after it.
    pub(super) fn drop_waiting(&mut self, slot: Slot, from: Position, to: Position, now_ms: u64) {
        let withdrawn = self.outbox.withdraw(slot);
        let Some(subscription) = self.subscription(slot) else { return };
        if withdrawn.is_none() && from == to {
            return;
        }
        subscription.waiting -= withdrawn.as_ref().map_or(0, |withdrawn| withdrawn.parcels);
        let Some(feed) = subscription.kind.feed_mut() else { return };
        let from = match (feed.gap, &withdrawn) {
            (Some((first, _)), _) => first,
            (None, Some(withdrawn)) => withdrawn.from,
            (None, None) => from,
        };
        feed.gapped = true;
        let begun = feed.gap.is_some();
        feed.gap = Some((from, to));
        if !begun {
            self.queue(Bytes::new(), Cargo::Gap(slot), now_ms);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use proptest::prelude::*;
    use tokio::sync::mpsc;

    use tidewire_store::{Epoch, Event};

    use super::super::audience::Manner;
    use super::super::connection::{Request, StartFrom};
    use super::super::flush::Departing;
    use super::super::frames::{Dialect, Envelope, Form};
    use super::super::outlet::{Outlet, ServerSent};
    use super::super::stats::Stats;
    use super::*;
    use crate::hub::log_feed::State;

    const SUBSCRIPTIONS: usize = 3;

    /// A connection of which the test is the other end.
    struct Slow {
        connection: Connection,
        body: mpsc::Receiver<Bytes>,
        slots: Vec<Slot>,
        sent: Vec<Position>,
        stats: Stats,
        got: String,
    }

    impl Slow {
        fn new() -> Slow {
            let (sender, body) = mpsc::channel(1);
            let outlet = Outlet::ServerSent(ServerSent { body: sender });
            let mut connection = Connection::new(1, crate::testing::facts("c"), outlet, 0);
            let mut slots = Vec::new();
            for name in 0..SUBSCRIPTIONS {
                let name: Arc<str> = name.to_string().into();
                let slot = connection.add(
                    Request {
                        query_id: Arc::clone(&name),
                        stream: Arc::clone(&name),
                        reach: crate::hub::lookup::Reach::everything(),
                        start: StartFrom::Now,
                        horizon: crate::hub::horizon::Horizon::default(),
                        link: None,
                        manner: Manner::default(),
                        patterns: None,
                    },
                    false,
                );
                let envelope = Envelope::new(&name, &name, Epoch::FIRST, 1_000, Form::Json);
                let feed = connection.feed(slot).expect("just added");
                feed.state = State::Live;
                feed.envelope = Some(envelope);
                slots.push(slot);
            }
            let sent = vec![Position::START; SUBSCRIPTIONS];
            Slow { connection, body, slots, sent, stats: Stats::default(), got: String::new() }
        }

        fn happens(&mut self, which: usize, position: u64, limits: &LiveOptions) {
            let (slot, position) = (self.slots[which], Position::new(position));
            let payload = Bytes::from_static(b"1");
            let event = Event { position, append_id: position, payload, row: None };
            let feed = self.connection.feed(slot).expect("there");
            let envelope = feed.envelope.clone().expect("known");
            let bytes = envelope.encode(Dialect::ServerSent, &[event], &mut None);
            let from = std::mem::replace(&mut self.sent[which], position);
            let cargo = Cargo::Live { slot, from, to: position, events: 1, created_at_ms: 0 };
            let parcel = Parcel { bytes, cargo, queued_ms: 0 };
            self.connection.push_live(slot, parcel, limits, 0);
        }

        /// The client reads some pieces, and the outbox gives what it can.
        fn reads(&mut self, pieces: usize) {
            for _ in 0..=pieces {
                let Connection { outbox, outlet, subscriptions, .. } = &mut self.connection;
                let mut departing = Departing {
                    subscriptions,
                    stats: &self.stats,
                    deflater: &mut None,
                    dialect: Dialect::ServerSent,
                    wall_ms: 0,
                    fresh: Vec::new(),
                };
                outbox.flush(outlet, &mut departing);
                if let Ok(piece) = self.body.try_recv() {
                    self.got.push_str(std::str::from_utf8(&piece).expect("text"));
                }
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
                prop_assert!(slow.connection.outbox.events <= queue_events_max);
                slow.reads(*pieces);
            }
            slow.reads(steps.len() * 2 + 10);
            for (which, happened) in happened.iter().enumerate() {
                let (told, gaps) = told(&slow.got, which);
                prop_assert!(told.is_sorted_by(|a, b| a < b), "{told:?}");
                for event in happened {
                    let in_gap = gaps.iter().any(|(from, to)| from < event && event <= to);
                    let sent = slow.got.contains(&format!("\"{which}\",\"offset\":\"0001_{event:016}\""));
                    prop_assert!(sent != in_gap, "event {} of {}: sent {}", event, which, sent);
                }
            }
            prop_assert!(slow.connection.outbox.is_empty());
            prop_assert_eq!(slow.connection.outbox.bytes, 0);
        }
    }
}
