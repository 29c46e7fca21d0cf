//! Writers' throughput under each design, in turn, several times over in one run.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;
use tokio::task::JoinSet;
use tokio_postgres::NoTls;

use super::design::{Design, Fixture};
use super::discard;
use crate::Options;
use crate::cost::{Cost, Reading};
use crate::latency::{Latencies, Percentiles};
use crate::load::Window;
use crate::median::median;
use crate::postgres::Session;
use crate::quiet::Disturbed;
use crate::report::Report;
use crate::scale::Scale;
use crate::servers::{Processes, Server};
use crate::table::{Table, count, decimals};

/// Rows of a large statement, and of each client's own block.
pub(crate) const BLOCK: usize = 100;

/// What each statement does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Statement {
    InsertOne,
    UpdateHundred,
}

impl Statement {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Statement::InsertOne => "INSERT of 1 row",
            Statement::UpdateHundred => "UPDATE of 100 rows",
        }
    }

    fn sql(self) -> &'static str {
        match self {
            Statement::InsertOne => {
                "INSERT INTO orders (customer, total, note) VALUES ($1::integer, 1.01, repeat('y', 100))"
            }
            Statement::UpdateHundred => {
                "UPDATE orders SET total = total + 1
                 WHERE id > $1::integer * 100 AND id <= $1::integer * 100 + 100"
            }
        }
    }
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    pub(crate) clients: usize,
    pub(crate) statement: Statement,
    pub(crate) design: Design,
    /// The median of the rounds.
    pub(crate) statements_per_second: f64,
    pub(crate) rounds: Vec<f64>,
    #[serde(flatten)]
    pub(crate) latency: Percentiles,
    pub(crate) cpu_per_statement: Cost,
    /// Of the rate with no capture: the median of the rounds' ratios.
    pub(crate) share: f64,
}

struct Measured {
    rate: f64,
    latency: Percentiles,
    cost: Cost,
}

impl Disturbed for Measured {
    fn others_share(&self) -> f64 {
        self.cost.others_share
    }
}

pub(crate) fn run(
    options: &Options,
    scale: &Scale,
    designs: &[Design],
    report: &mut Report,
) -> Result<Vec<Row>> {
    let capture = &scale.capture;
    let clients_max = capture.clients.iter().copied().max().unwrap_or(1);
    println!("\nwriters: each design in turn, {} rounds", capture.rounds);
    let prepare = |&design: &Design| Fixture::prepare(options, design, (clients_max + 1) * BLOCK);
    let mut grounds = designs.iter().map(prepare).collect::<Result<Vec<_>>>()?;
    let mut rows = Vec::new();
    for &clients in capture.clients {
        for statement in [Statement::InsertOne, Statement::UpdateHundred] {
            let shape = (clients, statement);
            rows.extend(compare(options, capture.window, capture.rounds, shape, &mut grounds)?);
        }
    }
    print_table(&rows);
    report.section("writers", &rows)?;
    Ok(rows)
}

/// One shape of load under each design, `rounds` times in turn.
fn compare(
    options: &Options,
    window: Window,
    rounds: usize,
    (clients, statement): (usize, Statement),
    grounds: &mut [Fixture],
) -> Result<Vec<Row>> {
    let mut measured: Vec<Vec<Measured>> = grounds.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds {
        for (fixture, results) in grounds.iter_mut().zip(&mut measured) {
            let measure = || measure_one(options, window, clients, statement, fixture);
            results.push(options.measure_quietly(measure)?);
        }
    }
    let bare: Vec<f64> = measured[0].iter().map(|result| result.rate).collect();
    let row = |(fixture, results): (&Fixture, &Vec<Measured>)| {
        let rates: Vec<f64> = results.iter().map(|result| result.rate).collect();
        let shares = rates.iter().zip(&bare).map(|(rate, bare)| rate / bare).collect();
        let last = results.last().context("there was a round")?;
        let row = Row {
            clients,
            statement,
            design: fixture.design,
            statements_per_second: median(rates.clone()).unwrap_or_default(),
            rounds: rates,
            latency: last.latency,
            cpu_per_statement: last.cost,
            share: median(shares).unwrap_or_default(),
        };
        println!(
            "{clients:>3} x {:<18}  {:<16}  {:>9} statements/s  {:.2} of no capture",
            statement.label(),
            row.design.name(),
            count(row.statements_per_second),
            row.share
        );
        Ok(row)
    };
    grounds.iter().zip(&measured).map(row).collect()
}

/// Who works beside the writers.
enum Beside {
    Nobody,
    Node(Box<Server>),
    Discard(discard::Reader),
}

impl Beside {
    fn start(options: &Options, fixture: &mut Fixture, url: &str) -> Result<Self> {
        match fixture.design {
            design if design.is_served() => Ok(Beside::Node(Box::new(fixture.serve(options)?))),
            Design::WalDiscarded => discard::Reader::start(url).map(Beside::Discard),
            _ => Ok(Beside::Nobody),
        }
    }

    fn processes(&self, fixture: &Fixture) -> Processes {
        match self {
            Beside::Nobody => fixture.processes(None),
            Beside::Node(server) => fixture.processes(Some(server)),
            Beside::Discard(reader) => {
                Processes { server: Some(reader.id()), ..fixture.processes(None) }
            }
        }
    }

    /// Waits until nothing is left to do.
    fn catch_up(&self, url: &str) -> Result<()> {
        match self {
            Beside::Nobody => Ok(()),
            Beside::Node(_) => Session::connect(url)?.catch_up(),
            Beside::Discard(_) => discard::catch_up(&Session::connect(url)?),
        }
    }
}

fn measure_one(
    options: &Options,
    window: Window,
    clients: usize,
    statement: Statement,
    fixture: &mut Fixture,
) -> Result<Measured> {
    let url = fixture.url()?;
    let beside = Beside::start(options, fixture, &url)?;
    let processes = beside.processes(fixture);
    // What an earlier turn left behind is not this one's to pay.
    beside.catch_up(&url)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        let mut writers = JoinSet::new();
        let started = Instant::now();
        let opens = started + window.warm_up;
        let closes = opens + window.measure;
        for client in 0..clients {
            writers.spawn(write(url.clone(), statement, client, opens, closes));
        }
        tokio::time::sleep_until(opens.into()).await;
        let opened = Reading::take(processes)?;
        tokio::time::sleep_until(closes.into()).await;
        let closed = Reading::take(processes)?;
        let mut latencies = Latencies::default();
        let mut statements = 0_u64;
        while let Some(written) = writers.join_next().await {
            for latency in written?? {
                latencies.record(latency);
                statements += 1;
            }
        }
        anyhow::Ok(Measured {
            rate: statements as f64 / window.measure.as_secs_f64(),
            latency: latencies.percentiles(),
            cost: Cost::between(opened, closed, statements)?,
        })
    });
    let caught_up = beside.catch_up(&url);
    if let Beside::Node(server) = beside {
        fixture.rest(*server);
    }
    caught_up?;
    outcome
}

/// Runs one statement after the other; each is a transaction. Returns how long those took that ended
/// within the window.
pub(crate) async fn write(
    url: String,
    statement: Statement,
    client: usize,
    opens: Instant,
    closes: Instant,
) -> Result<Vec<Duration>> {
    let (session, connection) = tokio_postgres::connect(&url, NoTls).await?;
    let driver = tokio::spawn(connection);
    session.batch_execute("SET synchronous_commit = on").await?;
    let prepared = session.prepare(statement.sql()).await?;
    let argument = i32::try_from(client)?;
    let mut taken = Vec::new();
    loop {
        let began = Instant::now();
        if began >= closes {
            break;
        }
        session.execute(&prepared, &[&argument]).await?;
        let ended = Instant::now();
        if ended >= opens && ended < closes {
            taken.push(ended - began);
        }
    }
    drop(session);
    driver.abort();
    Ok(taken)
}

fn print_table(rows: &[Row]) {
    let mut table = Table::new(&[
        "clients, statement",
        "capture",
        "statements/s",
        "of none",
        "p50 ms",
        "p99 ms",
        Cost::HEADINGS[0],
        Cost::HEADINGS[1],
        Cost::HEADINGS[2],
        Cost::HEADINGS[3],
    ]);
    for row in rows {
        let [server, database, load_generator, other] = row.cpu_per_statement.columns(0);
        table.row(vec![
            format!("{} x {}", row.clients, row.statement.label()),
            row.design.name().to_owned(),
            count(row.statements_per_second),
            decimals(row.share, 2),
            decimals(row.latency.p50_ms, 2),
            decimals(row.latency.p99_ms, 2),
            server,
            database,
            load_generator,
            other,
        ]);
    }
    table.print("Writers, synchronous_commit on (medians of the rounds; us of CPU per statement)");
}
