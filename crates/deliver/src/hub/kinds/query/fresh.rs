//! A client that reads more slowly than its queries change. What waits for a query is given up, and when
//! the client has taken what was before it, it gets all rows anew.
//!
//! ```text
//!   outbox   [ a1 ][ b1 ][ a2 ][ a3 ]     a4 does not fit: a2 and a3 are given up
//!   outbox   [ a1 ][ b1 ][ fresh a ]      when its turn comes, the desk is asked for a's rows
//! ```
//!
//! Rows that come while too much waits, or while those of another result go out in pieces, are given up
//! as well, and asked for one result after the other when the client has taken all of it: whatever a
//! client follows and does not read, what is held for it is one result and a queue.

use bytes::Bytes;

use crate::access::options::LiveOptions;
use crate::hub::audience::Member;
use crate::hub::connection::{Connection, Key};
use crate::hub::kinds::query::engine::Order;
use crate::hub::outbox::{Cargo, Parcel, Slot};
use crate::hub::shard::Shard;
use crate::hub::stats::add;

impl Shard {
    /// Queues a change, holds it while rows go out, or gives up.
    pub(super) fn send_change(&mut self, member: Member, parcel: Parcel) {
        let (key, slot, now_ms) = (member.key, member.slot, self.now_ms);
        let limits = &self.hub.options.live;
        let Some(connection) = self.connections.get_mut(key.index) else { return };
        let Cargo::Live { events, .. } = parcel.cargo else { return };
        let bytes = parcel.bytes.len();
        let fits = connection.has_room(events as usize, bytes, limits);
        let query = connection.subscription(slot).and_then(|s| s.kind.query_mut());
        let Some(query) = query else { return };
        if query.pieces.is_some() {
            if query.has_room(events as usize, bytes, limits) {
                query.held_events += events as usize;
                query.held_bytes += bytes;
                query.held.push(parcel);
                return;
            }
        } else if fits {
            connection.queue_live(slot, parcel);
            return self.touch(key.index);
        }
        add(&self.stats.gaps, 1);
        connection.lose_query(slot, now_ms);
        self.touch(key.index);
    }

    /// Asks for all rows of those whose turn has come.
    pub(in crate::hub) fn ask_again(&mut self, key: Key, slots: Vec<Slot>) {
        for slot in slots {
            let connection = self.connection(key);
            let subscription = connection.and_then(|c| c.subscription(slot));
            if let Some(query) = subscription.and_then(|s| s.kind.query()) {
                let who = query.who;
                self.hub.queries.order(Order::Again(who));
            }
        }
    }
}

impl super::LiveQuery {
    fn has_room(&self, events: usize, bytes: usize, limits: &LiveOptions) -> bool {
        self.held_events + events <= limits.queue_events_max
            && self.held_bytes + bytes <= limits.queue_bytes_max
    }
}

impl Connection {
    /// Whether the rows of a result have to wait for others to go out.
    pub(super) fn is_crowded(&self, slot: Slot, in_pieces: bool, bytes_max: usize) -> bool {
        let others = self.slots().filter(|(other, _)| *other != slot);
        let mut queries = others.filter_map(|(_, subscription)| subscription.kind.query());
        (in_pieces && queries.any(|query| query.pieces.is_some()))
            || self.outbox.total_bytes() > bytes_max
    }

    /// Has the rows of a result asked for later. `reset` if they take the place of others.
    pub(super) fn postpone(&mut self, slot: Slot, reset: bool) {
        let query = self.subscription(slot).and_then(|s| s.kind.query_mut());
        let Some(query) = query else { return };
        query.give_up();
        query.begun = false;
        query.has_rows |= reset;
        if !self.postponed.contains(&slot) {
            self.postponed.push(slot);
        }
    }

    /// The next query whose rows are to be asked for, now that nothing waits.
    pub(in crate::hub) fn next_postponed(&mut self) -> Option<Slot> {
        while !self.postponed.is_empty() {
            let slot = self.postponed.remove(0);
            let query = self.subscription(slot).and_then(|s| s.kind.query());
            if query.is_some_and(|query| !query.begun) {
                return Some(slot);
            }
        }
        None
    }

    /// Gives up what waits for a query, and has its rows asked for when the client has taken the rest.
    pub(in crate::hub) fn lose_query(&mut self, slot: Slot, now_ms: u64) {
        let withdrawn = self.outbox.withdraw(slot).map_or(0, |withdrawn| withdrawn.parcels);
        let Some(subscription) = self.subscription(slot) else { return };
        subscription.waiting = subscription.waiting.saturating_sub(withdrawn);
        let Some(query) = subscription.kind.query_mut() else { return };
        query.give_up();
        if std::mem::replace(&mut query.begun, false) {
            self.queue(Bytes::new(), Cargo::Fresh(slot), now_ms);
        }
    }
}
