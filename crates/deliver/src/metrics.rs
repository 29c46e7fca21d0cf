//! Counters, gauges and histograms of a node.
//!
//! What the store and the tail count themselves is read when someone asks, so that counting costs
//! the hot paths nothing twice.

use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::http::{Method, StatusCode};
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use tidewire_store::CaptureStats;

use crate::access::auth::audit::Counts;
use crate::node::Node;
use crate::wire::exposition::{write_counters, write_gauges};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: &'static str,
    method: &'static str,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

/// What this node counts.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Mutex<Registry>,
    requests: Family<RequestLabels, Counter>,
    request_seconds: Histogram,
    webhooks: Family<ReasonLabels, Counter>,
    certificates: Family<ReasonLabels, Counter>,
    connections_refused: Family<ReasonLabels, Counter>,
    connections_cut: Family<ReasonLabels, Counter>,
    pub(crate) connections: Gauge,
    pub(crate) streams_expired: Counter,
    pub(crate) events_purged: Counter,
    pub(crate) sessions_opened: Counter,
    pub(crate) sessions_expired: Counter,
    pub(crate) reconnects: Counter,
    pub(crate) resumes: Counter,
}

impl Metrics {
    /// Those, and what access counts.
    pub(crate) fn new(of_access: &Counts) -> Metrics {
        let mut registry = Registry::with_prefix("tidewire");
        let metrics = Metrics {
            requests: Family::default(),
            // 0.1 ms to about 26 s; long-polls end beyond it by design.
            request_seconds: Histogram::new(exponential_buckets(0.0001, 4.0, 10)),
            webhooks: Family::default(),
            certificates: Family::default(),
            connections_refused: Family::default(),
            connections_cut: Family::default(),
            connections: Gauge::default(),
            streams_expired: Counter::default(),
            events_purged: Counter::default(),
            sessions_opened: Counter::default(),
            sessions_expired: Counter::default(),
            reconnects: Counter::default(),
            resumes: Counter::default(),
            registry: Mutex::new(Registry::default()),
        };
        registry.register("http_requests", "Requests answered", metrics.requests.clone());
        registry.register(
            "http_request_seconds",
            "Time from a request's arrival to the head of its answer",
            metrics.request_seconds.clone(),
        );
        of_access.register(&mut registry);
        for (name, help, family) in [
            ("webhooks", "Webhook deliveries", &metrics.webhooks),
            ("tls_certificates", "Certificates that came while running", &metrics.certificates),
            ("connections_refused", "Connections not begun", &metrics.connections_refused),
            ("connections_cut", "Connections cut off for their slowness", &metrics.connections_cut),
        ] {
            registry.register(name, help, family.clone());
        }
        registry.register("connections", "Open connections", metrics.connections.clone());
        registry.register(
            "streams_expired",
            "Streams whose time to live ran out",
            metrics.streams_expired.clone(),
        );
        registry.register(
            "events_purged",
            "Events of deleted streams removed from disk",
            metrics.events_purged.clone(),
        );
        for (name, help, counter) in [
            ("sessions_opened", "Sessions opened", &metrics.sessions_opened),
            ("sessions_expired", "Sessions that expired", &metrics.sessions_expired),
            ("live_reconnects", "SSE clients that came back with a cursor", &metrics.reconnects),
            ("live_resumes", "Sessions that came back to what they followed", &metrics.resumes),
        ] {
            registry.register(name, help, counter.clone());
        }
        *metrics.registry.lock().unwrap_or_else(PoisonError::into_inner) = registry;
        metrics
    }

    pub(crate) fn webhook(&self, reason: &'static str) {
        self.webhooks.get_or_create(&ReasonLabels { reason }).inc();
    }

    /// Counts what became of a certificate that was found while running.
    pub(crate) fn certificate(&self, outcome: &'static str) {
        self.certificates.get_or_create(&ReasonLabels { reason: outcome }).inc();
    }

    /// Counts a connection that was closed before a request could be made over it.
    pub(crate) fn refused(&self, reason: &'static str) {
        self.connections_refused.get_or_create(&ReasonLabels { reason }).inc();
    }

    /// Counts a connection whose client was too slow, or silent for too long.
    pub(crate) fn cut(&self, reason: &'static str) {
        self.connections_cut.get_or_create(&ReasonLabels { reason }).inc();
    }

    /// Counts a request, and how long the head of its answer took.
    pub(crate) fn answered(
        &self,
        route: &'static str,
        method: &Method,
        status: StatusCode,
        took: Duration,
    ) {
        let (method, code) = (known(method), status.as_u16());
        self.requests.get_or_create(&RequestLabels { route, method, status: code }).inc();
        self.request_seconds.observe(took.as_secs_f64());
        if status.is_server_error() {
            tracing::warn!(method, route, status = code, ?took, "request failed");
        } else {
            tracing::debug!(method, route, status = code, ?took, "request");
        }
    }

    /// The text that a scraper gets.
    pub(crate) fn render(&self, node: &Node) -> String {
        let mut body = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        // Writing into a String cannot fail.
        let _ = text::encode_registry(&mut body, &registry);
        let _ = observed(&mut body, node);
        body.push_str("# EOF\n");
        body
    }
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
    crate::hub::write_metrics(body, &node.hub)?;
    crate::hub::kinds::query::engine::write_metrics(body, &node.hub)?;
    crate::groups::write_metrics(body, node)?;
    if let Some(capture) = node.store.capture_stats() {
        write_capture(body, &capture)?;
    }
    node.retention.write(body)?;
    commits.commit_seconds.write(body, "append_commit_seconds", "Time from begin to durable")?;
    commits.commit_events.write(body, "append_commit_events", "Events of one commit")?;
    let readers_max = node.options.limits.live_readers_max;
    let gauges = [
        (
            "live_readers",
            "Readers that wait",
            (readers_max - node.live_readers.available_permits()) as u64,
        ),
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

const METHODS: &[&str] = &["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS"];

/// The method's name, if it is one that is counted by name. Labels that clients could choose would
/// let them fill the memory.
fn known(method: &Method) -> &'static str {
    METHODS.iter().copied().find(|name| *name == method.as_str()).unwrap_or("other")
}
