//! Catch-up: readers that each read a whole stream, again and again, following
//! `Stream-Next-Offset`.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Serialize;

use crate::Options;
use crate::cost::{Cost, Reading};
use crate::load::client::Client;
use crate::load::{json_message, stream_path};
use crate::outcome::Outcome;
use crate::quiet::Disturbed;
use crate::report::Report;
use crate::scale::Scale;
use crate::servers::{Kind, Server};
use crate::table::{Table, count, decimals, optional};

const STREAM: &str = "catch-up";
const EVENT_BYTES: usize = 100;
/// Messages per POST while the stream is filled.
const FILL_MESSAGES: usize = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
struct Shape {
    readers: usize,
    stream_events: usize,
}

#[derive(Debug, Serialize)]
struct Cell {
    #[serde(flatten)]
    shape: Shape,
    server: Kind,
    #[serde(flatten)]
    outcome: Outcome<Measured>,
}

#[derive(Debug, Serialize)]
struct Measured {
    events_per_second: f64,
    megabytes_per_second: f64,
    requests_per_read: f64,
    cpu_per_event: Cost,
}

/// What one reader has read.
#[derive(Debug, Default)]
struct Progress {
    reads: u64,
    requests: u64,
    bytes: u64,
}

pub(crate) fn run(options: &Options, scale: &Scale, report: &mut Report) -> Result<()> {
    let mut cells = Vec::new();
    for &stream_events in scale.catch_up_events {
        println!();
        for kind in report.present() {
            // One server serves all numbers of readers: filling it costs more than reading.
            let server = Server::start(kind, &options.installed)
                .and_then(|server| fill(&server, stream_events).map(|()| server));
            let server = server.map_err(|error| format!("{error:#}"));
            for &readers in scale.catch_up_readers {
                let shape = Shape { readers, stream_events };
                let measured = match &server {
                    Ok(server) => {
                        options.measure_quietly(|| measure(server, shape, scale.window.measure))
                    }
                    Err(error) => Err(anyhow::anyhow!(error.clone())),
                };
                let outcome = Outcome::of(kind, measured, report);
                let line = outcome.describe(Measured::line);
                println!("{:<28}  {:<18}  {line}", shape.label(), kind.name());
                cells.push(Cell { shape, server: kind, outcome });
            }
        }
    }
    print_table(&cells);
    report.section("catch_up", &cells)
}

fn fill(server: &Server, events: usize) -> Result<()> {
    let mut client = Client::connect(server.address())?;
    client.create_stream(STREAM, "application/json")?;
    let message = json_message(EVENT_BYTES, 'x');
    for start in (0..events).step_by(FILL_MESSAGES) {
        let messages = vec![message.as_str(); FILL_MESSAGES.min(events - start)];
        let body = format!("[{}]", messages.join(","));
        client.append(STREAM, "application/json", body.as_bytes()).context("fill the stream")?;
    }
    Ok(())
}

fn measure(server: &Server, shape: Shape, duration: Duration) -> Result<Measured> {
    // Once outside the window: what a first read warms up is not what is compared here.
    read_whole(&mut Client::connect(server.address())?, shape, &mut Progress::default())?;

    let opened = Reading::take(server.processes())?;
    let start = Instant::now();
    let progress = read_until(server.address(), shape, start + duration)?;
    let seconds = start.elapsed().as_secs_f64();
    let closed = Reading::take(server.processes())?;

    let events = progress.reads * shape.stream_events as u64;
    Ok(Measured {
        events_per_second: events as f64 / seconds,
        megabytes_per_second: progress.bytes as f64 / 1e6 / seconds,
        requests_per_read: progress.requests as f64 / progress.reads as f64,
        cpu_per_event: Cost::between(opened, closed, events)?,
    })
}

/// All readers at once, each on its own connection and thread; a read under way at the end is
/// finished.
fn read_until(address: SocketAddr, shape: Shape, end: Instant) -> Result<Progress> {
    let reader = || -> Result<Progress> {
        let mut client = Client::connect(address)?;
        let mut progress = Progress::default();
        while Instant::now() < end {
            read_whole(&mut client, shape, &mut progress)?;
        }
        Ok(progress)
    };
    thread::scope(|scope| {
        let readers: Vec<_> = (0..shape.readers).map(|_| scope.spawn(reader)).collect();
        let mut total = Progress::default();
        for reader in readers {
            let progress = reader.join().map_err(|_| anyhow::anyhow!("a reader panicked"))??;
            total.reads += progress.reads;
            total.requests += progress.requests;
            total.bytes += progress.bytes;
        }
        Ok(total)
    })
}

fn read_whole(client: &mut Client, shape: Shape, progress: &mut Progress) -> Result<()> {
    let path = stream_path(STREAM);
    let mut offset = "-1".to_owned();
    let mut bytes = 0;
    loop {
        let answer = client.get(&format!("{path}?offset={offset}"))?;
        if answer.status != 200 {
            bail!("a read at {offset} was answered with status {}", answer.status);
        }
        bytes += client.body.len();
        progress.requests += 1;
        let next = answer.next_offset.context("an answer without Stream-Next-Offset")?;
        if answer.up_to_date {
            break;
        }
        if next == offset {
            bail!("a read at {offset} did not advance");
        }
        offset = next;
    }
    if bytes < shape.stream_events * EVENT_BYTES {
        bail!("{bytes} bytes are fewer than {} events have", shape.stream_events);
    }
    progress.reads += 1;
    progress.bytes += bytes as u64;
    Ok(())
}

impl Disturbed for Measured {
    fn others_share(&self) -> f64 {
        self.cpu_per_event.others_share
    }
}

impl Shape {
    fn label(self) -> String {
        let readers = if self.readers == 1 { "reader" } else { "readers" };
        format!("{} {readers} x {} events", self.readers, count(self.stream_events as f64))
    }
}

impl Measured {
    fn line(&self) -> String {
        let (events, megabytes) = (count(self.events_per_second), self.megabytes_per_second);
        format!("{events:>11} events/s  {megabytes:>8.1} MB/s")
    }
}

fn print_table(cells: &[Cell]) {
    let mut table = Table::new(&[
        "readers x stream",
        "server",
        "events/s",
        "MB/s",
        "requests/read",
        Cost::HEADINGS[0],
        Cost::HEADINGS[1],
        Cost::HEADINGS[2],
        Cost::HEADINGS[3],
        "x best peer",
    ]);
    for cell in cells {
        let mut row = vec![cell.shape.label(), cell.server.name().to_owned()];
        match &cell.outcome {
            Outcome::Measured(measured) => {
                row.push(count(measured.events_per_second));
                row.push(decimals(measured.megabytes_per_second, 1));
                row.push(decimals(measured.requests_per_read, 1));
                row.extend(measured.cpu_per_event.columns(2));
                row.push(optional(peer_ratio(cells, cell), 2));
            }
            Outcome::Failed(error) => row.push(format!("FAILED: {error}")),
        }
        table.row(row);
    }
    table.print("Catch-up: whole streams of 100-byte JSON events (us of CPU per event)");
}

/// A Tidewire's rate ÷ that of the fastest peer in the same combination.
fn peer_ratio(cells: &[Cell], cell: &Cell) -> Option<f64> {
    let rate = |cell: &Cell| Some(cell.outcome.measured()?.events_per_second);
    let is_peer = |other: &&Cell| other.shape == cell.shape && !other.server.is_tidewire();
    let best = cells.iter().filter(is_peer).filter_map(rate).reduce(f64::max)?;
    cell.server.is_tidewire().then_some(rate(cell)? / best)
}
