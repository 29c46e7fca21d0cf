//! Live queries of a shard's connections: who follows which, and what each is told.
//!
//! ```text
//!   sight of the desk ──► board (members by query) ──► outbox ──► change, when the socket takes it
//! ```
//!
//! A live query is a subscription among a connection's others, with a name and a place of its own. What
//! it has besides is a [`LiveQuery`]. The desk says everything of all queries; everything that a client
//! hears is said here, in order ([`hear`]). A large result goes out in pieces ([`begin`]), and what a
//! slow client has no room for is given up for all rows anew ([`fresh`]): there are no gaps.

mod begin;
pub(crate) mod engine;
mod fresh;
mod hear;
mod live_query;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use tidewire_query::{QueryId, Subscriber};
use tidewire_store::{LiveQueryRow, Position};

use crate::hub::admit::{Admission, Asked};
use crate::hub::audience::Member;
use crate::hub::connection::{Connection, Key};
use crate::hub::kinds::Kind;
use crate::hub::kinds::query::engine::{Compiled, Order, QuerySeats};
use crate::hub::shard::Shard;
use crate::hub::stats::add;

pub(in crate::hub) use begin::Piece;
pub(in crate::hub) use live_query::LiveQuery;

/// What a shard is asked about a connection's queries.
#[derive(Debug)]
pub(crate) enum Deed {
    /// Its client wants to follow one.
    Subscribe(QueryRequest),
}

/// A query that a client wants to follow. It may.
#[derive(Debug)]
pub(crate) struct QueryRequest {
    pub(crate) query_id: Arc<str>,
    /// As the client wrote it.
    pub(crate) sql: Box<str>,
    pub(crate) compiled: Arc<Compiled>,
    /// From where it may go on.
    pub(crate) resume: Option<Position>,
    /// It has rows from before.
    pub(crate) has_rows: bool,
    /// Its place among the queries of who asks.
    pub(crate) seats: QuerySeats,
}

/// What a shard knows of queries.
#[derive(Debug, Default)]
pub(in crate::hub) struct Board {
    /// Where the desk was when it was last heard.
    position: Position,
    members: HashMap<Subscriber, Member>,
    circles: HashMap<QueryId, Circle>,
}

/// Those who follow one query and have begun.
#[derive(Debug, Default)]
struct Circle {
    members: HashMap<Subscriber, Member>,
    /// Something that happened is yet to be told.
    behind: bool,
}

impl Board {
    pub(in crate::hub) fn at(position: Position) -> Board {
        Board { position, ..Board::default() }
    }

    fn leave(&mut self, who: Subscriber, query: Option<QueryId>) {
        self.members.remove(&who);
        if let Some(query) = query
            && let Some(circle) = self.circles.get_mut(&query)
        {
            circle.members.remove(&who);
            if circle.members.is_empty() {
                self.circles.remove(&query);
            }
        }
    }

    fn is_behind(&self, query: Option<QueryId>) -> bool {
        query.and_then(|query| self.circles.get(&query)).is_none_or(|circle| circle.behind)
    }
}

impl Shard {
    pub(in crate::hub) fn obey_queries(&mut self, key: Key, deed: Deed) {
        match deed {
            Deed::Subscribe(request) => self.follow_query(key, request),
        }
    }

    fn follow_query(&mut self, key: Key, request: QueryRequest) {
        let admitted = self.admit(key, &request.query_id, Asked::Query);
        if let Some(Admission::Begins { renewed }) = admitted {
            self.enter_query(key, request, renewed);
        }
    }

    fn enter_query(&mut self, key: Key, request: QueryRequest, renewed: bool) {
        let who = self.hub.queries.next_subscriber();
        let node_id = self.hub.id.clone();
        let Some(connection) = self.connection(key) else { return };
        let QueryRequest { query_id, sql, compiled, resume, has_rows, seats } = request;
        let facts = Arc::clone(&connection.facts);
        let live_id: Arc<str> = connection.live_id(&query_id).into();
        let plan = compiled.query.plan.name();
        let mut query = LiveQuery::new(who, Arc::clone(&live_id), plan, has_rows || renewed, seats);
        let tables = compiled.query.dependencies.iter();
        query.tables = tables.map(|table| table.table.clone()).collect();
        let kind = Kind::Query(Box::new(query));
        let slot = connection.put(Arc::clone(&query_id), None, kind, renewed);
        let actor = facts.identity().map(crate::access::auth::Identity::actor);
        self.hub.queries.registry.opened(LiveQueryRow {
            live_id: live_id.to_string(),
            connection_id: facts.id.to_string(),
            query_id: query_id.to_string(),
            user_id: actor.and_then(|actor| actor.user_id).unwrap_or_default(),
            query: sql.into(),
            node: node_id,
            plan: plan.to_string(),
            user_agent: facts.user_agent.as_deref().map(ToOwned::to_owned),
            address: facts.address.map(|address| address.to_string()),
        });
        self.queries.members.insert(who, Member { key, slot });
        let shard = self.index;
        self.hub.queries.order(Order::Subscribe { who, shard, compiled, resume });
        add(&self.stats.subscriptions, 1);
    }

    /// A subscription is gone; its connection is there still.
    pub(in crate::hub) fn leave_query(&mut self, query: &LiveQuery) {
        self.forget_query(query);
        self.hub.queries.registry.closed(&query.live_id);
    }

    /// A connection is gone.
    pub(in crate::hub) fn forget_queries(&mut self, connection: &Connection) {
        let mut had_some = false;
        for (_, subscription) in connection.slots() {
            if let Some(query) = subscription.kind.query() {
                had_some = true;
                self.forget_query(query);
            }
        }
        if had_some {
            self.hub.queries.registry.disconnected(&connection.facts.id);
        }
    }

    fn forget_query(&mut self, query: &LiveQuery) {
        self.queries.leave(query.who, query.query);
        if !query.ended {
            self.hub.queries.order(Order::Unsubscribe(query.who));
        }
    }

    /// Up to where a connection has been told everything, if it has: of queries too. What waits for a
    /// query may be given up yet, and who goes on from a place that was told before it would lack it.
    pub(in crate::hub) fn told_by_queries(&self, connection: &Connection) -> Option<Position> {
        let mut position = self.position;
        for (_, subscription) in connection.slots() {
            if let Some(query) = subscription.kind.query() {
                let is_out = query.has_all() && subscription.waiting == 0;
                if !is_out || self.queries.is_behind(query.query) {
                    return None;
                }
                position = position.min(self.queries.position);
            }
        }
        Some(position)
    }
}
