//! How fast changes that piled up while no node ran come into the log.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde::Serialize;

use super::design::{Design, Fixture};
use crate::Options;
use crate::postgres::Session;
use crate::report::Report;
use crate::scale::Scale;
use crate::table::{Table, count, decimals};

const LOOK: Duration = Duration::from_millis(20);
const TOO_LATE: Duration = Duration::from_secs(300);

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    pub(crate) design: Design,
    pub(crate) rows_per_transaction: usize,
    pub(crate) events: u64,
    pub(crate) seconds: f64,
    /// From the first that was seen in the log to the last.
    pub(crate) events_per_second: f64,
}

pub(crate) fn run(
    options: &Options,
    scale: &Scale,
    designs: &[Design],
    report: &mut Report,
) -> Result<Vec<Row>> {
    let events = scale.capture.backlog_events;
    println!("\nbacklog: {events} changes committed while no node runs");
    let mut rows = Vec::new();
    for &design in designs.iter().filter(|design| design.is_served()) {
        for rows_per_transaction in [1, 100] {
            rows.push(measure(options, design, rows_per_transaction, events)?);
        }
    }
    let mut table = Table::new(&["capture", "rows/transaction", "events", "seconds", "events/s"]);
    for row in &rows {
        table.row(vec![
            row.design.name().to_owned(),
            row.rows_per_transaction.to_string(),
            count(row.events as f64),
            decimals(row.seconds, 2),
            count(row.events_per_second),
        ]);
    }
    table.print("A backlog comes into the log");
    report.section("backlog", &rows)?;
    Ok(rows)
}

fn measure(
    options: &Options,
    design: Design,
    rows_per_transaction: usize,
    events: u64,
) -> Result<Row> {
    let mut fixture = Fixture::prepare(options, design, 0)?;
    let session = Session::connect(&fixture.url()?)?;
    // Durability is not what is measured here, only how fast the backlog goes.
    session.run("SET synchronous_commit = off")?;
    session.run(&format!(
        "DO $$ BEGIN
             FOR n IN 1..{} LOOP
                 INSERT INTO orders (customer, total, note)
                 SELECT m, 1.5, repeat('y', 100) FROM generate_series(1, {rows_per_transaction}) m;
                 COMMIT;
             END LOOP;
         END $$",
        events / rows_per_transaction as u64
    ))?;
    let logged = || -> Result<u64> {
        Ok(session.text("SELECT (next_offset - 1)::text FROM tidewire.log_counter")?.parse()?)
    };
    let before = logged()?;
    let server = fixture.serve(options)?;
    let outcome = watch_it_go(&logged, before + events);
    fixture.rest(server);
    let (first, seconds) = outcome?;
    let moved = before + events - first;
    let events_per_second = moved as f64 / seconds.max(1e-9);
    Ok(Row { design, rows_per_transaction, events, seconds, events_per_second })
}

/// Where the log stood when it was first seen to move, and how long it took from there.
fn watch_it_go(logged: &dyn Fn() -> Result<u64>, all: u64) -> Result<(u64, f64)> {
    let began = Instant::now();
    let still = logged()?;
    let mut moving: Option<(u64, Instant)> = None;
    loop {
        let now = logged()?;
        if now != still && moving.is_none() {
            moving = Some((now, Instant::now()));
        }
        if now >= all {
            let (first, since) = moving.unwrap_or((still, began));
            return Ok((first, since.elapsed().as_secs_f64()));
        }
        if began.elapsed() > TOO_LATE {
            bail!("only {now} of {all} events came into the log");
        }
        std::thread::sleep(LOOK);
    }
}
