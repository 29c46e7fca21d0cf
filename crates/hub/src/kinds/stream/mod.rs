//! Streams: a subscription to one is a [`Feed`], as one to a table's rows is.
//!
//! - [`news`]: what happened to a stream; [`tell`]: what its followers are told of it
//! - [`reader`]: responses that follow one stream alone

pub mod news;
pub mod reader;
mod tell;

use std::sync::Arc;

use crate::admit::Admission;
use crate::audience::{EncodingGroup, Follower};
use crate::connection::{Key, SessionLink};
use crate::kinds::{Kind, KindRequest};
use crate::log_feed::{Feed, StreamRequest};
use crate::outbox::Slot;
use crate::shard::Shard;

impl KindRequest for StreamRequest {
    fn query_id(&self) -> &Arc<str> {
        &self.query_id
    }

    fn link(&self) -> Option<SessionLink> {
        self.link
    }
}

impl StreamRequest {
    /// What its subscription is of, under its name.
    pub fn kind(self) -> Kind {
        match self.mode.to_table {
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
        let encoding_group =
            EncodingGroup::Named(Arc::clone(&request.query_id), request.mode.clone());
        let named = (Arc::clone(&request.query_id), request.link);
        let slot = self.add(key, named, request.kind(), renewed)?;
        self.enter(&stream, encoding_group, Follower { key, slot });
        Some(slot)
    }
}
