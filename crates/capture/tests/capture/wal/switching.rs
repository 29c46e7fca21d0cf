//! From one source to the other and back, while work goes on.

use tidewire_store::{CaptureMode, Watches as _};
use tokio_util::sync::CancellationToken;

use crate::fixture::{DEADLINE, Fixture, quick, reading};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn switching_back_and_forth_under_load_loses_and_repeats_nothing() {
    let mut options = quick("a");
    options.source = tidewire_capture::Source::Auto;
    let mut fixture = Fixture::start_with(options.clone()).await;
    options.node = "b".to_owned();
    fixture.capture(options);
    fixture.run("CREATE TABLE t0 (id bigint PRIMARY KEY, v bigint)").await;
    fixture.run("CREATE TABLE t1 (id bigint PRIMARY KEY, v bigint)").await;
    fixture.run("SELECT tidewire.watch('t0'); SELECT tidewire.watch('t1')").await;
    let stop = CancellationToken::new();
    let writers = async {
        tokio::join!(
            work(&fixture, 0, stop.clone()),
            work(&fixture, 1, stop.clone()),
            work(&fixture, 2, stop.clone()),
        )
    };
    let switches = async {
        for mode in [
            CaptureMode::Outbox,
            CaptureMode::Wal,
            CaptureMode::Outbox,
            CaptureMode::Wal,
            CaptureMode::Outbox,
        ] {
            let view = tokio::time::timeout(DEADLINE, fixture.store.switch_capture(mode)).await;
            let view = view.expect("in time").expect("it is switched");
            assert_eq!(view.mode, mode);
            let tip = fixture.number("SELECT coalesce(max(c_offset), 0) FROM tidewire.log").await;
            fixture.until(&format!("SELECT max(c_offset) > {} FROM tidewire.log", tip + 100)).await;
        }
        stop.cancel();
    };
    let (written, ()) = tokio::join!(writers, switches);
    fixture.caught_up().await;
    assert!(written.0 > 10 && written.1 > 10 && written.2 > 10);
    assert_history(&fixture).await;
    let documents =
        "SELECT count(*) FROM tidewire.log WHERE stream_id LIKE 'doc-%' AND control IS NULL";
    assert_eq!(fixture.number(documents).await, written.0 + written.1 + written.2);
    fixture.until("SELECT NOT finishing FROM tidewire.capture").await;
    fixture
        .until("SELECT NOT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = tidewire.slot_name())")
        .await;
    let full = "SELECT count(*) FROM pg_class WHERE relreplident = 'f' AND relname IN ('t0', 't1')";
    assert_eq!(fixture.number(full).await, 0, "the replica identity is as it was");
    fixture.tear_down().await;
}

/// Transactions over both tables and a document each, until told to stop; returns how many.
async fn work(fixture: &Fixture, writer: i64, stop: CancellationToken) -> i64 {
    let client = fixture.database.connect().await;
    let mut done = 0;
    while !stop.is_cancelled() {
        let id = writer * 100 + done % 20;
        let sql = format!(
            "BEGIN;
             INSERT INTO t0 VALUES ({id}, {done}) ON CONFLICT (id) DO UPDATE SET v = excluded.v;
             SELECT tidewire.publish('doc-{writer}', '{done}');
             INSERT INTO t1 VALUES ({id}, {done}) ON CONFLICT (id) DO UPDATE SET v = excluded.v;
             {}
             COMMIT",
            if done % 7 == 6 { format!("DELETE FROM t0 WHERE id = {id};") } else { String::new() }
        );
        match client.batch_execute(&sql).await {
            Ok(()) => done += 1,
            Err(error) => panic!("a writer was disturbed: {error:?}"),
        }
    }
    done
}

/// Every change begins where the row's last one ended, and the last is what the table says; every
/// transaction's events are together, and documents in their order.
async fn assert_history(fixture: &Fixture) {
    for table in ["t0", "t1"] {
        let breaks = format!(
            "SELECT count(*) FROM (
                SELECT before_data, lag(after_data) OVER (PARTITION BY entity_id ORDER BY c_offset) AS was
                FROM tidewire.log WHERE table_name = '{table}'
            ) AS events WHERE before_data IS DISTINCT FROM was"
        );
        assert_eq!(fixture.number(&breaks).await, 0, "{table}: each change follows the last");
        let wrong = format!(
            "SELECT count(*) FROM (
                SELECT DISTINCT ON (entity_id) entity_id, after_data FROM tidewire.log
                WHERE table_name = '{table}' ORDER BY entity_id, c_offset DESC
            ) AS told FULL JOIN {table} ON entity_id = id::text
            WHERE after_data IS DISTINCT FROM to_jsonb({table})"
        );
        assert_eq!(fixture.number(&wrong).await, 0, "{table}: the log tells what is there");
    }
    let torn = "SELECT count(*) FROM (
            SELECT txid, max(c_offset) - min(c_offset) + 1 AS span, count(*) AS events,
                   count(*) FILTER (WHERE tx_last) AS lasts
            FROM tidewire.log WHERE txid IS NOT NULL GROUP BY txid
        ) AS transactions WHERE span <> events OR lasts <> 1";
    assert_eq!(fixture.number(torn).await, 0, "no transaction is torn");
    let disorder = "SELECT count(*) FROM (
            SELECT convert_from(payload, 'UTF8')::bigint AS n,
                   lag(convert_from(payload, 'UTF8')::bigint)
                       OVER (PARTITION BY stream_id ORDER BY c_offset) AS before
            FROM tidewire.log WHERE stream_id LIKE 'doc-%' AND control IS NULL
        ) AS documents WHERE n <> coalesce(before + 1, 0)";
    assert_eq!(fixture.number(disorder).await, 0, "documents are in order");
}

#[tokio::test]
async fn a_person_s_choice_outlasts_leaders() {
    let mut options = reading("a");
    options.source = tidewire_capture::Source::Auto;
    let mut fixture = Fixture::start_with(options.clone()).await;
    fixture.until("SELECT mode = 'wal' FROM tidewire.capture").await;
    let view = fixture.store.capture().await.expect("a view");
    assert_eq!(view.mode, CaptureMode::Wal);
    assert!(view.reason.contains("wal_level is logical"), "{}", view.reason);
    assert!(view.retained_wal_bytes.is_some());
    fixture.store.switch_capture(CaptureMode::Outbox).await.expect("it is switched");
    fixture.until("SELECT NOT finishing FROM tidewire.capture").await;
    fixture.stop_first().await;
    fixture.capture(options);
    fixture.until("SELECT leader IS NOT NULL FROM tidewire.capture").await;
    fixture.run("SELECT tidewire.publish('doc', '1')").await;
    fixture.caught_up().await;
    assert_eq!(fixture.text("SELECT mode FROM tidewire.capture").await, "outbox");
    fixture.tear_down().await;
}

/// Says who acts while triggers are the source, lets the switch begin, and writes afterwards.
async fn overtaken(begin: &str) {
    let fixture = Fixture::start_with(quick("a")).await;
    fixture.run("CREATE TABLE t (id bigint PRIMARY KEY); SELECT tidewire.watch('t')").await;
    let writer = fixture.database.connect().await;
    let before = format!("{begin}; SELECT tidewire.set_actor('me', 'mine')");
    writer.batch_execute(&before).await.expect("an actor");
    let switch = fixture.store.switch_capture(CaptureMode::Wal);
    let write = async {
        let waits = "SELECT EXISTS (SELECT FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock')";
        fixture.until(waits).await;
        writer.batch_execute("INSERT INTO t VALUES (1); COMMIT").await.expect("a row");
    };
    let (switched, ()) = tokio::join!(tokio::time::timeout(DEADLINE, switch), write);
    switched.expect("in time").expect("it is switched");
    fixture.caught_up().await;
    let log = fixture.log().await;
    let row = log.iter().find(|event| event.table.is_some()).expect("the row's event");
    assert_eq!((row.user.as_deref(), row.host.as_deref()), (Some("me"), Some("mine")));
    fixture.tear_down().await;
}

#[tokio::test]
async fn a_transaction_that_a_switch_overtakes_keeps_its_actor() {
    overtaken("BEGIN").await;
}

#[tokio::test]
async fn a_snapshot_that_a_switch_overtakes_keeps_its_actor() {
    overtaken("BEGIN ISOLATION LEVEL REPEATABLE READ").await;
}
