//! What breaks, and what comes of it: nothing lost, nothing twice, no transaction torn.

use std::time::Duration;

use tidewire_capture::append::{Appended, Batch, Item, Read, append};
use tidewire_capture::database::{WalPosition, position};
use tidewire_store::{Log as _, StoreError};

use crate::fixture::{Fixture, reading};

/// Transactions of three rows each, by one writer, until told to stop; returns how many committed.
async fn write(fixture: &Fixture, stop: tokio_util::sync::CancellationToken) -> i64 {
    let writer = fixture.database.connect().await;
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
async fn assert_exact(fixture: &Fixture, transactions: i64) {
    fixture.caught_up().await;
    let events = "SELECT count(*) FROM tidewire.log WHERE stream_id = 'table/counted'
        AND control IS NULL";
    assert_eq!(fixture.number(events).await, transactions * 3);
    let disorder = "SELECT count(*) FROM (
            SELECT entity_id::bigint AS id, lag(entity_id::bigint) OVER (ORDER BY c_offset) AS before,
                   tx_last
            FROM tidewire.log WHERE stream_id = 'table/counted' AND control IS NULL
        ) AS events WHERE id <> coalesce(before + 1, 0) OR tx_last <> (id % 3 = 2)";
    assert_eq!(fixture.number(disorder).await, 0, "in order, and whole");
}

async fn counted() -> Fixture {
    let fixture = Fixture::start_with_wal().await;
    fixture.run("CREATE TABLE counted (id bigint PRIMARY KEY)").await;
    fixture.run("SELECT tidewire.watch('counted')").await;
    fixture
}

const SENDER: &str = "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots
    WHERE slot_name = tidewire.slot_name() AND active_pid IS NOT NULL";
const LEADER: &str = "SELECT pg_terminate_backend(pid) FROM pg_locks
    WHERE locktype = 'advisory' AND classid = x'74696465'::int::oid AND objid = 5 AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_senders_and_leaders_lose_and_repeat_nothing() {
    let mut fixture = counted().await;
    fixture.capture(reading("b"));
    let stop = tokio_util::sync::CancellationToken::new();
    let (written, ()) = tokio::join!(write(&fixture, stop.clone()), async {
        for kill in [SENDER, LEADER, SENDER, LEADER, SENDER] {
            let tip = fixture.store.tip().await.expect("a tip");
            fixture.run(kill).await;
            // The log goes on before the next one is killed.
            let far = format!("SELECT max(c_offset) > {} FROM tidewire.log", tip.number() + 50);
            fixture.until(&far).await;
        }
        stop.cancel();
    });
    assert!(written > 50);
    assert_exact(&fixture, written).await;
    fixture.tear_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_stops_hands_over() {
    let mut fixture = counted().await;
    fixture.capture(reading("b"));
    let stop = tokio_util::sync::CancellationToken::new();
    let writer = fixture.database.connect().await;
    writer.batch_execute("INSERT INTO counted VALUES (0), (1), (2)").await.expect("a write");
    fixture.stop_first().await;
    let (written, ()) = tokio::join!(write_from(&fixture, 1, stop.clone()), async {
        fixture.until("SELECT leader = 'b' FROM tidewire.capture").await;
        stop.cancel();
    });
    assert_exact(&fixture, written).await;
    fixture.tear_down().await;
}

async fn write_from(
    fixture: &Fixture,
    first: i64,
    stop: tokio_util::sync::CancellationToken,
) -> i64 {
    let writer = fixture.database.connect().await;
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
    let mut fixture = counted().await;
    fixture.stop_first().await;
    let insert = format!(
        "DO $$ BEGIN FOR n IN 0 .. {TRANSACTIONS} - 1 LOOP
            INSERT INTO counted SELECT n * 3 + i FROM generate_series(0, 2) AS i;
            COMMIT;
        END LOOP; END $$"
    );
    fixture.run(&insert).await;
    let before = fixture.store.capture_link().counters().snapshot();
    fixture.capture(reading("b"));
    assert_exact(&fixture, TRANSACTIONS).await;
    let after = fixture.store.capture_link().counters().snapshot();
    let commits = after.batches - before.batches;
    assert!(commits * 60 <= TRANSACTIONS.unsigned_abs(), "{commits} commits");
    fixture.tear_down().await;
}

#[tokio::test]
async fn a_leader_of_before_appends_nothing() {
    let fixture = counted().await;
    fixture.run("INSERT INTO counted VALUES (0), (1), (2)").await;
    fixture.caught_up().await;
    let link = fixture.store.capture_link();
    let session = link.session("").await.expect("a session");
    let (position_id, reached) =
        position(session.client()).await.expect("a look").expect("there is a position");
    let generation = fixture.number("SELECT generation FROM tidewire.capture").await;
    let items = [Item { txid: 1, last: true, committed_at: 0, what: Read::End }];
    let next = WalPosition { lsn: reached.lsn + 1, part: None };
    let batch =
        Batch { generation: generation - 1, position_id, next, finishes: false, items: &items };
    let appended = append(&link, session.client(), batch).await.expect("an answer");
    assert_eq!(appended, Appended::NotLeader);
    // Nor does one that has the generation right, and does not know of the newest position.
    let late = Batch { generation, position_id: position_id - 1, ..batch };
    let appended = append(&link, session.client(), late).await;
    assert!(
        matches!(appended, Err(StoreError::Broken { .. })),
        "the position is taken: {appended:?}"
    );
    drop((session, link));
    assert_exact(&fixture, 1).await;
    fixture.tear_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_transaction_goes_in_parts_and_survives_a_killed_leader() {
    const ROWS: i64 = 50_000;
    let mut fixture = counted().await;
    fixture.capture(reading("b"));
    let before = fixture.store.capture_link().counters().snapshot();
    let writer = fixture.database.connect().await;
    let insert = format!("INSERT INTO counted SELECT generate_series(0, {} - 1)", ROWS);
    writer.batch_execute(&insert).await.expect("a large transaction");
    fixture.until("SELECT count(*) > 3000 FROM tidewire.log").await;
    fixture.run(LEADER).await;
    fixture.caught_up().await;
    let events = "FROM tidewire.log WHERE stream_id = 'table/counted' AND control IS NULL";
    assert_eq!(fixture.number(&format!("SELECT count(*) {events}")).await, ROWS);
    assert_eq!(fixture.number(&format!("SELECT count(DISTINCT entity_id) {events}")).await, ROWS);
    let lasts = format!("SELECT count(*) {events} AND tx_last");
    assert_eq!(fixture.number(&lasts).await, 1, "the last event alone is marked as the last");
    let last = format!("SELECT max(c_offset) - min(c_offset) + 1 {events}");
    assert_eq!(fixture.number(&last).await, ROWS, "nothing else came between");
    let after = fixture.store.capture_link().counters().snapshot();
    let parts = after.batches - before.batches;
    assert!(parts >= 50, "no more than a batch is held at a time: {parts} parts");
    fixture.tear_down().await;
}

#[tokio::test]
async fn rows_that_no_json_can_hold_do_not_stop_the_log() {
    let fixture = Fixture::start_with_wal().await;
    fixture.run("CREATE TABLE odd (id int PRIMARY KEY, j json)").await;
    fixture.run("SELECT tidewire.watch('odd')").await;
    fixture.run("INSERT INTO odd VALUES (1, '{}'), (2, '\"\\u0000\"'), (3, '[]')").await;
    fixture.caught_up().await;
    let log = fixture.log().await;
    let rows: Vec<_> = log.iter().filter(|event| event.operation.is_some()).collect();
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[0].after, Some(serde_json::json!({"id": 1, "j": {}})));
    assert_eq!(rows[1].after, Some(serde_json::json!({"id": 2, "j": "\u{fffd}"})));
    assert_eq!(rows[2].after, Some(serde_json::json!({"id": 3, "j": []})));
    fixture.tear_down().await;
}

#[tokio::test]
async fn a_document_that_fails_is_tried_again_and_given_up() {
    let fixture = Fixture::start_with_wal().await;
    fixture.run("SELECT tidewire.publish('doc', '1')").await;
    fixture.caught_up().await;
    fixture
        .run("UPDATE tidewire.streams SET content_type = 'text/plain' WHERE stream_id = 'doc'")
        .await;
    fixture.run("SELECT tidewire.publish('doc', '2'); SELECT tidewire.publish('other', '3')").await;
    fixture.caught_up().await;
    let deadline = Duration::from_secs(60);
    let dead = "SELECT count(*) = 1 FROM tidewire.dead_letters WHERE stream_id = 'doc'";
    tokio::time::timeout(deadline, fixture.until(dead)).await.expect("it is given up");
    let others = "SELECT count(*) FROM tidewire.log WHERE stream_id = 'other' AND control IS NULL";
    assert_eq!(fixture.number(others).await, 1);
    assert_eq!(fixture.number("SELECT count(*) FROM tidewire.staging").await, 0);
    fixture.tear_down().await;
}
