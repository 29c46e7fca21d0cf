//! The queue that everybody writes by hand: a table of jobs, taken by `FOR UPDATE SKIP LOCKED`, deleted when they
//! are done, all in one transaction. No order, no attempts.

use std::time::Instant;

use anyhow::Result;
use tokio::task::JoinSet;
use tokio::try_join;
use tokio_postgres::{Client, NoTls, Statement};

use super::bare::Parameters;
use super::order::{Effect, Order};
use super::worker::{self, Done};

const TAKE: &str = include_str!("queue_take.sql");
const REMOVE: &str = "DELETE FROM jobs WHERE id = ANY ($1)";
/// What a handler does with a job.
const INSERT: &str = "INSERT INTO effects (c_offset, host_id, user_id) VALUES ($1, $2, $3)";

struct Session {
    client: Client,
    effect: Effect,
    limit: i64,
    take: Statement,
    remove: Statement,
    insert: Statement,
}

pub(crate) fn work(order: &Order, sessions: usize, take: usize) -> Result<()> {
    let limit = i64::try_from(take)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut prepared = Vec::new();
        for _ in 0..sessions {
            prepared.push(Session::prepare(order, limit).await?);
        }
        worker::wait_for_word()?;
        let began = Instant::now();
        let closes = order.closes();
        let mut working = JoinSet::new();
        for session in prepared {
            working.spawn(session.drain(closes));
        }
        let mut events = 0;
        while let Some(done) = working.join_next().await {
            events += done??;
        }
        let seconds = began.elapsed().as_secs_f64();
        worker::tell(Done { events, seconds, finally: Some(events) })
    })
}

impl Session {
    async fn prepare(order: &Order, limit: i64) -> Result<Self> {
        let (client, connection) = tokio_postgres::connect(&order.place, NoTls).await?;
        tokio::spawn(connection);
        Ok(Self {
            effect: order.effect,
            limit,
            take: client.prepare(TAKE).await?,
            remove: client.prepare(REMOVE).await?,
            insert: client.prepare(INSERT).await?,
            client,
        })
    }

    async fn drain(self, closes: Instant) -> Result<u64> {
        let mut jobs = 0;
        while Instant::now() < closes {
            match self.take().await? {
                0 => break,
                some => jobs += some as u64,
            }
        }
        Ok(jobs)
    }

    /// Two flights, and one for each job that writes.
    async fn take(&self) -> Result<usize> {
        let begin = self.client.batch_execute("BEGIN");
        let limit: Parameters<'_, 1> = [&self.limit];
        let (_, rows) = try_join!(begin, self.client.query(&self.take, &limit))?;
        let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        if self.effect == Effect::Insert {
            for row in &rows {
                let (offset, host, user): (i64, &str, &str) = (row.get(1), row.get(2), row.get(3));
                self.client.execute(&self.insert, &[&offset, &host, &user]).await?;
            }
        }
        let parameters: Parameters<'_, 1> = [&ids];
        let remove = self.client.execute(&self.remove, &parameters);
        try_join!(remove, self.client.batch_execute("COMMIT"))?;
        Ok(rows.len())
    }
}
