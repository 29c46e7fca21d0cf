//! `match`: what it costs to find the queries that a change concerns, among up to a million.
//!
//! In process: from the image of a changed row by the index of `tidewire-query` to the conditions that it
//! gives, which are tested in full. Each
//! combination runs in a process of its own, so that its memory is its own. Beside it a scan of all
//! queries, and PostgreSQL, which has to run a query again to know whether a change concerns it.
//!
//! - `combination`: so many queries of one form
//! - `lookup`: what an event costs, from the image of its row to the queries whose conditions hold
//!   of it
//! - `queries`: the queries that are registered, and the rows that change
//! - `rerun`: what it costs to know of a change by running queries again
//! - `timing`: how long something takes that takes nanoseconds
//! - `whole`: the engine as a whole

mod combination;
mod lookup;
mod queries;
mod rerun;
mod timing;
mod whole;

use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;

pub(crate) use self::combination::measure as run_combination;
use self::combination::{Combination, Measured};
use self::queries::Family;
use crate::aims::Aims;
use crate::report::Report;
use crate::scale::Scale;
use crate::table::{Table, count, decimals, optional};
use crate::{Options, Part};

/// What is aimed at with the most queries, in nanoseconds, bytes and registrations a second.
const EVENT_NS_MAX: f64 = 1_000.0;
const MATCH_NS_MAX: f64 = 1_000.0;
const GROWTH_MAX: f64 = 2.0;
const QUERY_BYTES_MAX: f64 = 500.0;
const REGISTRATIONS_MIN: f64 = 200_000.0;

pub(crate) fn run(options: &Options, scale: &Scale) -> Result<()> {
    let mut report = options.open_report("match", scale, &[])?;
    let mut aims = Aims::default();
    if options.runs(Part::Index) {
        let rows = measure_all(options, scale)?;
        print(&rows);
        judge(&rows, &mut aims);
        report.section("index", &rows)?;
    }
    if options.runs(Part::Engine) {
        let mut rows = Vec::new();
        for family in whole::families() {
            for &queries in scale.matching.whole_queries {
                println!("match: the whole engine, {queries} queries, {}", family.name());
                let event_ms = scale.matching.event_ms;
                let combination = Combination { family, queries, event_ms, whole: true };
                rows.push(in_process(options, combination)?);
            }
        }
        print_whole(&rows);
        report.section("engine", &rows)?;
    }
    if options.runs(Part::Rerun) {
        beside_postgres(options, scale, &mut report)?;
    }
    aims.print();
    report.section("aims", &aims)?;
    report.close(&options.results)
}

fn measure_all(options: &Options, scale: &Scale) -> Result<Vec<Measured>> {
    let mut rows = Vec::new();
    for family in Family::ALL {
        for &queries in scale.matching.queries {
            println!("match: {queries} queries, {}", family.name());
            let event_ms = scale.matching.event_ms;
            let combination = Combination { family, queries, event_ms, whole: false };
            rows.push(in_process(options, combination)?);
        }
    }
    Ok(rows)
}

/// What a process of its own measures.
fn in_process<T: DeserializeOwned>(options: &Options, combination: Combination) -> Result<T> {
    let program = std::env::current_exe().context("find this program")?;
    let output = Command::new(program)
        .args(["match-one", "--combination", &serde_json::to_string(&combination)?])
        .args(options.revision.iter().flat_map(|revision| ["--revision", revision]))
        .output()
        .context("start a process for one combination")?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{combination:?} failed: {error}");
    serde_json::from_slice(&output.stdout).context("read what it measured")
}

fn print_whole(rows: &[whole::Measured]) {
    let columns = ["queries", "of the form", "none us", "one us", "100 us", "bytes", "from text/s"];
    let mut table = Table::new(&columns);
    for row in rows {
        table.row(vec![
            count(row.combination.queries as f64),
            row.combination.family.name().to_owned(),
            decimals(row.none_us, 2),
            decimals(row.one_us, 2),
            decimals(row.hundred_us, 1),
            decimals(row.query_bytes, 0),
            count(row.from_text_per_second),
        ]);
    }
    table.print(
        "The whole engine: SELECTs from their text, each with a follower; events from their image to \
         the rows that are told",
    );
}

fn print(rows: &[Measured]) {
    let mut table = Table::new(&[
        "queries",
        "of the form",
        "none ns",
        "found ns",
        "one ns",
        "100 ns",
        "scan us",
        "bytes",
        "added/s",
        "from text/s",
        "removed/s",
        "unindexed",
    ]);
    for row in rows {
        table.row(vec![
            count(row.combination.queries as f64),
            row.combination.family.name().to_owned(),
            decimals(row.none_ns, 0),
            decimals(row.found_ns, 0),
            decimals(row.one_ns, 0),
            decimals(row.hundred_ns, 0),
            decimals(row.scan_ns / 1e3, 1),
            optional(row.query_bytes, 0),
            count(row.added_per_second),
            count(row.from_text_per_second),
            count(row.removed_per_second),
            count(row.unindexed as f64),
        ]);
    }
    table.print("Finding the queries that a change concerns: an event that 0, 1 and 100 match");
    let unindexed = rows.iter().rfind(|row| row.unindexed > 0).map_or_else(
        || "none".to_owned(),
        |row| format!("{:.0} ns for each of {}", row.none_ns / row.unindexed as f64, row.unindexed),
    );
    println!(
        "\n  Times are from the image of a row, as the log has it; found: the first without reading the image. \
         Hits are tested in full.\n  With unindexed queries each is tested for each event: that is {unindexed} \
         here.\n  bytes: growth of the process by conditions, index and registry, where there are enough \
         queries to tell.",
    );
}

fn judge(rows: &[Measured], aims: &mut Aims) {
    for family in Family::ALL.into_iter().filter(|family| family.is_indexed()) {
        let mut of_family = rows.iter().filter(|row| row.combination.family == family);
        let (Some(first), Some(last)) = (of_family.next(), of_family.next_back()) else { continue };
        let (queries, name) = (last.combination.queries, family.name());
        let aim = |what: &str| format!("{name}, {queries} queries: {what}");
        aims.at_most(aim("ns of an event that none matches"), EVENT_NS_MAX, last.none_ns);
        let each = (last.hundred_ns - last.none_ns) / 100.0;
        aims.at_most(aim("ns for each match"), MATCH_NS_MAX, each);
        let growth = last.none_ns / first.none_ns;
        let what = format!("ns of such an event, of that among {}", first.combination.queries);
        aims.at_most(aim(&what), GROWTH_MAX, growth);
        // Reading does not grow, and would hide what does.
        let what = format!("{what}, without reading");
        aims.at_most(aim(&what), GROWTH_MAX, last.found_ns / first.found_ns);
        if let Some(bytes) = last.query_bytes {
            aims.at_most(aim("bytes of a query"), QUERY_BYTES_MAX, bytes);
        }
        aims.at_least(aim("registrations/s"), REGISTRATIONS_MIN, last.added_per_second);
    }
}

fn beside_postgres(options: &Options, scale: &Scale, report: &mut Report) -> Result<()> {
    let Some(url) = &options.installed.postgres else {
        report.note_absence("running queries again: there is no PostgreSQL".to_owned());
        return Ok(());
    };
    let rows = rerun::measure(url, &scale.matching)?;
    let mut table = Table::new(&["of the form", "one query us", "a change, among all of them"]);
    for row in &rows {
        table.row(vec![
            row.family.name().to_owned(),
            decimals(row.query_us, 1),
            format!("{} s among {}", decimals(row.change_seconds, 3), count(row.queries as f64)),
        ]);
    }
    table.print(
        "Beside it: running every query again for each change, on PostgreSQL, by one session",
    );
    report.section("rerun", &rows)
}
