//! What a subscription to a stream has, be it to the stream itself or to a table's rows.
//!
//! - [`replay`]: what happened before it began, read from the store; [`join`]: the hand-over to what happens after
//! - [`unsorted`]: several streams over one SSE response, in the log's order

pub(crate) mod join;
pub(crate) mod replay;
pub(crate) mod unsorted;

use std::sync::Arc;

use bytes::BytesMut;

use tidewire_store::{Position, TABLE_PREFIX};

use super::audience::{EncodingGroup, Follower, ViewMode};
use super::connection::{SessionLink, StartFrom, Subscription};
use super::flush::WriteBudget;
use super::frames::{self, Envelope};
use super::shard::Shard;
use super::subscribe::leave;
use crate::kinds::{About, Detach, Lost, Subject, Written};
use crate::lookup::Reach;
use crate::min_offset::MinOffset;
use crate::row_filter::{PatternPermit, RowFilter};

/// A stream, or a table's rows, that a client wants to follow.
#[derive(Debug, Clone)]
pub struct StreamRequest {
    pub query_id: Arc<str>,
    pub stream: Arc<str>,
    /// Whose streams can be reached: a stream of another tenant is not there.
    pub reach: Reach,
    pub start: StartFrom,
    /// The log must have got this far first.
    pub min_offset: MinOffset,
    pub link: Option<SessionLink>,
    pub mode: ViewMode,
    /// Its places among the patterns of whoever asks.
    pub patterns: Option<PatternPermit>,
}

/// Where it stands in its stream, and how it is told of that.
#[derive(Debug)]
pub struct Feed {
    pub stream: Arc<str>,
    pub reach: Reach,
    pub start: StartFrom,
    pub min_offset: MinOffset,
    pub mode: ViewMode,
    _patterns: Option<PatternPermit>,
    /// What its view is seen through, kept for as long as it is.
    pub row_filter: Option<Arc<RowFilter>>,
    pub state: State,
    /// What was dropped and not yet told: after, up to.
    pub(crate) gap: Option<(Position, Position)>,
    /// A gap was told, and the client has not come back for it.
    pub(crate) gapped: bool,
    /// Known once its stream was looked at.
    pub(crate) envelope: Option<Envelope>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The store is read for it, in this replay.
    Replaying(u32),
    /// It gets what happens.
    Live,
}

impl Feed {
    /// One that the store is to be read for.
    pub(crate) fn new(request: StreamRequest) -> Feed {
        Feed {
            stream: request.stream,
            reach: request.reach,
            start: request.start,
            min_offset: request.min_offset,
            mode: request.mode,
            _patterns: request.patterns,
            row_filter: None,
            state: State::Replaying(0),
            gap: None,
            gapped: false,
            envelope: None,
        }
    }

    pub(crate) fn is_live(&self) -> bool {
        self.state == State::Live
    }

    /// Whether it gets what happens, and nothing that it lost is yet to be fetched.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_live() && !self.gapped
    }

    /// Those who get the same bytes, under a name.
    pub(crate) fn encoding_group(&self, query_id: &Arc<str>) -> EncodingGroup {
        EncodingGroup::Named(Arc::clone(query_id), self.mode.clone())
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
    fn write(&mut self, _: &mut About<'_>, _: u32, room: &mut WriteBudget<'_>) -> Written {
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

    fn leave(&self, shard: &mut Shard, follower: Follower, query_id: &Arc<str>, _: Detach) {
        leave(&mut shard.audiences, &self.stream, &self.encoding_group(query_id), follower);
    }
}
