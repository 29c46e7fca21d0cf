//! What a scraper gets: all that a node counts.
//!
//! What the store and the tail count themselves is read when someone asks, so that counting costs
//! the hot paths nothing twice.

use std::fmt::Write as _;

use tidewire_store::CaptureStats;

use crate::node::Node;
use tidewire_access::exposition::{write_counters, write_gauges};

/// The text that a scraper gets.
pub(crate) fn render(node: &Node) -> String {
    let mut body = String::new();
    // Writing into a String cannot fail.
    let _ = node.metrics.write(&mut body);
    let _ = observed(&mut body, node);
    body.push_str("# EOF\n");
    body
}

/// What the store and the tail counted.
fn observed(body: &mut String, node: &Node) -> std::fmt::Result {
    let commits = node.store.commit_stats();
    let counters = [
        ("append_commits", "Commits that put events into the log", commits.commits),
        ("append_commands", "Commands answered from those commits", commits.commands),
        ("append_events", "Events that got an offset", commits.events),
        ("append_bytes", "Payload bytes of those events", commits.bytes),
        ("append_commit_failures", "Commits that failed", commits.failures),
        (
            "foreign_writes",
            "Times that another process was noticed to have written to the embedded store",
            commits.foreign_writes,
        ),
    ];
    write_counters(body, &counters)?;
    node.access.budget.write_metrics(body)?;
    tidewire_hub::write_metrics(body, &node.hub)?;
    tidewire_hub::kinds::query::engine::write_metrics(body, &node.hub)?;
    crate::groups::write_metrics(body, &node.groups)?;
    if let Some(capture) = node.store.capture_stats() {
        write_capture(body, &capture)?;
    }
    node.retention.write(body)?;
    commits.commit_seconds.write(body, "append_commit_seconds", "Time from begin to durable")?;
    commits.commit_events.write(body, "append_commit_events", "Events of one commit")?;
    let gauges = [
        ("live_readers", "Readers that wait", node.live_readers.waiting() as u64),
        ("attended_streams", "Streams that someone waits for", node.hub.tail.attended() as u64),
        ("tail_position", "Where this node stands in the log", node.hub.tail.position().number()),
        (
            "tail_lag_milliseconds",
            "From the newest event's append to its arrival here",
            node.hub.tail.lag_ms(),
        ),
    ];
    write_gauges(body, &gauges)
}

/// What came of this node's part in capture. The gauges are those of the node that leads; elsewhere
/// they are 0.
fn write_capture(body: &mut String, capture: &CaptureStats) -> std::fmt::Result {
    let counters = [
        ("capture_events", "Captured events that this node brought into the log", capture.events),
        ("capture_batches", "Commits in which it did", capture.batches),
        ("capture_rounds", "Looks at what was captured", capture.rounds),
        ("capture_failures", "Attempts at captured events that failed", capture.failures),
        ("capture_dead_letters", "Captured events that were given up", capture.dead),
        ("capture_elections", "Times this node began to lead", capture.elections),
    ];
    write_counters(body, &counters)?;
    let gauges = [
        ("capture_leader", "Whether this node brings captured changes", u64::from(capture.leads)),
        ("capture_waiting_rows", "Rows that wait for their place in the log", capture.waiting),
        ("capture_lag_milliseconds", "Age of the oldest row that waits", capture.lag_ms),
        ("capture_failed_rows", "Rows that failed and are tried again", capture.failed_waiting),
        (
            "capture_retained_wal_bytes",
            "Write-ahead log that the database keeps for the replication slot",
            capture.retained_wal_bytes,
        ),
        (
            "capture_unread_wal_bytes",
            "Write-ahead log written since what was confirmed",
            capture.unread_wal_bytes,
        ),
    ];
    write_gauges(body, &gauges)
}

/// Writes a histogram that something else kept.
trait WriteHistogram {
    fn write(&self, body: &mut String, name: &str, help: &str) -> std::fmt::Result;
}

impl WriteHistogram for tidewire_store::Distribution {
    fn write(&self, body: &mut String, name: &str, help: &str) -> std::fmt::Result {
        writeln!(body, "# HELP tidewire_{name} {help}.\n# TYPE tidewire_{name} histogram")?;
        for (bound, count) in self.cumulative() {
            match bound {
                Some(bound) => writeln!(body, "tidewire_{name}_bucket{{le=\"{bound}\"}} {count}")?,
                None => writeln!(body, "tidewire_{name}_bucket{{le=\"+Inf\"}} {count}")?,
            }
        }
        writeln!(body, "tidewire_{name}_sum {}", self.sum)?;
        writeln!(body, "tidewire_{name}_count {}", self.count)
    }
}
