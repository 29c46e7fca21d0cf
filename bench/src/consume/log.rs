//! A log of changes, filled by SQL into a store that the tidewire binary has made.

use std::path::PathBuf;

use anyhow::{Context, Result};
use rusqlite::Connection;

use super::order::Effect;
use crate::Options;
use crate::postgres::Session;
use crate::raw::sqlite_file;
use crate::servers::{Kind, Server, Store};

const FILL: &str = include_str!("fill_log.sql");
const FILL_QUEUE: &str = include_str!("fill_queue.sql");
const FILL_SQLITE: &str = include_str!("fill_log_sqlite.sql");
/// Rows of one commit; a partition of the log holds a multiple of it.
const FILL_ROWS: i64 = 100_000;

/// What handlers write, and the jobs of a queue that was written by hand.
const TABLES: &str = "
    CREATE TABLE effects (c_offset bigint NOT NULL, host_id text NOT NULL, user_id text NOT NULL);
    CREATE TABLE jobs (
        id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        c_offset bigint NOT NULL,
        host_id  text NOT NULL,
        user_id  text NOT NULL,
        document jsonb NOT NULL
    )";

/// A database with the log; everybody works in it, one after the other.
#[derive(Debug)]
pub(crate) struct Fixture {
    /// `None` only while a node has it.
    store: Option<Store>,
    url: String,
    postmaster: Option<u32>,
    session: Session,
}

impl Fixture {
    pub(crate) fn prepare(options: &Options, events: u64) -> Result<Self> {
        let store = Store::empty(Kind::TidewirePostgres, &options.installed)?;
        let database = store.database.as_ref().context("a store on PostgreSQL has a database")?;
        let (url, postmaster) = (database.url.clone(), database.postmaster);
        options.installed.migrate(&url)?;
        let session = Session::connect(&url)?;
        session.run(TABLES)?;
        session.run("SET synchronous_commit = off")?;
        let last = i64::try_from(events)?;
        let mut next = 1;
        while next <= last {
            let end = (next + FILL_ROWS - 1).min(last);
            session.run(&format!("SELECT tidewire.ensure_log_partition({end})"))?;
            session.runtime.block_on(session.client.execute(FILL, &[&next, &end]))?;
            next = end + 1;
        }
        session.run("SET synchronous_commit = on")?;
        session.run("VACUUM ANALYZE tidewire.log")?;
        Ok(Self { store: Some(store), url, postmaster, session })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The cluster's first process, when it runs on this machine.
    pub(crate) fn postmaster(&self) -> Option<u32> {
        self.postmaster
    }

    /// Starts a node on it.
    pub(crate) fn serve(&mut self, options: &Options) -> Result<Server> {
        let store = self.store.take().context("no other node has the store")?;
        Server::start_on(Kind::TidewirePostgres, &options.installed, store)
    }

    /// Waits until the node has taken in what was committed before it came.
    pub(crate) fn catch_up(&self) -> Result<()> {
        self.session.catch_up()
    }

    /// Ends the node.
    pub(crate) fn rest(&mut self, server: Server) {
        self.store = Some(server.stop());
    }

    /// As it was before anybody worked, and at rest.
    pub(crate) fn clear(&self) -> Result<()> {
        self.session.run("TRUNCATE effects; TRUNCATE jobs; CHECKPOINT")
    }

    /// Puts a job into the queue for each of the first events.
    pub(crate) fn fill_queue(&self, jobs: u64) -> Result<()> {
        let Session { runtime, client } = &self.session;
        runtime.block_on(client.execute(FILL_QUEUE, &[&i64::try_from(jobs)?]))?;
        self.session.run("VACUUM ANALYZE jobs")?;
        self.session.run("CHECKPOINT")
    }

    /// How many rows handlers have written, and for how many events.
    pub(crate) fn effects(&self) -> Result<(u64, u64)> {
        let count = |what: &str| -> Result<u64> {
            Ok(self.session.text(&format!("SELECT count({what})::text FROM effects"))?.parse()?)
        };
        Ok((count("*")?, count("DISTINCT c_offset")?))
    }
}

/// The same log in SQLite, without a server.
#[derive(Debug)]
pub(crate) struct Embedded {
    store: Store,
}

impl Embedded {
    pub(crate) fn prepare(options: &Options, events: u64) -> Result<Self> {
        let store = Server::start(Kind::TidewireSqlite, &options.installed)?.stop();
        let connection = Connection::open(sqlite_file(&store.data())?)?;
        connection.execute_batch(
            "CREATE TABLE effects (c_offset INTEGER NOT NULL, host_id TEXT NOT NULL, user_id TEXT NOT NULL)",
        )?;
        let created_at_ms = jiff::Timestamp::now().as_millisecond();
        connection.execute(FILL_SQLITE, [1, i64::try_from(events)?, created_at_ms])?;
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(Self { store })
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.store.data()
    }

    pub(crate) fn clear(&self) -> Result<()> {
        Ok(self.connect()?.execute_batch("DELETE FROM effects")?)
    }

    pub(crate) fn effects(&self) -> Result<(u64, u64)> {
        let sql = "SELECT count(*), count(DISTINCT c_offset) FROM effects";
        Ok(self.connect()?.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?)
    }

    fn connect(&self) -> Result<Connection> {
        Ok(Connection::open(sqlite_file(&self.store.data())?)?)
    }
}

/// Whether handlers' rows are exactly those of the events that took effect.
pub(crate) fn check(effect: Effect, events: u64, (rows, distinct): (u64, u64)) -> Result<()> {
    let expected = if effect == Effect::Insert { events } else { 0 };
    anyhow::ensure!(
        rows == expected && distinct == expected,
        "{events} events took effect, and there are {rows} rows of {distinct} of them"
    );
    Ok(())
}
