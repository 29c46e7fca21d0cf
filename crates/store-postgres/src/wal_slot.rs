//! The replication slot: made, looked at, taken over, dropped.

use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use tokio_postgres::types::PgLsn;

use super::error::broken;
use super::query::{execute, query, sql, unsigned};
use tidewire_store::error::StoreError;

/// How long a session that was told to end may take.
const END_PATIENCE: Duration = Duration::from_secs(10);
const END_POLL: Duration = Duration::from_millis(10);

/// What is known of the slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotState {
    /// The session that reads it.
    pub active_pid: Option<i32>,
    /// Whether it has lost what it should have kept, and will never send again.
    pub lost: bool,
    /// Up to here it was confirmed.
    pub confirmed: u64,
    /// What the server keeps of the write-ahead log because of it.
    pub retained_bytes: u64,
    /// What was written since what was confirmed.
    pub behind_bytes: u64,
}

/// The slot as it is; none if it is not there.
pub async fn slot(client: &ClientWrapper, name: &str) -> Result<Option<SlotState>, StoreError> {
    let read = async {
        let rows = query(client, sql!("wal_slot"), &[&name]).await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let confirmed: Option<PgLsn> = row.try_get(2)?;
        Ok(Some(SlotState {
            active_pid: row.try_get(0)?,
            lost: row.try_get::<_, &str>(1)? == "lost",
            confirmed: confirmed.map_or(0, Into::into),
            retained_bytes: unsigned(row.try_get::<_, Option<i64>>(3)?.unwrap_or(0)),
            behind_bytes: unsigned(row.try_get::<_, Option<i64>>(4)?.unwrap_or(0)),
        }))
    };
    read.await.map_err(broken("look at the replication slot"))
}

/// Makes the publications, if they are not there, as the server's version wants them: which may have
/// been upgraded under the slot.
pub async fn make_publications(client: &ClientWrapper) -> Result<(), StoreError> {
    let made = execute(client, sql!("wal_publications"), &[]).await;
    made.map(drop).map_err(broken("make the publications"))
}

/// Making a slot waits for everyone who writes anything at all, each by a lock. Nobody waits for it
/// meanwhile.
const WAIT_FOR_WRITERS: &str = "SET lock_timeout = 0; SET statement_timeout = '60s'";

/// Makes the publications and the slot, if they are not there. The session's timeouts are others
/// after it.
pub async fn make_slot(client: &ClientWrapper, name: &str) -> Result<(), StoreError> {
    make_publications(client).await?;
    if let Some(state) = slot(client, name).await? {
        if !state.lost {
            return Ok(());
        }
        drop_slot(client, name).await?;
    }
    client.batch_execute(WAIT_FOR_WRITERS).await.map_err(broken("make the replication slot"))?;
    let made = execute(client, sql!("wal_slot_make"), &[]).await;
    made.map(drop).map_err(broken("make the replication slot"))
}

/// Ends whoever reads the slot, and waits until that is so.
pub async fn end_sender(client: &ClientWrapper, name: &str) -> Result<(), StoreError> {
    let deadline = tokio::time::Instant::now() + END_PATIENCE;
    while slot(client, name).await?.is_some_and(|state| state.active_pid.is_some()) {
        let ended = execute(client, sql!("wal_sender_end"), &[]).await;
        ended.map_err(broken("end the session that reads the replication slot"))?;
        if tokio::time::Instant::now() > deadline {
            let text = format!("the session that reads the slot {name} did not end");
            return Err(StoreError::Unavailable(text));
        }
        tokio::time::sleep(END_POLL).await;
    }
    Ok(())
}

/// Drops the slot, whoever reads it.
pub async fn drop_slot(client: &ClientWrapper, name: &str) -> Result<(), StoreError> {
    end_sender(client, name).await?;
    let dropped = execute(client, sql!("wal_slot_drop"), &[]).await;
    dropped.map(drop).map_err(broken("drop the replication slot"))
}
