//! `[groups]`: consumer groups.

use std::time::Duration;

use serde::Deserialize;
use tidewire_deliver as deliver;

use super::reading::ms;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Groups {
    batch_size: usize,
    batch_size_max: usize,
    batch_bytes: usize,
    batch_memory_bytes_max: usize,
    #[serde(deserialize_with = "ms")]
    lease_ms: Duration,
    #[serde(deserialize_with = "ms")]
    lease_ms_max: Duration,
    #[serde(deserialize_with = "ms")]
    wait_ms: Duration,
    #[serde(deserialize_with = "ms")]
    wait_ms_max: Duration,
    #[serde(deserialize_with = "ms")]
    retry_ms: Duration,
    #[serde(deserialize_with = "ms")]
    retry_ms_max: Duration,
    transaction_events_max: usize,
    transaction_bytes_max: usize,
    page_cache_bytes_max: usize,
    lag_scan_max: u64,
    #[serde(deserialize_with = "ms")]
    metrics_ms: Duration,
}

impl Groups {
    pub(super) fn options(&self) -> deliver::GroupOptions {
        deliver::GroupOptions {
            batch_size: self.batch_size,
            batch_size_max: self.batch_size_max,
            batch_bytes: self.batch_bytes,
            batch_memory_bytes_max: self.batch_memory_bytes_max,
            lease: self.lease_ms,
            lease_max: self.lease_ms_max,
            wait: self.wait_ms,
            wait_max: self.wait_ms_max,
            retry: self.retry_ms,
            retry_max: self.retry_ms_max,
            transaction_events_max: self.transaction_events_max,
            transaction_bytes_max: self.transaction_bytes_max,
            page_cache_bytes_max: self.page_cache_bytes_max,
            lag_scan_max: self.lag_scan_max,
            metrics: self.metrics_ms,
        }
    }
}
