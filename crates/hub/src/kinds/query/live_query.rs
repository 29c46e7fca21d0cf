//! What a subscription to a live query has besides its name.

use std::sync::Arc;

use tidewire_query::{QueryId, Subscriber};

use super::begin::Pieces;
use crate::kinds::query::engine::{Counts, QuerySeats};
use crate::outbox::QueuedItem;

/// The part of a subscription that only one to a live query has.
#[derive(Debug)]
pub struct LiveQuery {
    pub(super) who: Subscriber,
    pub(super) live_id: Arc<str>,
    /// Known once it has begun.
    pub(super) query: Option<QueryId>,
    /// Its client has rows, which those that come take the place of.
    pub(super) has_rows: bool,
    /// It gets what happens. Not so before its first rows, and after it lost something.
    pub(super) begun: bool,
    /// Something was told whose offset is yet to be.
    pub(super) unsettled: bool,
    /// A result that goes out in pieces.
    pub(super) pieces: Option<Pieces>,
    /// How many results it was given: a piece of an earlier one is not sent any more.
    pub(super) results: u32,
    /// What happened while the pieces go out.
    pub(super) held: Vec<QueuedItem>,
    pub(super) held_events: usize,
    pub(super) held_bytes: usize,
    /// The query engine has ended it.
    pub(super) ended: bool,
    /// The tables that it reads.
    pub tables: Box<[Box<str>]>,
    /// What the list of live queries says of it.
    pub(super) counts: Arc<Counts>,
    _seats: QuerySeats,
}

impl LiveQuery {
    pub fn new(
        who: Subscriber,
        live_id: Arc<str>,
        has_rows: bool,
        seats: QuerySeats,
        counts: Arc<Counts>,
    ) -> LiveQuery {
        LiveQuery {
            who,
            live_id,
            query: None,
            has_rows,
            begun: false,
            unsettled: false,
            pieces: None,
            results: 0,
            held: Vec::new(),
            held_events: 0,
            held_bytes: 0,
            ended: false,
            tables: Box::default(),
            counts,
            _seats: seats,
        }
    }

    /// Whether everything that the query engine has told of it was sent, or stands in the outbox, and is settled.
    pub(super) fn has_all(&self) -> bool {
        self.begun && !self.unsettled && self.pieces.is_none() && self.held.is_empty()
    }

    /// Whether rows of it are on their way, and kept for that.
    pub(crate) fn goes_out(&self) -> bool {
        self.pieces.is_some()
    }

    /// Gives up what was to be sent.
    pub(super) fn give_up(&mut self) {
        self.pieces = None;
        self.held = Vec::new();
        (self.held_events, self.held_bytes) = (0, 0);
    }
}
