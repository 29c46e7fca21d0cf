//! One message to N subscribers, paced and flat out: rates, latencies and what a delivery costs.

use anyhow::{Context, Result};
use serde::Serialize;

use super::show::{self, Delivery, FLAT_OUT, FanOutRun, STREAM};
use super::way::{Transport, Way};
use crate::Options;
use crate::bare_loop::LoopMode;
use crate::cost::Cost;
use crate::latency::Percentiles;
use crate::load::crowd::Pace;
use crate::outcome::Outcome;
use crate::quiet::Disturbed;
use crate::report::Report;
use crate::scale::Scale;
use crate::servers::Kind;
use crate::table::{Table, count, decimals, optional};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    Paced,
    FlatOut,
}

#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) subscribers: usize,
    pub(crate) mode: Mode,
    #[serde(flatten)]
    pub(crate) way: Way,
    #[serde(flatten)]
    pub(crate) outcome: Outcome<Delivery>,
    /// The rate ÷ that of the bare loop over the same transport, the faster of its two if flat out.
    pub(crate) of_bare_loop: Option<f64>,
    /// Paced: ÷ that of the bare loop that waits for the disk first, as an append does.
    pub(crate) of_synced_loop: Option<f64>,
    pub(crate) of_nats: Option<f64>,
    /// Paced: the server's own microseconds per delivery, less what the append takes when nobody
    /// listens.
    pub(crate) user_us_less_append: Option<f64>,
}

/// An append that nobody listens to: what every message costs Tidewire, however large its audience.
#[derive(Debug, Clone, Copy, Serialize)]
struct LonelyAppend {
    latency: Option<Percentiles>,
    cpu_per_append: Cost,
}

impl Disturbed for LonelyAppend {
    fn others_share(&self) -> f64 {
        self.cpu_per_append.others_share
    }
}

pub(crate) fn run(
    options: &Options,
    scale: &Scale,
    ways: &[Way],
    connections_max: usize,
    report: &mut Report,
) -> Result<Vec<Row>> {
    let lonely = lonely_append(options, scale, ways, report)?;
    let mut rows = Vec::new();
    for &subscribers in scale.fanout.subscribers {
        let subscribers = subscribers.min(connections_max);
        println!();
        for &way in ways {
            for (mode, measured) in measure(options, scale, way, subscribers) {
                let outcome = Outcome::of(way.server, measured, report);
                let line = outcome.describe(line);
                println!("{:<33}  {:<32}  {line}", label(subscribers, mode), way.name());
                rows.push(Row {
                    subscribers,
                    mode,
                    way,
                    outcome,
                    of_bare_loop: None,
                    of_synced_loop: None,
                    of_nats: None,
                    user_us_less_append: None,
                });
            }
        }
    }
    compare(&mut rows, lonely);
    print_table(&rows);
    report.section("deliver", &rows)?;
    Ok(rows)
}

fn lonely_append(
    options: &Options,
    scale: &Scale,
    ways: &[Way],
    report: &mut Report,
) -> Result<Option<LonelyAppend>> {
    let Some(&way) = ways.iter().find(|way| way.server.is_tidewire()) else {
        return Ok(None);
    };
    let measure = || {
        let server = way.start(options, &[STREAM])?;
        let mut stage = show::open_stage(way, &server, STREAM, 0.into())?;
        let (tally, [opened, closed]) =
            show::run(&mut stage, &server, Pace::OneAtATime, scale.fanout.window)?;
        let cpu_per_append = Cost::between(opened, closed, tally.published)?;
        Ok(LonelyAppend { latency: tally.answer, cpu_per_append })
    };
    let outcome = Outcome::of(way.server, options.measure_quietly(measure), report);
    let line = outcome.describe(|append| {
        let (cost, latency) = (append.cpu_per_append, append.latency.unwrap_or_default());
        format!("{:.0} us of its own CPU, p50 {:.2} ms", cost.server_user_us, latency.p50_ms)
    });
    println!("\nan append that nobody listens to, {}: {line}", way.server.name());
    report.section("lonely_append", &outcome)?;
    Ok(outcome.measured().copied())
}

/// Every mode with one audience, which has come once.
fn measure(
    options: &Options,
    scale: &Scale,
    way: Way,
    subscribers: usize,
) -> Vec<(Mode, Result<Delivery>)> {
    let modes: &[Mode] = match way.habit {
        LoopMode::Plain => &[Mode::Paced, Mode::FlatOut],
        // Paced there is never more than one message to write, so there is nothing to join.
        LoopMode::Joined => &[Mode::FlatOut],
        // Flat out many messages would share a sync.
        LoopMode::Synced => &[Mode::Paced],
    };
    let mut show = FanOutRun::open(way, options, scale, &[STREAM], subscribers.into())
        .context("bring the audience in")
        .map_err(|error| format!("{error:#}"));
    let mut measured = Vec::with_capacity(modes.len());
    for &mode in modes {
        let delivery = match &mut show {
            Ok(show) => options.measure_quietly_on(
                show,
                |show, duration| show.stage.idle(duration),
                |show| show.measure(mode.pace(), scale.fanout.window),
            ),
            Err(error) => Err(anyhow::anyhow!(error.clone())),
        };
        measured.push((mode, delivery));
    }
    measured
}

impl Mode {
    fn pace(self) -> Pace {
        match self {
            Self::Paced => Pace::OneAtATime,
            Self::FlatOut => FLAT_OUT,
        }
    }
}

fn label(subscribers: usize, mode: Mode) -> String {
    let mode = match mode {
        Mode::Paced => "one at a time",
        Mode::FlatOut => "flat out",
    };
    format!("{} subscribers, {mode}", count(subscribers as f64))
}

fn line(delivery: &Delivery) -> String {
    let rate = count(delivery.deliveries_per_second);
    let latency = delivery
        .latency
        .map(|Percentiles { p50_ms, p99_ms }| format!("  p50 {p50_ms:.2} ms  p99 {p99_ms:.2} ms"));
    format!("{rate:>11} deliveries/s{}", latency.unwrap_or_default())
}

fn compare(rows: &mut [Row], lonely: Option<LonelyAppend>) {
    for index in 0..rows.len() {
        let row = &rows[index];
        let Some(delivery) = row.outcome.measured() else {
            continue;
        };
        let rate = delivery.deliveries_per_second;
        let best = |is_rival: &dyn Fn(&Way) -> bool| {
            let same = |other: &&Row| {
                (other.subscribers, other.mode) == (row.subscribers, row.mode)
                    && is_rival(&other.way)
            };
            let rates = rows.iter().filter(same).filter_map(|other| {
                other.outcome.measured().map(|rival| rival.deliveries_per_second)
            });
            Some(rate / rates.reduce(f64::max)?)
        };
        let is_websocket = |way: &Way| way.transport == Transport::WebSocket;
        let is_loop =
            |way: &Way| way.server == Kind::BareLoop && is_websocket(way) == is_websocket(&row.way);
        let of_bare_loop = best(&|way| is_loop(way) && way.habit != LoopMode::Synced);
        let of_synced_loop = best(&|way| is_loop(way) && way.habit == LoopMode::Synced);
        let of_nats = best(&|way| way.server == Kind::Nats);
        let appends_per_delivery = delivery.published_per_second / rate;
        let less_append = lonely
            .filter(|_| row.way.server.is_tidewire() && row.mode == Mode::Paced)
            .map(|lonely| lonely.cpu_per_append.server_user_us * appends_per_delivery)
            .map(|append_us| delivery.cpu_per_delivery.server_user_us - append_us);
        let row = &mut rows[index];
        row.of_bare_loop = of_bare_loop;
        row.of_synced_loop = of_synced_loop;
        row.of_nats = of_nats;
        row.user_us_less_append = less_append;
    }
}

fn print_table(rows: &[Row]) {
    let mut table = Table::new(&[
        "audience, pace",
        "server",
        "deliveries/s",
        "p50 ms",
        "p99 ms",
        "user us",
        "less append",
        "system us",
        "load gen us",
        "other CPU",
        "KiB/conn",
        "of bare loop",
        "of synced",
        "of NATS",
    ]);
    for row in rows {
        let mut cells = vec![label(row.subscribers, row.mode), row.way.name()];
        match &row.outcome {
            Outcome::Measured(delivery) => {
                let cost = delivery.cpu_per_delivery;
                cells.push(count(delivery.deliveries_per_second));
                cells.push(optional(delivery.latency.map(|latency| latency.p50_ms), 2));
                cells.push(optional(delivery.latency.map(|latency| latency.p99_ms), 2));
                cells.push(decimals(cost.server_user_us, 2));
                cells.push(optional(row.user_us_less_append, 2));
                cells.push(decimals(cost.server_us - cost.server_user_us, 2));
                cells.push(decimals(cost.load_generator_us, 2));
                cells.push(format!("{:.0} %", cost.others_share * 100.0));
                cells.push(decimals(delivery.connection_kib, 1));
                cells.push(optional(row.of_bare_loop, 2));
                cells.push(optional(row.of_synced_loop, 2));
                cells.push(optional(row.of_nats, 2));
            }
            Outcome::Failed(error) => cells.push(format!("FAILED: {error}")),
        }
        table.row(cells);
    }
    table.print(
        "Fan-out: 1 publisher, 128-byte JSON messages (us of CPU per delivery; latency from \
         publishing to reading)",
    );
}
