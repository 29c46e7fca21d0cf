//! The engine: events of the log and rows of the database in, deltas out.
//!
//! It is told everything and asks for what it needs ([`Output::Ask`]); it never waits. A transaction is
//! told when it has ended, and every position that is told lies between two of them: while one is open, that
//! is the position before it.
//!
//! - `filter`: a query that keeps nothing: each row is tested
//! - `followers`: those who follow a query and have been told everything
//! - `groups`: groups of a table's rows, kept as its rows change
//! - `handover`: from a read to the stream of events
//! - `held`: what happens to a query between the question for its rows and the answer
//! - `kept`: a query of whose result something is kept
//! - `live`: one query that is kept, whatever its plan
//! - `matching`: a changed row finds the queries it concerns
//! - `party`: those who begin a filter with one read
//! - `project`: rows of results as texts
//! - `registry`: which queries there are
//! - `requery`: a result that is read again when something it reads changed
//! - `resume`: someone comes back to a filter with everything up to an earlier position
//! - `said`: what an engine is told and what it says
//! - `state`: what is kept in memory of a result, so that it need not be read again
//! - `transaction`: what one transaction did to one result, all its events together
//! - `turn`: what a query needs of the engine while something is done to it, and what it leaves
//!   behind
//! - `upkeep`: what becomes of queries beside their events
//! - `window`: the first rows of a table in an order, kept as its rows change

mod filter;
mod followers;
mod groups;
mod handover;
mod held;
mod kept;
mod live;
mod matching;
mod party;
mod project;
mod registry;
mod requery;
mod resume;
mod said;
#[cfg(test)]
mod simulation;
mod state;
#[cfg(test)]
mod tests;
mod transaction;
mod turn;
mod upkeep;
mod window;

use std::collections::BTreeSet;
use std::sync::Arc;

pub use said::{
    AskId, AskKind, Change, EndReason, EngineOptions, EngineStats, Event, Kind, Output, QueryId,
    ReadFailed, Recipients, Rows, Subscriber, TableNews,
};

use crate::plan::{PlanName, Query};
use crate::position::Position;
use live::{Body, Live};
use registry::Registry;
use transaction::Transaction;
use turn::{Asks, Turn, whole};

/// Live queries, kept. See the [module documentation](self).
#[derive(Debug)]
pub struct Engine {
    options: EngineOptions,
    position: Position,
    registry: Registry,
    asks: Asks,
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
            asks: Asks::default(),
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
            self.with(id, out, |live, turn| live.join(who, true, turn));
            self.tell(out);
        }
    }

    /// Someone does not follow any more.
    pub fn unsubscribe(&mut self, who: Subscriber, out: &mut Vec<Output>) {
        if let Some(id) = self.registry.followers.remove(&who) {
            self.with(id, out, |live, turn| live.leave(who, turn));
            self.tell(out);
        }
    }

    /// What a read gave.
    pub fn rows(&mut self, ask: AskId, rows: Result<Rows, ReadFailed>, out: &mut Vec<Output>) {
        if let Some(id) = self.asks.query(ask) {
            self.with(id, out, |live, turn| live.rows(ask, rows, turn));
            self.tell(out);
        }
    }

    /// Everything that the read of an ask saw is in the log up to `mark`.
    pub fn settled(&mut self, ask: AskId, mark: Position, out: &mut Vec<Output>) {
        if let Some(id) = self.asks.query(ask) {
            self.with(id, out, |live, turn| live.settled(ask, mark, turn));
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
        self.with(id, out, |live, turn| {
            live.join(who, reset, turn);
            turn.crowd(unindexed);
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
            self.with(id, out, |live, turn| live.close(&open, turn));
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
        act: impl FnOnce(&mut Live, &mut Turn<'_>),
    ) {
        let Some(live) = self.registry.get_mut(id) else { return };
        let mut turn = Turn::new(id, &self.options, self.position, self.open, &mut self.asks, out);
        act(live, &mut turn);
        let Turn { unsure, ended, over, .. } = turn;
        live.unsure += unsure;
        for who in ended {
            self.registry.followers.remove(&who);
        }
        self.due.insert(id);
        self.weigh(id, over, out);
    }
}
