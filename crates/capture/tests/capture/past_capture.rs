//! What changes a watched table past row triggers and the write-ahead log is noticed, told and repaired, whichever
//! way changes are captured.

use std::time::Duration;

use tidewire_capture::CaptureOptions;
use tidewire_store::Watches as _;

use crate::fixture::{Fixture, quick, reading};

/// The first row is committed before the table is watched: what the watch's own transaction has written may count
/// as new.
const PARTS: &str = "BEGIN; CREATE TABLE parts (id int, day date, v text, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
    CREATE TABLE jan PARTITION OF parts FOR VALUES FROM ('2024-01-01') TO ('2024-02-01');
    CREATE TABLE feb PARTITION OF parts FOR VALUES FROM ('2024-02-01') TO ('2024-03-01');
    INSERT INTO parts VALUES (100, '2024-01-31', 'there before'); COMMIT;
    SELECT tidewire.watch('parts');
    INSERT INTO parts VALUES (1, '2024-01-05', 'a'), (2, '2024-02-05', 'b'), (3, '2024-02-06', 'c')";

/// The changes from an offset on: operation, and the first column of the key.
async fn changes_after(fixture: &Fixture, offset: i64) -> Vec<String> {
    let changes = fixture.log().await.into_iter().filter(|event| event.offset > offset);
    let words = changes.filter_map(|event| {
        let image = event.after.or(event.before).unwrap_or_default();
        Some(format!("{} {}", event.operation?, image["id"]))
    });
    words.collect()
}

async fn tip(fixture: &Fixture) -> i64 {
    fixture.caught_up().await;
    fixture.number("SELECT max(c_offset) FROM tidewire.log").await
}

#[tokio::test]
async fn a_partition_that_is_emptied_tells_of_each_row_in_its_place() {
    for options in [quick("a"), reading("a")] {
        let fixture = Fixture::start_begun(options).await;
        fixture.run(PARTS).await;
        let from = tip(&fixture).await;
        fixture
            .run("BEGIN; SELECT tidewire.set_actor('ann', 'acme'); UPDATE parts SET v = 'x' WHERE id = 1;
                  TRUNCATE jan; INSERT INTO parts VALUES (4, '2024-01-07', 'd'); COMMIT")
            .await;
        fixture.caught_up().await;
        let mut changes = changes_after(&fixture, from).await;
        changes[1..3].sort();
        assert_eq!(changes, ["UPDATE 1", "DELETE 1", "DELETE 100", "INSERT 4"]);
        let log = fixture.log().await;
        let of_it: Vec<_> = log.iter().filter(|event| event.offset > from).collect();
        assert!(of_it.iter().all(|event| event.txid == of_it[0].txid), "one transaction");
        assert!(of_it.iter().all(|event| event.user.as_deref() == Some("ann")));
        let from = tip(&fixture).await;
        fixture.run("TRUNCATE parts").await;
        fixture.caught_up().await;
        assert_eq!(
            changes_after(&fixture, from).await,
            ["TRUNCATE null"],
            "the whole is one event"
        );
        fixture.tear_down().await;
    }
}

#[tokio::test]
async fn partitions_that_go_and_come_are_told_as_differences() {
    for options in [quick("a"), reading("a")] {
        let fixture = Fixture::start_begun(options).await;
        fixture.run(PARTS).await;
        let from = tip(&fixture).await;
        fixture.run("ALTER TABLE parts DETACH PARTITION feb").await;
        let what = fixture.told(1).await;
        assert!(what[0].contains("feb is no partition of it any more"), "{what:?}");
        let mut changes = changes_after(&fixture, from).await;
        changes.sort();
        assert_eq!(changes, ["DELETE 2", "DELETE 3"]);
        let left = "SELECT count(*) FROM pg_trigger WHERE tgname LIKE '!tidewire%' AND tgrelid = 'feb'::regclass";
        assert_eq!(fixture.number(left).await, 0, "it is an ordinary table");

        let from = tip(&fixture).await;
        fixture.run("UPDATE feb SET v = 'changed' WHERE id = 3").await;
        fixture
            .run("ALTER TABLE parts ATTACH PARTITION feb FOR VALUES FROM ('2024-02-01') TO ('2024-03-01')")
            .await;
        let what = fixture.told(2).await;
        assert!(what[1].contains("feb came as a partition. Its rows follow"), "{what:?}");
        let mut changes = changes_after(&fixture, from).await;
        changes.sort();
        assert_eq!(changes, ["INSERT 2", "INSERT 3"]);

        let from = tip(&fixture).await;
        fixture.run("DROP TABLE feb").await;
        let what = fixture.told(3).await;
        assert!(what[2].contains("feb is no partition of it any more"), "{what:?}");
        let mut changes = changes_after(&fixture, from).await;
        changes.sort();
        assert_eq!(changes, ["DELETE 2", "DELETE 3"]);
        fixture.tear_down().await;
    }
}

/// Of very many rows the writer does not wait for each: whoever follows the table is told to read it again, and
/// what the log knows of is told behind that.
#[tokio::test]
async fn a_large_partition_that_is_emptied_is_told_and_compared() {
    for options in [quick("a"), reading("a")] {
        let fixture = Fixture::start_begun(options).await;
        fixture.run(PARTS).await;
        // 10,000 rows are told one by one.
        fixture
            .run("INSERT INTO parts SELECT n, '2024-02-10', 'many' FROM generate_series(1001, 10998) AS n")
            .await;
        let from = tip(&fixture).await;
        fixture.run("TRUNCATE feb").await;
        fixture.caught_up().await;
        assert_eq!(changes_after(&fixture, from).await.len(), 10_000);
        let told = "SELECT count(*) FROM tidewire.log WHERE control = 'schema'";
        assert_eq!(fixture.number(told).await, 0, "nobody has to read it again");

        fixture
            .run("INSERT INTO parts SELECT n, '2024-02-10', 'many' FROM generate_series(1001, 11001) AS n")
            .await;
        let from = tip(&fixture).await;
        fixture.run("TRUNCATE feb").await;
        let what = fixture.told(2).await;
        assert!(what[0].contains("TRUNCATE emptied the partition feb of it: read"), "{what:?}");
        assert!(what[1].contains("What is different follows"), "{what:?}");
        fixture.until("SELECT NOT EXISTS (SELECT FROM tidewire.repairs)").await;
        fixture.caught_up().await;
        let mut changes = changes_after(&fixture, from).await;
        changes.sort();
        changes.dedup();
        assert_eq!(changes.len(), 10_001, "each of them, once");
        assert!(changes.iter().all(|change| change.starts_with("DELETE ")), "{changes:?}");
        let view = fixture.store.capture().await.expect("a view");
        assert_eq!(view.repairs[0].events, Some(10_001));
        let from = tip(&fixture).await;
        fixture.run("INSERT INTO parts VALUES (4, '2024-02-07', 'd')").await;
        fixture.caught_up().await;
        assert_eq!(changes_after(&fixture, from).await, ["INSERT 4"], "it is followed as before");
        fixture.tear_down().await;
    }
}

/// Writers of a table wait only so long for it to be compared.
#[tokio::test]
async fn a_table_that_takes_too_long_to_compare_is_to_be_read_again() {
    for options in [quick("a"), reading("a")] {
        let options = CaptureOptions { compare_max: Duration::from_millis(1), ..options };
        let fixture = Fixture::start_begun(options).await;
        fixture.run(PARTS).await;
        fixture
            .run("INSERT INTO parts SELECT n, '2024-02-10', 'many' FROM generate_series(1001, 6000) AS n")
            .await;
        let from = tip(&fixture).await;
        fixture.run("ALTER TABLE parts DETACH PARTITION feb").await;
        let what = fixture.told(1).await;
        assert!(what[0].contains("feb is no partition of it any more"), "{what:?}");
        assert!(
            what[0].contains("could not be found out in time: read the table again"),
            "{what:?}"
        );
        fixture.run("INSERT INTO parts VALUES (4, '2024-01-07', 'd')").await;
        fixture.caught_up().await;
        assert_eq!(changes_after(&fixture, from).await, ["INSERT 4"], "no difference is made up");
        let view = fixture.store.capture().await.expect("a view");
        let repair = view.repairs.first().expect("it is shown");
        assert_eq!((repair.table.as_str(), repair.events), ("parts", None), "{repair:?}");
        assert_eq!(fixture.told(1).await.len(), 1, "it is told once");
        fixture.tear_down().await;
    }
}

#[tokio::test]
async fn a_partition_that_is_made_and_written_to_is_no_news() {
    for options in [quick("a"), reading("a")] {
        let fixture = Fixture::start_begun(options).await;
        fixture.run(PARTS).await;
        let from = tip(&fixture).await;
        fixture
            .run("CREATE TABLE mar PARTITION OF parts FOR VALUES FROM ('2024-03-01') TO ('2024-04-01');
                  INSERT INTO parts VALUES (5, '2024-03-05', 'e')")
            .await;
        let known =
            "SELECT shape -> 'partitions' ? 'mar'::regclass::oid::text FROM tidewire.watches";
        fixture.until(known).await;
        fixture.run("TRUNCATE mar").await;
        fixture.caught_up().await;
        assert_eq!(changes_after(&fixture, from).await, ["INSERT 5", "DELETE 5"]);
        let told = "SELECT count(*) FROM tidewire.log WHERE control = 'schema'";
        assert_eq!(fixture.number(told).await, 0, "nobody is told to begin anew");
        fixture.tear_down().await;
    }
}

#[tokio::test]
async fn disabled_triggers_are_noticed_and_what_was_missed_is_told() {
    let fixture = Fixture::start().await;
    fixture.run("CREATE TABLE orders (id int PRIMARY KEY, v text); INSERT INTO orders VALUES (50, 'before')").await;
    fixture.run("SELECT tidewire.watch('orders'); INSERT INTO orders VALUES (1, 'a'), (2, 'b'), (3, 'c')").await;
    fixture.caught_up().await;
    // What pg_restore --disable-triggers does.
    fixture.run("ALTER TABLE orders DISABLE TRIGGER ALL").await;
    fixture.run("INSERT INTO orders VALUES (4, 'd'); UPDATE orders SET v = 'x' WHERE id = 1").await;
    fixture.run("DELETE FROM orders WHERE id = 2").await;
    fixture.run("ALTER TABLE orders ENABLE TRIGGER ALL").await;
    let what = fixture.told(1).await;
    assert!(what[0].contains("triggers that capture its changes were disabled"), "{what:?}");
    fixture.until("SELECT tidewire.is_armed('orders'::regclass)").await;
    fixture.run("INSERT INTO orders VALUES (5, 'e')").await;
    fixture.caught_up().await;
    let sql = "SELECT string_agg(id || v, ',' ORDER BY id) FROM (
            SELECT DISTINCT ON (entity_id) entity_id::int AS id, after_data ->> 'v' AS v FROM tidewire.log
            WHERE control IS NULL ORDER BY entity_id, c_offset DESC
        ) AS known WHERE v IS NOT NULL";
    assert_eq!(fixture.text(sql).await, "1x,3c,4d,5e", "the log knows what is there");
    let changes = fixture.changes().await;
    let of = |id: &str| changes.iter().filter(|(_, entity)| entity == id).count();
    assert_eq!([of("3"), of("4"), of("50")], [1, 1, 0], "each is told once: {changes:?}");
    let view = fixture.store.capture().await.expect("a view");
    let repair = view.repairs.first().expect("it is shown");
    assert_eq!(repair.table, "orders");
    assert!(repair.why.contains("disabled"), "{repair:?}");
    assert!(repair.events.is_some_and(|events| events >= 1), "{repair:?}");
    fixture.tear_down().await;
}

#[tokio::test]
async fn a_table_that_is_taken_out_of_the_publication_is_put_back_and_compared() {
    let fixture = Fixture::start_with_wal().await;
    fixture
        .run("CREATE TABLE orders (id int PRIMARY KEY, v text); SELECT tidewire.watch('orders')")
        .await;
    fixture.run("INSERT INTO orders VALUES (1, 'a')").await;
    fixture.caught_up().await;
    fixture
        .run(
            "BEGIN; ALTER PUBLICATION tidewire_tables DROP TABLE orders; UPDATE orders SET v = 'b';
              INSERT INTO orders VALUES (2, 'c'); COMMIT",
        )
        .await;
    let what = fixture.told(1).await;
    assert!(what[0].contains("taken out of the publication"), "{what:?}");
    fixture.run("INSERT INTO orders VALUES (3, 'd')").await;
    fixture.caught_up().await;
    let sql = "SELECT string_agg(id || v, ',' ORDER BY id) FROM (
            SELECT DISTINCT ON (entity_id) entity_id::int AS id, after_data ->> 'v' AS v FROM tidewire.log
            WHERE control IS NULL ORDER BY entity_id, c_offset DESC
        ) AS known WHERE v IS NOT NULL";
    assert_eq!(fixture.text(sql).await, "1b,2c,3d");
    fixture.tear_down().await;
}

#[tokio::test]
async fn other_names_inside_of_types_are_told() {
    let fixture = Fixture::start().await;
    fixture
        .run("CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE DOMAIN feeling AS mood;
              CREATE TYPE place AS (x int, m mood[]);
              CREATE TABLE t (id int PRIMARY KEY, f feeling[]); CREATE TABLE u (id int PRIMARY KEY, p place);
              SELECT tidewire.watch('t'); SELECT tidewire.watch('u')")
        .await;
    fixture.caught_up().await;
    fixture.run("ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'").await;
    let what = fixture.told(2).await;
    let said = "has the label 'blue' instead of 'sad'";
    assert!(what.iter().all(|what| what.contains(said)), "{what:?}");
    fixture.run("ALTER TYPE mood ADD VALUE 'fine'").await;
    let known = "SELECT bool_and(shape ->> 'types' LIKE '%fine%') FROM tidewire.watches";
    fixture.until(known).await;
    fixture.caught_up().await;
    assert_eq!(fixture.told(2).await.len(), 2, "another label changes no row");
    fixture.run("ALTER TYPE place RENAME ATTRIBUTE x TO y").await;
    let what = fixture.told(3).await;
    assert!(what[2].contains("has the field y integer instead of x integer"), "{what:?}");
    fixture.tear_down().await;
}
