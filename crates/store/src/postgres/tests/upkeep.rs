//! The sweep.

use super::*;
use crate::postgres::testing::fresh_database;

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
