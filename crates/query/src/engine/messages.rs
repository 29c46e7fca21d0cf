//! What an engine is told and what it says.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::delta::{Delta, RowText};
use crate::plan::{PlanName, Query};
use crate::position::Position;
use crate::snapshot::Snapshot;

/// A query of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueryId(pub u32);

/// Someone who follows a query, as the caller numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subscriber(pub u64);

/// A read that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskId(pub u64);

/// How large things may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineOptions {
    /// Rows of a result.
    pub rows_max: usize,
    /// Changed rows of a transaction that are held for one query; with more it is read again.
    pub transaction_rows_max: usize,
    /// Bytes that one query keeps.
    pub state_bytes_max: usize,
    /// Bytes that all of them keep.
    pub total_state_bytes_max: usize,
    /// Queries over one table that no index finds, so that each is tested on every row.
    pub unindexed_max: usize,
}

/// An event of the log: all of them are told, because by them transactions end.
#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    /// Where it is.
    pub at: Position,
    /// Its transaction. A change of none cannot be told from what a read saw: the table is read again.
    pub txid: Option<i64>,
    /// Whether it is the last of it.
    pub tx_last: bool,
    /// What happened to a row, if it is one of a table that some query reads.
    pub change: Option<Change<'a>>,
}

/// What happened to a row.
#[derive(Debug, Clone, Copy)]
pub struct Change<'a> {
    /// Its table.
    pub table: &'a str,
    /// What was done.
    pub kind: Kind,
    /// The row before.
    pub before: Option<&'a [u8]>,
    /// The row after.
    pub after: Option<&'a [u8]>,
}

/// What was done to a row, or a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It is new.
    Insert,
    /// It changed.
    Update,
    /// It is gone.
    Delete,
    /// All rows are gone.
    Truncate,
    /// Something that no image tells: what reads the table is read again.
    Unknown,
}

/// What a read gave.
#[derive(Debug)]
pub struct Rows {
    /// The log's end, as the same snapshot saw it.
    pub tip: Position,
    /// What it saw.
    pub snapshot: Snapshot,
    /// Whether everything that it saw is in the log up to `tip`.
    pub settled: bool,
    /// The rows: a value for each column of what was asked for.
    pub rows: Vec<Vec<Box<RawValue>>>,
}

/// Why a read gave nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadFailed {
    /// Not now; the caller tries again by itself and the ask stands.
    Later,
    /// For good: the query ends with this reason. Of a filter it ends for those who waited for the read;
    /// whoever is past it goes on.
    Ended(EndReason),
}

/// Why a query ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndReason {
    /// For programs: `result_too_large`, `query_too_slow`, `schema_changed`, `state_too_large`,
    /// `too_many_unindexed`, …
    pub code: &'static str,
    /// For people, if there is more to say.
    pub message: Option<String>,
}

/// What a read is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AskKind {
    /// Someone waits for the first rows, or for all rows again because they lost them.
    Begin,
    /// What is kept in memory does not suffice, or what was told to some is no longer known to be so.
    Refill,
    /// Something it reads changed.
    Requery,
}

/// Whom an output concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recipients {
    /// All who follow the query and have begun. It is said only when none of these waits for all rows
    /// again.
    All(QueryId),
    /// These only.
    Only(QueryId, Vec<Subscriber>),
}

/// What the engine says.
#[derive(Debug, Clone)]
pub enum Output {
    /// It needs rows. What comes of it is told with [`Engine::rows`], and when everything that the
    /// read saw is in the log with [`Engine::settled`].
    Ask {
        /// By which it is answered.
        ask: AskId,
        /// For which query.
        query: QueryId,
        /// What to run: [`Query::read`] or [`Query::rerun`].
        sql: Arc<str>,
        /// What for.
        kind: AskKind,
    },
    /// All rows of the result: the first ones of someone who has subscribed, or instead of what they
    /// have.
    Begin {
        /// To whom.
        to: Recipients,
        /// The rows, in the result's order if it has one.
        rows: Arc<[RowText]>,
        /// Where in the log they are exact; none if that is not settled yet.
        at: Option<Position>,
        /// Whether they take the place of what was told before.
        reset: bool,
    },
    /// The result changed.
    Change {
        /// To whom.
        to: Recipients,
        /// How.
        delta: Arc<Delta>,
        /// The position of the transaction's last event; none if not settled yet.
        at: Option<Position>,
        /// The transaction, if it is one.
        txid: Option<i64>,
    },
    /// What was told without a position is exact here.
    Settled {
        /// To whom.
        to: Recipients,
        /// Where.
        at: Position,
    },
    /// The query is kept by another plan from now on.
    Plan {
        /// Which.
        query: QueryId,
        /// How.
        plan: PlanName,
    },
    /// It is no longer kept.
    End {
        /// For whom.
        to: Recipients,
        /// Why.
        reason: EndReason,
    },
}

/// What is happening to a table.
#[derive(Debug, Clone)]
pub enum TableNews {
    /// Its rows may be others than the events say: all queries are read again.
    Reread,
    /// Its columns changed.
    Rebound {
        /// The queries that are to be kept as others, with the same result columns and read anew; and
        /// those that end, each for its own reason, which may name what its callers alone may see.
        bound: HashMap<QueryId, Result<Arc<Query>, EndReason>>,
        /// Why those of the table end that are not named.
        otherwise: EndReason,
    },
}

/// What an engine holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// Queries.
    pub queries: usize,
    /// Who follows them.
    pub subscribers: usize,
    /// Bytes of results, windows and groups.
    pub state_bytes: usize,
    /// Queries that the index gave for events since the beginning.
    pub candidates: u64,
    /// Those that an event concerned.
    pub hits: u64,
    /// Queries that became re-queries.
    pub demotions: u64,
}
