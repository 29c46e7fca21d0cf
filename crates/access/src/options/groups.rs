//! Options of consumer groups over HTTP.

use std::time::Duration;

use serde::Deserialize;
use tidewire_options::{default_of, ms};

/// What bounds batches, leases and waits of consumer groups.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupOptions {
    /// Events of a batch, for who does not say how many.
    pub batch_size: usize,
    /// Events of a batch that may be asked for.
    pub batch_size_max: usize,
    /// Bytes that a batch is made of, if no transaction alone has more.
    pub batch_bytes: usize,
    /// Bytes of batches that a node has in memory, with the answers that are made of them.
    pub batch_memory_bytes_max: usize,
    /// How long a worker has, if it does not say.
    #[serde(rename = "lease_ms", deserialize_with = "ms")]
    pub lease: Duration,
    /// How long it may ask for.
    #[serde(rename = "lease_ms_max", deserialize_with = "ms")]
    pub lease_max: Duration,
    /// How long a claim waits for work, if it does not say.
    #[serde(rename = "wait_ms", deserialize_with = "ms")]
    pub wait: Duration,
    /// How long it may ask for.
    #[serde(rename = "wait_ms_max", deserialize_with = "ms")]
    pub wait_max: Duration,
    /// How long a partition waits after its first failure; twice as long after each further one,
    #[serde(rename = "retry_ms", deserialize_with = "ms")]
    pub retry: Duration,
    /// and at most this.
    #[serde(rename = "retry_ms_max", deserialize_with = "ms")]
    pub retry_max: Duration,
    /// Events of one batch: a transaction that has more stops its partition.
    pub transaction_events_max: usize,
    /// Bytes likewise.
    pub transaction_bytes_max: usize,
    /// Bytes of the log that are kept in memory for a group whose workers claim here.
    pub page_cache_bytes_max: usize,
    /// Offsets that are looked through to say how many events a partition is behind.
    pub lag_scan_max: u64,
    /// How often groups are looked at for metrics, and what nobody works on is moved along.
    #[serde(rename = "metrics_ms", deserialize_with = "ms")]
    pub metrics: Duration,
}

impl GroupOptions {
    /// Events that a batch may have, and so statements of an ack, and keys of a nack.
    pub fn events_max(&self) -> usize {
        self.transaction_events_max.max(self.batch_size_max)
    }
}

impl Default for GroupOptions {
    fn default() -> GroupOptions {
        default_of("groups")
    }
}
