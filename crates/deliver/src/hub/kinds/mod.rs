//! The kinds of subscription: what each has besides its name.

pub(crate) mod entities;
pub(crate) mod query;
pub(crate) mod stream;

use std::sync::Arc;

use crate::hub::log_feed::Feed;
use entities::{Interest, own_name};
use query::LiveQuery;

/// What a subscription is of.
#[derive(Debug)]
pub(in crate::hub) enum Kind {
    /// A stream. Not boxed, nor is a table: each delivery reads it.
    Stream(Feed),
    /// Rows of a table.
    Table(Feed),
    Entities(Box<Interest>),
    Query(Box<LiveQuery>),
}

impl Kind {
    /// What follows the log, stream or table.
    pub(in crate::hub) fn feed(&self) -> Option<&Feed> {
        match self {
            Kind::Stream(feed) | Kind::Table(feed) => Some(feed),
            Kind::Entities(_) | Kind::Query(_) => None,
        }
    }

    pub(in crate::hub) fn feed_mut(&mut self) -> Option<&mut Feed> {
        match self {
            Kind::Stream(feed) | Kind::Table(feed) => Some(feed),
            Kind::Entities(_) | Kind::Query(_) => None,
        }
    }

    pub(in crate::hub) fn entities(&self) -> Option<&Interest> {
        if let Kind::Entities(interest) = self { Some(interest) } else { None }
    }

    pub(in crate::hub) fn entities_mut(&mut self) -> Option<&mut Interest> {
        if let Kind::Entities(interest) = self { Some(interest) } else { None }
    }

    pub(in crate::hub) fn query(&self) -> Option<&LiveQuery> {
        if let Kind::Query(query) = self { Some(query) } else { None }
    }

    pub(in crate::hub) fn query_mut(&mut self) -> Option<&mut LiveQuery> {
        if let Kind::Query(query) = self { Some(query) } else { None }
    }

    /// Whether it gets what happens, and nothing that it missed is yet to be fetched.
    pub(in crate::hub) fn is_live(&self) -> bool {
        match self {
            Kind::Stream(feed) | Kind::Table(feed) => feed.is_live() && !feed.gapped,
            Kind::Entities(interest) => interest.live,
            // Of what it has been told it says itself.
            Kind::Query(_) => true,
        }
    }

    /// Whether something was dropped that is yet to be told.
    pub(in crate::hub) fn has_gap(&self) -> bool {
        self.feed().is_some_and(|feed| feed.gap.is_some())
    }

    /// What messages call its stream: of entities the name of their code, of a query nothing.
    pub(in crate::hub) fn stream_id(&self) -> Option<Arc<str>> {
        match self {
            Kind::Stream(feed) | Kind::Table(feed) => Some(Arc::clone(&feed.stream)),
            Kind::Entities(interest) => Some(own_name(&interest.code)),
            Kind::Query(_) => None,
        }
    }
}
