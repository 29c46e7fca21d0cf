//! A database with a store and capture on it, and ways to see what came into the log.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tidewire_capture::{Capture, CaptureOptions, Source};
use tidewire_store::Log as _;
use tidewire_store_postgres::PostgresOptions;
use tidewire_store_postgres::PostgresStore;
use tidewire_store_postgres::testing::{TestDatabase, fresh_database};
use tokio_postgres::Client;

/// How long something may take that must happen in the end; waited out only by a failing test.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// An event as it lies in the log.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Logged {
    pub(crate) offset: i64,
    pub(crate) stream: String,
    pub(crate) control: Option<String>,
    pub(crate) operation: Option<String>,
    pub(crate) table: Option<String>,
    pub(crate) entity_code: Option<String>,
    pub(crate) entity_id: Option<String>,
    pub(crate) before: Option<Value>,
    pub(crate) after: Option<Value>,
    pub(crate) payload: Option<String>,
    pub(crate) host: Option<String>,
    pub(crate) user: Option<String>,
    pub(crate) txid: Option<i64>,
    pub(crate) tx_last: bool,
}

/// A database under capture.
pub(crate) struct Fixture {
    pub(crate) database: TestDatabase,
    pub(crate) store: Arc<PostgresStore>,
    pub(crate) sql: Client,
    captures: Vec<Capture>,
}

/// Options under which tests need not wait.
pub(crate) fn quick(node: &str) -> CaptureOptions {
    CaptureOptions {
        source: Source::Outbox,
        election_poll: Duration::from_millis(50),
        check: Duration::from_millis(50),
        retry: Duration::from_millis(1),
        ..CaptureOptions::new(node)
    }
}

/// The same, with changes read from the write-ahead log.
pub(crate) fn reading(node: &str) -> CaptureOptions {
    CaptureOptions { source: Source::Wal, ..quick(node) }
}

impl Fixture {
    /// A fresh database, with one node that reads changes from the write-ahead log, and has begun to.
    pub(crate) async fn start_with_wal() -> Fixture {
        Fixture::start_begun(reading("a")).await
    }

    /// A fresh database, with one node that captures as its options say, and has begun to.
    pub(crate) async fn start_begun(options: CaptureOptions) -> Fixture {
        let reads_wal = options.source == Source::Wal;
        let fixture = Fixture::start_with(options).await;
        if reads_wal {
            fixture.until("SELECT mode = 'wal' FROM tidewire.capture").await;
        }
        fixture
    }

    /// A fresh database, with one node that captures.
    pub(crate) async fn start() -> Fixture {
        Fixture::start_with(quick("a")).await
    }

    /// The same, with other options.
    pub(crate) async fn start_with(options: CaptureOptions) -> Fixture {
        let mut fixture = Fixture::start_without_capture().await;
        fixture.capture(options);
        fixture
    }

    /// The same, and nobody captures.
    pub(crate) async fn start_without_capture() -> Fixture {
        Fixture::start_in(fresh_database().await).await
    }

    /// In a database, and nobody captures.
    pub(crate) async fn start_in(database: TestDatabase) -> Fixture {
        // Shown with a test that fails.
        let told = tracing_subscriber::fmt().with_test_writer();
        let _ = told.with_max_level(tracing::Level::INFO).try_init();
        let store = PostgresStore::open(PostgresOptions::new(&database.url)).await;
        let store = store.expect("the database opens");
        let sql = database.connect().await;
        Fixture { database, store, sql, captures: Vec::new() }
    }

    /// Lets one more node capture.
    pub(crate) fn capture(&mut self, options: CaptureOptions) {
        self.captures.push(tidewire_capture::start(options, self.store.capture_link()));
    }

    /// Stops the node that began first of those that still capture.
    pub(crate) async fn stop_first(&mut self) {
        self.captures.remove(0).stop().await;
    }

    /// Runs statements.
    pub(crate) async fn run(&self, sql: &str) {
        self.sql.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }

    /// Waits until everything is in the log that is committed now.
    pub(crate) async fn caught_up(&self) {
        let marked = self.sql.query_one("SELECT tidewire.mark()", &[]).await.expect("a mark");
        let txid: i64 = marked.get(0);
        let there = "SELECT count(*) FROM tidewire.log WHERE control = 'mark' AND txid = $1";
        let there = self.sql.prepare(there).await.expect("a query");
        let waited = tokio::time::timeout(DEADLINE, async {
            let mut grown = self.store.grown();
            loop {
                grown.borrow_and_update();
                let found: i64 = self.sql.query_one(&there, &[&txid]).await.expect("a row").get(0);
                if found > 0 {
                    return;
                }
                let _ = tokio::time::timeout(Duration::from_millis(50), grown.changed()).await;
            }
        });
        waited.await.expect("what is committed comes into the log");
    }

    /// Waits until a query gives true.
    pub(crate) async fn until(&self, sql: &str) {
        let waited = tokio::time::timeout(DEADLINE, async {
            let ask =
                async || self.sql.query_one(sql, &[]).await.expect(sql).get::<_, Option<bool>>(0);
            while ask().await != Some(true) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        waited.await.unwrap_or_else(|_| panic!("it was never so: {sql}"));
    }

    /// One text from the database.
    pub(crate) async fn text(&self, sql: &str) -> String {
        self.sql.query_one(sql, &[]).await.expect(sql).get(0)
    }

    /// One number from the database.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        self.sql.query_one(sql, &[]).await.expect(sql).get(0)
    }

    /// What followers of tables were told besides rows, once they have been told so many things.
    pub(crate) async fn told(&self, times: usize) -> Vec<String> {
        let there =
            format!("SELECT count(*) >= {times} FROM tidewire.log WHERE control = 'schema'");
        self.until(&there).await;
        let log = self.log().await.into_iter();
        log.filter(|event| event.control.as_deref() == Some("schema"))
            .filter_map(|event| event.payload)
            .collect()
    }

    /// The log, but for marks.
    pub(crate) async fn log(&self) -> Vec<Logged> {
        let sql = "SELECT c_offset, stream_id, control, operation, table_name, entity_code, entity_id,
                before_data::text, after_data::text, convert_from(payload, 'UTF8'), host_id, user_id,
                txid, tx_last
            FROM tidewire.log WHERE control IS DISTINCT FROM 'mark' ORDER BY c_offset";
        let rows = self.sql.query(sql, &[]).await.expect("the log can be read");
        let json = |text: Option<String>| text.map(|text| text.parse().expect("JSON"));
        let logged = |row: &tokio_postgres::Row| Logged {
            offset: row.get(0),
            stream: row.get(1),
            control: row.get(2),
            operation: row.get(3),
            table: row.get(4),
            entity_code: row.get(5),
            entity_id: row.get(6),
            before: json(row.get(7)),
            after: json(row.get(8)),
            payload: row.get(9),
            host: row.get(10),
            user: row.get(11),
            txid: row.get(12),
            tx_last: row.get(13),
        };
        rows.iter().map(logged).collect()
    }

    /// The changes of rows in the log, in short: operation and entity.
    pub(crate) async fn changes(&self) -> Vec<(String, String)> {
        let changes = self
            .log()
            .await
            .into_iter()
            .filter_map(|event| Some((event.operation?, event.entity_id.unwrap_or_default())));
        changes.collect()
    }

    /// Stops capture and drops the database.
    pub(crate) async fn tear_down(self) {
        for capture in self.captures {
            capture.stop().await;
        }
        self.store.close().await;
        drop(self.sql);
        self.database.drop_database().await;
    }
}
