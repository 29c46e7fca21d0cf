//! The switch between the two sources of changes.
//!
//! Whoever writes to a watched table is waited for, and whoever comes later waits for the switch: so
//! every transaction is in one of the two sources, whole. A writer that has published something and
//! then waits for a table would wait for the switch, and the switch for it: so the switch never waits
//! for long, gives way, and tries again.

use std::time::{Duration, Instant};

use deadpool_postgres::ClientWrapper;

use super::error::broken;
use super::query::{execute, query_one, sql};
use super::wal;
use super::wal_obstacles::obstacles;
use super::wal_slot::{drop_slot, make_slot, slot};
use tidewire_store::error::StoreError;
use tidewire_store::watch::CaptureMode;

/// The settings of a session that switches: it gives way before anyone looks for a deadlock, which
/// takes a second. (Making a slot waits for all who write, and that has its own time.)
pub const SWITCH_SETTINGS: &str = "
    SET lock_timeout = '800ms'; SET statement_timeout = '60s';
";

/// For so long attempts are made.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause between them, in which writers go on.
const PAUSE: Duration = Duration::from_millis(300);

/// Whose choice a source is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chooser {
    /// A person's, which no node's own replaces.
    Person,
    /// The configuration's, which replaces a person's.
    Configuration,
    /// A node's own, where nobody has said anything.
    Node,
}

/// Switches to a source, on a session with [`SWITCH_SETTINGS`]. Nothing happens if it is the one
/// already.
pub async fn switch(
    client: &ClientWrapper,
    mode: CaptureMode,
    why: &str,
    chooser: Chooser,
) -> Result<(), StoreError> {
    let deadline = Instant::now() + PATIENCE;
    let take_turn = || async { execute(client, sql!("wal_switch_turn"), &[]).await.map(drop) };
    patiently(deadline, || async { take_turn().await.map_err(broken("wait for another switch")) })
        .await?;
    let by_person = chooser == Chooser::Person;
    let state = wal::state(client).await?;
    if chooser == Chooser::Node && state.chosen {
        return Ok(());
    }
    if mode == CaptureMode::Wal && !state.on {
        let found = obstacles(client).await?;
        if !found.blocking.is_empty() {
            return Err(StoreError::Refused(format!(
                "changes cannot be read from the write-ahead log: {}",
                found.blocking.join("; ")
            )));
        }
        // The slot of the source before is read to its end first.
        patiently(deadline, || async {
            if wal::state(client).await?.finishing {
                let text = "the switch to the outbox is not finished: no node runs, or it has not \
                            read all of the write-ahead log yet";
                return Err(StoreError::Unavailable(text.to_owned()));
            }
            Ok(())
        })
        .await?;
        make_slot(client, &state.slot).await?;
        client.batch_execute(SWITCH_SETTINGS).await.map_err(broken("switch the source"))?;
    }
    let switched = patiently(deadline, || async {
        let word = mode.as_str();
        let switched = execute(client, sql!("wal_switch"), &[&word, &why, &by_person]).await;
        switched.map(drop).map_err(broken("switch the source of changes"))
    })
    .await;
    if switched.is_err() && mode == CaptureMode::Wal && !wal::state(client).await?.on {
        // A slot that nobody reads would fill the disk.
        drop_slot(client, &state.slot).await?;
    }
    switched
}

/// Drops a slot that nobody will read: a switch made it, and was interrupted.
pub async fn drop_orphan(client: &ClientWrapper) -> Result<(), StoreError> {
    let failed = broken("look for a slot that nobody reads");
    let asked = query_one(client, sql!("wal_orphan_turn"), &[]).await;
    if !asked.and_then(|row| row.try_get::<_, bool>(0)).map_err(&failed)? {
        return Ok(());
    }
    let state = wal::state(client).await?;
    let unread = !state.on && !state.finishing;
    if unread && slot(client, &state.slot).await?.is_some() {
        tracing::warn!(slot = state.slot, "dropping a replication slot that nobody reads");
        drop_slot(client, &state.slot).await?;
    }
    execute(client, sql!("wal_orphan_done"), &[]).await.map(drop).map_err(failed)
}

/// Tries again after errors that pass by themselves, until there is no time left.
async fn patiently<F>(deadline: Instant, attempt: impl Fn() -> F) -> Result<(), StoreError>
where
    F: Future<Output = Result<(), StoreError>>,
{
    loop {
        match attempt().await {
            Err(error) if error.temporary() && Instant::now() < deadline => {
                tokio::time::sleep(PAUSE).await;
            }
            other => return other,
        }
    }
}
