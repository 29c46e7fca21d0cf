//! What is SQLite's own: whether our queries fit our schema, and what upkeep leaves on disk.

mod checkpoints;
mod group_sessions;
mod groups;
mod names;

use std::sync::Arc;

use rusqlite::fallible_iterator::FallibleIterator as _;

use super::SqliteStore;
use crate::options::SqliteOptions;
use tidewire_store::command::{Answer, Command};
use tidewire_store::log::{Found, Log, PageLimit};
use tidewire_store::offset::Position;
use tidewire_store::testing::commands;
use tidewire_store::testing::queries_in_use;

#[track_caller]
fn assert_constraint(outcome: rusqlite::Result<usize>, values: &str) {
    let error = outcome.expect_err(values);
    let code = error.sqlite_error_code();
    assert_eq!(code, Some(rusqlite::ErrorCode::ConstraintViolation), "{values}: {error}");
}

#[tokio::test]
async fn every_query_can_be_prepared() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = SqliteStore::open(SqliteOptions::new(folder.path())).await.expect("it opens");
    store.close().await;
    let file = folder.path().join("tidewire.db");
    let mut connection = rusqlite::Connection::open(file).expect("the file is there");
    super::capture::prepare(&mut connection, None, &Arc::default()).expect("functions of our own");
    for (name, sql) in queries_in_use(env!("CARGO_MANIFEST_DIR")) {
        let mut statements = rusqlite::Batch::new(&connection, &sql);
        let mut prepared =
            || statements.next().unwrap_or_else(|error| panic!("{name}.sql: {error}")).is_some();
        assert!(prepared(), "{name}.sql is empty");
        while prepared() {}
    }
}

#[tokio::test]
async fn events_of_a_deleted_stream_go_but_never_the_tip() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = SqliteStore::open(SqliteOptions::new(folder.path())).await.expect("it opens");
    let submit = async |command: Command| store.submit(command).await.expect("an answer");
    submit(Command::Create(Box::new(commands::create("a")))).await;
    for text in ["1", "2", "3"] {
        submit(Command::Append(commands::append("a", text))).await;
    }
    assert_eq!(submit(commands::delete("a")).await, Answer::Done);
    let tip = store.tip().await.expect("a tip");
    let swept = store.sweep().await.expect("swept");
    assert_eq!(swept.events_purged, 0, "not before their time");
    let file = rusqlite::Connection::open(folder.path().join("tidewire.db")).expect("the file");
    file.execute("UPDATE tidewire_stream_purges SET due_at_ms = 0", []).expect("an update");
    assert_eq!(store.sweep().await.expect("swept").events_purged, 3);
    assert_eq!(store.tip().await.expect("a tip"), tip);
    let count = |sql: &str| file.query_row(sql, [], |row| row.get::<_, i64>(0)).expect("a count");
    assert_eq!(count("SELECT count(*) FROM log WHERE control IS NULL"), 0);
    assert_eq!(count("SELECT count(*) FROM tidewire_stream_purges"), 0);
    store.close().await;
}

#[tokio::test]
async fn streams_from_before_there_were_tenants_are_of_none() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let open = || SqliteStore::open(SqliteOptions::new(folder.path()));
    let mut file = rusqlite::Connection::open(folder.path().join("tidewire.db")).expect("a file");
    super::open::migrate(&mut file, &crate::MIGRATIONS[..5]).expect("an older schema");
    let stream = "INSERT INTO log (c_offset, stream_id, append_id, control, created_at)
            VALUES (1, 'a', 1, 'create', 0);
        INSERT INTO tidewire_streams (stream_id, created_offset, content_type)
            VALUES ('a', 1, 'text/plain')";
    file.execute_batch(stream).expect("a stream");
    drop(file);
    let store = open().await.expect("it opens");
    let append = Command::Append(commands::append("a", "x"));
    assert!(matches!(store.submit(append).await, Ok(Answer::Appended { .. })));
    let limit = PageLimit { events: 10, bytes: 1_000 };
    let found = store.read("a", Position::START, limit).await.expect("the stream can be read");
    let Found::Stream(page) = found else { panic!("the stream is gone") };
    assert_eq!((page.view.state.host_id, page.events.len()), (None, 1));
    store.close().await;
}

/// Two streams that have one name from an earlier version: the later one keeps it.
#[tokio::test]
async fn a_name_that_was_given_twice_stays_with_the_last() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut file = rusqlite::Connection::open(folder.path().join("tidewire.db")).expect("a file");
    super::open::migrate(&mut file, &crate::MIGRATIONS[..18]).expect("an older schema");
    let rows = tidewire_store::testing::names::NAMED_TWICE.replace("tidewire.", "tidewire_");
    file.execute_batch(&rows).expect("a session");
    drop(file);
    let store = SqliteStore::open(SqliteOptions::new(folder.path())).await.expect("it opens");
    tidewire_store::testing::names::is_named_once(&*store).await;
    store.close().await;
}

/// One that is built for each row costs more than the row.
#[tokio::test]
async fn no_table_is_built_to_insert_an_event() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = SqliteStore::open(SqliteOptions::new(folder.path())).await.expect("it opens");
    let file = rusqlite::Connection::open(folder.path().join("tidewire.db")).expect("the file");
    for sql in [super::sql!("event_insert"), super::sql!("change_insert")] {
        let mut explain = file.prepare(&format!("EXPLAIN {sql}")).expect("a program");
        let steps = explain.raw_query().map(|row| row.get::<_, String>(1));
        let steps: Vec<String> = steps.collect().expect("its steps");
        assert!(steps.contains(&"Insert".to_owned()), "{steps:?}");
        assert!(!steps.contains(&"OpenEphemeral".to_owned()), "{steps:?}");
    }
    store.close().await;
}

#[tokio::test]
async fn the_log_refuses_what_is_no_event() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = SqliteStore::open(SqliteOptions::new(folder.path())).await.expect("it opens");
    let file = rusqlite::Connection::open(folder.path().join("tidewire.db")).expect("the file");
    let insert = "INSERT INTO log (stream_id, append_id, created_at, c_offset, operation, control,
        before_data, after_data) VALUES ('a', 1, 0, ";
    for values in [
        "0, NULL, NULL, NULL, NULL",
        "1, 'MERGE', NULL, NULL, NULL",
        "1, 'INSERT', NULL, NULL, NULL",
        "1, 'INSERT', NULL, '{}', '{}'",
        "1, 'UPDATE', NULL, NULL, '{}'",
        "1, 'DELETE', NULL, '{}', '{}'",
        "1, 'TRUNCATE', NULL, '{}', NULL",
        "1, NULL, 'open', NULL, NULL",
    ] {
        assert_constraint(file.execute(&format!("{insert}{values})"), []), values);
    }
    let kinds = ["create", "close", "delete", "expire", "subscription", "schema", "mark"];
    let controls = kinds.map(|kind| format!("NULL, '{kind}', NULL, NULL"));
    let rows = [
        "'INSERT', NULL, NULL, '{}'",
        "'UPDATE', NULL, '{}', '{}'",
        "'DELETE', NULL, '{}', NULL",
        "'TRUNCATE', NULL, NULL, NULL",
        "NULL, NULL, NULL, NULL",
    ];
    let good = controls.iter().map(String::as_str).chain(rows);
    for (at, values) in good.enumerate() {
        let row = format!("{insert}{}, {values})", at + 1);
        file.execute(&row, []).unwrap_or_else(|error| panic!("{values}: {error}"));
    }
    store.close().await;
}

#[tokio::test]
async fn the_table_refuses_what_is_no_key() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = SqliteStore::open(SqliteOptions::new(folder.path())).await.expect("it opens");
    let file = rusqlite::Connection::open(folder.path().join("tidewire.db")).expect("the file");
    let insert = "INSERT INTO tidewire_api_keys (name, key_hash, scopes, expires_at) VALUES ";
    let (hash, scopes) = ("a".repeat(64), r#"{"tables":[]}"#);
    for values in [
        format!("('', '{hash}', '{scopes}', NULL)"),
        format!("('{}', '{hash}', '{scopes}', NULL)", "n".repeat(256)),
        format!("('n', '{}', '{scopes}', NULL)", "A".repeat(64)),
        format!("('n', '{}', '{scopes}', NULL)", &hash[1..]),
        format!("('n', '{hash}', '{{}}', NULL)"),
        format!("('n', '{hash}', '[\"tables\"]', NULL)"),
        format!("('n', '{hash}', '{{', NULL)"),
        format!("('n', '{hash}', '{scopes}', 'tomorrow')"),
    ] {
        assert_constraint(file.execute(&format!("{insert}{values}"), []), &values);
    }
    let count = "SELECT count(*) FROM tidewire_api_keys";
    assert_eq!(file.query_row(count, [], |row| row.get::<_, i64>(0)), Ok(0));
    store.close().await;
}
