//! A shard's counters. Written by its shard alone, read by whoever asks.

use std::sync::atomic::{AtomicU64, Ordering};

/// Upper bounds of the push latency's buckets, in milliseconds.
pub(crate) const LATENCY_MS: &[u64] = &[1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 5_000, 30_000];

/// Counters and gauges of one shard.
#[derive(Debug, Default)]
pub struct Stats {
    pub(crate) websockets: AtomicU64,
    pub server_sent: AtomicU64,
    pub readers: AtomicU64,
    pub subscriptions: AtomicU64,
    pub streams: AtomicU64,
    pub queued_events: AtomicU64,
    pub queued_bytes: AtomicU64,
    pub(crate) queue_age_ms: AtomicU64,
    pub(crate) pushed: AtomicU64,
    pub(crate) push_failures: AtomicU64,
    pub(crate) gaps: AtomicU64,
    pub silent: AtomicU64,
    pub(crate) replays: AtomicU64,
    pub(crate) replayed_events: AtomicU64,
    pub(crate) replayed_bytes: AtomicU64,
    pub entities: AtomicU64,
    pub(crate) invalidations: AtomicU64,
    /// One more than there are bounds.
    pub(crate) latency: [AtomicU64; 13],
    pub(crate) latency_sum_ms: AtomicU64,
}

const _: () = assert!(LATENCY_MS.len() + 1 == 13);

/// Adds to a counter of which there is one writer.
pub(super) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

/// Takes from a gauge of which there is one writer.
pub(super) fn subtract(gauge: &AtomicU64, count: u64) {
    gauge.fetch_sub(count, Ordering::Relaxed);
}

pub(super) fn set(gauge: &AtomicU64, value: usize) {
    gauge.store(value as u64, Ordering::Relaxed);
}

impl Stats {
    /// Counts events that reached a socket some time after they were appended.
    pub(super) fn pushed(&self, events: u64, latency_ms: i64) {
        let latency_ms = u64::try_from(latency_ms).unwrap_or(0);
        let bucket = LATENCY_MS.partition_point(|bound| *bound < latency_ms);
        add(&self.latency[bucket], events);
        add(&self.latency_sum_ms, latency_ms * events);
        add(&self.pushed, events);
    }
}

/// What all shards counted together.
#[derive(Debug, Default)]
pub struct Totals {
    pub(crate) websockets: u64,
    pub server_sent: u64,
    pub subscriptions: u64,
    pub queued_events: u64,
    pub queued_bytes: u64,
    pub(crate) queue_age_ms: u64,
    pub(crate) pushed: u64,
    pub(crate) push_failures: u64,
    pub(crate) gaps: u64,
    pub silent: u64,
    pub(crate) replays: u64,
    pub(crate) replayed_events: u64,
    pub(crate) replayed_bytes: u64,
    pub entities: u64,
    pub(crate) invalidations: u64,
    pub(crate) latency: [u64; 13],
    pub(crate) latency_sum_ms: u64,
}

impl Totals {
    pub(super) fn of<'a>(shards: impl Iterator<Item = &'a Stats>) -> Totals {
        let mut totals = Totals::default();
        for stats in shards {
            let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            totals.websockets += read(&stats.websockets);
            totals.server_sent += read(&stats.server_sent);
            totals.subscriptions += read(&stats.subscriptions);
            totals.queued_events += read(&stats.queued_events);
            totals.queued_bytes += read(&stats.queued_bytes);
            totals.queue_age_ms = totals.queue_age_ms.max(read(&stats.queue_age_ms));
            totals.pushed += read(&stats.pushed);
            totals.push_failures += read(&stats.push_failures);
            totals.gaps += read(&stats.gaps);
            totals.silent += read(&stats.silent);
            totals.replays += read(&stats.replays);
            totals.replayed_events += read(&stats.replayed_events);
            totals.replayed_bytes += read(&stats.replayed_bytes);
            totals.entities += read(&stats.entities);
            totals.invalidations += read(&stats.invalidations);
            totals.latency_sum_ms += read(&stats.latency_sum_ms);
            for (total, count) in totals.latency.iter_mut().zip(&stats.latency) {
                *total += read(count);
            }
        }
        totals
    }

    /// Live connections.
    pub fn connections(&self) -> u64 {
        self.websockets + self.server_sent
    }
}
