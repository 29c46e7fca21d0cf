//! The kinds of subscription, and the seam between them and the hub.
//!
//! A subscription *is of* a [`Kind`]. The hub does what is the same for all: admission, large audiences in
//! slices, fairness, backpressure, progress and metrics. What only a kind can know it is asked for here:
//!
//! | when | what a kind is asked |
//! |---|---|
//! | a client wants one | [`SubscribeRequest`]: may it be had, is there room, and how does it begin |
//! | something happened | [`News`]: in which [`Lane`] it is told, and what one follower is told of it |
//! | the socket has room | [`Subject::write`], and [`Subject::go_on`] when the client has taken everything |
//! | there was no room | [`Subject::lose`]: what it does about the place it lost |
//! | it ends | [`Subject::last_words`] and [`Subject::leave`] |
//!
//! A kind is a folder here and an arm of each of the enums.
//! `clock`, which exists for tests alone, is the smallest there is: begin there when you add one.
//!
//! - `command`: what a shard is asked that concerns one kind alone
//! - `entities`: subscriptions to entities
//! - `news`: what happened, as those hear it whom it concerns
//! - `query`: live queries of a shard's connections
//! - `request`: what is asked for
//! - `stream`: subscriptions to streams
//! - `table`: subscriptions to the changes of a table

#[cfg(debug_assertions)]
pub mod clock;
mod command;
pub mod entities;
mod news;
pub mod query;
mod request;
pub mod stream;
mod table;

use std::sync::Arc;

use bytes::Bytes;

use tidewire_store::Position;

use crate::Hub;
use crate::audience::Follower;
use crate::connection::{Connection, Key, Subscription};
use crate::fan_out::PendingAction;
use crate::flush::WriteBudget;
use crate::log_feed::Feed;
use crate::outbox::QueuedItem;
use crate::shard::Shard;
use entities::EntityFollow;
use query::LiveQuery;
use tidewire_access::options::LiveOptions;

pub use command::KindCommand;
pub use news::{Cohort, Lane, News, look_together};
pub use request::SubscribeRequest;
pub use request::{KindRequest, SameName};

/// What a subscription is of.
#[derive(Debug)]
pub enum Kind {
    /// A stream. Not boxed, nor is a table: each delivery reads it.
    Stream(Feed),
    /// Rows of a table.
    Table(Feed),
    Entities(Box<EntityFollow>),
    Query(Box<LiveQuery>),
    #[cfg(debug_assertions)]
    Clock(clock::Clock),
}

impl Kind {
    pub fn subject(&self) -> &dyn Subject {
        match self {
            Kind::Stream(feed) | Kind::Table(feed) => feed,
            Kind::Entities(interest) => &**interest,
            Kind::Query(query) => &**query,
            #[cfg(debug_assertions)]
            Kind::Clock(clock) => clock,
        }
    }

    pub(crate) fn subject_mut(&mut self) -> &mut dyn Subject {
        match self {
            Kind::Stream(feed) | Kind::Table(feed) => feed,
            Kind::Entities(interest) => &mut **interest,
            Kind::Query(query) => &mut **query,
            #[cfg(debug_assertions)]
            Kind::Clock(clock) => clock,
        }
    }

    /// What follows the log, stream or table.
    pub(crate) fn feed(&self) -> Option<&Feed> {
        if let Kind::Stream(feed) | Kind::Table(feed) = self { Some(feed) } else { None }
    }

    pub(crate) fn feed_mut(&mut self) -> Option<&mut Feed> {
        if let Kind::Stream(feed) | Kind::Table(feed) = self { Some(feed) } else { None }
    }

    pub fn entities(&self) -> Option<&EntityFollow> {
        if let Kind::Entities(interest) = self { Some(interest) } else { None }
    }

    pub(crate) fn entities_mut(&mut self) -> Option<&mut EntityFollow> {
        if let Kind::Entities(interest) = self { Some(interest) } else { None }
    }

    pub fn query(&self) -> Option<&LiveQuery> {
        if let Kind::Query(query) = self { Some(query) } else { None }
    }

    pub(crate) fn query_mut(&mut self) -> Option<&mut LiveQuery> {
        if let Kind::Query(query) = self { Some(query) } else { None }
    }
}

/// Who on a shard follows what: for each kind that keeps followers of the same thing together, and its books.
#[derive(Debug)]
pub(crate) struct Rosters {
    pub entities: entities::ShardEntities,
    pub queries: query::QueryCohorts,
    #[cfg(debug_assertions)]
    pub clock: crate::audience::Group,
}

impl Rosters {
    /// Nobody follows anything, on a shard that stands at `position`.
    pub(crate) fn at(position: Position) -> Rosters {
        Rosters {
            entities: entities::ShardEntities::default(),
            queries: query::QueryCohorts::at(position),
            #[cfg(debug_assertions)]
            clock: crate::audience::Group::default(),
        }
    }
}

/// A connection is gone, and all its subscriptions have left: what else kinds keep of it goes.
pub fn forget(shard: &mut Shard, key: Key, connection: &Connection) {
    shard.forget_entities(key, connection);
}

/// What every kind can do.
pub trait Subject: std::fmt::Debug {
    /// Up to where its client has been told everything, or has it in its outbox. None if something is
    /// yet to be told.
    fn caught_up(&self, of: &Subscription, shard: &Shard) -> Option<Position>;

    /// What messages call its stream, if it has one.
    fn stream_id(&self) -> Option<Arc<str>> {
        None
    }

    /// The tables that it reads.
    fn tables(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Whether it keeps something back that the socket is to take, apart from what waits in the outbox.
    fn keeps_back(&self) -> bool {
        false
    }

    /// Whether its client is yet to be told that something was lost.
    fn has_lost(&self) -> bool {
        false
    }

    /// Whether something that happened is to wait here, and not in the outbox.
    fn hold(&mut self, queued: QueuedItem, _: &LiveOptions) -> PendingAction {
        PendingAction::Not(queued)
    }

    /// What it says now that its turn has come. It asked for that with a ticket.
    fn write(&mut self, about: &mut About<'_>, ticket: u32, room: &mut WriteBudget<'_>) -> Written;

    /// What was to be sent cannot be: too much waits. Returns the ticket with which it waits for its turn,
    /// if it does.
    fn lose(&mut self, lost: Lost) -> Option<u32>;

    /// It was put off until the client has taken what waits, and that is so. Returns whether there was
    /// something to do.
    fn go_on(&mut self, _: &Hub) -> bool {
        false
    }

    /// What its client is to hear before the word that it has ended.
    fn last_words(&mut self, _: &mut About<'_>) -> Vec<String> {
        Vec::new()
    }

    /// It is gone, alone or with its connection.
    fn leave(&self, shard: &mut Shard, follower: Follower, query_id: &Arc<str>, leaving: Detach);
}

/// What a kind may know and change of its subscription.
#[derive(Debug)]
pub struct About<'a> {
    pub query_id: &'a Arc<str>,
    pub(crate) announced: bool,
    pub sent: &'a mut Position,
    pub waiting: &'a mut u32,
}

/// What a subscription says when its turn has come.
#[derive(Debug, Default)]
pub struct Written {
    /// May be nothing.
    pub bytes: Bytes,
    /// It has another turn after what waits, with this ticket.
    pub again: Option<u32>,
    /// What comes after all that.
    pub then: Vec<QueuedItem>,
    /// [`Subject::go_on`] is to be asked.
    pub goes_on: bool,
    /// How many things the bytes tell that happened while it was live, and when the first did.
    pub happened: Option<(usize, i64)>,
}

/// What there is no room for.
#[derive(Debug, Clone, Copy)]
pub struct Lost {
    /// After this place, up to that one.
    pub from: Position,
    pub to: Position,
    /// Whether anything that waited was taken out of the outbox.
    pub(crate) withdrawn: bool,
}

/// What goes when a subscription does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detach {
    Alone,
    WithConnection,
}
