//! From the writer's commit to a subscriber, one change at a time: over Tidewire's WebSocket, and by
//! bare LISTEN/NOTIFY.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use tidewire_client::{Client, Live, LiveOptions, ReadFrom, Update};
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, NoTls};

use super::design::{Design, Fixture};
use crate::Options;
use crate::latency::{Latencies, Percentiles};
use crate::report::Report;
use crate::scale::Scale;
use crate::table::{Table, count, decimals};

/// Between two changes: long enough for a sequencer to fall asleep now and then, as it would.
const PACE: Duration = Duration::from_millis(15);
const TOO_LATE: Duration = Duration::from_secs(30);

const INSERT: &str = "INSERT INTO orders (customer, total, note) VALUES (7, 1.5, 'n')";

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    pub(crate) way: String,
    /// Tidewire's mode; none of the bare channel.
    pub(crate) design: Option<Design>,
    pub(crate) changes: usize,
    #[serde(flatten)]
    pub(crate) latency: Percentiles,
}

pub(crate) fn run(
    options: &Options,
    scale: &Scale,
    designs: &[Design],
    report: &mut Report,
) -> Result<Vec<Row>> {
    let changes = scale.capture.latency_changes;
    println!("\nlatency: {changes} changes, one every {} ms", PACE.as_millis());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut rows = Vec::new();
    let bare = Fixture::prepare(options, Design::None, 0)?;
    let latency = runtime.block_on(listen(&bare.url()?, changes))?;
    rows.push(Row { way: "bare LISTEN/NOTIFY".to_owned(), design: None, changes, latency });
    drop(bare);
    for &design in designs.iter().filter(|design| design.is_served()) {
        let mut fixture = Fixture::prepare(options, design, 0)?;
        let url = fixture.url()?;
        let server = fixture.serve(options)?;
        let address = format!("http://{}", server.addresses().http);
        let latency = runtime.block_on(follow(&url, &address, changes));
        fixture.rest(server);
        let way = format!("{}, WebSocket", design.name());
        rows.push(Row { way, design: Some(design), changes, latency: latency? });
    }
    let mut table = Table::new(&["commit to subscriber", "", "changes", "p50 ms", "p99 ms"]);
    for row in &rows {
        table.row(vec![
            row.way.clone(),
            String::new(),
            count(row.changes as f64),
            decimals(row.latency.p50_ms, 2),
            decimals(row.latency.p99_ms, 2),
        ]);
    }
    table.print("From the return of COMMIT to the subscriber, one change at a time");
    report.section("latency", &rows)?;
    Ok(rows)
}

/// A writer that notifies, and a session that listens.
async fn listen(url: &str, changes: usize) -> Result<Percentiles> {
    let (writer, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    let (listener, mut connection) = tokio_postgres::connect(url, NoTls).await?;
    let (heard, mut hears) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) =
            std::future::poll_fn(|context| connection.poll_message(context)).await
        {
            if matches!(message, AsyncMessage::Notification(_)) {
                let _ = heard.send(Instant::now());
            }
        }
    });
    listener.batch_execute("LISTEN orders").await?;
    let statement = format!("BEGIN; {INSERT}; NOTIFY orders; COMMIT");
    let mut latencies = Latencies::default();
    for _ in 0..changes {
        writer.batch_execute(&statement).await?;
        let committed = Instant::now();
        let received = tokio::time::timeout(TOO_LATE, hears.recv()).await?;
        let received = received.context("the listener's connection ended")?;
        // It may be heard before the writer is told that it has committed.
        latencies.record(received.saturating_duration_since(committed));
        tokio::time::sleep(PACE).await;
    }
    Ok(latencies.percentiles())
}

/// A writer that knows nothing of Tidewire, and a subscriber over its WebSocket.
async fn follow(url: &str, address: &str, changes: usize) -> Result<Percentiles> {
    let (writer, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    let mut live = subscribe(address).await?;
    let (heard, mut hears) = mpsc::unbounded_channel();
    let reader = tokio::spawn(async move {
        loop {
            match live.next().await {
                Ok(Some(Update::Event(_))) => {
                    let _ = heard.send(Instant::now());
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return,
            }
        }
    });
    let mut latencies = Latencies::default();
    for _ in 0..changes {
        writer.batch_execute(INSERT).await?;
        let committed = Instant::now();
        let received = tokio::time::timeout(TOO_LATE, hears.recv()).await?;
        let received = received.context("the live connection ended")?;
        latencies.record(received.saturating_duration_since(committed));
        tokio::time::sleep(PACE).await;
    }
    reader.abort();
    Ok(latencies.percentiles())
}

/// A live connection that follows the table from now on.
pub(super) async fn subscribe(address: &str) -> Result<Live> {
    let client = Client::new(address, None)?;
    let options = LiveOptions { compression: false, ..LiveOptions::default() };
    let mut live = client.live(options)?;
    live.subscribe("q", "table/orders", ReadFrom::Now)?;
    loop {
        match tokio::time::timeout(TOO_LATE, live.next()).await?? {
            Some(Update::Created { .. }) => return Ok(live),
            Some(_) => {}
            None => bail!("the live connection ended before it began"),
        }
    }
}
