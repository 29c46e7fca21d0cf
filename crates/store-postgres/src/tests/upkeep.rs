//! The sweep.

use super::*;
use crate::retention::RETENTION_LOCK;
use crate::testing::fresh_database;
use tidewire_store::retention::{Retention as _, RetentionRules};

#[tokio::test]
async fn events_of_a_deleted_stream_go_but_never_the_tip() {
    let database = fresh_database().await;
    let store = open_with_stream(&database).await;
    for text in ["1", "2", "3"] {
        append_text(&store, text).await.expect("an append");
    }
    let answer = store.submit(commands::delete("a")).await.expect("an answer");
    assert_eq!(answer, Answer::Done);
    let tip = store.tip().await.expect("a tip");
    assert_eq!(store.sweep().await.expect("swept").events_purged, 0, "not before their time");
    // The purge reaches past the tip, which is an event of data here.
    create(&store, commands::create("a")).await.expect("a stream is made");
    let last = append_text(&store, "4").await.expect("an append");
    let due = format!(
        "UPDATE tidewire.stream_purges SET due_at_ms = 0, up_to_offset = {}",
        last.to_sql()
    );
    database.run(&due).await;
    assert_eq!(store.sweep().await.expect("swept").events_purged, 3);
    assert_eq!(store.tip().await.expect("a tip"), last);
    assert!(last > tip);
    assert_eq!(database.run("SELECT count(*) FROM tidewire.stream_purges").await, ["0"]);
    store.close().await;
    database.drop_database().await;
}

#[tokio::test]
async fn the_next_partition_is_made_ahead() {
    let database = fresh_database().await;
    let store = open(&database).await;
    let partitions = "SELECT count(*) FROM pg_inherits
        WHERE inhparent = 'tidewire.log'::regclass";
    store.sweep().await.expect("swept");
    assert_eq!(database.run(partitions).await, ["1"]);
    let far = "INSERT INTO tidewire.log (c_offset, stream_id, append_id) VALUES (6000000, 'b', 1)";
    database.run(far).await;
    store.sweep().await.expect("swept");
    assert_eq!(database.run(partitions).await, ["2"]);
    store.close().await;
    database.drop_database().await;
}

#[tokio::test]
async fn a_partition_that_nothing_is_left_of_is_dropped() {
    let database = fresh_database().await;
    let store = open_with_stream(&database).await;
    let rows = "INSERT INTO tidewire.streams (stream_id, created_offset, content_type)
            VALUES ('table/t', 0, 'application/json');
        INSERT INTO tidewire.log (c_offset, stream_id, append_id, table_name, operation, after_data,
                                  created_at)
            SELECT n, 'table/t', n, 't', 'INSERT', '{}', to_timestamp(1)
            FROM generate_series(2, 9000) AS n;
        SELECT tidewire.ensure_log_partition(10000001);
        INSERT INTO tidewire.log (c_offset, stream_id, append_id, control) VALUES
            (10000001, 'table/t', 10000001, 'mark'), (10000002, 'table/t', 10000002, 'mark');
        UPDATE tidewire.log SET created_at = to_timestamp(1) WHERE c_offset < 10000000";
    database.run(rows).await;
    let rules = RetentionRules { age_ms: Some(1_000), ..RetentionRules::default() };
    store.retain(&rules, "").await.expect("the rows are measured");
    database.run("UPDATE tidewire.log_measured SET up_to = 9999999").await;
    let names = "SELECT inhrelid::regclass::text FROM pg_inherits
        WHERE inhparent = 'tidewire.log'::regclass ORDER BY 1";
    // Someone who reads the log for long keeps a partition, and nobody waits for that.
    let reader = database.connect().await;
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM tidewire.log";
    reader.batch_execute(begin).await.expect("a long read");
    let mut dropped = 0;
    let retain = async || store.retain(&rules, "").await.expect("retention runs");
    for round in 0.. {
        database.run("UPDATE tidewire.trims SET due_at_ms = 0").await;
        let done = retain().await;
        dropped += done.partitions_dropped;
        let removed =
            database.run("SELECT count(*) FROM tidewire.log WHERE c_offset < 10000").await;
        if !done.more && done.streams_trimmed == 0 && removed == ["0"] {
            break;
        }
        assert!(round < 2_000, "there is always more to do");
    }
    retain().await;
    assert_eq!(dropped, 0, "someone reads it");
    append_text(&store, "x").await.expect("an append does not wait for that");
    reader.batch_execute("COMMIT").await.expect("the read ends");
    let mut rounds = 0;
    while retain().await.partitions_dropped == 0 {
        rounds += 1;
        assert!(rounds < 10, "it is not dropped");
    }
    assert_eq!(database.run(names).await, ["tidewire.log_000000001"]);
    append_text(&store, "y").await.expect("appends go on");
    store.close().await;
    database.drop_database().await;
}

#[tokio::test]
async fn one_node_at_a_time_removes() {
    let database = fresh_database().await;
    let store = open(&database).await;
    let other = database.connect().await;
    let lock = format!("BEGIN; SELECT pg_advisory_xact_lock({RETENTION_LOCK})");
    other.batch_execute(&lock).await.expect("the lock");
    let rules = RetentionRules::default();
    assert!(store.retain(&rules, "").await.expect("an answer at once").elsewhere);
    other.batch_execute("ROLLBACK").await.expect("the lock is given back");
    assert!(!store.retain(&rules, "").await.expect("an answer").elsewhere);
    store.close().await;
    database.drop_database().await;
}
