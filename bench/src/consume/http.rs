//! Workers in other languages: batches claimed and acknowledged over HTTP, at a node on the same database.
//!
//! What their handlers write goes along with the acknowledgement, so that it takes effect once, as the library's.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::json;
use tidewire_client::Client;
use tidewire_client::groups::{ClaimRequest, Claimed, GroupSettings, LogPosition, Statement};
use tokio::task::JoinSet;

use super::bare::{BATCH, INSERT};
use super::order::{Effect, Order};
use super::worker::{self, Done};

/// As many as there are partitions.
pub(crate) fn work(order: &Order, workers: u32) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = Client::new(&order.place, None)?;
        let settings = GroupSettings {
            partitions: Some(workers),
            start: Some(LogPosition::Beginning),
            ..GroupSettings::default()
        };
        client.put_group(&order.group, &settings).await.context("make the group")?;
        worker::wait_for_word()?;
        let began = Instant::now();
        let closes = order.closes();
        let mut working = JoinSet::new();
        for number in 0..workers {
            working.spawn(drain(client.clone(), order.clone(), number, closes));
        }
        let mut events = 0;
        while let Some(done) = working.join_next().await {
            events += done??;
        }
        let seconds = began.elapsed().as_secs_f64();
        worker::tell(Done { events, seconds, finally: Some(events) })
    })
}

/// Until the time is over, or there is nothing at once.
async fn drain(client: Client, order: Order, number: u32, closes: Instant) -> Result<u64> {
    let request = ClaimRequest {
        member: Some(format!("worker-{number}")),
        batch_size: Some(u32::try_from(BATCH)?),
        wait_ms: Some(WAIT_MS),
        ..ClaimRequest::default()
    };
    let mut events = 0;
    while Instant::now() < closes {
        let Some(claimed) = client.claim(&order.group, &request).await.context("claim")? else {
            break;
        };
        let statements = match order.effect {
            Effect::Empty => Vec::new(),
            Effect::Insert => statements(&claimed)?,
        };
        let count: usize = claimed.groups.iter().map(|keys| keys.events.len()).sum();
        client.ack(&order.group, &claimed.token, &statements).await.context("ack")?;
        events += u64::try_from(count)?;
    }
    Ok(events)
}

/// Short: when the log is worked off, it is over.
const WAIT_MS: u64 = 500;

fn statements(claimed: &Claimed) -> Result<Vec<Statement>> {
    #[derive(Deserialize)]
    struct Event<'a> {
        offset: &'a str,
    }
    let mut statements = Vec::new();
    for keys in &claimed.groups {
        let mut offsets = Vec::new();
        for event in &keys.events {
            let Event { offset } = serde_json::from_str(event.get())?;
            let number = offset.rsplit('_').next().context("an offset has a number")?;
            offsets.push(number.parse::<i64>()?);
        }
        ensure!(!offsets.is_empty(), "a key without events was claimed");
        let params = vec![json!(offsets), json!(keys.host_id), json!(keys.user_id)];
        statements.push(Statement { sql: INSERT.to_owned(), params });
    }
    Ok(statements)
}
