//! Writes by other processes come into the log as differences.

use super::Subject;
use crate::capture;
use tidewire_store::command::Command;
use tidewire_store::event::Control;
use tidewire_store::log::{Log, PageLimit};
use tidewire_store::offset::Position;
use tidewire_store::testing::commands;
use tidewire_store::watch::Watches;

const SCHEMA: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT);
    CREATE TABLE bare (a INTEGER);
    INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c');
    INSERT INTO bare VALUES (7), (7), (8)";

#[tokio::test]
async fn differences_are_told_exactly() {
    let store = Subject::watching(SCHEMA, &["t", "bare"]).await;
    store.run("UPDATE t SET name = 'B' WHERE id = 2; INSERT INTO t VALUES (4, 'd')").await;
    let known = store.changes("t").await.len();
    store.elsewhere(
        "UPDATE t SET name = 'A' WHERE id = 1; DELETE FROM t WHERE id = 3;
        INSERT INTO t VALUES (5, 'e'); DELETE FROM bare WHERE rowid = 1; INSERT INTO bare VALUES (9)",
    );
    store.store.sweep().await.expect("swept");
    let expected = [
        r#"DELETE 3 {"id":3,"name":"c"} -"#,
        r#"UPDATE 1 {"id":1,"name":"a"} {"id":1,"name":"A"}"#,
        r#"INSERT 5 - {"id":5,"name":"e"}"#,
    ];
    assert_eq!(store.changes("t").await[known..], expected);
    let expected = [r#"DELETE {"a":7} {"a":7} -"#, r#"INSERT {"a":9} - {"a":9}"#];
    assert_eq!(store.changes("bare").await, expected);
    assert_eq!(store.store.commit_stats().foreign_writes, 1);
    assert!(!store.store.capture().await.expect("a view").advice.is_empty());
    store.store.sweep().await.expect("swept");
    assert_eq!(store.changes("t").await.len(), known + 3, "nothing is told twice");
}

#[tokio::test]
async fn differences_come_before_what_is_written_next() {
    let store = Subject::watching(SCHEMA, &["t"]).await;
    store.elsewhere("UPDATE t SET name = 'theirs' WHERE id = 1");
    store.run("UPDATE t SET name = 'ours' WHERE id = 1").await;
    let expected = [
        r#"UPDATE 1 {"id":1,"name":"a"} {"id":1,"name":"theirs"}"#,
        r#"UPDATE 1 {"id":1,"name":"theirs"} {"id":1,"name":"ours"}"#,
    ];
    assert_eq!(store.changes("t").await, expected);
}

#[tokio::test]
async fn differences_come_before_a_document_that_is_appended_next() {
    let store = Subject::watching(SCHEMA, &["t"]).await;
    store.elsewhere("DELETE FROM t WHERE id = 1");
    let create = Command::Create(Box::new(commands::create("a")));
    store.store.submit(create).await.expect("an answer");
    let change = store.events("table/t").await[0].position;
    assert_eq!(store.store.tip().await.expect("a tip"), change.next());
}

#[tokio::test]
async fn writes_while_no_server_ran_are_told() {
    let store = Subject::watching(SCHEMA, &["t"]).await;
    store.run("UPDATE t SET id = 9 WHERE id = 3").await;
    store.store.close().await;
    store.elsewhere("INSERT INTO t VALUES (5, 'e')");
    let store = store.reopen().await;
    store.store.sweep().await.expect("swept");
    assert_eq!(store.changes("t").await[1..], [r#"INSERT 5 - {"id":5,"name":"e"}"#]);
    let store = store.reopen().await;
    store.store.sweep().await.expect("swept");
    assert_eq!(store.changes("t").await.len(), 2);
    assert_eq!(store.store.commit_stats().foreign_writes, 0, "nothing was written meanwhile");
}

#[tokio::test]
async fn a_write_that_changes_no_rows_is_told_to_nobody() {
    let store = Subject::watching(SCHEMA, &["t"]).await;
    let before = store.store.tip().await.expect("a tip");
    store.elsewhere("CREATE TABLE other (id INTEGER); INSERT INTO other VALUES (1)");
    store.store.sweep().await.expect("swept");
    assert_eq!(store.store.tip().await.expect("a tip"), before);
}

#[tokio::test]
async fn a_changed_or_dropped_table_is_told() {
    let store = Subject::watching(SCHEMA, &["t", "bare"]).await;
    store.elsewhere("ALTER TABLE t ADD COLUMN more TEXT; DROP TABLE bare");
    store.store.sweep().await.expect("swept");
    let limit = PageLimit { events: 100, bytes: 1 << 20 };
    let wants = std::sync::Arc::new(|_: &str| true);
    let log = store.store.follow(Position::START, limit, wants).await.expect("the log");
    let control = |stream: &str, control: Control| {
        log.iter().any(|event| event.stream == stream && event.control == Some(control))
    };
    assert!(control("table/t", Control::Schema), "{log:?}");
    assert!(control("table/bare", Control::Delete), "{log:?}");
    store.elsewhere("ALTER TABLE t RENAME TO u; UPDATE u SET more = 'x' WHERE id = 1");
    store.run("DELETE FROM u WHERE id = 2").await;
    let expected = [
        r#"UPDATE 1 {"id":1,"name":"a","more":null} {"id":1,"name":"a","more":"x"}"#,
        r#"DELETE 2 {"id":2,"name":"b","more":null} -"#,
    ];
    assert_eq!(store.changes("t").await, expected);
}

#[tokio::test]
async fn differences_are_exact_after_events_left_the_log() {
    let store = Subject::watching(SCHEMA, &["t"]).await;
    store.run("UPDATE t SET name = 'z'; DELETE FROM t WHERE id = 2").await;
    let last = store.events("table/t").await.last().expect("an event").position;
    store.run("INSERT INTO t VALUES (6, 'f')").await;
    let removed = store
        .store
        .exclusively(move |writer| {
            let transaction = writer.transaction()?;
            let remove = || {
                capture::before_removal(&transaction, "table/t", last)?;
                transaction.execute(
                    "DELETE FROM log WHERE stream_id = 'table/t' AND control IS NULL AND c_offset <= ?1",
                    [last.to_sql()],
                )
            };
            let removed = remove().expect("events can be removed");
            transaction.commit().expect("a commit");
            Ok::<_, tidewire_store::StoreError>(removed)
        })
        .await;
    assert_eq!(removed.expect("removed"), 4);
    store.elsewhere("UPDATE t SET name = 'y' WHERE id IN (1, 6)");
    store.store.sweep().await.expect("swept");
    let expected = [
        r#"INSERT 6 - {"id":6,"name":"f"}"#,
        r#"UPDATE 1 {"id":1,"name":"z"} {"id":1,"name":"y"}"#,
        r#"UPDATE 6 {"id":6,"name":"f"} {"id":6,"name":"y"}"#,
    ];
    assert_eq!(store.changes("t").await, expected);
}
