//! Counters and histograms of a node, as its routes count. `scrape` shows them, with all that others count.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::http::{Method, StatusCode};
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::access::auth::audit::Counts;

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

    /// Writes what was counted here. Writing into a String cannot fail.
    pub(crate) fn write(&self, body: &mut String) -> std::fmt::Result {
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        text::encode_registry(body, &registry)
    }
}

const METHODS: &[&str] = &["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS"];

/// The method's name, if it is one that is counted by name. Labels that clients could choose would
/// let them fill the memory.
fn known(method: &Method) -> &'static str {
    METHODS.iter().copied().find(|name| *name == method.as_str()).unwrap_or("other")
}
