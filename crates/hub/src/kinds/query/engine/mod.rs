//! Live SQL queries on this node.
//!
//! ```text
//!   subscribe ──► compile ──► shard ──command──► task ──ask──► reads ──► store
//!                                      tail ──events──► (Engine)
//!                             shard ◄──updates── news ◄──outputs
//! ```
//!
//! There is one engine a node, in a task of its own: the [`task`]. Queries that are the same are kept
//! once, whoever follows them. The query engine does not hold up the follower of the log: one that falls behind
//! reads on by itself.
//!
//! - [`catalogue`]: what the tables are; [`compile`]: from SQL to a query; [`origin`]: what that is bound from
//! - [`rebind`]: bound anew when a table has changed; [`rules`]: whether rules can be kept
//! - [`reads`]: rows from the database, by [`fair_queue`] turns; [`settle`]: where in the log they stand; [`resume`]: going on
//!   from an offset
//! - [`news`]: updates, written once for all followers; [`registry`]: the list of live queries, [`counts`]:
//!   its counters
//! - [`problem`]: errors of live queries; [`metrics`]: counters and gauges
//! - `apply`: applies events of the log to the engine, in order, each once
//! - `rows`: gives the engine the rows that reads returned
//! - `table`: handles a changed table
//! - `updates`: carries out what the engine puts out

mod apply;
mod catalogue;
mod compile;
mod counts;
mod fair_queue;
mod metrics;
mod news;
mod origin;
mod problem;
mod reads;
mod rebind;
mod registry;
mod resume;
mod rows;
mod rules;
mod settle;
mod table;
mod task;
mod updates;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{mpsc, oneshot};

use tidewire_query::{QueryKey, Subscriber};
use tidewire_store::Position;

use crate::Hub;
use crate::row_filter::PatternPermit;
use tidewire_access::auth::{Identity, Who};
use tidewire_access::problem::Problem;
use tidewire_wire::keyed_permits::{KeyedPermit, KeyedPermits};

use catalogue::Catalogue;
use compile::Checks;
use metrics::Counters;

pub use compile::Compiled;
pub use counts::Counts;
pub use metrics::write as write_metrics;
pub use news::{Change, News, QueryUpdates, piece};
pub use problem::{ended, for_those_without_sql, not_over_sse, too_many};
pub use registry::Registry;
pub use task::QueryEngineTask;
pub use updates::query_of;

/// The places of a query among those of someone, given back when dropped.
#[derive(Debug)]
pub struct QuerySeats {
    _one: KeyedPermit<Who>,
    _patterns: Vec<PatternPermit>,
}

impl QuerySeats {
    pub fn new(one: KeyedPermit<Who>, patterns: Vec<PatternPermit>) -> QuerySeats {
        QuerySeats { _one: one, _patterns: patterns }
    }
}

/// Where the query engine's batches go: one way for each shard.
pub(crate) type UpdateSenders = Vec<mpsc::Sender<Arc<QueryUpdates>>>;

/// What the query engine is asked.
#[derive(Debug)]
pub enum EngineCommand {
    /// Someone follows a query from now on, or goes on from where they were.
    Subscribe {
        who: Subscriber,
        shard: usize,
        compiled: Arc<Compiled>,
        resume: Option<Position>,
    },
    /// Someone has lost what was told.
    Again(Subscriber),
    Unsubscribe(Subscriber),
    /// How many follow a query.
    Count {
        key: QueryKey,
        reply: oneshot::Sender<usize>,
    },
}

/// Live queries, as the rest of the node knows them.
#[derive(Debug)]
pub struct Queries {
    /// Without a bound but the number of subscriptions: a shard must never wait for the query engine, which may
    /// wait for it.
    orders: mpsc::UnboundedSender<EngineCommand>,
    next_subscriber: AtomicU64,
    catalogue: Catalogue,
    checks: Checks,
    seats: KeyedPermits<Who>,
    /// Patterns of someone on a table.
    patterns: KeyedPermits<(Who, Box<str>)>,
    counters: Counters,
    pub registry: Registry,
}

impl Queries {
    /// The handle, and what its query engine is to listen to.
    pub fn new() -> (Queries, mpsc::UnboundedReceiver<EngineCommand>) {
        let (orders, ordered) = mpsc::unbounded_channel();
        let queries = Queries {
            orders,
            next_subscriber: AtomicU64::new(0),
            catalogue: Catalogue::default(),
            checks: Checks::default(),
            seats: KeyedPermits::default(),
            patterns: KeyedPermits::default(),
            counters: Counters::default(),
            registry: Registry::default(),
        };
        (queries, ordered)
    }

    /// Asks the query engine for something. A query engine that is gone belongs to a server that stops: who leaves has
    /// nothing to ask of it, but who comes is not served.
    pub fn order(&self, order: EngineCommand) {
        if let Err(mpsc::error::SendError(EngineCommand::Subscribe { who, .. })) =
            self.orders.send(order)
        {
            tracing::error!(?who, "the live query engine has stopped; a subscription is lost");
        }
    }

    /// A number that no other subscriber has.
    pub(crate) fn next_subscriber(&self) -> Subscriber {
        Subscriber(self.next_subscriber.fetch_add(1, Ordering::Relaxed))
    }
}

impl Hub {
    /// A place among the queries of someone, given back when dropped.
    pub fn query_seat(&self, identity: &Identity) -> Result<KeyedPermit<Who>, Problem> {
        let per_identity_max = self.options.queries.per_identity_max;
        let seat = self.queries.seats.take(identity.who().clone(), per_identity_max);
        seat.ok_or_else(|| problem::too_many("queries.per_identity_max", per_identity_max))
    }

    /// Places among the patterns of someone on a table, if there are any to be tried.
    pub fn pattern_seat(
        &self,
        identity: &Identity,
        table: &str,
        patterns: usize,
    ) -> Result<Option<PatternPermit>, Problem> {
        if patterns == 0 {
            return Ok(None);
        }
        let (holder, max) =
            ((identity.who().clone(), table.into()), self.options.queries.patterns_max);
        let seat = self.queries.patterns.take_several(holder, patterns, max);
        seat.map(Arc::new).map(Some).ok_or_else(|| problem::too_many_patterns(table, max))
    }

    /// The same for all tables of a query.
    pub fn pattern_seats(
        &self,
        identity: &Identity,
        compiled: &Compiled,
    ) -> Result<Vec<PatternPermit>, Problem> {
        let patterns = compiled.query.unindexed_patterns().into_iter();
        let seats = patterns.map(|(table, count)| self.pattern_seat(identity, table, count));
        seats.filter_map(Result::transpose).collect()
    }
}
