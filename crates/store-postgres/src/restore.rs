//! What is left to do after a database was restored with PostgreSQL's own tools.
//!
//! All of it is one transaction under the offset lock, and refused while a server uses the database: a
//! server remembers its epoch.

use std::time::Duration;

use deadpool_postgres::ClientWrapper;

use super::connect::{APPLICATION_NAME, Connector};
use super::error::broken;
use super::failover;
use super::identity::Abilities;
use super::open;
use super::query::{query_one, sql};
use crate::options::PostgresOptions;
use tidewire_store::backup::{RestoreOptions, Restored, next_epoch};
use tidewire_store::error::StoreError;
use tidewire_store::offset::{Epoch, Position};

/// Rebuilding triggers on large schemas may take its time.
const SETTINGS: &str = "SET statement_timeout = 0; SET lock_timeout = '10s'";

/// The longest lease that is waited for. Leases that are in the backup end by themselves; one that
/// goes on after that is a living server's.
const LEASE_WAIT_MAX: Duration = Duration::from_secs(60);

/// How often, and with what pause between, connections are looked for.
const LOOKS_MAX: u32 = 20;
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// Raises the log's epoch, and forgets what must not come back. A server that another application name
/// hides, or another role, is found by its lease.
pub async fn restore(
    options: &PostgresOptions,
    restore: &RestoreOptions,
) -> Result<Restored, StoreError> {
    let connector = Connector::new(options)?;
    let result = run(&connector, restore).await;
    connector.tasks().close();
    connector.tasks().wait().await;
    result
}

async fn run(connector: &Connector, restore: &RestoreOptions) -> Result<Restored, StoreError> {
    let epoch_before = open::epoch(&open::prepare(connector).await?.client).await?;
    let epoch = next_epoch(epoch_before, None, restore.epoch)?;
    let session = connector.session_in_time(SETTINGS).await?;
    alone(&session.client).await?;
    let tip = begin_anew(&session.client, epoch).await?;
    Ok(Restored { epoch_before, epoch, tip, replaced: None })
}

/// Refuses where a server uses the database.
async fn alone(client: &ClientWrapper) -> Result<(), StoreError> {
    let in_use = |how: String| {
        StoreError::Refused(format!(
            "a tidewire server uses this database ({how}); stop all of them, and try again"
        ))
    };
    let mut waited = false;
    let mut looks = 0;
    loop {
        let look = async {
            let row = query_one(client, sql!("restore_others"), &[&APPLICATION_NAME]).await?;
            Ok((row.try_get::<_, i64>(0)?, row.try_get::<_, i64>(1)?))
        };
        let (connections, lease_ms) = look.await.map_err(broken("look for servers"))?;
        // What this command itself has closed a moment ago may still be there.
        if connections > 0 && looks < LOOKS_MAX {
            looks += 1;
            tokio::time::sleep(LOOK_PAUSE).await;
            continue;
        }
        if connections > 0 {
            return Err(in_use(format!("{connections} connections")));
        }
        let Some(lease) = u64::try_from(lease_ms).ok().filter(|ms| *ms > 0) else { return Ok(()) };
        let lease = Duration::from_millis(lease);
        if waited || lease > LEASE_WAIT_MAX {
            return Err(in_use(format!("its lease holds for another {lease:?}")));
        }
        tracing::info!(?lease, "waiting for the end of a lease that the backup holds");
        tokio::time::sleep(lease + Duration::from_millis(10)).await;
        waited = true;
    }
}

async fn begin_anew(client: &ClientWrapper, epoch: Epoch) -> Result<Position, StoreError> {
    let abilities = Abilities::of(client).await?;
    failover::begin(client).await?;
    let standing = failover::standing(client, abilities).await?;
    failover::begin_anew(client, epoch, &standing.found, true).await?;
    client.batch_execute("COMMIT").await.map_err(broken("begin a new epoch"))?;
    Ok(standing.tip)
}
