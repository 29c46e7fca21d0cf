//! How many changes a second go all the way, from commit to a WebSocket, while writers write as fast
//! as they can.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;
use tidewire_client::Update;
use tokio::task::JoinSet;

use super::design::{Design, Fixture};
use super::latency::subscribe;
use super::writers::{BLOCK, Statement, write};
use crate::Options;
use crate::cost::{Cost, Reading};
use crate::load::Window;
use crate::report::Report;
use crate::scale::Scale;
use crate::table::{Table, count, decimals};

const CLIENTS: usize = 4;
const TOO_LATE: Duration = Duration::from_secs(120);

#[derive(Debug, Serialize)]
struct Row {
    design: Design,
    committed_per_second: f64,
    received_per_second: f64,
    /// How long after the writers stopped the subscriber had everything.
    behind_seconds: f64,
    cpu_per_change: Cost,
}

pub(crate) fn run(
    options: &Options,
    scale: &Scale,
    designs: &[Design],
    report: &mut Report,
) -> Result<()> {
    println!("\nsustained: {CLIENTS} clients, {}", Statement::UpdateHundred.label());
    let mut rows = Vec::new();
    for &design in designs.iter().filter(|design| design.is_served()) {
        rows.push(measure(options, scale.capture.window, design)?);
    }
    let mut table = Table::new(&[
        "capture",
        "",
        "committed/s",
        "received/s",
        "behind s",
        Cost::HEADINGS[0],
        Cost::HEADINGS[1],
        Cost::HEADINGS[2],
        Cost::HEADINGS[3],
    ]);
    for row in &rows {
        let [server, database, load_generator, other] = row.cpu_per_change.columns(1);
        table.row(vec![
            row.design.name().to_owned(),
            String::new(),
            count(row.committed_per_second),
            count(row.received_per_second),
            decimals(row.behind_seconds, 2),
            server,
            database,
            load_generator,
            other,
        ]);
    }
    table.print("Changes from commit to one WebSocket, flat out (us of CPU per change)");
    report.section("sustained", &rows)
}

fn measure(options: &Options, window: Window, design: Design) -> Result<Row> {
    let mut fixture = Fixture::prepare(options, design, (CLIENTS + 1) * BLOCK)?;
    let url = fixture.url()?;
    let server = fixture.serve(options)?;
    let address = format!("http://{}", server.addresses().http);
    let processes = server.processes();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let row = runtime.block_on(async {
        let mut live = subscribe(&address).await?;
        let mut writers = JoinSet::new();
        let opens = Instant::now();
        let closes = opens + window.measure;
        let opened = Reading::take(processes)?;
        for client in 0..CLIENTS {
            writers.spawn(write(url.clone(), Statement::UpdateHundred, client, opens, closes));
        }
        let all = async {
            // One that ended after the window was committed too.
            let mut statements = 0;
            while let Some(written) = writers.join_next().await {
                statements += written??.len();
            }
            anyhow::Ok((statements, Instant::now()))
        };
        let received = async {
            let (mut received, mut in_window, mut last) = (0_u64, 0_u64, Instant::now());
            loop {
                match tokio::time::timeout(Duration::from_secs(3), live.next()).await {
                    // Nothing more comes.
                    Err(_) if last > closes || opens.elapsed() > TOO_LATE => break,
                    Err(_) => {}
                    Ok(update) => {
                        if let Update::Event(_) = update?.context("the live connection ended")? {
                            last = Instant::now();
                            received += 1;
                            in_window += u64::from(last < closes);
                        }
                    }
                }
            }
            anyhow::Ok((received, in_window, last))
        };
        let (written, received) = tokio::join!(all, received);
        let (closed, (_, stopped), (received, in_window, last)) =
            (Reading::take(processes)?, written?, received?);
        let seconds = window.measure.as_secs_f64();
        anyhow::Ok(Row {
            design,
            committed_per_second: received as f64 / (stopped - opens).as_secs_f64(),
            received_per_second: in_window as f64 / seconds,
            behind_seconds: last.saturating_duration_since(stopped).as_secs_f64(),
            cpu_per_change: Cost::between(opened, closed, received)?,
        })
    });
    fixture.rest(server);
    row
}
