//! The raw limit: a bare loop that inserts the rows an append would make, into the very store the
//! server has made for itself, in commits as large as the server's were, just as durably.
//!
//! What the server adds (HTTP, checks, offsets, wake-ups) is what is missing from 1.0 in its ratio.
//!
//! - `postgres`: the shared store's log, written by a bare loop on one connection
//! - `sqlite`: the embedded store's log, written by a bare loop

mod postgres;
mod sqlite;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::append::measure::Shape;
use crate::cost::{Cost, Reading};
use crate::quiet::Disturbed;
use crate::servers::{Installed, Kind, Server, Store};
use postgres::PostgresLog;
pub(crate) use sqlite::{SqliteLog, database_file as sqlite_file};

#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct RawLimit {
    pub(crate) batch_events: usize,
    pub(crate) events_per_second: f64,
    /// The loop itself stands as the load generator.
    cpu_per_event: Cost,
}

impl Disturbed for RawLimit {
    fn others_share(&self) -> f64 {
        self.cpu_per_event.others_share
    }
}

/// Rows to insert, in turn to each of the streams: as many at once as a request has messages.
#[derive(Debug)]
pub(crate) struct Rows<'a> {
    pub(crate) streams: &'a [String],
    pub(crate) messages: usize,
    pub(crate) payload: &'a [u8],
    pub(crate) content_type: &'a str,
}

impl Rows<'_> {
    fn stream_of(&self, offset: i64) -> &str {
        let turn = usize::try_from(offset).unwrap_or_default() / self.messages;
        &self.streams[turn % self.streams.len()]
    }
}

impl Shape {
    fn rows<'a>(self, streams: &'a [String], payload: &'a [u8]) -> Rows<'a> {
        let content_type = self.content_type();
        Rows { streams, messages: self.messages, payload, content_type }
    }
}

/// A store opened without its server.
trait Log {
    /// The log's highest offset.
    fn tip(&mut self) -> Result<i64>;

    /// Inserts rows at `offsets` in one commit.
    fn insert(&mut self, offsets: std::ops::Range<i64>, rows: &Rows<'_>) -> Result<()>;

    /// Adds rows up to and including `last` as fast as the database can, and leaves it settled:
    /// nothing of this work must run into a measurement that follows.
    fn fill(&mut self, last: i64, rows: &Rows<'_>) -> Result<()>;
}

fn open(kind: Kind, store: &Store) -> Result<Box<dyn Log>> {
    let opened: Result<Box<dyn Log>> = match &store.database {
        Some(database) => PostgresLog::open(&database.url).map(|log| Box::new(log) as _),
        None => SqliteLog::open(&store.data()).map(|log| Box::new(log) as _),
    };
    opened.with_context(|| format!("open the store of {}", kind.name()))
}

/// Inserts the rows of `shape` in commits of `batch_events` for about `duration`.
pub(crate) fn measure(
    kind: Kind,
    installed: &Installed,
    shape: Shape,
    batch_events: f64,
    duration: Duration,
) -> Result<RawLimit> {
    let streams = shape.distinct_streams();
    let store = store_with_streams(kind, installed, shape)?;
    let mut log = open(kind, &store)?;
    let payload = shape.message();
    let rows = shape.rows(&streams, &payload);
    let batch_events = whole_batch(batch_events);
    let batch = i64::try_from(batch_events)?;

    let first = log.tip()? + 1;
    let mut next = first;
    let opened = Reading::take(store.processes())?;
    let start = Instant::now();
    while start.elapsed() < duration {
        log.insert(next..next + batch, &rows)?;
        next += batch;
    }
    let seconds = start.elapsed().as_secs_f64();
    let closed = Reading::take(store.processes())?;
    let events = u64::try_from(next - first)?;
    Ok(RawLimit {
        batch_events,
        events_per_second: events as f64 / seconds,
        cpu_per_event: Cost::between(opened, closed, events)?,
    })
}

/// A store whose log holds at least `log_events` events, as the server would have written them.
pub(crate) fn filled_store(
    kind: Kind,
    installed: &Installed,
    shape: Shape,
    log_events: u64,
) -> Result<Store> {
    let (streams, payload) = (shape.distinct_streams(), shape.message());
    let store = store_with_streams(kind, installed, shape)?;
    open(kind, &store)?.fill(i64::try_from(log_events)?, &shape.rows(&streams, &payload))?;
    Ok(store)
}

/// The least that takes appends over HTTP, on a store as the server makes it for itself.
pub(crate) fn bare_server(installed: &Installed, shape: Shape) -> Result<Server> {
    let store = store_with_streams(Kind::TidewireSqlite, installed, shape)?;
    Server::start_on(Kind::BareServer, installed, store)
}

/// The server itself makes the schema and the streams, so both are exactly what it expects.
fn store_with_streams(kind: Kind, installed: &Installed, shape: Shape) -> Result<Store> {
    let server = Server::start(kind, installed)?;
    server.create_streams(&shape.distinct_streams(), shape.content_type())?;
    Ok(server.stop())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an average of at least one and at most some thousand events"
)]
fn whole_batch(average: f64) -> usize {
    average.round().max(1.0) as usize
}
