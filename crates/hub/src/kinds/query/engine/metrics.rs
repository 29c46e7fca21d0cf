//! Metrics of live queries.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidewire_query::{AskKind, Engine, PlanName};

use super::task::EngineQuery;
use crate::Hub;
use tidewire_access::exposition::{write_counters, write_gauges};

const PLANS: [PlanName; 4] =
    [PlanName::Filter, PlanName::Window, PlanName::Aggregate, PlanName::Requery];
const KINDS: [&str; 3] = ["begin", "refill", "requery"];

/// Counters and gauges of the query engine. Written by it alone, read by whoever asks.
#[derive(Debug, Default)]
pub(super) struct Counters {
    queries: [AtomicU64; 4],
    subscribers: AtomicU64,
    state_bytes: AtomicU64,
    unindexed: AtomicU64,
    waiting_reads: AtomicU64,
    candidates: AtomicU64,
    hits: AtomicU64,
    demotions: AtomicU64,
    asks: [AtomicU64; 3],
    reads: AtomicU64,
    read_ms: AtomicU64,
    begins: AtomicU64,
    resets: AtomicU64,
    resumes: AtomicU64,
    changes: AtomicU64,
    without_offset: AtomicU64,
    ends: AtomicU64,
    lags: AtomicU64,
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

fn set(gauge: &AtomicU64, value: usize) {
    gauge.store(value as u64, Ordering::Relaxed);
}

impl Counters {
    /// What the engine holds.
    pub(super) fn hold<'a>(
        &self,
        engine: &Engine,
        reads: usize,
        kept: impl Iterator<Item = &'a EngineQuery>,
    ) {
        let stats = engine.stats();
        let mut by_plan = [0; 4];
        for kept in kept {
            by_plan[kept.plan as usize] += 1;
        }
        for (gauge, count) in self.queries.iter().zip(by_plan) {
            set(gauge, count);
        }
        set(&self.subscribers, stats.subscribers);
        set(&self.state_bytes, stats.state_bytes);
        set(&self.unindexed, engine.unindexed());
        set(&self.waiting_reads, reads);
        for (counter, count) in [
            (&self.candidates, stats.candidates),
            (&self.hits, stats.hits),
            (&self.demotions, stats.demotions),
        ] {
            counter.store(count, Ordering::Relaxed);
        }
    }

    pub(super) fn asked(&self, kind: AskKind) {
        add(&self.asks[kind as usize], 1);
    }

    pub(super) fn read(&self, took: Duration) {
        add(&self.reads, 1);
        add(&self.read_ms, u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
    }

    pub(super) fn begun(&self, reset: bool, without_offset: bool) {
        add(&self.begins, 1);
        add(&self.resets, u64::from(reset));
        add(&self.without_offset, u64::from(without_offset));
    }

    pub(super) fn changed(&self, without_offset: bool) {
        add(&self.changes, 1);
        add(&self.without_offset, u64::from(without_offset));
    }

    pub(super) fn resumed(&self) {
        add(&self.resumes, 1);
    }

    pub(super) fn ended(&self, code: &str) {
        tracing::debug!(code, "a live query ended");
        add(&self.ends, 1);
    }

    pub(super) fn lagged(&self) {
        add(&self.lags, 1);
    }
}

/// Writes the metrics of live queries.
pub fn write(body: &mut String, hub: &Hub) -> std::fmt::Result {
    let counters = &hub.queries.counters;
    let read = |value: &AtomicU64| value.load(Ordering::Relaxed);
    let name = "tidewire_queries";
    writeln!(body, "# HELP {name} Live queries that are kept.\n# TYPE {name} gauge")?;
    for (plan, count) in PLANS.iter().zip(&counters.queries) {
        writeln!(body, "{name}{{plan=\"{plan}\"}} {}", read(count))?;
    }
    let name = "tidewire_query_reads_asked";
    writeln!(body, "# HELP {name} Reads that live queries needed.\n# TYPE {name} counter")?;
    for (kind, count) in KINDS.iter().zip(&counters.asks) {
        writeln!(body, "{name}_total{{kind=\"{kind}\"}} {}", read(count))?;
    }
    write_gauges(
        body,
        &[
            ("query_subscribers", "Who follows live queries", read(&counters.subscribers)),
            ("query_state_bytes", "Bytes that live queries keep", read(&counters.state_bytes)),
            ("query_unindexed", "Queries tested on all rows", read(&counters.unindexed)),
            ("query_reads_waiting", "Reads not done yet", read(&counters.waiting_reads)),
        ],
    )?;
    write_counters(
        body,
        &[
            ("query_candidates", "Queries looked at for events", read(&counters.candidates)),
            ("query_hits", "Queries that events concerned", read(&counters.hits)),
            ("query_demotions", "Queries run again from then on", read(&counters.demotions)),
            ("query_reads", "Reads that were done", read(&counters.reads)),
            ("query_read_milliseconds", "Time that they took", read(&counters.read_ms)),
            ("query_results", "Results told whole", read(&counters.begins)),
            ("query_resets", "Of these, in place of what was told", read(&counters.resets)),
            ("query_resumes", "Followers that went on from an offset", read(&counters.resumes)),
            ("query_changes", "Changes of results", read(&counters.changes)),
            ("query_without_offset", "Told before settled", read(&counters.without_offset)),
            ("query_ends", "Ended other than by who followed", read(&counters.ends)),
            ("query_desk_lags", "Times that the log ran ahead", read(&counters.lags)),
        ],
    )
}
