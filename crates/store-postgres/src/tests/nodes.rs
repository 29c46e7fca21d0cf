//! Several nodes, and others, on one database.

use futures_util::future::join_all;

use super::*;
use crate::testing::fresh_database;
use tidewire_store::subscription::{Op, Subscriptions};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_append_at_once_and_hear_of_each_other() {
    const APPENDERS: usize = 16;
    const APPENDS: usize = 20;
    const TIP: u64 = 1 + 2 * (APPENDERS * APPENDS) as u64;
    let database = fresh_database().await;
    let nodes = [open_with_stream(&database).await, open(&database).await];
    let appender = |number: usize| {
        let node = &nodes[number % 2];
        async move {
            let mut tails = Vec::new();
            for round in 0..APPENDS {
                let body = format!("{number}:{round}");
                tails.push((append_text(node, &body).await.expect("an append"), body));
            }
            tails
        }
    };
    let heard = nodes.iter().map(|node| async {
        let mut grown = node.grown();
        let heard = tokio::time::timeout(DEADLINE, grown.wait_for(|tip| *tip >= TIP)).await;
        heard.expect("the last commit is heard of").expect("the store is open");
    });
    let (given, _) = tokio::join!(join_all((0..2 * APPENDERS).map(appender)), join_all(heard));
    let mut given: Vec<(Position, String)> = given.into_iter().flatten().collect();
    given.sort();
    let positions: Vec<u64> = given.iter().map(|(position, _)| position.number()).collect();
    assert_eq!(positions, (2..=TIP).collect::<Vec<u64>>(), "gapless after the create event");
    for node in nodes {
        assert_eq!(events(&node).await, given);
        node.close().await;
    }
    database.drop_database().await;
}

#[tokio::test]
async fn an_idle_snapshot_elsewhere_holds_nobody_up() {
    let database = fresh_database().await;
    let store = open_with_stream(&database).await;
    let elsewhere = database.connect().await;
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM tidewire.log";
    elsewhere.batch_execute(begin).await.expect("a snapshot");
    for text in ["x", "y"] {
        let appended = tokio::time::timeout(DEADLINE, append_text(&store, text)).await;
        appended.expect("not held up").expect("an append");
    }
    assert_eq!(texts(&store).await, ["x", "y"]);
    store.close().await;
    database.drop_database().await;
}

#[tokio::test]
async fn a_change_that_its_caller_drops_lets_go_of_the_offset_lock() {
    let database = fresh_database().await;
    let store = open_with_stream(&database).await;
    let elsewhere = database.connect().await;
    let lock = format!("SELECT pg_advisory_lock({})", crate::load::OFFSET_LOCK);
    elsewhere.batch_execute(&lock).await.expect("the lock is free");
    // The change gets as far as waiting for the lock, and is dropped there.
    let waits = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
    let waiting = async { while database.run(waits).await.is_empty() {} };
    tokio::select! {
        reply = store.change_subscription("s", Op::Delete) => panic!("not held up: {reply:?}"),
        () = waiting => {}
    }
    drop(elsewhere);
    let appended = tokio::time::timeout(DEADLINE, append_text(&store, "x")).await;
    appended.expect("nobody holds the lock").expect("an append");
    store.close().await;
    database.drop_database().await;
}

#[tokio::test]
async fn the_log_goes_on_in_the_next_partition() {
    let database = fresh_database().await;
    let store = open_with_stream(&database).await;
    // Far on in the first partition, by hand; then across its end in one append.
    let far = "INSERT INTO tidewire.log (c_offset, stream_id, append_id) VALUES (9999998, 'b', 1)";
    database.run(far).await;
    let three =
        Append { messages: vec!["1".into(), "2".into(), "3".into()], ..commands::append("a", "") };
    let tail = append(&store, three).await.expect("an append");
    assert_eq!(tail, Position::new(10_000_001));
    assert_eq!(texts(&store).await, ["1", "2", "3"]);
    let partitions = "SELECT count(*) FROM pg_inherits
        WHERE inhparent = 'tidewire.log'::regclass";
    assert_eq!(database.run(partitions).await, ["2"]);
    store.close().await;
    database.drop_database().await;
}
