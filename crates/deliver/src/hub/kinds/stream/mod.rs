//! Streams: a subscription to one is a [`Feed`], as one to a table's rows is.
//!
//! - [`news`]: what happened to a stream; [`tell`]: what its followers are told of it
//! - [`reader`]: responses that follow one stream alone

pub(in crate::hub) mod news;
pub(crate) mod reader;
mod tell;

use std::sync::Arc;

use crate::hub::admit::Admission;
use crate::hub::audience::{Circle, Manner, Member};
use crate::hub::connection::{Key, SessionLink, StartFrom};
use crate::hub::horizon::Horizon;
use crate::hub::kinds::{Kind, Wanted};
use crate::hub::lens::PatternSeat;
use crate::hub::log_feed::Feed;
use crate::hub::lookup::Reach;
use crate::hub::outbox::Slot;
use crate::hub::shard::Shard;

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

impl Wanted for StreamRequest {
    fn query_id(&self) -> &Arc<str> {
        &self.query_id
    }

    fn link(&self) -> Option<SessionLink> {
        self.link
    }
}

impl StreamRequest {
    /// What its subscription is of, under its name.
    pub(in crate::hub) fn kind(self) -> Kind {
        match self.manner.to_table {
            true => Kind::Table(Feed::new(self)),
            false => Kind::Stream(Feed::new(self)),
        }
    }
}

impl Shard {
    /// Begins to follow a stream, whose past is yet to be read.
    pub(super) fn follow_stream(
        &mut self,
        key: Key,
        request: StreamRequest,
        admission: Admission,
    ) -> Option<Slot> {
        let Admission::Begins { renewed } = admission else { return None };
        let connection = self.connection(key)?;
        connection.left.retain(|(name, _)| *name != request.query_id);
        let stream = Arc::clone(&request.stream);
        let circle = Circle::Named(Arc::clone(&request.query_id), request.manner.clone());
        let named = (Arc::clone(&request.query_id), request.link);
        let slot = self.add(key, named, request.kind(), renewed)?;
        self.enter(&stream, circle, Member { key, slot });
        Some(slot)
    }
}
