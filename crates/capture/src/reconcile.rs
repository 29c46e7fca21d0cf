//! Brings a watched table and the log together, where something changed the table past capture: a partition that
//! came, went or was emptied, triggers that were disabled. Who follows it is told why, and the differences become
//! events. Called by the upkeep of the elected node, whichever way changes come.
//!
//! What must hold: when the table is compared, the log has everything that was committed to it, and nothing more
//! is until the differences are staged. So the table is locked against writers meanwhile, for a bounded time; a
//! table that takes longer is not compared, and those who follow it are told to read it again.

use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use tidewire_store::StoreError;
use tidewire_store_postgres::captured::broken;
use tokio::time::Instant;

use crate::leader::Leadership;
use crate::query::{query_one, sql};

const OPERATION: &str = "compare a watched table with the log";

/// How long the log may take to catch up before the table is locked.
const CATCH_UP_MAX: Duration = Duration::from_secs(30);
/// How long it may take while writers wait: only what came since.
const LOCKED_CATCH_UP_MAX: Duration = Duration::from_secs(2);
/// How often to look whether it has.
const POLL: Duration = Duration::from_millis(5);

/// Writers of the table wait meanwhile, so that a table is compared only if it does not take longer. (The time
/// for a lock is the session's.)
fn compare_settings(max: Duration) -> String {
    let ms = max.as_millis().max(1);
    format!("SET LOCAL statement_timeout = {ms}; SET LOCAL enable_nestloop = on")
}

/// What became of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reconciled {
    /// Nothing was different, and nobody had to be told.
    Alike,
    /// So many events tell what was different.
    Told { table: String, why: String, events: i64 },
    /// It was not compared: who follows it was told to read it again.
    ToldToRead { table: String, why: String },
}

/// Compares a table with the log, on a session of the upkeep's, whose settings bound the wait for a lock. It may
/// take so long while writers wait.
pub(crate) async fn reconcile(
    leadership: &Leadership,
    client: &ClientWrapper,
    (settings, compare_max): (&str, Duration),
    table: u32,
) -> Result<Reconciled, StoreError> {
    let other = leadership.link.session(settings).await?;
    // Writers do not wait for what lies behind already.
    caught_up(client, CATCH_UP_MAX).await?;
    let compared = in_transaction(client, table, async {
        caught_up(other.client(), LOCKED_CATCH_UP_MAX).await?;
        client.batch_execute(&compare_settings(compare_max)).await.map_err(broken(OPERATION))?;
        repair(client, table, true).await
    })
    .await;
    match compared {
        Err(Failure::TookTooLong) => {}
        other => return other.map_err(Failure::into_store),
    }
    in_transaction(client, table, repair(client, table, false)).await.map_err(Failure::into_store)
}

/// Why it failed.
enum Failure {
    /// The time for comparing was over.
    TookTooLong,
    Store(StoreError),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        Failure::Store(error)
    }
}

impl Failure {
    fn into_store(self) -> StoreError {
        match self {
            Failure::TookTooLong => StoreError::Unavailable("it took too long".to_owned()),
            Failure::Store(error) => error,
        }
    }
}

/// Runs work in a transaction that has locked the table.
async fn in_transaction(
    client: &ClientWrapper,
    table: u32,
    work: impl Future<Output = Result<Reconciled, Failure>>,
) -> Result<Reconciled, Failure> {
    let failed = broken(OPERATION);
    let worked = async {
        client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED").await.map_err(&failed)?;
        query_one(client, sql!("repair_lock"), &[&table]).await.map_err(&failed)?;
        let done = work.await?;
        client.batch_execute("COMMIT").await.map_err(&failed)?;
        Ok(done)
    };
    let worked = worked.await;
    if worked.is_err() {
        client.batch_execute("ROLLBACK").await.map_err(&failed)?;
    }
    worked
}

async fn repair(client: &ClientWrapper, table: u32, compare: bool) -> Result<Reconciled, Failure> {
    let row = match query_one(client, sql!("repair_watch"), &[&table, &compare]).await {
        Ok(row) => row,
        Err(error) if error.code() == Some(&tokio_postgres::error::SqlState::QUERY_CANCELED) => {
            return Err(Failure::TookTooLong);
        }
        Err(error) => return Err(broken(OPERATION)(error).into()),
    };
    let read = || {
        let why: Option<String> = row.try_get(0)?;
        let events: Option<i64> = row.try_get(1)?;
        let table = row.try_get::<_, Option<String>>(2)?.unwrap_or_default();
        Ok(match (why, events) {
            (None, _) => Reconciled::Alike,
            (Some(why), Some(events)) => Reconciled::Told { table, why, events },
            (Some(why), None) => Reconciled::ToldToRead { table, why },
        })
    };
    Ok(read().map_err(broken(OPERATION))?)
}

/// Waits until everything is in the log that is committed now.
async fn caught_up(client: &ClientWrapper, patience: Duration) -> Result<(), StoreError> {
    let deadline = Instant::now() + patience;
    let marked = query_one(client, sql!("repair_mark"), &[]).await.map_err(broken(OPERATION))?;
    let (txid, tip): (i64, i64) = marked
        .try_get(0)
        .and_then(|txid| Ok((txid, marked.try_get(1)?)))
        .map_err(broken(OPERATION))?;
    loop {
        let there = query_one(client, sql!("repair_marked"), &[&txid, &tip]).await;
        if there.and_then(|row| row.try_get(0)).map_err(broken(OPERATION))? {
            return Ok(());
        }
        if Instant::now() > deadline {
            let text = "the log is behind what is committed".to_owned();
            return Err(StoreError::Unavailable(text));
        }
        tokio::time::sleep(POLL).await;
    }
}
