//! What the elected node does besides, on a session of its own, whichever way changes come: looks
//! whether watched tables were changed or dropped, and writes down counts.

use std::convert::Infallible;

use deadpool_postgres::ClientWrapper;
use tidewire_store::StoreError;
use tidewire_store::postgres::captured::{broken, text};
use tidewire_store::postgres::wal;
use tokio_postgres::Error;

use crate::leader::Leadership;
use crate::options::CaptureOptions;
use crate::query::{execute, query, query_one, sql};

/// A table that others hold locked is looked at again later, rather than have writers queue up
/// behind us.
const SETTINGS: &str = "SET lock_timeout = '200ms'; SET statement_timeout = '30s'";

/// Works for as long as it is let.
pub(crate) async fn run(leadership: &Leadership, options: &CaptureOptions) -> Infallible {
    loop {
        if let Err(error) = keep(leadership, options).await {
            tracing::debug!(%error, "upkeep of capture was interrupted");
        }
        tokio::time::sleep(options.check).await;
    }
}

async fn keep(leadership: &Leadership, options: &CaptureOptions) -> Result<(), StoreError> {
    let session = leadership.link.session(SETTINGS).await?;
    loop {
        refresh_watches(session.client()).await.map_err(broken("look at the watched tables"))?;
        identify_partitions(session.client()).await?;
        execute(session.client(), sql!("tally"), &[]).await.map_err(broken("count events"))?;
        let failed = query_one(session.client(), sql!("failed_waiting"), &[]).await;
        let failed: i64 =
            failed.and_then(|row| row.try_get(0)).map_err(broken("count failed events"))?;
        leadership.link.counters().failed_waiting(u64::try_from(failed).unwrap_or(0));
        tokio::time::sleep(options.check).await;
    }
}

/// Sees to partitions that were added to tables whose changes are read from the write-ahead log. Where
/// that cannot be done now it is tried again.
async fn identify_partitions(client: &ClientWrapper) -> Result<(), StoreError> {
    match wal::identify_partitions(client).await {
        Ok(0) => Ok(()),
        Ok(partitions) => {
            tracing::info!(partitions, "partitions were added to watched tables");
            Ok(())
        }
        Err(error @ StoreError::Broken { .. }) => {
            tracing::warn!(%error, "partitions of watched tables cannot be read whole yet");
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Brings watches up to date with their tables. One that cannot be now is tried again.
async fn refresh_watches(client: &ClientWrapper) -> Result<(), Error> {
    for row in query(client, sql!("stale_watches"), &[]).await? {
        let table: u32 = row.try_get(0)?;
        match execute(client, sql!("refresh_watch"), &[&table]).await {
            Ok(_) => tracing::info!(table, "a watched table was changed"),
            Err(error) if error.as_db_error().is_some() => {
                tracing::warn!(table, error = text(&error), "cannot follow a table's change yet");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
