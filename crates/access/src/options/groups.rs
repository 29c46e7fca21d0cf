//! Options of consumer groups over HTTP.

use std::time::Duration;

/// What bounds batches, leases and waits of consumer groups.
#[derive(Debug, Clone)]
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
    pub lease: Duration,
    /// How long it may ask for.
    pub lease_max: Duration,
    /// How long a claim waits for work, if it does not say.
    pub wait: Duration,
    /// How long it may ask for.
    pub wait_max: Duration,
    /// How long a partition waits after its first failure; twice as long after each further one,
    pub retry: Duration,
    /// and at most this.
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
        GroupOptions {
            batch_size: 100,
            batch_size_max: 10_000,
            batch_bytes: 4 << 20,
            batch_memory_bytes_max: 512 << 20,
            lease: Duration::from_secs(30),
            lease_max: Duration::from_secs(600),
            wait: Duration::from_secs(20),
            wait_max: Duration::from_secs(60),
            retry: Duration::from_millis(100),
            retry_max: Duration::from_secs(30),
            transaction_events_max: 10_000,
            transaction_bytes_max: 64 << 20,
            page_cache_bytes_max: 64 << 20,
            lag_scan_max: 100_000,
            metrics: Duration::from_secs(5),
        }
    }
}
