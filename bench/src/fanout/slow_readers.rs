//! Some subscribers stop reading: whether the others notice, what the server keeps for those that
//! stand still, and what these find when they read again.

use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

use super::show::{self, FLAT_OUT, FanOutRun, STREAM, Size};
use super::way::Way;
use crate::Options;
use crate::cost::Cost;
use crate::cpu;
use crate::latency::Percentiles;
use crate::load::crowd::{Leftovers, Pace};
use crate::outcome::Outcome;
use crate::quiet::Disturbed;
use crate::report::Report;
use crate::scale::Scale;
use crate::servers::Kind;
use crate::table::{Table, count, decimals};

/// 50 messages a second: far from what saturates the machine, so that a delay is the server's.
const PACE: Pace = Pace::Every(Duration::from_millis(20));

#[derive(Debug, Serialize)]
struct Row {
    subscribers: usize,
    stop: usize,
    burst_messages: usize,
    #[serde(flatten)]
    way: Way,
    #[serde(flatten)]
    outcome: Outcome<SlowReaders>,
}

#[derive(Debug, Serialize)]
struct SlowReaders {
    /// Of those that go on reading.
    before: Percentiles,
    during: Percentiles,
    /// The larger of the two windows'.
    others_share: f64,
    /// Of the server: before, and when the others had the whole burst.
    resident_before_mib: f64,
    resident_during_mib: f64,
    leftovers: Leftovers,
}

pub(crate) fn run(
    options: &Options,
    scale: &Scale,
    ways: &[Way],
    connections_max: usize,
    report: &mut Report,
) -> Result<()> {
    let members = scale.fanout.slow_audience.min(connections_max);
    let size = Size { members, stoppable: scale.fanout.slow_stop };
    let mut rows = Vec::new();
    println!();
    for &way in ways.iter().filter(|way| way.server != Kind::BareLoop) {
        let measured = options.measure_quietly(|| measure(options, scale, way, size));
        let outcome = Outcome::of(way.server, measured, report);
        let line = outcome.describe(|slow| {
            let (before, during) = (slow.before, slow.during);
            format!("p99 {:.2} ms before, {:.2} ms during", before.p99_ms, during.p99_ms)
        });
        println!("{} of {} stop reading  {:<32}  {line}", size.stoppable, members, way.name());
        rows.push(Row {
            subscribers: members,
            stop: size.stoppable,
            burst_messages: scale.fanout.slow_burst,
            way,
            outcome,
        });
    }
    print_table(&rows);
    report.section("slow_readers", &rows)
}

fn measure(options: &Options, scale: &Scale, way: Way, size: Size) -> Result<SlowReaders> {
    let mut show = FanOutRun::open(way, options, scale, &[STREAM], size)?;
    let resident_mib =
        |show: &FanOutRun| cpu::resident_kib(show.server.pid()).map(|kib| kib / 1024.0);
    let window = |show: &mut FanOutRun| -> Result<(Percentiles, f64)> {
        let (tally, [opened, closed]) =
            show::run(&mut show.stage, &show.server, PACE, scale.fanout.window)?;
        let others_share = Cost::between(opened, closed, tally.deliveries)?.others_share;
        Ok((tally.latency.context("there was no message")?, others_share))
    };
    let (before, others_before) = window(&mut show)?;
    let resident_before_mib = resident_mib(&show)?;
    show.stage.stop_reading()?;
    show.stage.publish(scale.fanout.slow_burst, FLAT_OUT)?;
    let (during, others_during) = window(&mut show)?;
    let resident_during_mib = resident_mib(&show)?;
    Ok(SlowReaders {
        before,
        during,
        others_share: others_before.max(others_during),
        resident_before_mib,
        resident_during_mib,
        leftovers: show.stage.resume_reading()?,
    })
}

impl Disturbed for SlowReaders {
    fn others_share(&self) -> f64 {
        self.others_share
    }
}

fn print_table(rows: &[Row]) {
    let mut table = Table::new(&[
        "audience",
        "server",
        "before: p50 ms",
        "p99 ms",
        "during: p50 ms",
        "p99 ms",
        "resident MiB",
        "during",
        "messages left",
        "gaps",
        "closed",
        "other CPU",
    ]);
    for row in rows {
        let label = format!("{} of {} stop", row.stop, count(row.subscribers as f64));
        let mut cells = vec![label, row.way.name()];
        match &row.outcome {
            Outcome::Measured(slow) => {
                cells.push(decimals(slow.before.p50_ms, 2));
                cells.push(decimals(slow.before.p99_ms, 2));
                cells.push(decimals(slow.during.p50_ms, 2));
                cells.push(decimals(slow.during.p99_ms, 2));
                cells.push(decimals(slow.resident_before_mib, 0));
                cells.push(decimals(slow.resident_during_mib, 0));
                cells.push(count(slow.leftovers.messages as f64));
                cells.push(slow.leftovers.gaps.to_string());
                cells.push(slow.leftovers.closed.to_string());
                cells.push(format!("{:.0} %", slow.others_share * 100.0));
            }
            Outcome::Failed(error) => cells.push(format!("FAILED: {error}")),
        }
        table.row(cells);
    }
    table.print(
        "Slow readers: 50 messages a second to those that read on, before and after a burst that \
         the others do not read",
    );
}
