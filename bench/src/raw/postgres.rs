//! The shared store's log, written by a bare loop on one connection.

use std::ops::Range;

use anyhow::Result;
use tokio_postgres::Statement;
use tokio_postgres::types::ToSql;

use super::{Log, Rows};
use crate::postgres::Session;

const INSERT: &str = include_str!("postgres_insert.sql");
const FILL: &str = include_str!("postgres_fill.sql");
/// Rows per commit of a fill; a partition of the log holds a multiple of it.
const FILL_ROWS: i64 = 100_000;

type Parameters<'a, const N: usize> = [&'a (dyn ToSql + Sync); N];

#[derive(Debug)]
pub(crate) struct PostgresLog {
    session: Session,
    insert: Statement,
}

impl PostgresLog {
    pub(crate) fn open(url: &str) -> Result<Self> {
        let session = Session::connect(url)?;
        session.run("SET synchronous_commit = on")?;
        let insert = session.runtime.block_on(session.client.prepare(INSERT))?;
        Ok(Self { session, insert })
    }

    fn ensure_partition(&self, offset: i64) -> Result<()> {
        self.session.run(&format!("SELECT tidewire.ensure_log_partition({offset})"))
    }
}

impl Log for PostgresLog {
    fn tip(&mut self) -> Result<i64> {
        Ok(self
            .session
            .text("SELECT coalesce(max(c_offset), 0)::text FROM tidewire.log")?
            .parse()?)
    }

    fn insert(&mut self, offsets: Range<i64>, rows: &Rows<'_>) -> Result<()> {
        let streams: Vec<&str> = offsets.clone().map(|offset| rows.stream_of(offset)).collect();
        let payloads = vec![rows.payload; streams.len()];
        let offsets: Vec<i64> = offsets.collect();
        let Session { runtime, client } = &self.session;
        let parameters: Parameters<'_, 4> = [&offsets, &streams, &payloads, &rows.content_type];
        runtime.block_on(client.execute(&self.insert, &parameters))?;
        Ok(())
    }

    fn fill(&mut self, last: i64, rows: &Rows<'_>) -> Result<()> {
        self.session.run("SET synchronous_commit = off")?;
        let mut next = self.tip()? + 1;
        while next <= last {
            let end = (next / FILL_ROWS * FILL_ROWS + FILL_ROWS - 1).min(last);
            self.ensure_partition(end)?;
            let Session { runtime, client } = &self.session;
            let parameters: Parameters<'_, 5> =
                [&rows.streams, &rows.payload, &rows.content_type, &next, &end];
            runtime.block_on(client.execute(FILL, &parameters))?;
            next = end + 1;
        }
        self.session.run("SET synchronous_commit = on")?;
        self.session.run("VACUUM (ANALYZE) tidewire.log")?;
        self.session.run("CHECKPOINT")
    }
}
