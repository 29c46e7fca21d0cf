//! `[queries]`: live SQL queries.

use std::time::Duration;

use serde::Deserialize;
use tidewire_deliver as deliver;

use super::reading::ms;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Queries {
    enabled: bool,
    /// Whom the database takes live queries for. Read by the store.
    pub(super) role: String,
    rows_max: usize,
    bytes_max: usize,
    per_connection_max: usize,
    per_identity_max: usize,
    #[serde(deserialize_with = "ms")]
    timeout_ms: Duration,
    cost_max: u64,
    reads_max: usize,
    #[serde(deserialize_with = "ms")]
    requery_pause_ms: Duration,
    requeries_max: usize,
    #[serde(deserialize_with = "ms")]
    settle_wait_ms: Duration,
    window_slack: usize,
    hide_timing: bool,
    state_bytes_max: usize,
    node_state_bytes_max: usize,
    unindexed_max: usize,
    patterns_max: usize,
    transaction_rows_max: usize,
    resume_events_max: usize,
    #[serde(deserialize_with = "ms")]
    registry_ms: Duration,
}

impl Queries {
    pub(super) fn options(&self) -> deliver::QueryOptions {
        deliver::QueryOptions {
            enabled: self.enabled,
            rows_max: self.rows_max,
            bytes_max: self.bytes_max,
            per_connection_max: self.per_connection_max,
            per_identity_max: self.per_identity_max,
            timeout: self.timeout_ms,
            cost_max: self.cost_max,
            reads_max: self.reads_max,
            requery_pause: self.requery_pause_ms,
            requeries_max: self.requeries_max,
            settle_wait: self.settle_wait_ms,
            window_slack: self.window_slack,
            hide_timing: self.hide_timing,
            state_bytes_max: self.state_bytes_max,
            node_state_bytes_max: self.node_state_bytes_max,
            unindexed_max: self.unindexed_max,
            patterns_max: self.patterns_max,
            transaction_rows_max: self.transaction_rows_max,
            resume_events_max: self.resume_events_max,
            registry: self.registry_ms,
        }
    }
}
