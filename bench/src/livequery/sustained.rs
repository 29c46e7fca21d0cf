//! Inserts as fast as they are taken: how many changes are told, and what that costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;
use tidewire_client::Client;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::crowd::Crowd;
use super::queries;
use crate::cpu;
use crate::scale::LiveQueries;
use crate::servers::{Kind, Server};
use crate::table::{Table, count, decimals};

const WRITERS: usize = 8;
/// After the last insert: when nothing was told for so long, nothing more will be.
const QUIET: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    pub(crate) server: Kind,
    inserts_per_second: f64,
    changes_per_second: f64,
    inserts: usize,
    changes: usize,
    /// CPU seconds a second.
    node_cpu: f64,
    pub(crate) database_cpu: Option<f64>,
}

pub(crate) fn measure(
    runtime: &Runtime,
    client: &Client,
    server: &Server,
    scale: &LiveQueries,
    crowd: &mut Crowd,
) -> Result<Row> {
    let processes = server.processes();
    let database = || processes.postmaster.map(cpu::seconds_with_children).transpose();
    let (node_before, database_before) = (cpu::seconds(server.pid())?, database()?);
    let began = Instant::now();
    let (inserts, changes, last) = runtime.block_on(flood(client, scale, crowd))?;
    let took = last.duration_since(began).as_secs_f64().max(scale.measure.as_secs_f64());
    let node_cpu = (cpu::seconds(server.pid())? - node_before) / took;
    let database_cpu =
        database()?.zip(database_before).map(|(after, before)| (after - before) / took);
    Ok(Row {
        server: server.kind,
        inserts_per_second: inserts as f64 / scale.measure.as_secs_f64(),
        changes_per_second: changes as f64 / took,
        inserts,
        changes,
        node_cpu,
        database_cpu,
    })
}

/// How many inserts, how many changes, and when the last was told.
async fn flood(
    client: &Client,
    scale: &LiveQueries,
    crowd: &mut Crowd,
) -> Result<(usize, usize, Instant)> {
    while crowd.told.try_recv().is_ok() {}
    let next = Arc::new(AtomicUsize::new(0));
    // Behind those of the other part.
    let first = queries::first_id(scale) + 100 * scale.inserts;
    let until = Instant::now() + scale.measure;
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS {
        let (client, next, queries) = (client.clone(), Arc::clone(&next), scale.queries);
        writers.spawn(async move {
            while Instant::now() < until {
                let turn = next.fetch_add(1, Ordering::Relaxed);
                let tenant = turn * 7_919 % queries;
                client.sql(&queries::insert(first + turn, tenant), &[]).await?;
            }
            anyhow::Ok(())
        });
    }
    let (mut changes, mut last) = (0, Instant::now());
    loop {
        tokio::select! {
            told = crowd.told.recv() => {
                let Some(told) = told else { anyhow::bail!("the clients are gone") };
                changes += 1;
                last = told.at;
            }
            () = tokio::time::sleep(QUIET), if Instant::now() > until => break,
            Some(done) = writers.join_next() => done??,
        }
    }
    Ok((next.load(Ordering::Relaxed), changes, last))
}

pub(crate) fn print(rows: &[Row]) {
    let head = ["server", "inserts/s", "changes/s", "node CPU", "database CPU"];
    let mut table = Table::new(&head);
    for row in rows {
        table.row(vec![
            row.server.name().to_owned(),
            count(row.inserts_per_second),
            count(row.changes_per_second),
            decimals(row.node_cpu, 2),
            row.database_cpu.map_or("-".to_owned(), |cpu| decimals(cpu, 2)),
        ]);
    }
    table.print("Inserts flat out (CPU seconds a second)");
}
