//! What is SQLite's own in reading for live queries.

use super::Subject;
use tidewire_store::queries::{LiveRead, LiveRows, Queries, ShapeView, TableRef};
use tidewire_store::sql::{SqlError, SqlLimits};

const LIMITS: SqlLimits = SqlLimits { timeout_ms: 20_000, rows_max: 100, bytes_max: 2 << 20 };

async fn read(subject: &Subject, sql: &str) -> Result<LiveRows, SqlError> {
    read_within(subject, sql, LIMITS).await
}

async fn read_within(
    subject: &Subject,
    sql: &str,
    limits: SqlLimits,
) -> Result<LiveRows, SqlError> {
    let asked = TableRef { schema: None, name: "notes".to_owned() };
    let shapes = subject.store.shapes(&[asked]).await.expect("shapes can be read");
    let [ShapeView::Watched(shape)] = &shapes[..] else { panic!("not watched: {shapes:?}") };
    let tables = vec![(shape.name.clone(), shape.fingerprint)];
    subject.store.read_query(LiveRead { sql: sql.to_owned(), tables, limits, account: None }).await
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

const DOUBLED: &str = "WITH RECURSIVE d(x) AS (SELECT text FROM notes UNION ALL
    SELECT x || x FROM d WHERE length(x) < 1000000)";

/// Each value is within the limit of values; together they are not within the limit of memory.
#[tokio::test]
async fn a_query_cannot_fill_the_memory_with_many_values() {
    let schema = "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)";
    let subject = Subject::watching(schema, &["notes"]).await;
    subject.run("INSERT INTO notes VALUES (1, 'a')").await;
    let values = |count: usize| {
        let values: Vec<String> = (0..count).map(|at| format!("x || '{at}'")).collect();
        format!("{DOUBLED} SELECT max({}) > 'a' FROM d", values.join(", "))
    };
    match read(&subject, &values(120)).await {
        Err(SqlError::Wrong(problem)) => {
            assert_eq!(problem.code, "result_too_large", "{problem:?}");
            assert!(problem.message.contains("bytes of memory"), "{problem:?}");
        }
        other => panic!("it should be refused, and gave {other:?}"),
    }
    // The same connections serve on.
    for _ in 0..20 {
        let rows = read(&subject, &values(10)).await.expect("a few values have room");
        assert_eq!(rows.rows[0][0].get(), "1");
    }
    subject.run("INSERT INTO notes VALUES (2, 'b')").await;
}

/// One row of it takes much longer than all of it may, without an end of a loop in which SQLite would look.
#[tokio::test]
async fn the_time_of_a_query_ends_within_a_row() {
    let schema = "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)";
    let subject = Subject::watching(schema, &["notes"]).await;
    subject.run("INSERT INTO notes VALUES (1, 'a')").await;
    let copies: Vec<String> = (0..1_900).map(|at| format!("length(upper(x)) + {at}")).collect();
    let sql = format!("{DOUBLED} SELECT {} FROM d WHERE length(x) > 1000000", copies.join(", "));
    let limits = SqlLimits { timeout_ms: 100, ..LIMITS };
    match read_within(&subject, &sql, limits).await {
        Err(SqlError::Wrong(problem)) => {
            assert_eq!(problem.code, "query_too_slow", "{problem:?}");
        }
        other => panic!("it should be given up, and gave {other:?}"),
    }
}
