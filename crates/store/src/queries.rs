//! Reading for live queries: rows with the snapshot they were read in, and the list of who follows
//! what.
//!
//! A live query is read as a hand-over: its rows, the log's end and what the snapshot saw come from
//! one transaction, so that whoever follows the log from there knows of every event whether the rows
//! have it already. The SQL is not the client's own text. It was checked and written anew, and is run
//! read-only, as a role that may read watched tables and nothing else.
//!
//! What is wrong with a query is told by these codes:
//!
//! | code | when |
//! |---|---|
//! | `sql_syntax` | its words are wrong; the database's message and the place in the text are told |
//! | `sql_refused` | it is not one SELECT, or reads another table than it says |
//! | `shape_changed` | a table is not as the query was made for: look at the shapes again |
//! | `query_too_slow`, `result_too_large` | it goes beyond its limits |
//! | `predicate_too_large` | it searches a computed text, or for one, that is longer than may be |
//! | `query_failed` | the database gave it up while it read rows |
//! | `query_role_missing` | the role of live queries is not there, or may not read a table |
//!
//! Of `query_failed` only a number is told, because the database's text may have a value in it that the
//! caller may not see. The hint of `query_role_missing` says what to grant, with the names of roles and
//! tables: it is for those who may run SQL. No other problem names a role, or a table that the query does not.
//!
//! What passes by itself (a table that someone alters, a database that is away) is a [`StoreError`] that
//! is temporary.
//!
//! The list of live queries is for people and programs (`system.live_queries`); delivery does not
//! read it. Rows belong to the node that serves the connection, and are gone with its lease.

mod plan;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::value::RawValue;

use crate::error::StoreError;
use crate::offset::Position;
use crate::sql::{SqlColumn, SqlError, SqlLimits};
use crate::watch::ColumnView;

pub use plan::EditPlan;

/// A table as a query names it, folded as the database folds it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TableRef {
    /// The schema, where it is written.
    pub schema: Option<String>,
    /// The name.
    pub name: String,
}

/// What a name in a query stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShapeView {
    /// A watched table, as it is.
    Watched(Box<WatchedShape>),
    /// A table whose changes are not captured, by the name that its events would have.
    NotWatched(String),
    /// Nothing, or nothing that can be read by live queries: a view, a foreign table.
    Unknown,
}

/// A watched table, as far as queries must know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedShape {
    /// As its events call it.
    pub name: String,
    /// As SQL calls it: quoted, with its schema.
    pub sql_name: String,
    /// All its columns in its own order, generated ones too.
    pub columns: Vec<ShapeColumnView>,
    /// Those that tell rows apart; none if the whole row does.
    pub key_columns: Vec<String>,
    /// The one that says whose tenant's a row is.
    pub host_column: Option<String>,
    /// Of all of this, and of which table it is.
    pub fingerprint: u64,
    /// The database has policies for its rows.
    pub row_security: bool,
    /// Tables that are no partitions inherit from it.
    pub inherited: bool,
}

impl WatchedShape {
    /// The same with its fingerprint: of all that is known of it, and of which table it is.
    pub fn sealed(mut self, table: impl Hash) -> WatchedShape {
        let mut hasher = DefaultHasher::new();
        table.hash(&mut hasher);
        (&self.name, &self.sql_name, &self.columns).hash(&mut hasher);
        (&self.key_columns, &self.host_column).hash(&mut hasher);
        (self.row_security, self.inherited).hash(&mut hasher);
        self.fingerprint = hasher.finish();
        self
    }
}

/// A column of a watched table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ShapeColumnView {
    /// Name, type and collation.
    pub column: ColumnView,
    /// Computed from others; images do not have it.
    pub generated: bool,
    /// Of `numeric(p, s)`: s.
    pub scale: Option<u16>,
    /// A SELECT of it gives another text than images have; `to_jsonb` gives the same.
    pub json_text: bool,
}

/// A read for a live query.
#[derive(Debug, Clone)]
pub struct LiveRead {
    /// One SELECT, checked and with all names qualified.
    pub sql: String,
    /// The tables that it reads by their events' names, with the fingerprints that it was made for.
    pub tables: Vec<(String, u64)>,
    /// How much it may give, and how long it may take.
    pub limits: SqlLimits,
    /// On whose account it is read; none for the server's own.
    pub account: Option<Arc<str>>,
}

/// What it gave.
#[derive(Debug, Clone)]
pub struct LiveRows {
    /// The columns of the result.
    pub columns: Vec<SqlColumn>,
    /// Its rows, each with a JSON value for each column, in the canonical form of events.
    pub rows: Vec<Vec<Box<RawValue>>>,
    /// The log's end, as the same snapshot saw it.
    pub tip: Position,
    /// The transactions that it saw, as PostgreSQL writes them. None where the log's end says all.
    pub snapshot: Option<String>,
    /// Whether everything that it saw is in the log up to `tip`.
    pub settled: bool,
}

/// What a look at a query before it is run gave.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedQuery {
    /// The columns of the result.
    pub columns: Vec<SqlColumn>,
    /// What the database's planner expects it to cost, where it says.
    pub cost: Option<f64>,
}

/// A live query, as the list has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveQueryRow {
    /// The connection's id, a hyphen, and the client's name for it.
    pub live_id: String,
    /// The connection.
    pub connection_id: String,
    /// The client's name for it.
    pub query_id: String,
    /// Whose it is; empty without a name.
    pub user_id: String,
    /// Its text, as the client sent it.
    pub query: String,
    /// The node that serves it.
    pub node: String,
    /// How it is kept.
    pub plan: String,
    /// What the client calls itself.
    pub user_agent: Option<String>,
    /// From where it is connected.
    pub address: Option<String>,
}

/// What is to change about the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiveQueryEdit {
    /// A query is followed. If the list has it already, what was counted for it stays.
    Open(LiveQueryRow),
    /// It has been told more changes. Nothing happens if the list does not have it.
    Count {
        /// Which.
        live_id: String,
        /// So many more.
        changes: u64,
        /// For how long the last one was under way.
        lag_ms: Option<u64>,
        /// Messages that wait for its connection.
        queue_depth: u64,
        /// How it is kept now.
        plan: String,
    },
    /// It is followed no more.
    Close {
        /// Which.
        live_id: String,
    },
    /// A connection is gone, with all its queries.
    Disconnect {
        /// Which.
        connection_id: String,
    },
}

/// Reads for live queries, and the list of them. See the [module documentation](self).
#[async_trait]
pub trait Queries: Send + Sync {
    /// What names stand for, as SQL would find them by the database's own search path; aligned with what
    /// was asked. Temporary tables, views and Tidewire's own tables are unknown.
    async fn shapes(&self, tables: &[TableRef]) -> Result<Vec<ShapeView>, StoreError>;

    /// Has the database look at a SELECT without running it. An error is the same as when it would be
    /// run; one that reads another table than it says is `sql_refused`.
    async fn check_query(&self, read: &LiveRead) -> Result<CheckedQuery, SqlError>;

    /// What someone who may has to run in the database before live queries of a table, or of all that are watched,
    /// can be read: statements, in order, with all names in them. None where the server itself may do what is
    /// missing.
    async fn live_query_needs(&self, _table: Option<&str>) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    /// Runs a SELECT in a snapshot of its own. `shape_changed` if a table is not as it was. A table that
    /// is being emptied or rewritten is waited for, for a second at most: such a change lies wholly before
    /// the read or after it.
    async fn read_query(&self, read: LiveRead) -> Result<LiveRows, SqlError>;

    /// Changes the list, in order, in one transaction.
    async fn edit_live_queries(&self, edits: Vec<LiveQueryEdit>) -> Result<(), StoreError>;

    /// A row of the list, if its node lives.
    async fn live_query(&self, live_id: &str) -> Result<Option<LiveQueryRow>, StoreError>;

    /// Removes, in batches, rows of nodes that live no more. Returns how many.
    async fn sweep_live_queries(&self) -> Result<u64, StoreError>;
}
