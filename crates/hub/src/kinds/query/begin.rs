//! The rows of a result on their way to a client: the first with `subscription_created`, the others in
//! pieces, each when the socket has taken the last. What happens meanwhile is held until they are out.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use tidewire_query::{PlanName, RowText};
use tidewire_store::Position;

use crate::announce::Announcement;
use crate::audience::Follower;
use crate::flush::WriteBudget;
use crate::frames::put;
use crate::kinds::query::LiveQuery;
use crate::kinds::query::engine::{Compiled, piece};
use crate::kinds::{About, Written};
use crate::messages::{CreatedOf, InitialBatch, Json};
use crate::outbox::{OutboxItem, QueuedItem};
use crate::shard::Shard;

/// Rows that are yet to be sent.
#[derive(Debug)]
pub(super) struct Pieces {
    rows: Arc<[RowText]>,
    /// Those before are out.
    next: usize,
    part: usize,
}

impl Pieces {
    /// Those after the first so many, which are out.
    pub(super) fn after(rows: Arc<[RowText]>, next: usize) -> Pieces {
        Pieces { rows, next, part: 1 }
    }
}

/// A result that begins.
#[derive(Debug)]
pub(super) struct Beginning<'a> {
    pub(super) compiled: &'a Compiled,
    pub(super) plan: PlanName,
    /// None if the client goes on from what it has.
    pub(super) rows: Option<&'a Arc<[RowText]>>,
    pub(super) at: Option<Position>,
    pub(super) reset: bool,
}

impl Shard {
    /// Gives someone all rows of a result, or has them go on without.
    pub(super) fn begin_result(&mut self, follower: Follower, begins: &Beginning<'_>) {
        let now_ms = self.now_ms;
        let connection = self.connections.get_mut(follower.key.index);
        let connection = connection.filter(|c| c.serial == follower.key.serial);
        let Some(connection) = connection else { return };
        // What waits is of a result that this one takes the place of.
        if begins.rows.is_some()
            && let Some(withdrawn) = connection.outbox.withdraw(follower.slot)
            && let Some(subscription) = connection.subscription(follower.slot)
        {
            subscription.waiting = subscription.waiting.saturating_sub(withdrawn.items);
        }
        let rows = begins.rows.map(|rows| (piece(rows), rows));
        let more = rows.as_ref().is_some_and(|((_, count), rows)| *count < rows.len());
        let bytes_max = self.hub.options.live.queue_bytes_max;
        if rows.is_some() && connection.is_crowded(follower.slot, more, bytes_max) {
            return connection.postpone(follower.slot, begins.reset);
        }
        let Some(subscription) = connection.subscription(follower.slot) else { return };
        let Some(query) = subscription.kind.query_mut() else { return };
        query.give_up();
        query.begun = true;
        // Who goes on is told where that ends.
        query.unsettled = begins.at.is_none() || begins.rows.is_none();
        let reset = begins.rows.is_some() && (begins.reset || query.has_rows);
        query.has_rows = true;
        query.results += 1;
        let results = query.results;
        if let (Some(((_, next), rows)), true) = (&rows, more) {
            query.pieces = Some(Pieces::after(Arc::clone(rows), *next));
        }
        let of = CreatedOf::Query {
            etag: &begins.compiled.etag,
            columns: Json::from(&*begins.compiled.columns),
            plan: begins.plan.as_str(),
            more,
            row_count: rows.as_ref().map(|(_, rows)| rows.len()),
            initial_results: rows.as_ref().map(|((text, _), _)| Json::from(&**text)),
        };
        let Follower { key, slot } = follower;
        self.announce(key, vec![Announcement { slot, after: begins.at, reset, of }]);
        if more && let Some(connection) = self.connection(key) {
            let item = OutboxItem::Turn { slot, ticket: results };
            connection.queue(Bytes::new(), item, now_ms);
        }
    }
}

impl LiveQuery {
    /// The next rows of a result. Nothing if another has taken its place.
    pub(super) fn next_piece(
        &mut self,
        about: &mut About<'_>,
        result: u32,
        room: &mut WriteBudget<'_>,
    ) -> Written {
        let current = self.results == result;
        let Some(pieces) = self.pieces.as_mut().filter(|_| current) else {
            return Written::default();
        };
        let (rows, count) = piece(&pieces.rows[pieces.next..]);
        pieces.next += count;
        let (part, more) = (pieces.part, pieces.next < pieces.rows.len());
        pieces.part += 1;
        let mut then = Vec::new();
        if !more {
            then = std::mem::take(&mut self.held);
            self.give_up();
        }
        let is_live = |queued: &&QueuedItem| matches!(queued.item, OutboxItem::Live { .. });
        let changes = then.iter().filter(is_live).count();
        *about.waiting += u32::try_from(changes).unwrap_or(u32::MAX);
        let rows = Json::from(&*rows);
        let message = InitialBatch { query_id: about.query_id, part, more, rows }.written();
        let mut bytes = BytesMut::new();
        put(&mut bytes, room.dialect, message.as_bytes(), None, room.deflater);
        let again = more.then_some(result);
        Written { bytes: bytes.freeze(), again, then, ..Written::default() }
    }
}
