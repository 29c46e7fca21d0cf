//! Metrics of the hub.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use super::stats::LATENCY_MS;
use crate::Hub;
use tidewire_access::exposition::{write_counters, write_gauges};

/// Writes the hub's metrics.
pub fn write(body: &mut String, hub: &Hub) -> std::fmt::Result {
    let totals = hub.shards.totals();
    write_gauges(
        body,
        &[
            ("live_websockets", "Open WebSockets", totals.websockets),
            ("live_server_sent", "Open SSE connections of sessions", totals.server_sent),
            ("live_subscriptions", "Subscriptions of live connections", totals.subscriptions),
            ("live_entities", "Entities that live connections subscribe to", totals.entities),
            ("live_queue_events", "Events that wait for a slow client", totals.queued_events),
            ("live_queue_bytes", "Bytes that wait for a slow client", totals.queued_bytes),
            ("live_queue_age_milliseconds", "How long the oldest has waited", totals.queue_age_ms),
            ("memory_resident_bytes", "Resident memory", hub.access.memory.resident_bytes()),
            ("memory_budget_bytes", "What it may be", hub.access.memory.budget_bytes()),
        ],
    )?;
    write_counters(
        body,
        &[
            ("live_pushed_events", "Events written to live connections", totals.pushed),
            ("live_invalidations", "Changes of entities that were told", totals.invalidations),
            ("live_push_failures", "Connections that broke while written to", totals.push_failures),
            ("live_gaps", "Times that waiting events became a gap", totals.gaps),
            ("live_silent_closed", "Connections closed for their silence", totals.silent),
            ("live_catch_ups", "Replays of the past to live connections", totals.replays),
            ("live_catch_up_events", "Events of those replays", totals.replayed_events),
            ("live_catch_up_bytes", "Bytes of those replays", totals.replayed_bytes),
        ],
    )?;
    shards(body, hub)?;
    let name = "tidewire_live_push_seconds";
    writeln!(body, "# HELP {name} From an event's append to the write to a socket.")?;
    writeln!(body, "# TYPE {name} histogram")?;
    let mut count = 0;
    for (index, in_bucket) in totals.latency.iter().enumerate() {
        count += in_bucket;
        match LATENCY_MS.get(index) {
            #[expect(clippy::cast_precision_loss, reason = "a few thousand milliseconds")]
            Some(bound) => {
                writeln!(body, "{name}_bucket{{le=\"{}\"}} {count}", *bound as f64 / 1e3)?;
            }
            None => writeln!(body, "{name}_bucket{{le=\"+Inf\"}} {count}")?,
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "a metric; 53 bits of it are enough")]
    writeln!(body, "{name}_sum {}", totals.latency_sum_ms as f64 / 1e3)?;
    writeln!(body, "{name}_count {count}")
}

/// Each shard's share.
fn shards(body: &mut String, hub: &Hub) -> std::fmt::Result {
    let name = "tidewire_live_shard_connections";
    writeln!(body, "# HELP {name} Live connections of a shard.\n# TYPE {name} gauge")?;
    for (shard, stats) in hub.shards.stats().enumerate() {
        let read = |value: &std::sync::atomic::AtomicU64| value.load(Ordering::Relaxed);
        let connections = read(&stats.websockets) + read(&stats.server_sent) + read(&stats.readers);
        writeln!(body, "{name}{{shard=\"{shard}\"}} {connections}")?;
    }
    let name = "tidewire_live_shard_pushed_events";
    writeln!(body, "# HELP {name} Events written by a shard.\n# TYPE {name} counter")?;
    for (shard, stats) in hub.shards.stats().enumerate() {
        let pushed = stats.pushed.load(Ordering::Relaxed);
        writeln!(body, "{name}_total{{shard=\"{shard}\"}} {pushed}")?;
    }
    Ok(())
}
