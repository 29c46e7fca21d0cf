//! The limit: a bare loop on one connection. It locks the row that says how far it is, reads a hundred events
//! of the log, advances the row, commits. No partitions, no whole transactions, no members, no failures.

use std::collections::HashMap;
use std::time::Instant;

use anyhow::{Context, Result};
use tokio::try_join;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Row, Statement};

use super::order::{Effect, Order};
use super::worker::{self, Done};

pub(crate) type Parameters<'a, const N: usize> = [&'a (dyn ToSql + Sync); N];

/// Events of a batch, as Tidewire has it unless told otherwise.
pub(crate) const BATCH: usize = 100;
/// Where throughput is all that counts: as many as graphile-worker's local queue is given.
pub(crate) const BATCH_LARGE: usize = 500;

const LOCK: &str = "SELECT next_offset FROM tidewire.consumer_offsets \
     WHERE group_id = $1 AND topic_id = 1 AND partition_id = 0 FOR UPDATE";
const READ: &str = include_str!("bare_read.sql");
const ADVANCE: &str = "UPDATE tidewire.consumer_offsets SET next_offset = $2 \
     WHERE group_id = $1 AND topic_id = 1 AND partition_id = 0";
/// What a handler does with all events of a key.
pub(crate) const INSERT: &str =
    "INSERT INTO effects (c_offset, host_id, user_id) SELECT unnest($1::bigint[]), $2, $3";

struct Loop {
    client: Client,
    group: String,
    effect: Effect,
    lock: Statement,
    read: Statement,
    advance: Statement,
    insert: Statement,
}

/// Statements that need not wait for each other leave in one flight: three of these make a batch.
pub(crate) fn work(order: &Order) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let bare = Loop::prepare(order).await?;
        worker::wait_for_word()?;
        let began = Instant::now();
        let closes = order.closes();
        let mut events = 0;
        while Instant::now() < closes {
            match bare.batch().await? {
                0 => break,
                some => events += some as u64,
            }
        }
        let seconds = began.elapsed().as_secs_f64();
        worker::tell(Done { events, seconds, finally: Some(events) })
    })
}

impl Loop {
    async fn prepare(order: &Order) -> Result<Self> {
        let (client, connection) = tokio_postgres::connect(&order.place, NoTls).await?;
        tokio::spawn(connection);
        let start = "INSERT INTO tidewire.consumer_offsets (group_id, topic_id, partition_id) VALUES ($1, 1, 0)";
        client.execute(start, &[&order.group]).await?;
        Ok(Self {
            group: order.group.clone(),
            effect: order.effect,
            lock: client.prepare(LOCK).await?,
            read: client.prepare(READ).await?,
            advance: client.prepare(ADVANCE).await?,
            insert: client.prepare(INSERT).await?,
            client,
        })
    }

    /// How many events it had.
    async fn batch(&self) -> Result<usize> {
        let begin = self.client.batch_execute("BEGIN");
        let group: Parameters<'_, 1> = [&self.group];
        let lock = self.client.query_one(&self.lock, &group);
        let (next, limit): (i64, _) = (try_join!(begin, lock)?.1.get(0), i64::try_from(BATCH)?);
        let rows = self.client.query(&self.read, &[&next, &limit]).await?;
        if self.effect == Effect::Insert {
            self.insert(&rows).await?;
        }
        let after = rows.last().map_or(next, |row| row.get::<_, i64>(0) + 1);
        let parameters: Parameters<'_, 2> = [&self.group, &after];
        let advance = self.client.execute(&self.advance, &parameters);
        try_join!(advance, self.client.batch_execute("COMMIT")).context("advance")?;
        Ok(rows.len())
    }

    async fn insert(&self, rows: &[Row]) -> Result<()> {
        let mut keys: HashMap<(&str, &str), Vec<i64>> = HashMap::new();
        for row in rows {
            keys.entry((row.get(2), row.get(3))).or_default().push(row.get(0));
        }
        for ((host, user), offsets) in keys {
            self.client.execute(&self.insert, &[&offsets, &host, &user]).await?;
        }
        Ok(())
    }
}
