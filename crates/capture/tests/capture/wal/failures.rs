//! What breaks, and what comes of it: nothing lost, nothing twice, no transaction torn.

use std::time::Duration;

use tidewire_capture::append::{Appended, Batch, Item, Read, append};
use tidewire_capture::database::{Place, place};
use tidewire_store::Log as _;

use crate::stage::{Stage, reading};

/// Transactions of three rows each, by one writer, until told to stop; returns how many committed.
async fn write(stage: &Stage, stop: tokio_util::sync::CancellationToken) -> i64 {
    let writer = stage.database.connect().await;
    let mut written = 0;
    while !stop.is_cancelled() {
        let sql =
            format!("INSERT INTO counted SELECT {written} * 3 + n FROM generate_series(0, 2) AS n");
        writer.batch_execute(&sql).await.expect("the writer is not disturbed");
        written += 1;
    }
    written
}

/// Every row is there once, in order, in whole transactions.
async fn assert_exact(stage: &Stage, transactions: i64) {
    stage.caught_up().await;
    let events = "SELECT count(*) FROM tidewire.log WHERE stream_id = 'table/counted'
        AND control IS NULL";
    assert_eq!(stage.number(events).await, transactions * 3);
    let disorder = "SELECT count(*) FROM (
            SELECT entity_id::bigint AS id, lag(entity_id::bigint) OVER (ORDER BY c_offset) AS before,
                   tx_last
            FROM tidewire.log WHERE stream_id = 'table/counted' AND control IS NULL
        ) AS events WHERE id <> coalesce(before + 1, 0) OR tx_last <> (id % 3 = 2)";
    assert_eq!(stage.number(disorder).await, 0, "in order, and whole");
}

async fn counted() -> Stage {
    let stage = Stage::set_with_wal().await;
    stage.run("CREATE TABLE counted (id bigint PRIMARY KEY)").await;
    stage.run("SELECT tidewire.watch('counted')").await;
    stage
}

const SENDER: &str = "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots
    WHERE slot_name = tidewire.slot_name() AND active_pid IS NOT NULL";
const LEADER: &str = "SELECT pg_terminate_backend(pid) FROM pg_locks
    WHERE locktype = 'advisory' AND classid = x'74696465'::int::oid AND objid = 5 AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_senders_and_leaders_lose_and_repeat_nothing() {
    let mut stage = counted().await;
    stage.capture(reading("b"));
    let stop = tokio_util::sync::CancellationToken::new();
    let (written, ()) = tokio::join!(write(&stage, stop.clone()), async {
        for kill in [SENDER, LEADER, SENDER, LEADER, SENDER] {
            let tip = stage.store.tip().await.expect("a tip");
            stage.run(kill).await;
            // The log goes on before the next one is killed.
            let far = format!("SELECT max(c_offset) > {} FROM tidewire.log", tip.number() + 50);
            stage.until(&far).await;
        }
        stop.cancel();
    });
    assert!(written > 50);
    assert_exact(&stage, written).await;
    stage.strike().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_stops_hands_over() {
    let mut stage = counted().await;
    stage.capture(reading("b"));
    let stop = tokio_util::sync::CancellationToken::new();
    let writer = stage.database.connect().await;
    writer.batch_execute("INSERT INTO counted VALUES (0), (1), (2)").await.expect("a write");
    stage.stop_first().await;
    let (written, ()) = tokio::join!(write_from(&stage, 1, stop.clone()), async {
        stage.until("SELECT leader = 'b' FROM tidewire.capture").await;
        stop.cancel();
    });
    assert_exact(&stage, written).await;
    stage.strike().await;
}

async fn write_from(stage: &Stage, first: i64, stop: tokio_util::sync::CancellationToken) -> i64 {
    let writer = stage.database.connect().await;
    let mut written = first;
    while !stop.is_cancelled() || written == first {
        let sql =
            format!("INSERT INTO counted SELECT {written} * 3 + n FROM generate_series(0, 2) AS n");
        writer.batch_execute(&sql).await.expect("the writer is not disturbed");
        written += 1;
    }
    written
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_transactions_that_waited_share_commits() {
    const TRANSACTIONS: i64 = 2_000;
    let mut stage = counted().await;
    stage.stop_first().await;
    let insert = format!(
        "DO $$ BEGIN FOR n IN 0 .. {TRANSACTIONS} - 1 LOOP
            INSERT INTO counted SELECT n * 3 + i FROM generate_series(0, 2) AS i;
            COMMIT;
        END LOOP; END $$"
    );
    stage.run(&insert).await;
    let before = stage.store.capture_link().counters().snapshot();
    stage.capture(reading("b"));
    assert_exact(&stage, TRANSACTIONS).await;
    let after = stage.store.capture_link().counters().snapshot();
    let commits = after.batches - before.batches;
    assert!(commits * 60 <= TRANSACTIONS.unsigned_abs(), "{commits} commits");
    stage.strike().await;
}

#[tokio::test]
async fn a_leader_of_before_appends_nothing() {
    let stage = counted().await;
    stage.run("INSERT INTO counted VALUES (0), (1), (2)").await;
    stage.caught_up().await;
    let link = stage.store.capture_link();
    let session = link.session("").await.expect("a session");
    let (place_id, reached) =
        place(session.client()).await.expect("a look").expect("there is a place");
    let generation = stage.number("SELECT generation FROM tidewire.capture").await;
    let items = [Item { txid: 1, last: true, committed_at: 0, what: Read::End }];
    let next = Place { lsn: reached.lsn + 1, part: None };
    let batch =
        Batch { generation: generation - 1, place_id, next, finishes: false, items: &items };
    let appended = append(&link, session.client(), batch).await.expect("an answer");
    assert_eq!(appended, Appended::NotLeader);
    // Nor does one that has the generation right, and does not know of the newest place.
    let late = Batch { generation, place_id: place_id - 1, ..batch };
    append(&link, session.client(), late).await.expect_err("the place is taken");
    drop((session, link));
    assert_exact(&stage, 1).await;
    stage.strike().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_transaction_goes_in_parts_and_survives_a_killed_leader() {
    const ROWS: i64 = 50_000;
    let mut stage = counted().await;
    stage.capture(reading("b"));
    let before = stage.store.capture_link().counters().snapshot();
    let writer = stage.database.connect().await;
    let insert = format!("INSERT INTO counted SELECT generate_series(0, {} - 1)", ROWS);
    writer.batch_execute(&insert).await.expect("a large transaction");
    stage.until("SELECT count(*) > 3000 FROM tidewire.log").await;
    stage.run(LEADER).await;
    stage.caught_up().await;
    let events = "FROM tidewire.log WHERE stream_id = 'table/counted' AND control IS NULL";
    assert_eq!(stage.number(&format!("SELECT count(*) {events}")).await, ROWS);
    assert_eq!(stage.number(&format!("SELECT count(DISTINCT entity_id) {events}")).await, ROWS);
    let lasts = format!("SELECT count(*) {events} AND tx_last");
    assert_eq!(stage.number(&lasts).await, 1, "the last event alone is marked as the last");
    let last = format!("SELECT max(c_offset) - min(c_offset) + 1 {events}");
    assert_eq!(stage.number(&last).await, ROWS, "nothing else came between");
    let after = stage.store.capture_link().counters().snapshot();
    let parts = after.batches - before.batches;
    assert!(parts >= 50, "no more than a batch is held at a time: {parts} parts");
    stage.strike().await;
}

#[tokio::test]
async fn rows_that_no_json_can_hold_do_not_stop_the_log() {
    let stage = Stage::set_with_wal().await;
    stage.run("CREATE TABLE odd (id int PRIMARY KEY, j json)").await;
    stage.run("SELECT tidewire.watch('odd')").await;
    stage.run("INSERT INTO odd VALUES (1, '{}'), (2, '\"\\u0000\"'), (3, '[]')").await;
    stage.caught_up().await;
    let log = stage.log().await;
    let rows: Vec<_> = log.iter().filter(|event| event.operation.is_some()).collect();
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[0].after, Some(serde_json::json!({"id": 1, "j": {}})));
    assert_eq!(rows[1].after, Some(serde_json::json!({"id": 2, "j": "\u{fffd}"})));
    assert_eq!(rows[2].after, Some(serde_json::json!({"id": 3, "j": []})));
    stage.strike().await;
}

#[tokio::test]
async fn a_document_that_fails_is_tried_again_and_given_up() {
    let stage = Stage::set_with_wal().await;
    stage.run("SELECT tidewire.publish('doc', '1')").await;
    stage.caught_up().await;
    stage
        .run("UPDATE tidewire.streams SET content_type = 'text/plain' WHERE stream_id = 'doc'")
        .await;
    stage.run("SELECT tidewire.publish('doc', '2'); SELECT tidewire.publish('other', '3')").await;
    stage.caught_up().await;
    let deadline = Duration::from_secs(60);
    let dead = "SELECT count(*) = 1 FROM tidewire.dead_letters WHERE stream_id = 'doc'";
    tokio::time::timeout(deadline, stage.until(dead)).await.expect("it is given up");
    let others = "SELECT count(*) FROM tidewire.log WHERE stream_id = 'other' AND control IS NULL";
    assert_eq!(stage.number(others).await, 1);
    assert_eq!(stage.number("SELECT count(*) FROM tidewire.staging").await, 0);
    stage.strike().await;
}
