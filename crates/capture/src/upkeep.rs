//! Upkeep by the elected node, on a session of its own, for both sources of changes: finds watched tables
//! that were altered, dropped, or changed past capture, and writes down counts.

use std::collections::HashMap;
use std::convert::Infallible;
use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use tidewire_store::StoreError;
use tidewire_store_postgres::captured::broken;

use crate::wal::database;

use crate::leader::Leadership;
use crate::options::CaptureOptions;
use crate::query::{execute, query, query_one, sql};
use crate::reconcile::{Reconciled, reconcile};

/// A table that others hold locked is looked at again later, rather than have writers queue up
/// behind us.
const SETTINGS: &str = "SET lock_timeout = '200ms'; SET statement_timeout = '30s'";

/// How often it is noted what was captured for sure, in looks.
const SETTLE_LOOKS: u32 = 5;

/// A table that could not be brought up to date is left alone for so many looks, twice as many each time, up to
/// this: whoever is in the way is not to have writers queue up behind us all the time.
const LOOKS_SKIPPED_MAX: u32 = 16;

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
    let mut upkeep = Upkeep {
        leadership,
        compare_max: options.compare_max,
        client: session.client(),
        looks: 0,
        newest: 0,
        postponed: HashMap::new(),
    };
    loop {
        upkeep.look().await?;
        tokio::time::sleep(options.check).await;
    }
}

struct Upkeep<'a> {
    leadership: &'a Leadership,
    compare_max: Duration,
    client: &'a ClientWrapper,
    looks: u32,
    /// The newest transaction when it was last noted what was captured.
    newest: i64,
    /// Tables that could not be brought up to date: how often, and the look at which to try again.
    postponed: HashMap<u32, (u32, u32)>,
}

impl Upkeep<'_> {
    async fn look(&mut self) -> Result<(), StoreError> {
        self.looks = self.looks.wrapping_add(1);
        let stale = self.refresh_watches().await?;
        identify_partitions(self.client).await?;
        execute(self.client, sql!("tally"), &[]).await.map_err(broken("count events"))?;
        if stale == 0 && self.looks.is_multiple_of(SETTLE_LOOKS) {
            self.settle().await?;
        }
        let failed = query_one(self.client, sql!("failed_waiting"), &[]).await;
        let failed: i64 =
            failed.and_then(|row| row.try_get(0)).map_err(broken("count failed events"))?;
        self.leadership.link.counters().failed_waiting(u64::try_from(failed).unwrap_or(0));
        Ok(())
    }

    /// Brings watches up to date with their tables, and returns how many were not. One that cannot be now is
    /// tried again.
    async fn refresh_watches(&mut self) -> Result<usize, StoreError> {
        let failed = broken("look at the watched tables");
        let stale = query(self.client, sql!("stale_watches"), &[]).await.map_err(&failed)?;
        for row in &stale {
            let table: u32 = row.try_get(0).map_err(&failed)?;
            let (times, due) = self.postponed.get(&table).copied().unwrap_or_default();
            if self.looks < due {
                continue;
            }
            match self.refresh(table).await {
                Ok(()) => {
                    self.postponed.remove(&table);
                }
                // A lock that others hold, or something that the database says against it.
                Err(error @ (StoreError::Broken { .. } | StoreError::Unavailable(_))) => {
                    // Fails where the session is broken, and then it is for a new one to go on.
                    self.client.batch_execute("ROLLBACK").await.map_err(&failed)?;
                    tracing::warn!(table, %error, "cannot capture a table's new shape yet; trying again");
                    let skipped = (1 << times.min(8)).min(LOOKS_SKIPPED_MAX);
                    self.postponed.insert(table, (times + 1, self.looks.wrapping_add(skipped)));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(stale.len())
    }

    async fn refresh(&self, table: u32) -> Result<(), StoreError> {
        let failed = broken("follow a table's change");
        let why = query_one(self.client, sql!("suspicion"), &[&table]).await;
        let why: Option<String> = why.and_then(|row| row.try_get(0)).map_err(&failed)?;
        let Some(why) = why else {
            execute(self.client, sql!("refresh_watch"), &[&table]).await.map_err(failed)?;
            tracing::info!(table, "a watched table was changed");
            return Ok(());
        };
        tracing::warn!(table, why, "a watched table may have changed past capture");
        let settings = (SETTINGS, self.compare_max);
        match reconcile(self.leadership, self.client, settings, table).await? {
            Reconciled::Alike => tracing::info!(table, "the table matches the log"),
            Reconciled::Told { table, why, events } => {
                tracing::warn!(table, why, events, "appended the differences to the log");
            }
            Reconciled::ToldToRead { table, why } => {
                let text = "a table takes too long to compare with the log; its subscribers are told to read it \
                            again";
                tracing::error!(table, why, "{text}");
            }
        }
        Ok(())
    }

    /// Notes what was captured for sure. A database in which nothing happens is not written to.
    async fn settle(&mut self) -> Result<(), StoreError> {
        let failed = broken("note what was captured");
        let row = query_one(self.client, sql!("newest_transaction"), &[]).await;
        let newest: i64 = row.and_then(|row| row.try_get(0)).map_err(&failed)?;
        // Noting it is a transaction too.
        if newest > self.newest + 1 {
            execute(self.client, sql!("settle_watches"), &[]).await.map_err(failed)?;
            self.newest = newest;
        }
        Ok(())
    }
}

/// Sees to partitions that were added to tables whose changes are read from the write-ahead log. Where
/// that cannot be done now it is tried again.
async fn identify_partitions(client: &ClientWrapper) -> Result<(), StoreError> {
    match database::identify_partitions(client).await {
        Ok(0) => Ok(()),
        Ok(partitions) => {
            tracing::info!(partitions, "partitions were added to watched tables");
            Ok(())
        }
        Err(error @ (StoreError::Broken { .. } | StoreError::Unavailable(_))) => {
            tracing::warn!(%error, "partitions of watched tables cannot be captured completely yet");
            Ok(())
        }
        Err(error) => Err(error),
    }
}
