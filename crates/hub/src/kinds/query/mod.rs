//! Live queries of a shard's connections: who follows which, and what each receives.
//!
//! ```text
//!   updates of the engine ──► cohorts (followers by query) ──► rounds ──► outbox ──► change, when the socket takes it
//! ```
//!
//! A live query is a subscription among a connection's others, with a name and a place of its own. What
//! it has besides is a [`LiveQuery`]. The query engine says everything of all queries; everything that a client
//! hears is said here, in order ([`hear`]), by those of its [`cohorts`]. A large result goes out in pieces ([`begin`]), and what a
//! slow client has no room for is given up for all rows anew ([`initial_rows`]): there are no gaps.
//!
//! - `engine`: live SQL queries on this node, each evaluated once
//! - `live_query`: what a subscription to a live query has besides its name

mod begin;
mod cohorts;
pub mod engine;
mod hear;
mod initial_rows;
mod live_query;
#[cfg(test)]
pub mod tests;

use std::sync::Arc;

use tidewire_store::{LiveQueryRow, Position};

use crate::Hub;
use crate::admit::Admission;
use crate::audience::Follower;
use crate::connection::{Connection, Key, Subscription};
use crate::fan_out::PendingAction;
use crate::flush::WriteBudget;
use crate::kinds::query::engine::{Compiled, EngineCommand, QuerySeats};
use crate::kinds::{About, Detach, Kind, KindRequest, Lost, SameName, Subject, Written};
use crate::outbox::QueuedItem;
use crate::shard::Shard;
use tidewire_access::options::{LiveOptions, Options};
use tidewire_access::problem::Problem;

pub use cohorts::QueryCohorts;
pub use hear::QueryNews;
pub use live_query::LiveQuery;

/// A query that a client wants to follow. It may.
#[derive(Debug)]
pub struct QueryRequest {
    pub query_id: Arc<str>,
    /// As the client wrote it.
    pub sql: Box<str>,
    pub compiled: Arc<Compiled>,
    /// From where it may go on.
    pub resume: Option<Position>,
    /// It has rows from before.
    pub has_rows: bool,
    /// Its place among the queries of who asks.
    pub seats: QuerySeats,
}

impl KindRequest for QueryRequest {
    fn query_id(&self) -> &Arc<str> {
        &self.query_id
    }

    fn over_one_cursor(&self) -> Result<(), Problem> {
        over_one_cursor()
    }

    fn fits(&self, at: &Connection, beside: SameName, options: &Options) -> Result<(), Problem> {
        fits(at, beside, options)
    }
}

/// There is no place to which a client could come back with its one cursor.
pub(crate) fn over_one_cursor() -> Result<(), Problem> {
    Err(engine::not_over_sse())
}

/// Whether there is room for one more.
pub fn fits(connection: &Connection, beside: SameName, options: &Options) -> Result<(), Problem> {
    let others = connection.slots().filter(|(slot, _)| Some(*slot) != beside.replaced());
    let queries_max = options.queries.per_connection_max;
    match others.filter(|(_, s)| s.kind.query().is_some()).count() >= queries_max {
        true => Err(engine::too_many("queries.per_connection_max", queries_max)),
        false => Ok(()),
    }
}

impl Shard {
    /// Has the query engine keep a query for a connection, which begins when that has its rows.
    pub(super) fn follow_query(&mut self, key: Key, request: QueryRequest, admission: Admission) {
        let Admission::Begins { renewed } = admission else { return };
        let who = self.hub.queries.next_subscriber();
        let node_id = self.hub.id.clone();
        let Some(connection) = self.connection(key) else { return };
        let QueryRequest { query_id, sql, compiled, resume, has_rows, seats } = request;
        let connection_info = Arc::clone(&connection.connection_info);
        let live_id: Arc<str> = connection.live_id(&query_id).into();
        let plan = compiled.query.plan.name();
        let actor = connection_info.identity().map(tidewire_access::auth::Identity::actor);
        let counts = self.hub.queries.registry.opened(LiveQueryRow {
            live_id: live_id.to_string(),
            connection_id: connection_info.id.to_string(),
            query_id: query_id.to_string(),
            user_id: actor.and_then(|actor| actor.user_id).unwrap_or_default(),
            query: sql.into(),
            node: node_id,
            plan: plan.to_string(),
            user_agent: connection_info.user_agent.as_deref().map(ToOwned::to_owned),
            address: connection_info.address.map(|address| address.to_string()),
        });
        let mut query = LiveQuery::new(who, live_id, has_rows || renewed, seats, counts);
        let tables = compiled.query.dependencies.iter();
        query.tables = tables.map(|table| table.table.clone()).collect();
        let kind = Kind::Query(Box::new(query));
        let Some(slot) = self.add(key, (query_id, None), kind, renewed) else { return };
        self.rosters.queries.enter(who, Follower { key, slot });
        let shard = self.index;
        self.hub.queries.order(EngineCommand::Subscribe { who, shard, compiled, resume });
    }
}

impl Subject for LiveQuery {
    /// What waits may be given up yet, and who goes on from a place that was told before it would lack it.
    fn caught_up(&self, of: &Subscription, shard: &Shard) -> Option<Position> {
        let is_out = self.has_all() && of.waiting == 0;
        (is_out && !shard.rosters.queries.is_behind(self.query))
            .then_some(shard.rosters.queries.position)
    }

    fn tables(&self) -> Vec<&str> {
        self.tables.iter().map(|table| &**table).collect()
    }

    fn keeps_back(&self) -> bool {
        self.goes_out()
    }

    fn hold(&mut self, queued: QueuedItem, limits: &LiveOptions) -> PendingAction {
        self.hold_while_rows_go_out(queued, limits)
    }

    fn write(&mut self, about: &mut About<'_>, ticket: u32, room: &mut WriteBudget<'_>) -> Written {
        match ticket {
            initial_rows::ASK_AGAIN => Written { goes_on: true, ..Written::default() },
            result => self.next_piece(about, result, room),
        }
    }

    /// All its rows are asked for anew, when the client has taken what was before it.
    fn lose(&mut self, _: Lost) -> Option<u32> {
        self.give_up();
        std::mem::replace(&mut self.begun, false).then_some(initial_rows::ASK_AGAIN)
    }

    fn go_on(&mut self, hub: &Hub) -> bool {
        if !self.begun {
            hub.queries.order(EngineCommand::Again(self.who));
        }
        !self.begun
    }

    fn leave(&self, shard: &mut Shard, _: Follower, query_id: &Arc<str>, leaving: Detach) {
        shard.rosters.queries.leave(self.who, self.query, query_id);
        let queries = &shard.hub.queries;
        if !self.ended {
            queries.order(EngineCommand::Unsubscribe(self.who));
        }
        match leaving {
            Detach::Alone => queries.registry.closed(&self.live_id),
            Detach::WithConnection => queries.registry.disconnected(&self.live_id),
        }
    }
}
