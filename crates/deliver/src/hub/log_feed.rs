//! What a subscription to a stream has, be it to the stream itself or to a table's rows.
//!
//! - [`replay`]: what happened before it began, read from the store; [`join`]: the hand-over to what happens after
//! - [`unsorted`]: several streams over one SSE response, in the log's order

pub(in crate::hub) mod join;
pub(in crate::hub) mod replay;
pub(in crate::hub) mod unsorted;

use std::sync::Arc;

use bytes::BytesMut;

use tidewire_store::{Position, TABLE_PREFIX};

use super::audience::{Circle, Manner, Member};
use super::connection::{SessionLink, StartFrom, Subscription};
use super::flush::Room;
use super::frames::{self, Envelope};
use super::shard::Shard;
use super::subscribe::leave;
use crate::hub::horizon::Horizon;
use crate::hub::kinds::{About, Leaving, Lost, Subject, Written};
use crate::hub::lens::{Lens, PatternSeat};
use crate::hub::lookup::Reach;

/// A stream, or a table's rows, that a client wants to follow.
#[derive(Debug, Clone)]
pub(crate) struct StreamRequest {
    pub(crate) query_id: Arc<str>,
    pub(crate) stream: Arc<str>,
    /// Whose streams can be reached: a stream of another tenant is not there.
    pub(crate) reach: Reach,
    pub(crate) start: StartFrom,
    /// The log must have got this far first.
    pub(crate) horizon: Horizon,
    pub(crate) link: Option<SessionLink>,
    pub(crate) manner: Manner,
    /// Its places among the patterns of whoever asks.
    pub(crate) patterns: Option<PatternSeat>,
}

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
    pub(in crate::hub) fn new(request: StreamRequest) -> Feed {
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

    /// Whether it gets what happens, and nothing that it lost is yet to be fetched.
    pub(in crate::hub) fn is_whole(&self) -> bool {
        self.is_live() && !self.gapped
    }

    /// Those who get the same bytes, under a name.
    pub(in crate::hub) fn circle(&self, query_id: &Arc<str>) -> Circle {
        Circle::Named(Arc::clone(query_id), self.manner.clone())
    }

    /// The message of what was dropped, if it is yet to be told.
    fn take_gap(&mut self) -> Option<String> {
        let (from, to) = self.gap.take()?;
        Some(self.envelope.as_ref()?.gap(from, to))
    }
}

impl Subject for Feed {
    fn caught_up(&self, _: &Subscription, shard: &Shard) -> Option<Position> {
        (self.is_whole() && self.gap.is_none()).then_some(shard.position)
    }

    fn stream_id(&self) -> Option<Arc<str>> {
        Some(Arc::clone(&self.stream))
    }

    fn tables(&self) -> Vec<&str> {
        self.stream.strip_prefix(TABLE_PREFIX).into_iter().collect()
    }

    fn has_lost(&self) -> bool {
        self.gap.is_some()
    }

    /// The gap, which has grown until now with what was dropped after it.
    fn write(&mut self, _: &mut About<'_>, _: u32, room: &mut Room<'_>) -> Written {
        let mut bytes = BytesMut::new();
        if let Some(message) = self.take_gap() {
            frames::put(&mut bytes, room.dialect, message.as_bytes(), None, room.deflater);
        }
        Written { bytes: bytes.freeze(), ..Written::default() }
    }

    /// A gap stands for what was lost.
    fn lose(&mut self, lost: Lost) -> Option<u32> {
        if !lost.withdrawn && lost.from == lost.to {
            return None;
        }
        let begun = self.gap.is_some();
        let from = self.gap.map_or(lost.from, |(first, _)| first);
        self.gapped = true;
        self.gap = Some((from, lost.to));
        (!begun).then_some(0)
    }

    fn last_words(&mut self, _: &mut About<'_>) -> Vec<String> {
        self.take_gap().into_iter().collect()
    }

    fn leave(&self, shard: &mut Shard, member: Member, query_id: &Arc<str>, _: Leaving) {
        leave(&mut shard.audiences, &self.stream, &self.circle(query_id), member);
    }
}
