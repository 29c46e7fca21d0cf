//! The write-ahead log is copied beside the writer, and begins again at its start.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use super::super::SqliteStore;
use crate::options::SqliteOptions;
use tidewire_store::command::{Answer, Command};
use tidewire_store::log::Log;
use tidewire_store::testing::commands;

/// Long enough for any machine: what is waited for takes a moment.
const PATIENCE: Duration = Duration::from_secs(60);
const TEXT_BYTES: usize = 64 << 10;

async fn opened(folder: &Path) -> Arc<SqliteStore> {
    let store = SqliteStore::open(SqliteOptions::new(folder)).await.expect("it opens");
    let create = Command::Create(Box::new(commands::create("a")));
    store.submit(create).await.expect("a stream");
    store
}

/// Appends some megabytes, in some commits.
async fn append_megabytes(store: &SqliteStore, megabytes: usize) {
    let text = "x".repeat(TEXT_BYTES);
    for _ in 0..megabytes {
        let appends = (0..(1 << 20) / TEXT_BYTES)
            .map(|_| store.submit(Command::Append(commands::append("a", &text))));
        for answer in join_all(appends).await {
            assert!(matches!(answer, Ok(Answer::Appended { .. })), "{answer:?}");
        }
    }
}

/// How large the log is, and how often it has begun again: the fourth word of its header says so.
fn log(folder: &Path) -> (u64, u32) {
    let path = folder.join("tidewire.db-wal");
    let bytes = std::fs::read(&path).expect("there is a log");
    let times = bytes.get(12..16).and_then(|word| word.try_into().ok()).expect("it has a header");
    (bytes.len() as u64, u32::from_be_bytes(times))
}

/// Appends until the log has begun again so often.
async fn append_until_it_began(store: &SqliteStore, folder: &Path, times: u32, megabytes: usize) {
    let deadline = Instant::now() + PATIENCE;
    while log(folder).1 < times {
        assert!(Instant::now() < deadline, "it never begins again: {:?}", log(folder));
        append_megabytes(store, megabytes).await;
    }
}

#[tokio::test]
async fn the_log_begins_again_while_it_is_written() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = opened(folder.path()).await;
    let (_, begun) = log(folder.path());
    append_until_it_began(&store, folder.path(), begun + 2, 8).await;
    store.close().await;
}

#[tokio::test]
async fn what_someone_reads_stays_in_the_log_until_they_are_done() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = opened(folder.path()).await;
    append_megabytes(&store, 1).await;
    let reader = rusqlite::Connection::open(folder.path().join("tidewire.db")).expect("the file");
    reader.execute_batch("BEGIN").expect("a transaction");
    let count = || reader.query_row("SELECT count(*) FROM log", [], |row| row.get::<_, i64>(0));
    let seen = count().expect("a count");
    let (_, begun) = log(folder.path());
    append_megabytes(&store, 64).await;
    let (bytes, still) = log(folder.path());
    assert_eq!(still, begun, "it began again under a reader");
    assert!(bytes > 64 << 20, "{bytes} bytes do not hold what was written");
    assert_eq!(count(), Ok(seen));
    reader.execute_batch("COMMIT").expect("the transaction ends");
    append_until_it_began(&store, folder.path(), begun + 1, 1).await;
    store.close().await;
}

#[tokio::test]
async fn nobody_holds_the_store_once_it_is_closed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for _ in 0..3 {
        let store = opened(folder.path()).await;
        append_megabytes(&store, 20).await;
        store.close().await;
        // The last connection that is closed removes it.
        assert!(!folder.path().join("tidewire.db-wal").exists());
    }
}
