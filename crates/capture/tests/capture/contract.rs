//! The part of the stores' contract that needs a node which captures.

use std::sync::Mutex;

use async_trait::async_trait;
use tidewire_capture::{Capture, CaptureOptions, Source};
use tidewire_store::SharedStore;
use tidewire_store_contract::Opener;
use tidewire_store_postgres::PostgresOptions;
use tidewire_store_postgres::PostgresStore;
use tidewire_store_postgres::testing::{TestDatabase, fresh_database};

use crate::fixture::quick;

struct Captured {
    database: TestDatabase,
    source: Source,
    /// Ends with the store; kept so that it does not end before.
    capture: Mutex<Option<Capture>>,
}

#[async_trait]
impl Opener for Captured {
    async fn open(&self) -> SharedStore {
        let options = PostgresOptions::new(&self.database.url);
        let store = PostgresStore::open(options).await.expect("the database opens");
        let options = CaptureOptions { source: self.source, ..quick("a") };
        let capture = tidewire_capture::start(options, store.capture_link());
        *self.capture.lock().expect("a lock") = Some(capture);
        store
    }

    async fn run_sql(&self, sql: &str) -> Vec<String> {
        self.database.run(sql).await
    }

    async fn discard(self) {
        // A node that still captures would make its slot anew.
        let capture = self.capture.lock().expect("a lock").take();
        if let Some(capture) = capture {
            capture.stop().await;
        }
        self.database.drop_database().await;
    }
}

async fn fresh(source: Source) -> Captured {
    Captured { database: fresh_database().await, source, capture: Mutex::default() }
}

mod by_triggers {
    use super::*;

    tidewire_store_contract::contract_suite!(sql: fresh(Source::Outbox).await);
}

mod by_the_write_ahead_log {
    use super::*;

    tidewire_store_contract::contract_suite!(sql: fresh(Source::Wal).await);
}
