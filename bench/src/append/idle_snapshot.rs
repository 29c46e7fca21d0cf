//! Appends while somebody elsewhere sits in a REPEATABLE READ transaction.
//!
//! Such a session (a report, a forgotten psql) keeps every dead row version alive. What updates one
//! row over and over then slows down by the second; a log that only inserts must not notice.

use anyhow::{Context, Result};
use serde::Serialize;

use super::measure::{Measured, Shape, measure};
use crate::Options;
use crate::cost::Cost;
use crate::load::Window;
use crate::postgres::Session;
use crate::report::Report;
use crate::scale::Scale;
use crate::servers::{Kind, Server};
use crate::table::{Table, count, decimals};

/// The order of the measurements, whether the transaction is there: a machine or a disk that gets
/// slower or faster meanwhile does so for both alike.
const ORDER: [bool; 6] = [false, true, true, false, false, true];

#[derive(Debug, Serialize)]
struct IdleSnapshot {
    rows: Vec<Row>,
    /// The rates' mean with it ÷ without it: 1 means that nothing was noticed.
    ratio: f64,
}

#[derive(Debug, Serialize)]
struct Row {
    is_idle: bool,
    #[serde(flatten)]
    measured: Measured,
}

pub(crate) fn run(options: &Options, scale: &Scale, report: &mut Report) -> Result<()> {
    if !report.present().contains(&Kind::TidewirePostgres) {
        println!("\nidle snapshot: not measured, tidewire postgres is absent");
        return Ok(());
    }
    let seconds = scale.idle_snapshot.measure.as_secs_f64();
    println!("\nidle snapshot: {seconds} s without one and with one, three times each, in turn");
    let shape = Shape {
        producers: scale.producers_max,
        payload_bytes: 100,
        is_shared_stream: false,
        messages: 1,
    };
    let window = scale.idle_snapshot;
    let mut rows = Vec::new();
    for is_idle in ORDER {
        let measured = options.measure_quietly(|| measure_one(options, shape, window, is_idle))?;
        rows.push(Row { is_idle, measured });
    }
    let rate = |is_idle: bool| -> f64 {
        let rows = rows.iter().filter(|row| row.is_idle == is_idle);
        rows.map(|row| row.measured.events_per_second).sum()
    };
    let ratio = rate(true) / rate(false);
    let measured = IdleSnapshot { rows, ratio };
    print_table(&measured);
    report.section("idle_snapshot", &measured)
}

fn measure_one(options: &Options, shape: Shape, window: Window, is_idle: bool) -> Result<Measured> {
    let server = Server::start(Kind::TidewirePostgres, &options.installed)?;
    let database = server.database().context("a server on PostgreSQL has a database")?;
    let session = Session::connect(&database.url)?;
    if is_idle {
        session
            .run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM tidewire.streams")?;
    }
    let measured = measure(&server, shape, window)?;
    // Still inside: the session was there from the first append to the last.
    if is_idle {
        session.run("COMMIT")?;
    }
    Ok(measured)
}

fn print_table(measured: &IdleSnapshot) {
    let mut table = Table::new(&[
        "idle snapshot",
        "",
        "events/s",
        "first half",
        "second half",
        "2nd/1st",
        "p99 ms",
        Cost::HEADINGS[3],
    ]);
    for Row { is_idle, measured: row } in &measured.rows {
        let label = if *is_idle { "one" } else { "none" };
        let trend = row.second_half_events_per_second / row.first_half_events_per_second;
        let [_, _, _, other] = row.cpu_per_event.columns(1);
        table.row(vec![
            label.to_owned(),
            String::new(),
            count(row.events_per_second),
            count(row.first_half_events_per_second),
            count(row.second_half_events_per_second),
            decimals(trend, 2),
            decimals(row.latency.p99_ms, 2),
            other,
        ]);
    }
    table.print("Appends on PostgreSQL beside an idle REPEATABLE READ transaction");
    println!("\n  with / without: {:.2}", measured.ratio);
}
