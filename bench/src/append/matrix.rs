//! Producers × payload sizes, every server in turn for each combination, so that a ratio compares
//! neighbours in time. After each Tidewire follows the raw limit of its database, and after the embedded
//! store's the least that takes appends over HTTP.

use anyhow::Result;
use serde::Serialize;

use super::measure::{Measured, Shape, measure, measure_appends};
use crate::Options;
use crate::cost::Cost;
use crate::outcome::Outcome;
use crate::raw::{self, RawLimit};
use crate::report::Report;
use crate::scale::Scale;
use crate::servers::{Kind, Server};
use crate::table::{Table, count, decimals, optional};

/// Of one request, where a producer has gathered some, as the protocol's own clients do.
const MESSAGES: usize = 10;

#[derive(Debug, Serialize)]
struct Cell {
    #[serde(flatten)]
    shape: Shape,
    server: Kind,
    #[serde(flatten)]
    outcome: Outcome<CellMeasured>,
}

#[derive(Debug, Serialize)]
struct CellMeasured {
    #[serde(flatten)]
    appends: Measured,
    raw_limit: Option<RawLimit>,
    /// The least that takes appends over HTTP, beside the embedded store.
    bare_server: Option<Measured>,
}

impl CellMeasured {
    fn share_of_raw(&self) -> Option<f64> {
        self.raw_limit.map(|raw| self.appends.events_per_second / raw.events_per_second)
    }

    fn share_of_bare_server(&self) -> Option<f64> {
        self.bare_server.map(|bare| self.appends.events_per_second / bare.events_per_second)
    }

    fn line(&self) -> String {
        let raw = self.share_of_raw().map(|share| format!("  {share:.2} of raw"));
        let bare = self.share_of_bare_server().map(|share| format!(", {share:.2} of bare server"));
        format!(
            "{:>9} events/s  p50 {:.2} ms  p99 {:.2} ms{}{}",
            count(self.appends.events_per_second),
            self.appends.latency.p50_ms,
            self.appends.latency.p99_ms,
            raw.unwrap_or_default(),
            bare.unwrap_or_default()
        )
    }
}

pub(crate) fn run(options: &Options, scale: &Scale, report: &mut Report) -> Result<()> {
    let mut cells = Vec::new();
    for shape in shapes(scale) {
        println!();
        for kind in report.present() {
            let outcome = Outcome::of(kind, measure_cell(options, scale, shape, kind), report);
            let line = outcome.describe(CellMeasured::line);
            println!("{:<24}  {:<18}  {line}", shape.label(), kind.name());
            cells.push(Cell { shape, server: kind, outcome });
        }
    }
    print_table(&cells);
    report.section("matrix", &cells)
}

fn shapes(scale: &Scale) -> Vec<Shape> {
    let mut shapes = Vec::new();
    for &payload_bytes in scale.payload_bytes {
        let all = Shape {
            producers: scale.producers_max,
            payload_bytes,
            is_shared_stream: false,
            messages: 1,
        };
        shapes.extend(scale.producers.iter().map(|&producers| Shape { producers, ..all }));
        shapes.push(Shape { is_shared_stream: true, ..all });
        shapes.push(Shape { messages: MESSAGES, ..all });
    }
    shapes
}

fn measure_cell(
    options: &Options,
    scale: &Scale,
    shape: Shape,
    kind: Kind,
) -> Result<CellMeasured> {
    let installed = &options.installed;
    let appends = options
        .measure_quietly(|| measure(&Server::start(kind, installed)?, shape, scale.window))?;
    let raw_limit = |batch| {
        options.measure_quietly(|| raw::measure(kind, installed, shape, batch, scale.raw_measure))
    };
    let raw_limit = appends.batch_events.map(raw_limit).transpose()?;
    let bare_server = || {
        let measure = || measure_appends(&raw::bare_server(installed, shape)?, shape, scale.window);
        options.measure_quietly(measure)
    };
    // It knows of one message a request.
    let has_bare_server = kind == Kind::TidewireSqlite && shape.messages == 1;
    let bare_server = has_bare_server.then(bare_server).transpose()?;
    Ok(CellMeasured { appends, raw_limit, bare_server })
}

fn print_table(cells: &[Cell]) {
    let mut table = Table::new(&[
        "producers x payload",
        "server",
        "events/s",
        "MB/s",
        "p50 ms",
        "p99 ms",
        Cost::HEADINGS[0],
        Cost::HEADINGS[1],
        Cost::HEADINGS[2],
        Cost::HEADINGS[3],
        "batch",
        "raw events/s",
        "of raw",
        "bare server",
        "of it",
        "x best peer",
    ]);
    for cell in cells {
        let mut row = vec![cell.shape.label(), cell.server.name().to_owned()];
        match &cell.outcome {
            Outcome::Measured(measured) => row.extend(columns(measured, peer_ratio(cells, cell))),
            Outcome::Failed(error) => row.push(format!("FAILED: {error}")),
        }
        table.row(row);
    }
    table.print("Appends (each server fresh for each row; us of CPU per event)");
}

fn columns(measured: &CellMeasured, peer_ratio: Option<f64>) -> Vec<String> {
    let appends = &measured.appends;
    let [server, database, load_generator, other] = appends.cpu_per_event.columns(1);
    let raw = measured.raw_limit.map(|raw| count(raw.events_per_second));
    vec![
        count(appends.events_per_second),
        decimals(appends.megabytes_per_second, 1),
        decimals(appends.latency.p50_ms, 2),
        decimals(appends.latency.p99_ms, 2),
        server,
        database,
        load_generator,
        other,
        optional(appends.batch_events, 1),
        raw.unwrap_or_else(|| "-".to_owned()),
        optional(measured.share_of_raw(), 2),
        measured.bare_server.map_or_else(|| "-".to_owned(), |bare| count(bare.events_per_second)),
        optional(measured.share_of_bare_server(), 2),
        optional(peer_ratio, 2),
    ]
}

/// A Tidewire's rate ÷ that of the fastest peer in the same combination.
fn peer_ratio(cells: &[Cell], cell: &Cell) -> Option<f64> {
    let rate = |cell: &Cell| Some(cell.outcome.measured()?.appends.events_per_second);
    let is_peer = |other: &&Cell| other.shape == cell.shape && !other.server.is_tidewire();
    let best = cells.iter().filter(is_peer).filter_map(rate).reduce(f64::max)?;
    cell.server.is_tidewire().then_some(rate(cell)? / best)
}
