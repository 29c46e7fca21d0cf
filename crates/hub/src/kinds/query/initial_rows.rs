//! A client that reads more slowly than its queries change. What waits for a query is given up, and when
//! the client has taken what was before it, it gets all rows anew.
//!
//! ```text
//!   outbox   [ a1 ][ b1 ][ a2 ][ a3 ]     a4 does not fit: a2 and a3 are given up
//!   outbox   [ a1 ][ b1 ][ fresh a ]      when its turn comes, the query engine is asked for a's rows
//! ```
//!
//! Rows that come while too much waits, or while those of another result go out in pieces, are given up
//! as well, and asked for one result after the other when the client has taken all of it: whatever a
//! client follows and does not read, what is held for it is one result and a queue.

use crate::connection::Connection;
use crate::fan_out::PendingAction;
use crate::outbox::{OutboxItem, QueuedItem, Slot};
use tidewire_access::options::LiveOptions;

/// The ticket of a query that lost its place: when its turn comes, all rows are asked for. Any other is
/// the number of a result whose rows go out in pieces.
pub(super) const ASK_AGAIN: u32 = 0;

impl super::LiveQuery {
    /// Keeps a change while rows go out, for which it has to wait.
    pub(super) fn hold_while_rows_go_out(
        &mut self,
        queued: QueuedItem,
        limits: &LiveOptions,
    ) -> PendingAction {
        let (Some(_), OutboxItem::Live { events, .. }) = (&self.pieces, queued.item) else {
            return PendingAction::Not(queued);
        };
        let (events, bytes) =
            (self.held_events + events as usize, self.held_bytes + queued.bytes.len());
        if events > limits.queue_events_max || bytes > limits.queue_bytes_max {
            return PendingAction::Full;
        }
        (self.held_events, self.held_bytes) = (events, bytes);
        self.held.push(queued);
        PendingAction::Held
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
            self.postponed.push_back(slot);
        }
    }
}
