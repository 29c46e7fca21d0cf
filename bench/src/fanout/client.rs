//! What the Rust client makes of a live connection: a stream replayed to one caller, every event once
//! and in order, with offsets compared and payloads taken out of their messages.

use std::time::Instant;

use anyhow::{Result, bail};
use serde::Serialize;
use tidewire_client::{Client, LiveOptions, ReadFrom, Update};

use super::show::STREAM;
use super::way::{Transport, Way};
use crate::Options;
use crate::cpu;
use crate::outcome::Outcome;
use crate::report::Report;
use crate::scale::Scale;
use crate::table::{Table, count, decimals};

/// Messages of one append.
const BATCH: usize = 1_000;

#[derive(Debug, Serialize)]
struct Row {
    compression: bool,
    #[serde(flatten)]
    outcome: Outcome<Received>,
}

#[derive(Debug, Serialize)]
struct Received {
    events: usize,
    events_per_second: f64,
    client_us: f64,
    server_us: f64,
}

pub(crate) fn run(
    options: &Options,
    scale: &Scale,
    ways: &[Way],
    report: &mut Report,
) -> Result<()> {
    let ours = |way: &&Way| way.server.is_tidewire() && way.transport == Transport::WebSocket;
    let Some(&way) = ways.iter().find(ours) else { return Ok(()) };
    let mut rows = Vec::new();
    for compression in [false, true] {
        let measured = measure(options, way, scale.fanout.client_events, compression);
        rows.push(Row { compression, outcome: Outcome::of(way.server, measured, report) });
    }
    print_table(&rows);
    report.section("client", &rows)
}

fn measure(options: &Options, way: Way, events: usize, compression: bool) -> Result<Received> {
    let server = way.start(options, &[STREAM])?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let received = runtime.block_on(async {
        let client = Client::new(&format!("http://{}", server.addresses().http), None)?;
        let message = serde_json::json!({ "n": 0, "text": "x".repeat(100) });
        let body = serde_json::to_vec(&vec![message; BATCH])?;
        for _ in 0..events.div_ceil(BATCH) {
            client.append(STREAM, "application/json", body.clone(), None).await?;
        }
        let cpu = || -> Result<_> {
            Ok((cpu::seconds(std::process::id())?, cpu::seconds(server.pid())?))
        };
        let (before, started) = (cpu()?, Instant::now());
        let mut live = client.live(LiveOptions { compression, ..LiveOptions::default() })?;
        live.subscribe("q", STREAM, ReadFrom::Start)?;
        let mut left = events;
        while left > 0 {
            match live.next().await? {
                Some(Update::Event(_)) => left -= 1,
                Some(_) => {}
                None => bail!("the client ended with {left} events to come"),
            }
        }
        let (seconds, after) = (started.elapsed().as_secs_f64(), cpu()?);
        let each_us = |seconds: f64| seconds * 1e6 / events as f64;
        Ok(Received {
            events,
            events_per_second: events as f64 / seconds,
            client_us: each_us(after.0 - before.0),
            server_us: each_us(after.1 - before.1),
        })
    });
    drop(server);
    received
}

fn print_table(rows: &[Row]) {
    let mut table = Table::new(&["compression", "events", "events/s", "client us", "server us"]);
    for row in rows {
        let mut cells = vec![if row.compression { "on" } else { "off" }.to_owned()];
        match &row.outcome {
            Outcome::Measured(received) => {
                cells.push(count(received.events as f64));
                cells.push(count(received.events_per_second));
                cells.push(decimals(received.client_us, 2));
                cells.push(decimals(received.server_us, 2));
            }
            Outcome::Failed(error) => cells.push(format!("FAILED: {error}")),
        }
        table.row(cells);
    }
    table.print("The Rust client: a stream replayed over one WebSocket (us of CPU per event)");
}
