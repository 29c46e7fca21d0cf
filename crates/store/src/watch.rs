//! Watched tables: whose rows' changes come into the log.
//!
//! On SQLite changes are caught where they are made, in the server's own process. PostgreSQL has one
//! source of them at a time ([`CaptureMode`]), and one node at a time that brings them into the log:
//! what that needs is done by `tidewire-capture`, and what people may ask of it is here.

use async_trait::async_trait;

use crate::error::StoreError;
use crate::offset::Position;
use crate::sql::SqlError;
use crate::stats::CaptureStats;

/// What to watch, and how.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewWatch {
    /// The table: `orders`, `sales.orders`, `"Odd Name"`, as one writes it in SQL.
    pub table: String,
    /// The columns that tell a row from others. None: the primary key; without one, the whole row.
    pub key_columns: Option<Vec<String>>,
    /// What its rows are to those who subscribe to entities.
    pub entity_code: Option<String>,
    /// The column that says whose tenant's a row is.
    pub host_column: Option<String>,
    /// The column that says which user's a row is.
    pub user_column: Option<String>,
}

/// A watched table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchView {
    /// Its name, as its events have it.
    pub table: String,
    /// The stream that has its changes.
    pub stream: String,
    /// The columns that tell rows apart; none if the whole row does.
    pub key_columns: Vec<String>,
    /// What its rows are to those who subscribe to entities.
    pub entity_code: Option<String>,
    /// The column that says whose tenant's a row is.
    pub host_column: Option<String>,
    /// The column that says which user's a row is.
    pub user_column: Option<String>,
    /// Since when it is watched.
    pub created_at_ms: i64,
    /// Changes that came into the log since.
    pub events: u64,
    /// Where the last of them lies.
    pub last: Option<Position>,
    /// Changes that are committed and not in the log yet, where that is known.
    pub waiting: u64,
    /// For how long the oldest of them has been waiting.
    pub waiting_ms: u64,
    /// What whoever watches it should know: what is not captured with it.
    pub notes: Vec<String>,
}

/// How SQL calls a watched table, whose events may have another name for it: it may have been renamed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedName {
    /// Its name, as its events have it.
    pub table: String,
    /// The schema it is in.
    pub schema: String,
    /// Its name there, as the database keeps it.
    pub name: String,
    /// Whether SQL finds it by that name without the schema.
    pub bare: bool,
    /// The watched tables that it inherits from, by the names of their events: its rows are theirs too.
    pub ancestors: Vec<String>,
}

/// A column of a watched table, as its rows' images have it: generated ones are not among them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ColumnView {
    /// Its name.
    pub name: String,
    /// Its type, as the database calls it: `int4`, `text`. One that is not the database's own has its
    /// schema before it, and an enum that word (`enum public.mood`). On SQLite as it was declared.
    pub type_name: String,
    /// How its texts compare, if it has texts: `C` where that is by their bytes (`BINARY` on SQLite),
    /// else the collation's name. One that a user made is in quotes, with its schema: under it
    /// different texts may be equal.
    pub collation: Option<String>,
}

/// What a name of a table stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableView {
    /// A table that is watched.
    Watched {
        /// Its columns as they are.
        columns: Vec<ColumnView>,
        /// Those that tell rows apart; none if the whole row does.
        key_columns: Vec<String>,
        /// The one that says whose tenant's a row is.
        host_column: Option<String>,
    },
    /// A table whose changes are not captured.
    NotWatched,
    /// Nothing.
    Unknown,
}

/// Where the events of rows come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaptureMode {
    /// From the server's own process: the embedded store.
    Embedded,
    /// From triggers on the tables, by way of the staging table.
    Outbox,
    /// From the database's write-ahead log.
    Wal,
}

impl CaptureMode {
    /// By which people know it.
    pub fn as_str(self) -> &'static str {
        match self {
            CaptureMode::Embedded => "embedded",
            CaptureMode::Outbox => "outbox",
            CaptureMode::Wal => "wal",
        }
    }

    /// Reads what [`CaptureMode::as_str`] wrote.
    pub fn parse(word: &str) -> Option<CaptureMode> {
        [CaptureMode::Embedded, CaptureMode::Outbox, CaptureMode::Wal]
            .into_iter()
            .find(|mode| mode.as_str() == word)
    }
}

/// A table that was changed past capture, and was brought together with the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairView {
    /// The table, as its events have it.
    pub table: String,
    /// What had happened.
    pub why: String,
    /// When it was repaired.
    pub at_ms: i64,
    /// How many events told the difference. None: it was too much to compare, and those who follow the table were
    /// told to read it again.
    pub events: Option<u64>,
}

/// How changes come into the log, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaptureView {
    /// Where they come from.
    pub mode: CaptureMode,
    /// Whether anyone has chosen that. If not, a node that runs will.
    pub decided: bool,
    /// Why that way, in a sentence.
    pub reason: String,
    /// What stands in the way of the other, and what to do about it. Empty if nothing does.
    pub advice: Vec<String>,
    /// The node that brings them into the log, if one does.
    pub leader: Option<String>,
    /// Rows that wait for their place in the log.
    pub waiting: u64,
    /// For how long the oldest of them has been waiting.
    pub waiting_ms: u64,
    /// Rows that could not be published and are tried again.
    pub failed: u64,
    /// Rows that were given up.
    pub dead: u64,
    /// What the database keeps of its write-ahead log for us, in bytes.
    pub retained_wal_bytes: Option<u64>,
    /// For each watched table the last time it had to be repaired, the latest first.
    pub repairs: Vec<RepairView>,
}

/// The watched tables of a store. See the [module documentation](self).
#[async_trait]
pub trait Watches: Send + Sync {
    /// Watches a table, or changes how it is watched. Changes that commit after this are captured.
    async fn watch(&self, watch: NewWatch) -> Result<WatchView, SqlError>;

    /// Stops watching a table and ends its stream; false if it was not watched.
    async fn unwatch(&self, table: &str) -> Result<bool, SqlError>;

    /// What is watched, in order of name.
    async fn watches(&self) -> Result<Vec<WatchView>, StoreError>;

    /// How SQL calls what is watched. One that is not there any more is left out.
    async fn watched_names(&self) -> Result<Vec<WatchedName>, StoreError>;

    /// What a table is made of, by the name that its events have.
    async fn columns(&self, table: &str) -> Result<TableView, StoreError>;

    /// How changes come into the log.
    async fn capture(&self) -> Result<CaptureView, StoreError>;

    /// Takes them from another source from now on. Loses nothing: it waits for the transactions that
    /// have written to watched tables, while those that come later wait for it.
    async fn switch_capture(&self, mode: CaptureMode) -> Result<CaptureView, SqlError>;

    /// What this node counted while it brought changes into the log. None where that takes no part of
    /// its own.
    fn capture_stats(&self) -> Option<CaptureStats> {
        None
    }
}
