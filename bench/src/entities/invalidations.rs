//! From a change of a row to everyone who subscribes to it, one change at a time; and what that asks of
//! the database, with and without anyone to tell.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use tidewire_client::{Client, NewWatch};

use super::crowd::Crowd;
use super::fixture::{CODE, client, uuid};
use crate::Options;
use crate::aims::Aims;
use crate::latency::{Latencies, Percentiles};
use crate::postgres::Session;
use crate::report::Report;
use crate::scale::{Entities, Scale};
use crate::servers::{Kind, Server};
use crate::table::{Table, count, decimals};

const TABLE: &str =
    "CREATE TABLE projects (id text PRIMARY KEY, name text NOT NULL, edits integer NOT NULL)";
/// Between two changes, so that each is delivered by itself.
const PACE: Duration = Duration::from_millis(10);
const TOO_LATE: Duration = Duration::from_secs(30);
/// Statistics of the database are a little late.
const SETTLE: Duration = Duration::from_millis(1_500);

/// What a change costs the database more when someone is told of it, in transactions, at most: that of a
/// query for each change would be one.
const TRANSACTIONS_MORE_MAX: f64 = 0.5;

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    server: Kind,
    connections: usize,
    subscriptions: usize,
    changes: usize,
    deliveries: usize,
    /// From the writer's request to the last who is told.
    #[serde(flatten)]
    latency: Percentiles,
    /// The database's transactions for each change, the writer's among them. Of PostgreSQL only.
    transactions_per_change: Option<f64>,
    transactions_per_change_with_nobody: Option<f64>,
}

pub(crate) fn run(options: &Options, scale: &Scale, report: &mut Report) -> Result<Vec<Row>> {
    let scale = &scale.entities;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut rows = Vec::new();
    for kind in report.present() {
        println!("\ninvalidations: {} connections, {}", scale.connections, kind.name());
        let server = Server::start(kind, &options.installed)?;
        let meter =
            server.database().map(|database| Session::connect(&database.url)).transpose()?;
        let client = client(&server)?;
        rows.push(measure(&runtime, &client, kind, scale, meter.as_ref())?);
    }
    let mut table = Table::new(&[
        "server",
        "connections",
        "subscriptions",
        "changes",
        "told",
        "p50 ms",
        "p99 ms",
        "transactions/change",
        "with nobody",
    ]);
    for row in &rows {
        let transactions = |value: Option<f64>| value.map_or("-".to_owned(), |t| decimals(t, 2));
        table.row(vec![
            row.server.name().to_owned(),
            count(row.connections as f64),
            count(row.subscriptions as f64),
            count(row.changes as f64),
            count(row.deliveries as f64),
            decimals(row.latency.p50_ms, 2),
            decimals(row.latency.p99_ms, 2),
            transactions(row.transactions_per_change),
            transactions(row.transactions_per_change_with_nobody),
        ]);
    }
    table.print("From a change to the last of those who subscribe to it");
    report.section("invalidations", &rows)?;
    Ok(rows)
}

pub(crate) fn judge(rows: &[Row], aims: &mut Aims) {
    for row in rows {
        let (with, without) =
            (row.transactions_per_change, row.transactions_per_change_with_nobody);
        if let (Some(with), Some(without)) = (with, without) {
            let aim = format!("{}: more transactions a change, to tell of it", row.server.name());
            aims.at_most(aim, TRANSACTIONS_MORE_MAX, with - without);
        }
    }
}

fn measure(
    runtime: &tokio::runtime::Runtime,
    client: &Client,
    kind: Kind,
    scale: &Entities,
    meter: Option<&Session>,
) -> Result<Row> {
    let all = scale.connections;
    runtime.block_on(prepare(client, all))?;
    let before = transactions(meter)?;
    runtime.block_on(change_all(client, scale, all, None))?;
    let idle = transactions(meter)?;
    let crowd = Crowd::gather(client, scale.connections, scale.interests.min(all), all);
    let mut crowd = runtime.block_on(crowd)?;
    let began = transactions(meter)?;
    let told = runtime.block_on(change_all(client, scale, all, Some(&mut crowd)))?;
    let ended = transactions(meter)?;
    let each =
        |from: Option<u64>, to: Option<u64>| Some((to? - from?) as f64 / scale.changes as f64);
    let (latencies, deliveries) = told;
    Ok(Row {
        server: kind,
        connections: scale.connections,
        subscriptions: scale.connections * scale.interests.min(all),
        changes: scale.changes,
        deliveries,
        latency: latencies.percentiles(),
        transactions_per_change: each(began, ended),
        transactions_per_change_with_nobody: each(before, idle),
    })
}

async fn prepare(client: &Client, all: usize) -> Result<()> {
    client.sql(TABLE, &[]).await?;
    for first in (0..all).step_by(500) {
        let rows: Vec<String> = (first..all.min(first + 500))
            .map(|number| format!("('{}', 'project {number}', 0)", uuid(number)))
            .collect();
        client.sql(&format!("INSERT INTO projects VALUES {}", rows.join(", ")), &[]).await?;
    }
    let watch = NewWatch {
        table: "projects".to_owned(),
        entity: Some(CODE.to_owned()),
        ..NewWatch::default()
    };
    client.watch(&watch).await?;
    Ok(())
}

/// Changes rows one by one. With a crowd, waits each time until all are told who subscribe to it.
async fn change_all(
    client: &Client,
    scale: &Entities,
    all: usize,
    mut crowd: Option<&mut Crowd>,
) -> Result<(Latencies, usize)> {
    let (mut latencies, mut deliveries) = (Latencies::default(), 0);
    for number in 0..scale.changes {
        let entity = uuid(number * 7 % all);
        let update = format!("UPDATE projects SET edits = edits + 1 WHERE id = '{entity}'");
        let changed = Instant::now();
        client.sql(&update, &[]).await?;
        if let Some(crowd) = &mut crowd {
            let mut last = changed;
            for _ in 0..scale.interests.min(all) {
                let told = tokio::time::timeout(TOO_LATE, crowd.told.recv()).await?;
                let told = told.context("the pages are gone")?;
                if told.entity != entity {
                    bail!("a page was told of {} and not of {entity}", told.entity);
                }
                last = last.max(told.at);
                deliveries += 1;
            }
            latencies.record(last.duration_since(changed));
        }
        tokio::time::sleep(PACE).await;
    }
    Ok((latencies, deliveries))
}

/// Transactions that the database has committed.
fn transactions(meter: Option<&Session>) -> Result<Option<u64>> {
    let Some(meter) = meter else { return Ok(None) };
    std::thread::sleep(SETTLE);
    let sql = "SELECT xact_commit::text FROM pg_stat_database WHERE datname = current_database()";
    Ok(Some(meter.text(sql)?.parse()?))
}
