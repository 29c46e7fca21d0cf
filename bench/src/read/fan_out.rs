//! Fan-out: one publisher, a live audience over SSE.

use std::time::Duration;

use anyhow::{Result, bail};
use serde::Serialize;

use crate::Options;
use crate::cost::{Cost, Reading};
use crate::latency::Percentiles;
use crate::load::fan_out::{self, Load, Pace};
use crate::outcome::Outcome;
use crate::quiet::Disturbed;
use crate::report::Report;
use crate::scale::Scale;
use crate::servers::{Kind, Server};
use crate::table::{Table, count, optional};

const STREAM: &str = "fan-out";
const MESSAGE_BYTES: usize = 128;
/// 20 messages a second: far below what a server limited by its sends alone can deliver.
const PACE: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    /// One message per POST, the next when the answer is in.
    FlatOut,
    /// Ten messages per POST.
    FlatOutTens,
    Paced,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
struct Shape {
    subscribers: usize,
    mode: Mode,
}

#[derive(Debug, Serialize)]
struct Cell {
    #[serde(flatten)]
    shape: Shape,
    server: Kind,
    #[serde(flatten)]
    outcome: Outcome<Measured>,
}

#[derive(Debug, Serialize)]
struct Measured {
    deliveries_per_second: f64,
    published_per_second: f64,
    /// Messages that a subscriber got twice: a fault, but one that clients can see and drop.
    repeated_deliveries: u64,
    /// From due time to receipt; only when paced.
    latency: Option<Percentiles>,
    cpu_per_delivery: Cost,
}

pub(crate) fn run(options: &Options, scale: &Scale, report: &mut Report) -> Result<()> {
    let mut cells = Vec::new();
    for &subscribers in scale.subscribers {
        for mode in [Mode::FlatOut, Mode::FlatOutTens, Mode::Paced] {
            println!();
            let shape = Shape { subscribers, mode };
            for kind in report.present() {
                let outcome = Outcome::of(
                    kind,
                    options.measure_quietly(|| measure(options, scale, shape, kind)),
                    report,
                );
                let line = outcome.describe(Measured::line);
                println!("{:<32}  {:<18}  {line}", shape.label(), kind.name());
                cells.push(Cell { shape, server: kind, outcome });
            }
        }
    }
    print_table(&cells);
    report.section("fan_out", &cells)
}

fn measure(options: &Options, scale: &Scale, shape: Shape, kind: Kind) -> Result<Measured> {
    let server = Server::start(kind, &options.installed)?;
    server.create_streams(&[STREAM.to_owned()], "application/json")?;
    let load = Load {
        address: server.address(),
        stream: STREAM,
        subscribers: shape.subscribers,
        message_bytes: MESSAGE_BYTES,
        pace: shape.pace(),
        window: scale.window,
    };
    let mut readings = Vec::with_capacity(2);
    let outcome = fan_out::run(&load, &mut || {
        readings.push(Reading::take(server.processes())?);
        Ok(())
    })?;
    if outcome.missing > 0 {
        bail!("{} deliveries never arrived", outcome.missing);
    }
    let [opened, closed] = readings[..] else {
        bail!("the window was not read at both edges");
    };
    Ok(Measured {
        deliveries_per_second: outcome.deliveries as f64 / outcome.seconds,
        published_per_second: outcome.published as f64 / outcome.seconds,
        repeated_deliveries: outcome.repeated,
        latency: (shape.mode == Mode::Paced).then(|| outcome.latencies.percentiles()),
        cpu_per_delivery: Cost::between(opened, closed, outcome.deliveries)?,
    })
}

impl Disturbed for Measured {
    fn others_share(&self) -> f64 {
        self.cpu_per_delivery.others_share
    }
}

impl Shape {
    fn label(self) -> String {
        let mode = match self.mode {
            Mode::FlatOut => "flat out",
            Mode::FlatOutTens => "flat out by tens",
            Mode::Paced => "20 a second",
        };
        format!("{} subscribers, {mode}", count(self.subscribers as f64))
    }

    fn pace(self) -> Pace {
        match self.mode {
            Mode::FlatOut => Pace::FlatOut { messages_per_post: 1 },
            Mode::FlatOutTens => Pace::FlatOut { messages_per_post: 10 },
            Mode::Paced => Pace::Every(PACE),
        }
    }
}

impl Measured {
    fn line(&self) -> String {
        let rate = format!("{:>9} deliveries/s", count(self.deliveries_per_second));
        match self.latency {
            Some(latency) => {
                format!("{rate}  p50 {:.2} ms  p99 {:.2} ms", latency.p50_ms, latency.p99_ms)
            }
            None => rate,
        }
    }
}

fn print_table(cells: &[Cell]) {
    let mut table = Table::new(&[
        "audience, pace",
        "server",
        "deliveries/s",
        "published/s",
        "repeated",
        "p50 ms",
        "p99 ms",
        Cost::HEADINGS[0],
        Cost::HEADINGS[1],
        Cost::HEADINGS[2],
        Cost::HEADINGS[3],
        "x best peer",
    ]);
    for cell in cells {
        let mut row = vec![cell.shape.label(), cell.server.name().to_owned()];
        match &cell.outcome {
            Outcome::Measured(measured) => {
                row.push(count(measured.deliveries_per_second));
                row.push(count(measured.published_per_second));
                row.push(measured.repeated_deliveries.to_string());
                row.push(optional(measured.latency.map(|latency| latency.p50_ms), 2));
                row.push(optional(measured.latency.map(|latency| latency.p99_ms), 2));
                row.extend(measured.cpu_per_delivery.columns(2));
                row.push(optional(peer_ratio(cells, cell), 2));
            }
            Outcome::Failed(error) => row.push(format!("FAILED: {error}")),
        }
        table.row(row);
    }
    table.print(
        "Live deliveries over SSE: 1 publisher, 128-byte JSON messages (us of CPU per delivery)",
    );
}

/// A Tidewire against the best peer in the same combination: flat out its rate ÷ theirs, paced
/// their p50 ÷ its own, so that more is better in both.
fn peer_ratio(cells: &[Cell], cell: &Cell) -> Option<f64> {
    let merit = |cell: &Cell| {
        let measured = cell.outcome.measured()?;
        let by_latency = measured.latency.map(|latency| 1.0 / latency.p50_ms);
        Some(by_latency.unwrap_or(measured.deliveries_per_second))
    };
    let is_peer = |other: &&Cell| other.shape == cell.shape && !other.server.is_tidewire();
    let best = cells.iter().filter(is_peer).filter_map(merit).reduce(f64::max)?;
    cell.server.is_tidewire().then_some(merit(cell)? / best)
}
