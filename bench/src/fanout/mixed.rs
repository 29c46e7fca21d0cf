//! A small stream beside something hot: whether a stream or a live query with thousands of subscribers
//! delays a stream with two.
//!
//! The small stream has a thread of the load generator to itself, so that it never waits behind the
//! hot one's reads there. It still shares the cores: with the machine saturated, a part of what it
//! loses is the scheduler's, which is why NATS stands beside.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

use super::show::{self, FLAT_OUT, FanOutRun, STREAM};
use super::way::{Followed, Way};
use crate::Options;
use crate::cost::Cost;
use crate::latency::Percentiles;
use crate::load::Window;
use crate::load::crowd::{CrowdRun, Pace};
use crate::outcome::Outcome;
use crate::quiet::Disturbed;
use crate::report::Report;
use crate::scale::Scale;
use crate::servers::{Kind, Server};
use crate::table::{Table, count, decimals};

const SMALL_STREAM: &str = "small";
const SMALL_SUBSCRIBERS: usize = 2;
const SMALL_INTERVAL: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum Hot {
    Quiet,
    OneAtATime,
    FlatOut,
}

#[derive(Debug, Serialize)]
struct Row {
    hot_subscribers: usize,
    hot: Hot,
    #[serde(flatten)]
    way: Way,
    #[serde(flatten)]
    outcome: Outcome<Mixed>,
}

#[derive(Debug, Serialize)]
struct Mixed {
    small: Percentiles,
    hot_deliveries_per_second: f64,
    others_share: f64,
}

pub(crate) fn run(
    options: &Options,
    scale: &Scale,
    ways: &[Way],
    connections_max: usize,
    report: &mut Report,
) -> Result<()> {
    let both = Way::present(&Way::STREAM_AND_QUERY, options, report);
    let servers = ways.iter().filter(|way| way.server != Kind::BareLoop);
    let crowds = servers.map(|way| (*way, scale.fanout.hot_subscribers));
    let crowds = crowds.chain(both.into_iter().map(|way| (way, scale.fanout.hot_followers)));
    let mut rows = Vec::new();
    println!();
    for (way, members) in crowds {
        let hot_subscribers = members.min(connections_max);
        for (hot, measured) in measure(options, scale, way, hot_subscribers) {
            let outcome = Outcome::of(way.server, measured, report);
            let line = outcome.describe(|mixed| {
                format!("small p50 {:.2} ms  p99 {:.2} ms", mixed.small.p50_ms, mixed.small.p99_ms)
            });
            println!("{:<40}  {:<40}  {line}", label(hot_subscribers, hot), way.name());
            rows.push(Row { hot_subscribers, hot, way, outcome });
        }
    }
    print_table(&rows);
    report.section("mixed", &rows)
}

fn measure(
    options: &Options,
    scale: &Scale,
    way: Way,
    hot_subscribers: usize,
) -> Vec<(Hot, Result<Mixed>)> {
    let streams = [STREAM, SMALL_STREAM];
    let opened =
        FanOutRun::open(way, options, scale, &streams, hot_subscribers.into()).and_then(|show| {
            let way = Way { followed: Followed::Stream, ..way };
            let small =
                show::open_stage(way, &show.server, SMALL_STREAM, SMALL_SUBSCRIBERS.into())?;
            Ok((show, small))
        });
    let mut opened = opened.map_err(|error| format!("{error:#}"));
    let mut measured = Vec::new();
    for hot in [Hot::Quiet, Hot::OneAtATime, Hot::FlatOut] {
        let mixed = match &mut opened {
            Ok(both) => options.measure_quietly_on(
                both,
                |(show, small), duration| {
                    small.idle(duration / 10)?;
                    show.stage.idle(duration)
                },
                |(show, small)| {
                    let window = scale.fanout.window;
                    side_by_side(&mut show.stage, small, &show.server, hot, window)
                },
            ),
            Err(error) => Err(anyhow::anyhow!(error.clone())),
        };
        measured.push((hot, mixed));
    }
    measured
}

fn side_by_side(
    hot_stage: &mut CrowdRun,
    small: &mut CrowdRun,
    server: &Server,
    hot: Hot,
    window: Window,
) -> Result<Mixed> {
    let pace = match hot {
        Hot::Quiet => None,
        Hot::OneAtATime => Some(Pace::OneAtATime),
        Hot::FlatOut => Some(FLAT_OUT),
    };
    // By how much the hot stream begins earlier and ends later than the small one's window.
    let margin = window.warm_up;
    thread::scope(|scope| {
        let load = scope.spawn(move || match pace {
            // Its pings are answered.
            None => hot_stage.idle(window.warm_up + window.measure).map(|()| 0.0),
            Some(pace) => {
                let measure = margin + window.warm_up + window.measure + margin;
                let hot_window = Window { warm_up: Duration::ZERO, measure };
                let tally = hot_stage.run(pace, hot_window, &mut || Ok(()))?;
                Ok(tally.deliveries as f64 / tally.seconds)
            }
        });
        thread::sleep(margin);
        let measured = show::run(small, server, Pace::Every(SMALL_INTERVAL), window);
        let hot_deliveries_per_second = load
            .join()
            .map_err(|_| anyhow::anyhow!("the hot stream's thread panicked"))?
            .context("the hot stream")?;
        let (tally, [opened, closed]) = measured.context("the small stream")?;
        Ok(Mixed {
            small: tally.latency.context("the small stream had no message")?,
            hot_deliveries_per_second,
            others_share: Cost::between(opened, closed, tally.deliveries)?.others_share,
        })
    })
}

impl Disturbed for Mixed {
    fn others_share(&self) -> f64 {
        self.others_share
    }
}

fn label(subscribers: usize, hot: Hot) -> String {
    let hot = match hot {
        Hot::Quiet => "quiet",
        Hot::OneAtATime => "one at a time",
        Hot::FlatOut => "flat out",
    };
    format!("beside {} subscribers, {hot}", count(subscribers as f64))
}

fn print_table(rows: &[Row]) {
    let mut table = Table::new(&[
        "small stream",
        "server",
        "p50 ms",
        "p99 ms",
        "hot deliveries/s",
        "other CPU",
    ]);
    for row in rows {
        let mut cells = vec![label(row.hot_subscribers, row.hot), row.way.name()];
        match &row.outcome {
            Outcome::Measured(mixed) => {
                cells.push(decimals(mixed.small.p50_ms, 2));
                cells.push(decimals(mixed.small.p99_ms, 2));
                cells.push(count(mixed.hot_deliveries_per_second));
                cells.push(format!("{:.0} %", mixed.others_share * 100.0));
            }
            Outcome::Failed(error) => cells.push(format!("FAILED: {error}")),
        }
        table.row(cells);
    }
    table.print(
        "A stream with 2 subscribers, a message every 20 ms, beside a hot stream or live query",
    );
}
