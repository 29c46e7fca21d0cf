//! So many queries of one form: what they take, and what an event costs beside them.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use serde::{Deserialize, Serialize};
use tidewire_query::{Conditions, Index, Predicate, QueryId};

use super::lookup::Lookup;
use super::queries::{Family, HUNDRED, orders};
use super::timing::thread_time;
use super::whole;
use crate::cpu;

/// Different rows that change in turn: many enough that what they touch of the index is in no cache.
const ROWS: usize = 8_192;
/// With fewer queries the growth of a process says nothing of one of them.
const MEMORY_FROM: usize = 100_000;
/// Rows that all queries are tested on one by one.
const SCANNED_MAX: usize = 64;

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Combination {
    pub(super) family: Family,
    pub(super) queries: usize,
    /// How long events are looked up, of each kind.
    pub(super) event_ms: u64,
    /// The whole engine, and not its index alone.
    pub(super) whole: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Measured {
    #[serde(flatten)]
    pub(super) combination: Combination,
    /// An event that no query matches, that one does, and that a hundred do: from the image of its row.
    pub(super) none_ns: f64,
    pub(super) one_ns: f64,
    pub(super) hundred_ns: f64,
    /// The first of these without the reading of its image.
    pub(super) found_ns: f64,
    /// Testing an event on all queries, one by one.
    pub(super) scan_ns: f64,
    pub(super) query_bytes: Option<f64>,
    pub(super) added_per_second: f64,
    pub(super) from_text_per_second: f64,
    pub(super) removed_per_second: f64,
    /// Queries that every event is tested on.
    pub(super) unindexed: usize,
}

/// Measures one combination, and prints it for the process that asked.
pub(crate) fn measure(combination: &str) -> Result<()> {
    let combination: Combination = serde_json::from_str(combination)?;
    let measured = match combination.whole {
        true => serde_json::to_string(&whole::measure(combination)?)?,
        false => serde_json::to_string(&measure_index(combination)?)?,
    };
    println!("{measured}");
    Ok(())
}

fn measure_index(combination: Combination) -> Result<Measured> {
    let Combination { family, queries, event_ms, .. } = combination;
    let table = orders();
    // Made first, so that they lie together, as what has just been read does, and not in the gaps of the
    // memory that many queries take.
    let spread = |at: usize| HUNDRED + at * 7919 % (queries - HUNDRED);
    let hits = (0..).map(spread).filter(|n| family.is_indexed() || n % 100 != 99);
    let hits: Vec<String> = hits.take(ROWS).map(|n| family.hit(n)).collect();
    let misses: Vec<String> = (0..ROWS).map(|at| family.miss(spread(at))).collect();
    let special = [family.special_hit()];
    let memory_before = cpu::resident_kib(std::process::id())?;
    let mut registry: Vec<Conditions> = Vec::with_capacity(queries);
    let mut index = Index::default();
    let began = thread_time();
    for n in 0..queries {
        let text = if n < HUNDRED { family.special(n) } else { family.condition(n) };
        let predicate = match Predicate::parse(&text, &table, &()) {
            Ok(predicate) => predicate,
            Err(refusal) => bail!("{text}: {refusal:?}"),
        };
        let conditions = Conditions { predicates: vec![predicate], tenants: None };
        index.insert(query_id(n)?, &conditions);
        registry.push(conditions);
    }
    let from_text = thread_time() - began;
    let grown_kib = cpu::resident_kib(std::process::id())? - memory_before;
    let query_bytes = grown_kib * 1024.0 / queries as f64;

    let removed = timed(&registry, |n, conditions| index.remove(n, conditions))?;
    ensure!(index.unindexed() == 0, "queries are left after all were removed");
    let added = timed(&registry, |n, conditions| {
        index.insert(n, conditions);
    })?;

    let lookup = Lookup { index: &index, registry: &registry };
    let times = lookup.times(&[(&misses, 0), (&hits, 1), (&special, HUNDRED)], event_ms)?;
    let per_second = |time: Duration| queries as f64 / time.as_secs_f64();
    Ok(Measured {
        combination,
        none_ns: times[0].event_ns,
        one_ns: times[1].event_ns,
        hundred_ns: times[2].event_ns,
        found_ns: times[0].found_ns,
        scan_ns: lookup.scan_ns(&misses[..SCANNED_MAX], event_ms)?,
        query_bytes: (queries >= MEMORY_FROM).then_some(query_bytes),
        added_per_second: per_second(added),
        from_text_per_second: per_second(from_text),
        removed_per_second: per_second(removed),
        unindexed: index.unindexed(),
    })
}

fn query_id(n: usize) -> Result<QueryId> {
    Ok(QueryId(u32::try_from(n)?))
}

/// How long it takes to do something with each query, in an order that is not theirs.
fn timed(registry: &[Conditions], mut act: impl FnMut(QueryId, &Conditions)) -> Result<Duration> {
    let step = (1..).map(|n| 7919 * n + 1).find(|step| is_prime_to(*step, registry.len()));
    let step = step.unwrap_or(1);
    let began = thread_time();
    for at in 0..registry.len() {
        let n = at * step % registry.len();
        act(query_id(n)?, &registry[n]);
    }
    Ok(thread_time() - began)
}

fn is_prime_to(a: usize, b: usize) -> bool {
    if b == 0 { a == 1 } else { is_prime_to(b, a % b) }
}
