//! What it costs to do without: a client that runs all queries again every second.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::Result;
use serde::Serialize;
use tidewire_client::Client;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::{queries, sustained};
use crate::aims::Aims;
use crate::cpu;
use crate::scale::LiveQueries;
use crate::servers::{Kind, Server};
use crate::table::{Table, count, decimals};

const CLIENTS: usize = 8;

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    server: Kind,
    queries: usize,
    /// As many as there are queries are wanted.
    runs_per_second: f64,
    /// CPU seconds for a round of all queries, which a second would have to have.
    node_cpu_per_round: f64,
    database_cpu_per_round: Option<f64>,
}

pub(crate) fn measure(
    runtime: &Runtime,
    client: &Client,
    server: &Server,
    scale: &LiveQueries,
) -> Result<Row> {
    let processes = server.processes();
    let database = || processes.postmaster.map(cpu::seconds_with_children).transpose();
    let (node_before, database_before) = (cpu::seconds(server.pid())?, database()?);
    let began = Instant::now();
    let runs = runtime.block_on(poll(client, scale))?;
    let rounds = runs as f64 / scale.queries as f64;
    let node = cpu::seconds(server.pid())? - node_before;
    let spent = database()?.zip(database_before).map(|(after, before)| after - before);
    Ok(Row {
        server: server.kind,
        queries: scale.queries,
        runs_per_second: runs as f64 / began.elapsed().as_secs_f64(),
        node_cpu_per_round: node / rounds,
        database_cpu_per_round: spent.map(|spent| spent / rounds),
    })
}

async fn poll(client: &Client, scale: &LiveQueries) -> Result<usize> {
    let next = Arc::new(AtomicUsize::new(0));
    let until = Instant::now() + scale.measure;
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (client, next, queries) = (client.clone(), Arc::clone(&next), scale.queries);
        clients.spawn(async move {
            while Instant::now() < until {
                let number = next.fetch_add(1, Ordering::Relaxed) % queries;
                client.sql(&queries::sql(number), &[]).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = clients.join_next().await {
        done??;
    }
    Ok(next.load(Ordering::Relaxed))
}

/// With live queries the database works for the writers only.
pub(crate) fn judge(live: &[sustained::Row], polled: &[Row], aims: &mut Aims) {
    for row in live {
        let Some(polled) = polled.iter().find(|polled| polled.server == row.server) else {
            continue;
        };
        if let (Some(live), Some(polled)) = (row.database_cpu, polled.database_cpu_per_round) {
            let aim = format!("{}: CPU of the database, of that of polling", row.server.name());
            aims.at_most(aim, 1.0, live / polled);
        }
    }
}

pub(crate) fn print(rows: &[Row]) {
    let head = ["server", "queries", "runs/s", "node CPU s/round", "database CPU s/round"];
    let mut table = Table::new(&head);
    for row in rows {
        table.row(vec![
            row.server.name().to_owned(),
            count(row.queries as f64),
            count(row.runs_per_second),
            decimals(row.node_cpu_per_round, 2),
            row.database_cpu_per_round.map_or("-".to_owned(), |cpu| decimals(cpu, 2)),
        ]);
    }
    table.print("Running all queries again by POST /v1/sql; a round a second would be wanted");
}
