//! Permitted requests to subscribe, an arm for each kind. Whether there is room is checked here.

use std::sync::Arc;

use super::entities::EntityRequest;
use super::query::QueryRequest;
use crate::admit::Admission;
use crate::connection::{Connection, Key, SessionLink, Subscription};
use crate::log_feed::StreamRequest;
use crate::outbox::Slot;
use crate::shard::Shard;
use tidewire_access::options::Options;
use tidewire_access::problem::Problem;

/// A subscription that is asked for.
#[derive(Debug)]
pub enum SubscribeRequest {
    /// To a stream, or to a table's rows.
    Stream(StreamRequest),
    Entities(EntityRequest),
    /// Boxed, because it is large.
    Query(Box<QueryRequest>),
    #[cfg(debug_assertions)]
    Clock(super::clock::ClockRequest),
}

/// What a request for any kind can say of itself.
pub trait KindRequest {
    fn query_id(&self) -> &Arc<str>;

    /// The session that it is of.
    fn link(&self) -> Option<SessionLink> {
        None
    }

    /// Why it cannot be had over a response whose one cursor stands for everything.
    fn over_one_cursor(&self) -> Result<(), Problem> {
        Ok(())
    }

    /// Whether it adds to a subscription of its name, and does not take its place.
    fn adds_to(&self, _: &Subscription) -> bool {
        false
    }

    /// Whether there is room among those of its kind: in a subscription that it adds to, or when one that
    /// it takes the place of is gone.
    fn fits(&self, _: &Connection, _: SameName, _: &Options) -> Result<(), Problem> {
        Ok(())
    }
}

/// The subscription that has the name of one that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SameName {
    Nothing,
    AddsTo(Slot),
    InPlaceOf(Slot),
}

impl SameName {
    pub fn replaced(self) -> Option<Slot> {
        if let SameName::InPlaceOf(slot) = self { Some(slot) } else { None }
    }
}

impl SubscribeRequest {
    pub fn wanted(&self) -> &dyn KindRequest {
        match self {
            SubscribeRequest::Stream(request) => request,
            SubscribeRequest::Entities(request) => request,
            SubscribeRequest::Query(request) => &**request,
            #[cfg(debug_assertions)]
            SubscribeRequest::Clock(request) => request,
        }
    }

    /// Begins, now that it is admitted. Returns where the past is yet to be read from the log, which is
    /// done for all of a message together.
    pub fn begin(self, shard: &mut Shard, key: Key, admission: Admission) -> Option<Slot> {
        match self {
            SubscribeRequest::Stream(request) => {
                return shard.follow_stream(key, request, admission);
            }
            SubscribeRequest::Entities(request) => shard.follow_entities(key, request, admission),
            SubscribeRequest::Query(request) => shard.follow_query(key, *request, admission),
            #[cfg(debug_assertions)]
            SubscribeRequest::Clock(request) => shard.follow_clock(key, request, admission),
        }
        None
    }
}
