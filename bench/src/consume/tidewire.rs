//! Tidewire's own worker: the library, in a process of its own.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use serde_json::json;
use tidewire_consumer::{Builder, Consumer, Context, Group, Handler, HandlerError};
use tidewire_store_sqlite::{SqliteOptions, SqliteStore};

use super::bare::{BATCH, INSERT};
use super::order::{Effect, Order};
use super::worker::{self, Done};

/// How often to look how far it is.
const LOOK: Duration = Duration::from_millis(2);
/// How long the first batch may take, on a machine that is busy with other things.
const START_MAX: Duration = Duration::from_secs(60);

const INSERT_SQLITE: &str =
    "INSERT INTO effects (c_offset, host_id, user_id) SELECT value, $2, $3 FROM json_each($1)";

/// Does nothing, or writes a row for each event with one statement.
struct BenchHandler(Effect);

#[async_trait]
impl Handler for BenchHandler {
    async fn handle(
        &self,
        group: &Group<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), HandlerError> {
        if self.0 == Effect::Empty {
            return Ok(());
        }
        let offsets: Vec<i64> =
            group.events().iter().map(|event| event.position.to_sql()).collect();
        if let Some(mut postgres) = context.postgres() {
            postgres.execute(INSERT, &[&offsets, &group.host_id(), &group.user_id()]).await?;
            return Ok(());
        }
        let offsets = json!(offsets).to_string();
        let params = [json!(offsets), json!(group.host_id()), json!(group.user_id())];
        context.sql(INSERT_SQLITE, &params).await?;
        Ok(())
    }
}

pub(crate) fn on_postgres(order: &Order, partitions: u32, batch: usize) -> Result<()> {
    runtime()?.block_on(async {
        worker::wait_for_word()?;
        let consumer = Consumer::builder(order.place.as_str()).partitions(partitions);
        work(order, consumer.batch_size(batch)).await
    })
}

pub(crate) fn on_sqlite(order: &Order, partitions: u32) -> Result<()> {
    runtime()?.block_on(async {
        let store = SqliteStore::open(SqliteOptions::new(Path::new(&order.place))).await?;
        worker::wait_for_word()?;
        work(order, Consumer::builder(store).partitions(partitions).batch_size(BATCH)).await
    })
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

/// The time begins with the first batch that was committed: until then it connects and joins.
async fn work(order: &Order, consumer: Builder) -> Result<()> {
    let begins_by = Instant::now() + START_MAX;
    let consumer = consumer.group(&order.group).signals(false);
    let consumer =
        consumer.start(BenchHandler(order.effect)).await.context("start the consumer")?;
    let looked_from = Instant::now();
    let mut first = 0;
    while first == 0 && Instant::now() < begins_by {
        tokio::time::sleep(LOOK).await;
        first = consumer.stats().events;
    }
    ensure!(first > 0, "nothing was worked off in {START_MAX:?}");
    let (began, closes) = (Instant::now(), order.closes());
    let mut events = first;
    while events < order.events && Instant::now() < closes {
        tokio::time::sleep(LOOK).await;
        events = consumer.stats().events;
    }
    // A log as short as that of a smoke run may be worked off at the first look.
    let (events, began) =
        if events > first { (events - first, began) } else { (events, looked_from) };
    let seconds = began.elapsed().as_secs_f64();
    let finally = consumer.stop().await.context("stop the consumer")?.events;
    worker::tell(Done { events, seconds, finally: Some(finally) })
}
