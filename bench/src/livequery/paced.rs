//! One insert at a time: from the request to the change on the socket, by the query's plan.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;
use tidewire_client::Client;
use tokio::runtime::Runtime;

use super::crowd::Crowd;
use super::queries::{self, Plan};
use crate::latency::{Latencies, Percentiles};
use crate::scale::LiveQueries;
use crate::servers::Kind;
use crate::table::{Table, count, decimals};

/// Between two inserts, so that each is delivered by itself.
const PACE: Duration = Duration::from_millis(10);
const TOO_LATE: Duration = Duration::from_secs(30);
/// A step that has no divisor in common with the number of queries: all kinds get their turn.
const STEP: usize = 7_919;

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    server: Kind,
    plan: Plan,
    queries: usize,
    inserts: usize,
    #[serde(flatten)]
    latency: Percentiles,
}

pub(crate) fn measure(
    runtime: &Runtime,
    client: &Client,
    kind: Kind,
    scale: &LiveQueries,
    crowd: &mut Crowd,
) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for plan in Plan::ALL {
        let latencies = runtime.block_on(insert(client, plan, scale, crowd))?;
        let of_plan = (0..scale.queries).filter(|number| queries::plan(*number) == plan).count();
        rows.push(Row {
            server: kind,
            plan,
            queries: of_plan,
            inserts: scale.inserts,
            latency: latencies.percentiles(),
        });
    }
    Ok(rows)
}

async fn insert(
    client: &Client,
    plan: Plan,
    scale: &LiveQueries,
    crowd: &mut Crowd,
) -> Result<Latencies> {
    let mut latencies = Latencies::default();
    let place = Plan::ALL.iter().position(|known| *known == plan).unwrap_or_default();
    let numbers = (0..).map(|turn: usize| turn * STEP % scale.queries);
    let numbers = numbers.filter(|number| queries::plan(*number) == plan).take(scale.inserts);
    for (turn, number) in numbers.enumerate() {
        let id = queries::first_id(scale) + place * scale.inserts + turn;
        let began = Instant::now();
        client.sql(&queries::insert(id, number), &[]).await?;
        loop {
            let told = tokio::time::timeout(TOO_LATE, crowd.told.recv()).await;
            let told = told.with_context(|| format!("query {number} is told nothing"))?;
            let told = told.context("the clients are gone")?;
            if told.query == number {
                latencies.record(told.at.duration_since(began));
                break;
            }
        }
        tokio::time::sleep(PACE).await;
    }
    Ok(latencies)
}

pub(crate) fn print(rows: &[Row]) {
    let mut table = Table::new(&["server", "plan", "queries", "inserts", "p50 ms", "p99 ms"]);
    for row in rows {
        table.row(vec![
            row.server.name().to_owned(),
            row.plan.name().to_owned(),
            count(row.queries as f64),
            count(row.inserts as f64),
            decimals(row.latency.p50_ms, 2),
            decimals(row.latency.p99_ms, 2),
        ]);
    }
    table.print("From an insert to the change on the socket, one at a time");
}
