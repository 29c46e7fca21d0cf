//! What a query needs of the engine while something is done to it, and what it leaves behind.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::messages::{AskId, AskKind, EndReason, EngineOptions, Output, QueryId, Subscriber};
use super::state::StateError;
use super::transaction::Transaction;
use crate::position::Position;

/// How often it may be unknown what became of a result before the query is only run again.
pub(super) const UNSURE_MAX: u32 = 3;

/// Reads that were asked for and what is waited for after them. Numbers are never used again, so that
/// an answer to a read that no longer counts is known as such.
#[derive(Debug, Default)]
pub(super) struct OpenReads {
    last: u64,
    open: HashMap<AskId, QueryId>,
    marks: BTreeSet<(Position, QueryId)>,
}

impl OpenReads {
    pub(super) fn query(&self, ask: AskId) -> Option<QueryId> {
        self.open.get(&ask).copied()
    }

    /// What comes of it does not matter any more.
    pub(super) fn forget(&mut self, ask: AskId) {
        self.open.remove(&ask);
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// The next query that waits for a position up to this one.
    pub(super) fn due(&mut self, position: Position) -> Option<QueryId> {
        let (mark, query) = *self.marks.first()?;
        (mark <= position).then(|| {
            self.marks.pop_first();
            query
        })
    }
}

/// One thing that happens to one query.
#[derive(Debug)]
pub(super) struct QueryContext<'a> {
    pub(super) query: QueryId,
    pub(super) options: &'a EngineOptions,
    /// The last event that was seen.
    pub(super) position: Position,
    /// The transaction whose events are coming.
    pub(super) open: Option<Transaction>,
    pub(super) asks: &'a mut OpenReads,
    pub(super) out: &'a mut Vec<Output>,
    /// How often it was not known what became of the result.
    pub(super) unsure: u32,
    /// Who follows no longer, and was told.
    pub(super) ended: Vec<Subscriber>,
    /// Why the whole query must end, if it must.
    pub(super) over: Option<EndReason>,
}

impl<'a> QueryContext<'a> {
    pub(super) fn new(
        query: QueryId,
        options: &'a EngineOptions,
        position: Position,
        open: Option<Transaction>,
        asks: &'a mut OpenReads,
        out: &'a mut Vec<Output>,
    ) -> QueryContext<'a> {
        let (ended, over) = (Vec::new(), None);
        QueryContext { query, options, position, open, asks, out, unsure: 0, ended, over }
    }

    /// The last position that lies between two transactions: what is told is told of there.
    pub(super) fn whole(&self) -> Position {
        whole(self.position, self.open.as_ref())
    }

    pub(super) fn ask(&mut self, sql: &Arc<str>, kind: AskKind) -> AskId {
        self.asks.last += 1;
        let ask = AskId(self.asks.last);
        self.asks.open.insert(ask, self.query);
        self.out.push(Output::Ask { ask, query: self.query, sql: Arc::clone(sql), kind });
        ask
    }

    /// The query has its turn when the engine is there.
    pub(super) fn wait_for(&mut self, mark: Position) {
        self.asks.marks.insert((mark, self.query));
    }

    /// The query is new, and no index finds it, nor so many others of its table.
    pub(super) fn crowd(&mut self, unindexed: usize) {
        if unindexed > self.options.unindexed_max {
            self.over = Some(too_many_unindexed(self.options.unindexed_max));
        }
    }

    pub(super) fn lost(&mut self, lost: &StateError) {
        if *lost == StateError::Unsure {
            self.unsure += 1;
        }
    }
}

/// The last position that lies between two transactions.
pub(super) fn whole(position: Position, open: Option<&Transaction>) -> Position {
    open.map_or(position, |open| Position(open.first.0.saturating_sub(1)))
}

/// The result has more rows than a result may have.
pub(super) fn too_many_rows(rows_max: usize) -> EndReason {
    too_large(format!("the result has more than {rows_max} rows (queries.rows_max)"))
}

/// The result has more bytes than may be held of it.
pub(super) fn too_many_bytes(bytes_max: usize) -> EndReason {
    too_large(format!("the result has more than {bytes_max} bytes (queries.state_bytes_max)"))
}

fn too_large(message: String) -> EndReason {
    EndReason { code: "result_too_large", message: Some(message) }
}

/// Every change of the table would be tested on one more query than may be.
fn too_many_unindexed(unindexed_max: usize) -> EndReason {
    let message = format!(
        "no index finds this query, and {unindexed_max} others of the table are such already: compare a \
         column with a value, by =, IN, BETWEEN, < or >"
    );
    EndReason { code: "too_many_unindexed", message: Some(message) }
}

/// What is kept of the result is more than may be kept.
pub(super) fn state_too_large(bytes_max: usize) -> EndReason {
    let message = format!(
        "what must be kept of the result is more than the {bytes_max} bytes there are for it; ask for \
         less, with a narrower WHERE, fewer groups or a LIMIT"
    );
    EndReason { code: "state_too_large", message: Some(message) }
}
