//! What an append costs as the log grows: from thousands of events to millions.

use anyhow::{Context, Result};
use serde::Serialize;

use super::measure::{Measured, Shape, measure};
use crate::Options;
use crate::cost::Cost;
use crate::raw;
use crate::report::Report;
use crate::scale::Scale;
use crate::servers::{Kind, Server};
use crate::table::{Table, count, decimals};

#[derive(Debug, Serialize)]
struct Point {
    server: Kind,
    log_events: u64,
    #[serde(flatten)]
    measured: Measured,
}

pub(crate) fn run(options: &Options, scale: &Scale, report: &mut Report) -> Result<()> {
    let shape = Shape {
        producers: scale.producers_max,
        payload_bytes: 100,
        is_shared_stream: false,
        messages: 1,
    };
    let kinds: Vec<Kind> = report.present().into_iter().filter(|kind| kind.is_tidewire()).collect();
    if kinds.is_empty() {
        println!("\nflatness: not measured, tidewire is absent");
        return Ok(());
    }
    let mut points = Vec::new();
    for kind in kinds {
        println!();
        for &log_events in scale.log_events {
            println!(
                "{:<18}  filling the log with {} events",
                kind.name(),
                count(log_events as f64)
            );
            let measured = options
                .measure_quietly(|| {
                    let store = raw::filled_store(kind, &options.installed, shape, log_events)?;
                    let server = Server::start_on(kind, &options.installed, store)?;
                    measure(&server, shape, scale.window)
                })
                .with_context(|| format!("{} with {log_events} events", kind.name()))?;
            println!("{:<18}  {} events/s", kind.name(), count(measured.events_per_second));
            points.push(Point { server: kind, log_events, measured });
        }
    }
    print_table(&points);
    report.section("flatness", &points)
}

fn print_table(points: &[Point]) {
    let mut table = Table::new(&[
        "server",
        "",
        "events in the log",
        "events/s",
        "ratio",
        Cost::HEADINGS[0],
        Cost::HEADINGS[1],
        "ratio",
        Cost::HEADINGS[3],
        "p99 ms",
    ]);
    for point in points {
        let Some(first) = points.iter().find(|first| first.server == point.server) else {
            continue;
        };
        let cost = &point.measured.cpu_per_event;
        let [server, database, _, other] = cost.columns(1);
        table.row(vec![
            point.server.name().to_owned(),
            String::new(),
            count(point.log_events as f64),
            count(point.measured.events_per_second),
            decimals(point.measured.events_per_second / first.measured.events_per_second, 2),
            server,
            database,
            decimals(cost.total_us() / first.measured.cpu_per_event.total_us(), 2),
            other,
            decimals(point.measured.latency.p99_ms, 2),
        ]);
    }
    table.print("Appends to a log that already holds many events (ratios to the first row)");
}
