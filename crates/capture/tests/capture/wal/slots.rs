//! Slots that are lost, and what is found in their place.

use serde_json::json;

use crate::fixture::{Fixture, reading};

const DROP: &str = "SELECT pg_drop_replication_slot(tidewire.slot_name())";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_slot_is_repaired_by_differences() {
    let mut fixture = Fixture::start_with_wal().await;
    fixture
        .run(
            "CREATE TABLE kept (id int PRIMARY KEY, v text, g int GENERATED ALWAYS AS (id) STORED);
             CREATE TABLE bag (a int);
             INSERT INTO kept VALUES (1, 'before the watch'), (2, 'too')",
        )
        .await;
    fixture.run("SELECT tidewire.watch('kept'); SELECT tidewire.watch('bag')").await;
    fixture.run("INSERT INTO kept VALUES (3, 'c'), (4, 'd'), (5, 'e'), (6, 'f')").await;
    fixture.run("UPDATE kept SET id = 7 WHERE id = 6").await;
    fixture.run("INSERT INTO bag VALUES (1), (1), (2)").await;
    fixture.caught_up().await;
    // What is in the log for sure is noted every few seconds.
    fixture
        .until(
            "SELECT pg_visible_in_snapshot(max(txid)::text::xid8, (SELECT settled FROM tidewire.capture))
             FROM tidewire.log WHERE operation IS NOT NULL",
        )
        .await;
    fixture.stop_first().await;
    let unread =
        "SELECT NOT active FROM pg_replication_slots WHERE slot_name = tidewire.slot_name()";
    fixture.until(unread).await;
    fixture.run(DROP).await;
    fixture.run("UPDATE kept SET v = 'changed' WHERE id = 3").await;
    fixture.run("DELETE FROM kept WHERE id IN (2, 4)").await;
    fixture.run("INSERT INTO kept VALUES (8, 'h'); INSERT INTO kept VALUES (9, 'i')").await;
    fixture.run("DELETE FROM kept WHERE id = 9; UPDATE kept SET id = 70 WHERE id = 7").await;
    fixture.run("DELETE FROM bag WHERE a = 2; INSERT INTO bag VALUES (3), (3)").await;
    fixture.run("SELECT tidewire.publish('doc', '1')").await;
    let last = fixture.number("SELECT max(c_offset) FROM tidewire.log").await;
    fixture.capture(reading("b"));
    fixture.caught_up().await;
    let log = fixture.log().await;
    let found: Vec<_> = log.iter().filter(|event| event.offset > last).collect();
    let told: Vec<_> =
        found.iter().filter(|event| event.control.as_deref() == Some("schema")).collect();
    assert_eq!(told.len(), 2, "subscribers of both tables are told");
    assert!(
        told[0].payload.as_deref().is_some_and(|text| text.contains("capture was interrupted"))
    );
    let mut changes: Vec<_> = found
        .iter()
        .filter(|event| event.table.as_deref() == Some("kept"))
        .map(|event| (event.operation.as_deref(), event.entity_id.as_deref()))
        .collect();
    changes.sort_unstable();
    // The row 2 was never in the log, so that nobody can miss it; 9 came and went.
    let expected = [
        (Some("DELETE"), Some("4")),
        (Some("DELETE"), Some("7")),
        (Some("INSERT"), Some("70")),
        (Some("INSERT"), Some("8")),
        (Some("UPDATE"), Some("3")),
    ];
    assert_eq!(changes, expected);
    let update = found.iter().find(|event| event.operation.as_deref() == Some("UPDATE"));
    let update = update.expect("there is one");
    assert_eq!(update.before, Some(json!({"id": 3, "v": "c"})));
    assert_eq!(update.after, Some(json!({"id": 3, "v": "changed"})));
    let mut bag: Vec<_> = found
        .iter()
        .filter(|event| event.table.as_deref() == Some("bag"))
        .map(|event| (event.operation.as_deref(), event.entity_id.as_deref()))
        .collect();
    bag.sort_unstable();
    let three = Some("{\"a\": 3}");
    let expected =
        [(Some("DELETE"), Some("{\"a\": 2}")), (Some("INSERT"), three), (Some("INSERT"), three)];
    assert_eq!(bag, expected);
    assert_eq!(
        found.iter().filter(|event| event.stream == "doc").count(),
        2,
        "made, and appended to"
    );
    // From there on it is read as before.
    fixture.run("DELETE FROM kept WHERE id = 1").await;
    fixture.caught_up().await;
    let log = fixture.log().await;
    let last = log.last().expect("an event");
    assert_eq!((last.operation.as_deref(), last.entity_id.as_deref()), (Some("DELETE"), Some("1")));
    fixture.tear_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_keeps_too_much_is_given_up_and_nothing_is_lost() {
    let mut options = reading("a");
    options.wal.max_bytes = 48 << 20;
    let fixture = Fixture::start_with(options).await;
    fixture.until("SELECT mode = 'wal' FROM tidewire.capture").await;
    fixture.run("CREATE TABLE kept (id int PRIMARY KEY)").await;
    fixture.run("SELECT tidewire.watch('kept')").await;
    fixture.run("INSERT INTO kept VALUES (1)").await;
    fixture.caught_up().await;
    // A transaction that goes on keeps the server from letting go of what was written since it began.
    let long = fixture.database.connect().await;
    long.batch_execute("BEGIN; CREATE TABLE held (x text)").await.expect("a long transaction");
    fixture.run("INSERT INTO kept VALUES (2)").await;
    let bulk = "INSERT INTO held SELECT repeat(n::text, 200) FROM generate_series(1, 100000) AS n";
    long.batch_execute(bulk).await.expect("much is written");
    fixture
        .until(
            "SELECT EXISTS (SELECT FROM tidewire.log WHERE control = 'schema'
                AND convert_from(payload, 'UTF8') LIKE '%wal.keep_bytes_max%')
             OR (SELECT repairing IS NOT NULL FROM tidewire.capture)",
        )
        .await;
    long.batch_execute("ROLLBACK").await.expect("it ends");
    fixture.run("INSERT INTO kept VALUES (3)").await;
    fixture.caught_up().await;
    let expected: Vec<String> = ["1", "2", "3"].map(ToOwned::to_owned).to_vec();
    let found: Vec<String> = fixture.changes().await.into_iter().map(|(_, id)| id).collect();
    assert_eq!(found, expected);
    fixture.tear_down().await;
}

/// PostgreSQL 18, on which this is run too, has generated columns that are not stored, and cannot publish
/// them: whoever writes to such a table must not be the one who finds out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_with_a_virtual_generated_column_is_refused() {
    let fixture = Fixture::start_with_wal().await;
    if fixture.number("SELECT current_setting('server_version_num')::bigint").await >= 180_000 {
        let table =
            "CREATE TABLE sums (id int PRIMARY KEY, g int GENERATED ALWAYS AS (id) VIRTUAL)";
        fixture.run(table).await;
        let refused = fixture.sql.batch_execute("SELECT tidewire.watch('sums')").await;
        let said = format!("{:?}", refused.expect_err("it is refused"));
        assert!(said.contains("it has a virtual generated column"), "{said}");
        fixture.run("INSERT INTO sums VALUES (1); UPDATE sums SET id = 2").await;
    }
    fixture.tear_down().await;
}
