//! Opens the store that the configuration names.

use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use tidewire_client::Backoff;
use tidewire_store::{SharedStore, StoreError};
use tidewire_store_postgres::PostgresStore;
use tidewire_store_postgres::captured::CaptureLink;
use tidewire_store_sqlite::SqliteStore;
use tokio::time::Instant;

use crate::config::StoreOptions;
use crate::config::secret::shown_url;

/// The first wait for a database is at most this.
const WAIT_BASE: Duration = Duration::from_millis(250);
/// No wait is longer, because a database that is back should be used.
const WAIT_MAX: Duration = Duration::from_secs(3);

/// A store, and what capture works through if it takes part of its own.
pub(crate) struct Opened {
    pub(crate) store: SharedStore,
    pub(crate) capture: Option<CaptureLink>,
    /// The same store where it is PostgreSQL, which may fail over.
    pub(crate) shared: Option<Arc<PostgresStore>>,
}

/// Opens it. A database that cannot be reached is tried again until `patience` is over; anything
/// else that is wrong will not mend itself.
pub(crate) async fn open(options: &StoreOptions, patience: Duration) -> anyhow::Result<Opened> {
    let deadline = Instant::now() + patience;
    let mut backoff = Backoff::new(WAIT_BASE, WAIT_MAX);
    loop {
        let error = match attempt(options).await {
            Ok(opened) => return Ok(opened),
            Err(error) => error,
        };
        let wait = backoff.next_wait(&mut rand::rng());
        let unavailable = matches!(error, StoreError::Unavailable(_));
        if !unavailable || Instant::now() + wait > deadline {
            return Err(explain(options, &error));
        }
        tracing::warn!(place = place(options), ?wait, "{error}; trying again");
        tokio::time::sleep(wait).await;
    }
}

/// Where it is, for people.
pub(crate) fn place(options: &StoreOptions) -> String {
    match options {
        StoreOptions::Sqlite(options) => format!("in {}", options.folder.display()),
        StoreOptions::Postgres(options) => format!("at {}", shown_url(&options.url)),
    }
}

async fn attempt(options: &StoreOptions) -> Result<Opened, StoreError> {
    Ok(match options.clone() {
        StoreOptions::Sqlite(options) => {
            Opened { store: SqliteStore::open(options).await?, capture: None, shared: None }
        }
        StoreOptions::Postgres(options) => {
            let store = PostgresStore::open(options).await?;
            let capture = Some(store.capture_link());
            Opened { store: Arc::clone(&store) as SharedStore, capture, shared: Some(store) }
        }
    })
}

fn explain(options: &StoreOptions, error: &StoreError) -> anyhow::Error {
    let place = place(options);
    match error {
        // The store's own words say what to do.
        StoreError::Refused(_) => anyhow!("{error}"),
        StoreError::Unavailable(_) => anyhow!(
            "cannot open the store {place}: {error}. Start PostgreSQL there, or correct the URL \
             (--database, TIDEWIRE_DATABASE)"
        ),
        _ => anyhow!("cannot open the store {place}: {error}"),
    }
}
