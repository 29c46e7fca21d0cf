//! Idle connections with one subscription each: how many there can be and what they keep.

use std::time::Instant;

use anyhow::Result;
use serde::Serialize;

use super::show::{FanOutRun, STREAM};
use super::way::Way;
use crate::Options;
use crate::bare_loop::LoopMode;
use crate::cpu;
use crate::load::crowd::Pace;
use crate::outcome::Outcome;
use crate::report::Report;
use crate::scale::Scale;
use crate::table::{Table, count, decimals};

#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) connections: usize,
    #[serde(flatten)]
    pub(crate) way: Way,
    #[serde(flatten)]
    pub(crate) outcome: Outcome<Idle>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Idle {
    /// From the first connection to the last subscription's answer.
    pub(crate) entry_seconds: f64,
    /// Growth of resident memory ÷ connections, after the time of idleness.
    pub(crate) connection_kib: f64,
    resident_mib: f64,
    /// Of one core, while nothing was published.
    cpu_share: f64,
    /// Until everybody had the one message that was published at the end.
    pub(crate) last_message_ms: f64,
}

pub(crate) fn run(
    options: &Options,
    scale: &Scale,
    ways: &[Way],
    connections_max: usize,
    report: &mut Report,
) -> Result<Vec<Row>> {
    let connections = scale.fanout.idle_connections.min(connections_max);
    let mut rows = Vec::new();
    println!();
    for &way in ways.iter().filter(|way| way.habit == LoopMode::Plain) {
        let measured = measure(options, scale, way, connections);
        let outcome = Outcome::of(way.server, measured, report);
        let line = outcome.describe(|idle| {
            format!("{:.1} KiB each, in after {:.1} s", idle.connection_kib, idle.entry_seconds)
        });
        println!("{} idle connections  {:<32}  {line}", count(connections as f64), way.name());
        rows.push(Row { connections, way, outcome });
    }
    print_table(&rows);
    report.section("idle", &rows)?;
    Ok(rows)
}

fn measure(options: &Options, scale: &Scale, way: Way, connections: usize) -> Result<Idle> {
    let started = Instant::now();
    let mut show = FanOutRun::open(way, options, scale, &[STREAM], connections.into())?;
    let entry_seconds = started.elapsed().as_secs_f64();
    let pid = show.server.pid();
    let (cpu_before, idle_from) = (cpu::seconds(pid)?, Instant::now());
    show.stage.idle(scale.fanout.idle)?;
    let cpu_share = (cpu::seconds(pid)? - cpu_before) / idle_from.elapsed().as_secs_f64();
    show.full_kib = cpu::resident_kib(pid)?;

    // Connections that only look alive do not count.
    let published = Instant::now();
    show.stage.publish(1, Pace::OneAtATime)?;
    let last_message_ms = published.elapsed().as_secs_f64() * 1e3;
    Ok(Idle {
        entry_seconds,
        connection_kib: show.connection_kib(),
        resident_mib: show.full_kib / 1024.0,
        cpu_share,
        last_message_ms,
    })
}

fn print_table(rows: &[Row]) {
    let mut table = Table::new(&[
        "connections",
        "server",
        "KiB/conn",
        "resident MiB",
        "idle CPU",
        "all in after s",
        "1 message to all ms",
    ]);
    for row in rows {
        let mut cells = vec![count(row.connections as f64), row.way.name()];
        match &row.outcome {
            Outcome::Measured(idle) => {
                cells.push(decimals(idle.connection_kib, 1));
                cells.push(decimals(idle.resident_mib, 0));
                cells.push(format!("{:.1} %", idle.cpu_share * 100.0));
                cells.push(decimals(idle.entry_seconds, 1));
                cells.push(decimals(idle.last_message_ms, 0));
            }
            Outcome::Failed(error) => cells.push(format!("FAILED: {error}")),
        }
        table.row(cells);
    }
    table.print("Idle connections with one subscription each (idle CPU: of one core)");
}
