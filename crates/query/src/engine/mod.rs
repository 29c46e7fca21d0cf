//! The engine: events of the log and rows of the database in, deltas out.
//!
//! The caller gives it every event of the log. It asks for the rows it needs ([`Output::Ask`]) and never
//! waits. The changes of a transaction are given out when the transaction has ended. So every position
//! that is given out lies between two transactions: while one is open, it is the position before it.
//!
//! - `filter`: a query that keeps no result: each row is tested by itself
//! - `followers`: the followers of a filter that have all rows so far
//! - `groups`: groups of a table's rows, updated as its rows change
//! - `handover`: from the snapshot of a read to the events of the log
//! - `initial_read`: the read that gives new followers of a filter their first rows
//! - `live`: one query, whatever its plan
//! - `maintained`: a query whose result is kept in memory
//! - `matching`: finds the queries that a changed row concerns
//! - `messages`: what the engine takes and what it gives out
//! - `project`: rows of results as texts
//! - `query_context`: what a query may use of the engine while it handles one thing
//! - `registry`: which queries there are
//! - `requery`: a result that is read again when a table it reads changes
//! - `resume`: a follower of a filter returns with an earlier position
//! - `state`: the part of a result that is kept in memory, so that it need not be read again
//! - `transaction`: what one transaction did to one result, all its events together
//! - `unsettled`: changes that come between the question for a query's rows and the answer
//! - `upkeep`: queries that end or are bound again
//! - `window`: the first rows of a table in an order, updated as its rows change

mod filter;
mod followers;
mod groups;
mod handover;
mod initial_read;
mod live;
mod maintained;
mod matching;
mod messages;
mod project;
mod query_context;
mod registry;
mod requery;
mod resume;
#[cfg(test)]
mod simulation;
mod state;
#[cfg(test)]
mod tests;
mod transaction;
mod unsettled;
mod upkeep;
mod window;

use std::collections::BTreeSet;
use std::sync::Arc;

pub use messages::{
    AskId, AskKind, Change, EndReason, EngineOptions, EngineStats, Event, Kind, Output, QueryId,
    ReadFailed, Recipients, Rows, Subscriber, TableNews,
};

use crate::plan::{PlanName, Query};
use crate::position::Position;
use live::{Body, Live};
use query_context::{OpenReads, QueryContext, whole};
use registry::Registry;
use transaction::Transaction;

/// Live queries, kept. See the [module documentation](self).
#[derive(Debug)]
pub struct Engine {
    options: EngineOptions,
    position: Position,
    registry: Registry,
    asks: OpenReads,
    /// The transaction whose events are coming.
    open: Option<Transaction>,
    /// The queries that it concerns, some of them more than once.
    touched: Vec<QueryId>,
    /// Queries that may have something to tell.
    due: BTreeSet<QueryId>,
    /// Kept for its memory.
    found: Vec<QueryId>,
    stats: EngineStats,
}

impl Engine {
    /// An engine that has seen the log up to a position.
    pub fn new(options: EngineOptions, at: Position) -> Engine {
        Engine {
            options,
            position: at,
            registry: Registry::default(),
            asks: OpenReads::default(),
            open: None,
            touched: Vec::new(),
            due: BTreeSet::new(),
            found: Vec::new(),
            stats: EngineStats::default(),
        }
    }

    /// Up to where it has seen the log.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Someone follows a query from now on. From this call on every event of its tables must be told
    /// with its images.
    pub fn subscribe(
        &mut self,
        query: Arc<Query>,
        who: Subscriber,
        out: &mut Vec<Output>,
    ) -> QueryId {
        self.unsubscribe(who, out);
        let (id, unindexed) = self.registry.query(query);
        self.join(id, who, (false, unindexed), out);
        id
    }

    /// Someone has lost what was told, and gets all rows again.
    pub fn again(&mut self, who: Subscriber, out: &mut Vec<Output>) {
        if let Some(id) = self.registry.followers.get(&who).copied() {
            self.with(id, out, |live, context| live.join(who, true, context));
            self.tell(out);
        }
    }

    /// Someone does not follow any more.
    pub fn unsubscribe(&mut self, who: Subscriber, out: &mut Vec<Output>) {
        if let Some(id) = self.registry.followers.remove(&who) {
            self.with(id, out, |live, context| live.leave(who, context));
            self.tell(out);
        }
    }

    /// What a read gave.
    pub fn rows(&mut self, ask: AskId, rows: Result<Rows, ReadFailed>, out: &mut Vec<Output>) {
        if let Some(id) = self.asks.query(ask) {
            self.with(id, out, |live, context| live.rows(ask, rows, context));
            self.tell(out);
        }
    }

    /// Everything that the read of an ask saw is in the log up to `mark`.
    pub fn settled(&mut self, ask: AskId, mark: Position, out: &mut Vec<Output>) {
        if let Some(id) = self.asks.query(ask) {
            self.with(id, out, |live, context| live.settled(ask, mark, context));
            self.tell(out);
        }
    }

    /// Who waits for an ask to be settled is told its rows without a position.
    pub fn unsettled_in_time(&mut self, ask: AskId, out: &mut Vec<Output>) {
        if let Some(id) = self.asks.query(ask) {
            self.with(id, out, |live, _| live.hurry(ask));
            self.tell(out);
        }
    }

    /// An event happened. They come in the log's order, all of them; one that came before is nothing.
    pub fn apply(&mut self, event: &Event<'_>, out: &mut Vec<Output>) {
        if event.at <= self.position {
            return;
        }
        let Some(txid) = event.txid else {
            self.position = event.at;
            // No read can say whether it saw a change of no transaction.
            return match &event.change {
                Some(change) => self.table(change.table, TableNews::Reread, out),
                None => self.tell(out),
            };
        };
        // The last event of a transaction may never come: it was put aside as one that cannot be told.
        if self.open.is_some_and(|open| open.txid != txid) {
            self.close(out);
        }
        self.position = event.at;
        let open = self.open.get_or_insert(Transaction { first: event.at, last: event.at, txid });
        open.last = event.at;
        let open = *open;
        if let Some(change) = &event.change {
            self.match_change(change, &open);
        }
        if event.tx_last {
            self.close(out);
        }
    }

    /// Whether a read is awaited still: its rows, or that they are settled.
    pub fn awaits(&self, ask: AskId) -> bool {
        self.asks.query(ask).is_some()
    }

    /// What a query is.
    pub fn query(&self, id: QueryId) -> Option<&Arc<Query>> {
        self.registry.get(id).map(|live| &live.query)
    }

    /// The plan by which a query is kept now.
    pub fn plan(&self, id: QueryId) -> Option<PlanName> {
        self.registry.get(id).map(Live::plan)
    }

    /// The queries that read a table.
    pub fn queries_of(&self, table: &str) -> Vec<QueryId> {
        self.registry.queries_of(table)
    }

    /// How many conditions of queries are tested on each row of their table, because no index finds them.
    pub fn unindexed(&self) -> usize {
        self.registry.tables.values().map(|book| book.index.unindexed()).sum()
    }

    /// What it holds.
    pub fn stats(&self) -> EngineStats {
        let queries = self.registry.len();
        EngineStats { queries, subscribers: self.registry.followers.len(), ..self.stats }
    }

    /// Someone follows a query, which is new where `unindexed` says that no index finds it.
    fn join(
        &mut self,
        id: QueryId,
        who: Subscriber,
        (reset, unindexed): (bool, usize),
        out: &mut Vec<Output>,
    ) {
        self.registry.followers.insert(who, id);
        self.with(id, out, |live, context| {
            live.join(who, reset, context);
            context.crowd(unindexed);
        });
        self.tell(out);
    }

    /// The open transaction ended with the last event that was seen of it.
    fn close(&mut self, out: &mut Vec<Output>) {
        let Some(open) = self.open.take() else { return };
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.dedup();
        for id in touched.drain(..) {
            self.with(id, out, |live, context| live.close(&open, context));
        }
        self.touched = touched;
        self.tell(out);
    }

    /// Whoever has something to tell tells it.
    fn tell(&mut self, out: &mut Vec<Output>) {
        let whole = whole(self.position, self.open.as_ref());
        while let Some(id) = self.asks.due(whole) {
            self.due.insert(id);
        }
        while let Some(id) = self.due.pop_first() {
            self.with(id, out, Live::attend);
            self.due.remove(&id);
        }
    }

    /// Does something to a query, and what follows from it.
    fn with(
        &mut self,
        id: QueryId,
        out: &mut Vec<Output>,
        act: impl FnOnce(&mut Live, &mut QueryContext<'_>),
    ) {
        let Some(live) = self.registry.get_mut(id) else { return };
        let mut context =
            QueryContext::new(id, &self.options, self.position, self.open, &mut self.asks, out);
        act(live, &mut context);
        let QueryContext { unsure, ended, over, .. } = context;
        live.unsure += unsure;
        for who in ended {
            self.registry.followers.remove(&who);
        }
        self.due.insert(id);
        self.weigh(id, over, out);
    }
}
