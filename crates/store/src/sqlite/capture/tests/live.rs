//! What is SQLite's own in reading for live queries.

use super::Subject;
use crate::queries::{LiveRead, LiveRows, Queries, ShapeView, TableRef};
use crate::sql::{SqlError, SqlLimits};

const LIMITS: SqlLimits = SqlLimits { timeout_ms: 20_000, rows_max: 100, bytes_max: 2 << 20 };

async fn read(subject: &Subject, sql: &str) -> Result<LiveRows, SqlError> {
    let asked = TableRef { schema: None, name: "notes".to_owned() };
    let shapes = subject.store.shapes(&[asked]).await.expect("shapes can be read");
    let [ShapeView::Watched(shape)] = &shapes[..] else { panic!("not watched: {shapes:?}") };
    let tables = vec![(shape.name.clone(), shape.fingerprint)];
    subject
        .store
        .read_query(LiveRead { sql: sql.to_owned(), tables, limits: LIMITS, account: None })
        .await
}

/// The results are small: it is on the way to them that a value is large.
#[tokio::test]
async fn a_query_cannot_make_a_value_that_fills_the_memory() {
    let schema = "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)";
    let subject = Subject::watching(schema, &["notes"]).await;
    subject.run("INSERT INTO notes VALUES (1, 'tea')").await;
    for sql in [
        "SELECT length(replace(hex(zeroblob(900000)), '0', text || text)) FROM notes",
        "SELECT length(hex(zeroblob(900000000))) FROM notes",
        "SELECT length(printf('%900000000s', text)) FROM notes",
        "WITH RECURSIVE d(x) AS (SELECT text FROM notes UNION ALL
            SELECT x || x FROM d WHERE length(x) < 900000000) SELECT max(length(x)) FROM d",
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 900)
            SELECT length(group_concat(hex(zeroblob(900000)))) FROM n, notes",
    ] {
        match read(&subject, sql).await {
            Err(SqlError::Wrong(problem)) => {
                assert_eq!(problem.code, "result_too_large", "{sql}: {problem:?}");
                assert!(problem.message.starts_with("a value has more"), "{sql}: {problem:?}");
            }
            other => panic!("{sql} should be refused, and gave {other:?}"),
        }
    }
    let rows = read(&subject, "SELECT length(hex(zeroblob(900000))) FROM notes").await;
    assert_eq!(rows.expect("values within the limit").rows[0][0].get(), "1800000");
}
