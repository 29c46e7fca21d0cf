//! What it buys to look at followers ahead of writing to them: a crowd at a server that does, and one as large
//! at a server that was built without. They are measured in turns, so that whatever else the machine does
//! meanwhile concerns both.

use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

use super::show::{FanOutRun, STREAM};
use super::way::Way;
use crate::Options;
use crate::load::crowd::Pace;
use crate::median::median;
use crate::outcome::Outcome;
use crate::report::Report;
use crate::scale::Scale;
use crate::table::{Table, count, decimals};

/// Windows of each.
const ROUNDS: usize = 6;
/// For a crowd to answer the pings that came while the other was measured.
const PINGS: Duration = Duration::from_millis(100);

#[derive(Debug, Serialize)]
struct Row {
    subscribers: usize,
    #[serde(flatten)]
    way: Way,
    #[serde(flatten)]
    outcome: Outcome<Compared>,
}

#[derive(Debug, Serialize)]
struct Compared {
    looking: Spent,
    without: Spent,
}

/// Of the server, per delivery; the medians of the windows.
#[derive(Debug, Serialize)]
struct Spent {
    user_us: f64,
    total_us: f64,
}

pub(crate) fn run(
    options: &Options,
    scale: &Scale,
    ways: &[Way],
    connections_max: usize,
    report: &mut Report,
) -> Result<()> {
    let Some(installed) = options.installed.without_prefetch() else {
        let how = "--part prefetch builds the server that it takes";
        report.note_absence(format!("{:<32}  absent: {how}", "prefetch"));
        return Ok(());
    };
    let without = Options { installed, ..options.clone() };
    let subscribers = scale.fanout.hot_followers.min(connections_max / 2);
    let mut rows = Vec::new();
    println!();
    for &way in ways.iter().filter(|way| way.server.is_tidewire()) {
        let compared = compare([options, &without], scale, way, subscribers);
        let outcome = Outcome::of(way.server, compared, report);
        let line = outcome.describe(|compared| {
            let (looking, without) = (&compared.looking, &compared.without);
            format!("user {:.2} us, without {:.2} us", looking.user_us, without.user_us)
        });
        println!("prefetch  {:<32}  {line}", way.name());
        rows.push(Row { subscribers, way, outcome });
    }
    print_table(&rows);
    report.section("prefetch", &rows)
}

fn compare(
    servers: [&Options; 2],
    scale: &Scale,
    way: Way,
    subscribers: usize,
) -> Result<Compared> {
    let open = |options| FanOutRun::open(way, options, scale, &[STREAM], subscribers.into());
    let mut shows = [open(servers[0])?, open(servers[1])?];
    let mut windows = [const { Vec::new() }; 2];
    for round in 0..ROUNDS {
        for which in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
            shows.iter_mut().try_for_each(|show| show.stage.idle(PINGS))?;
            let measured = shows[which].measure(Pace::OneAtATime, scale.fanout.window)?;
            windows[which].push(measured.cpu_per_delivery);
        }
    }
    let [looking, without] = windows.map(|costs| {
        let user_us = median(costs.iter().map(|cost| cost.server_user_us).collect());
        let total_us = median(costs.iter().map(|cost| cost.server_us).collect());
        user_us.zip(total_us).map(|(user_us, total_us)| Spent { user_us, total_us })
    });
    let none = "there was no window";
    Ok(Compared { looking: looking.context(none)?, without: without.context(none)? })
}

fn print_table(rows: &[Row]) {
    let head = ["subscribers", "server", "user us", "without", "all us", "without", "of all"];
    let mut table = Table::new(&head);
    for row in rows {
        let mut cells = vec![count(row.subscribers as f64), row.way.name()];
        match &row.outcome {
            Outcome::Measured(Compared { looking, without }) => {
                cells.push(decimals(looking.user_us, 2));
                cells.push(decimals(without.user_us, 2));
                cells.push(decimals(looking.total_us, 2));
                cells.push(decimals(without.total_us, 2));
                cells.push(decimals(looking.total_us / without.total_us, 2));
            }
            Outcome::Failed(error) => cells.push(format!("FAILED: {error}")),
        }
        table.row(cells);
    }
    table.print("Looking ahead: the server's CPU for a delivery, one message at a time");
}
