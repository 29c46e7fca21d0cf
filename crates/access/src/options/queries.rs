//! Options of live SQL queries.

use std::time::Duration;

/// What bounds live SQL queries.
#[derive(Debug, Clone)]
pub struct QueryOptions {
    /// Whether there are any.
    pub enabled: bool,
    /// Rows of a result.
    pub rows_max: usize,
    /// Bytes of a result.
    pub bytes_max: usize,
    /// Queries of one connection.
    pub per_connection_max: usize,
    /// Queries of one key, user or administrator, on this node.
    pub per_identity_max: usize,
    /// How long the database may work on one.
    pub timeout: Duration,
    /// What its planner may expect one to cost; 0 is no limit.
    pub cost_max: u64,
    /// Reads for queries at once.
    pub reads_max: usize,
    /// How long a query that is run again waits after it was, at least.
    pub requery_pause: Duration,
    /// How many of the reads at once may be such.
    pub requeries_max: usize,
    /// How long a result is held until it is known where in the log it stands.
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
    pub registry: Duration,
}

impl Default for QueryOptions {
    fn default() -> QueryOptions {
        QueryOptions {
            enabled: true,
            rows_max: 10_000,
            bytes_max: 8 << 20,
            per_connection_max: 1_000,
            per_identity_max: 10_000,
            timeout: Duration::from_secs(5),
            cost_max: 1_000_000,
            reads_max: 8,
            requery_pause: Duration::from_millis(50),
            requeries_max: 4,
            settle_wait: Duration::from_millis(250),
            window_slack: 64,
            hide_timing: true,
            state_bytes_max: 8 << 20,
            node_state_bytes_max: 512 << 20,
            unindexed_max: 10_000,
            patterns_max: 100,
            transaction_rows_max: 10_000,
            resume_events_max: 100_000,
            registry: Duration::from_secs(1),
        }
    }
}
