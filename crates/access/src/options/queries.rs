//! Options of live SQL queries.

use std::time::Duration;

use serde::Deserialize;
use tidewire_options::{default_of, ms};

/// What bounds live SQL queries.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueryOptions {
    /// Whether there are any.
    pub enabled: bool,
    /// The role that a shared database runs them as. The store is told when it is opened.
    pub role: String,
    /// Rows of a result.
    pub rows_max: usize,
    /// Bytes of a result.
    pub bytes_max: usize,
    /// Queries of one connection.
    pub per_connection_max: usize,
    /// Queries of one key, user or administrator, on this node.
    pub per_identity_max: usize,
    /// How long the database may work on one.
    #[serde(rename = "timeout_ms", deserialize_with = "ms")]
    pub timeout: Duration,
    /// What its planner may expect one to cost; 0 is no limit.
    pub cost_max: u64,
    /// Reads for queries at once.
    pub reads_max: usize,
    /// How long a query that is run again waits after it was, at least.
    #[serde(rename = "requery_pause_ms", deserialize_with = "ms")]
    pub requery_pause: Duration,
    /// How many of the reads at once may be such.
    pub requeries_max: usize,
    /// How long a result is held until it is known where in the log it stands.
    #[serde(rename = "settle_wait_ms", deserialize_with = "ms")]
    pub settle_wait: Duration,
    /// Rows that a window keeps beyond those that are seen.
    pub window_slack: usize,
    /// Whether those who may see part of a table's rows are kept from learning of others by the time that
    /// its indexes take.
    pub hide_timing: bool,
    /// Bytes that one query keeps.
    pub state_bytes_max: usize,
    /// Bytes that all of them keep.
    pub node_state_bytes_max: usize,
    /// Queries over one table that no index finds.
    pub unindexed_max: usize,
    /// Patterns (LIKE) of one key, user or administrator that each changed row of a table is tried on.
    pub patterns_max: usize,
    /// Changed rows of one transaction that are held for a query.
    pub transaction_rows_max: usize,
    /// Events of the log that a query which is resumed is told again.
    pub resume_events_max: usize,
    /// How often the list of live queries is brought up to date.
    #[serde(rename = "registry_ms", deserialize_with = "ms")]
    pub registry: Duration,
}

impl Default for QueryOptions {
    fn default() -> QueryOptions {
        default_of("queries")
    }
}
