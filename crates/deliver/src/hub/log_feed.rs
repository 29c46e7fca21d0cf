//! What a subscription to a stream has, be it to the stream itself or to a table's rows.
//!
//! - [`replay`]: what happened before it began, read from the store; [`join`]: the hand-over to what happens after
//! - [`unsorted`]: several streams over one SSE response, in the log's order

pub(in crate::hub) mod join;
pub(in crate::hub) mod replay;
pub(in crate::hub) mod unsorted;

use std::sync::Arc;

use tidewire_store::Position;

use super::audience::{Circle, Manner};
use super::connection::{Request, StartFrom};
use super::frames::Envelope;
use crate::hub::horizon::Horizon;
use crate::hub::lens::{Lens, PatternSeat};
use crate::hub::lookup::Reach;

/// Where it stands in its stream, and how it is told of that.
#[derive(Debug)]
pub(in crate::hub) struct Feed {
    pub(in crate::hub) stream: Arc<str>,
    pub(in crate::hub) reach: Reach,
    pub(in crate::hub) start: StartFrom,
    pub(in crate::hub) horizon: Horizon,
    pub(in crate::hub) manner: Manner,
    _patterns: Option<PatternSeat>,
    /// What its view is seen through, kept for as long as it is.
    pub(in crate::hub) lens: Option<Arc<Lens>>,
    pub(in crate::hub) state: State,
    /// What was dropped and not yet told: after, up to.
    pub(in crate::hub) gap: Option<(Position, Position)>,
    /// A gap was told, and the client has not come back for it.
    pub(in crate::hub) gapped: bool,
    /// Known once its stream was looked at.
    pub(in crate::hub) envelope: Option<Envelope>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::hub) enum State {
    /// The store is read for it, in this replay.
    Replaying(u32),
    /// It gets what happens.
    Live,
}

impl Feed {
    /// One that the store is to be read for.
    pub(in crate::hub) fn new(request: Request) -> Feed {
        Feed {
            stream: request.stream,
            reach: request.reach,
            start: request.start,
            horizon: request.horizon,
            manner: request.manner,
            _patterns: request.patterns,
            lens: None,
            state: State::Replaying(0),
            gap: None,
            gapped: false,
            envelope: None,
        }
    }

    pub(in crate::hub) fn is_live(&self) -> bool {
        self.state == State::Live
    }

    /// Those who get the same bytes, under a name.
    pub(in crate::hub) fn circle(&self, query_id: &Arc<str>) -> Circle {
        Circle::Named(Arc::clone(query_id), self.manner.clone())
    }

    /// The message of what was dropped, if it is yet to be told.
    pub(in crate::hub) fn take_gap(&mut self) -> Option<String> {
        let (from, to) = self.gap.take()?;
        Some(self.envelope.as_ref()?.gap(from, to))
    }
}
