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

#[cfg(test)]
pub(crate) mod clock;
mod command;
pub(crate) mod entities;
mod news;
pub(crate) mod query;
mod request;
pub(crate) mod stream;
mod table;

use std::sync::Arc;

use bytes::Bytes;

use tidewire_store::Position;

use crate::access::options::LiveOptions;
use crate::hub::Hub;
use crate::hub::audience::Member;
use crate::hub::connection::{Connection, Key, Subscription};
use crate::hub::fan_out::Hold;
use crate::hub::flush::Room;
use crate::hub::log_feed::Feed;
use crate::hub::outbox::Parcel;
use crate::hub::shard::Shard;
use entities::Interest;
use query::LiveQuery;

pub(crate) use command::KindCommand;
pub(in crate::hub) use news::{Cohort, Lane, News, look_together};
pub(crate) use request::SubscribeRequest;
pub(in crate::hub) use request::{Beside, Wanted};

/// What a subscription is of.
#[derive(Debug)]
pub(in crate::hub) enum Kind {
    /// A stream. Not boxed, nor is a table: each delivery reads it.
    Stream(Feed),
    /// Rows of a table.
    Table(Feed),
    Entities(Box<Interest>),
    Query(Box<LiveQuery>),
    #[cfg(test)]
    Clock(clock::Clock),
}

impl Kind {
    pub(in crate::hub) fn subject(&self) -> &dyn Subject {
        match self {
            Kind::Stream(feed) | Kind::Table(feed) => feed,
            Kind::Entities(interest) => &**interest,
            Kind::Query(query) => &**query,
            #[cfg(test)]
            Kind::Clock(clock) => clock,
        }
    }

    pub(in crate::hub) fn subject_mut(&mut self) -> &mut dyn Subject {
        match self {
            Kind::Stream(feed) | Kind::Table(feed) => feed,
            Kind::Entities(interest) => &mut **interest,
            Kind::Query(query) => &mut **query,
            #[cfg(test)]
            Kind::Clock(clock) => clock,
        }
    }

    /// What follows the log, stream or table.
    pub(in crate::hub) fn feed(&self) -> Option<&Feed> {
        if let Kind::Stream(feed) | Kind::Table(feed) = self { Some(feed) } else { None }
    }

    pub(in crate::hub) fn feed_mut(&mut self) -> Option<&mut Feed> {
        if let Kind::Stream(feed) | Kind::Table(feed) = self { Some(feed) } else { None }
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
}

/// Who on a shard follows what: for each kind that keeps followers of the same thing together, and its books.
#[derive(Debug)]
pub(in crate::hub) struct Rosters {
    pub(in crate::hub) entities: entities::Desk,
    pub(in crate::hub) queries: query::Board,
    #[cfg(test)]
    pub(in crate::hub) clock: crate::hub::audience::Group,
}

impl Rosters {
    /// Nobody follows anything, on a shard that stands at `position`.
    pub(in crate::hub) fn at(position: Position) -> Rosters {
        Rosters {
            entities: entities::Desk::default(),
            queries: query::Board::at(position),
            #[cfg(test)]
            clock: crate::hub::audience::Group::default(),
        }
    }
}

/// A connection is gone, and all its subscriptions have left: what else kinds keep of it goes.
pub(in crate::hub) fn forget(shard: &mut Shard, key: Key, connection: &Connection) {
    shard.forget_entities(key, connection);
}

/// What every kind can do.
pub(in crate::hub) trait Subject: std::fmt::Debug {
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
    fn hold(&mut self, parcel: Parcel, _: &LiveOptions) -> Hold {
        Hold::Not(parcel)
    }

    /// What it says now that its turn has come. It asked for that with a ticket.
    fn write(&mut self, about: &mut About<'_>, ticket: u32, room: &mut Room<'_>) -> Written;

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
    fn leave(&self, shard: &mut Shard, member: Member, query_id: &Arc<str>, leaving: Leaving);
}

/// What a kind may know and change of its subscription.
#[derive(Debug)]
pub(in crate::hub) struct About<'a> {
    pub(in crate::hub) query_id: &'a Arc<str>,
    pub(in crate::hub) announced: bool,
    pub(in crate::hub) sent: &'a mut Position,
    pub(in crate::hub) waiting: &'a mut u32,
}

/// What a subscription says when its turn has come.
#[derive(Debug, Default)]
pub(in crate::hub) struct Written {
    /// May be nothing.
    pub(in crate::hub) bytes: Bytes,
    /// It has another turn after what waits, with this ticket.
    pub(in crate::hub) again: Option<u32>,
    /// What comes after all that.
    pub(in crate::hub) then: Vec<Parcel>,
    /// [`Subject::go_on`] is to be asked.
    pub(in crate::hub) goes_on: bool,
    /// How many things the bytes tell that happened while it was live, and when the first did.
    pub(in crate::hub) happened: Option<(usize, i64)>,
}

/// What there is no room for.
#[derive(Debug, Clone, Copy)]
pub(in crate::hub) struct Lost {
    /// After this place, up to that one.
    pub(in crate::hub) from: Position,
    pub(in crate::hub) to: Position,
    /// Whether anything that waited was taken out of the outbox.
    pub(in crate::hub) withdrawn: bool,
}

/// What goes when a subscription does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::hub) enum Leaving {
    Alone,
    WithConnection,
}
