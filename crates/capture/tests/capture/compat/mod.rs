//! Other systems' names, and their SQL on them.

mod channels;
mod columns;
mod entities;
mod messages;
mod names;
mod outbox;
mod statements;

use tidewire_capture::{CaptureOptions, Source};
use tidewire_store::StoreError;
use tidewire_store_postgres::PostgresOptions;
use tidewire_store_postgres::{CompatName, CompatSchemas, compat};
use tokio_postgres::{Row, SimpleQueryMessage};

use crate::fixture::{Fixture, quick};

/// The schemas that are taken where none are named.
fn usual() -> CompatSchemas {
    CompatSchemas { app: "app".to_owned(), public: "public".to_owned() }
}

async fn make(fixture: &Fixture, schemas: &CompatSchemas) -> Result<Vec<CompatName>, StoreError> {
    compat(&PostgresOptions::new(&fixture.database.url), schemas).await
}

/// A database with the names, and nobody who captures.
async fn start() -> Fixture {
    let fixture = Fixture::start_without_capture().await;
    make(&fixture, &usual()).await.expect("the names are made");
    fixture
}

/// Lets a node capture from a source, and waits until it does.
async fn capture_from(fixture: &mut Fixture, source: Source) {
    fixture.capture(CaptureOptions { source, ..quick("a") });
    let mode = if source == Source::Wal { "wal" } else { "outbox" };
    fixture.until(&format!("SELECT mode = '{mode}' AND leader = 'a' FROM tidewire.capture")).await;
}

/// What a statement answers, as text: its rows, and how many it changed.
async fn answer(fixture: &Fixture, sql: &str) -> (Vec<Vec<Option<String>>>, u64) {
    let messages = fixture.sql.simple_query(sql).await;
    let messages = messages.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let (mut rows, mut count) = (Vec::new(), 0);
    for message in messages {
        match message {
            SimpleQueryMessage::Row(row) => {
                let cells = (0..row.len()).map(|at| row.get(at).map(ToOwned::to_owned));
                rows.push(cells.collect());
            }
            SimpleQueryMessage::CommandComplete(changed) => count = changed,
            _ => {}
        }
    }
    (rows, count)
}

/// The rows of an answer, with nothing for null.
async fn rows(fixture: &Fixture, sql: &str) -> Vec<Vec<String>> {
    let (rows, _) = answer(fixture, sql).await;
    let text = |cells: Vec<Option<String>>| cells.into_iter().map(Option::unwrap_or_default);
    rows.into_iter().map(|row| text(row).collect()).collect()
}

/// The only value of an answer.
async fn value(fixture: &Fixture, sql: &str) -> String {
    let mut rows = rows(fixture, sql).await;
    assert_eq!((rows.len(), rows.first().map(Vec::len)), (1, Some(1)), "{sql}");
    rows.remove(0).remove(0)
}

/// Why the database refuses a statement: its code, and what it says.
async fn refused(fixture: &Fixture, sql: &str) -> (String, String) {
    let error = fixture.sql.batch_execute(sql).await.expect_err(sql);
    let said = error.as_db_error().expect("the database says why");
    (said.code().code().to_owned(), said.message().to_owned())
}

/// The plan of a query, as one text.
async fn plan(fixture: &Fixture, sql: &str) -> String {
    let rows = fixture.sql.query(&format!("EXPLAIN (COSTS OFF) {sql}"), &[]).await.expect(sql);
    rows.iter().map(|row: &Row| row.get::<_, String>(0)).collect::<Vec<_>>().join("\n")
}
