//! Watched tables that are altered, renamed and dropped: subscribers are told, and nothing stops.

use serde_json::json;

use crate::fixture::Fixture;

async fn watched(table: &str) -> Fixture {
    let fixture = Fixture::start().await;
    fixture.run(table).await;
    fixture.run("SELECT tidewire.watch('orders')").await;
    fixture
}

#[tokio::test]
async fn columns_that_come_and_go_are_told_and_captured_at_once() {
    let fixture = watched("CREATE TABLE orders (id int PRIMARY KEY, note text)").await;
    let change = "ALTER TABLE orders ADD COLUMN picture bytea;
        ALTER TABLE orders ADD COLUMN twice int GENERATED ALWAYS AS (id * 2) STORED;
        ALTER TABLE orders RENAME COLUMN id TO number;
        INSERT INTO orders VALUES (1, 'a', '\\x00ff')";
    fixture.run(change).await;
    fixture.caught_up().await;
    let log = fixture.log().await;
    let inserted = log.iter().find(|event| event.operation.is_some()).expect("an event");
    let image = json!({"number": 1, "note": "a", "picture": "AP8="});
    assert_eq!(inserted.after.as_ref(), Some(&image));
    assert_eq!(inserted.entity_id.as_deref(), Some("1"));
    let what = fixture.told(1).await.concat();
    for said in ["column picture was added (bytea)", "column id was renamed to number"] {
        assert!(what.contains(said), "{what}");
    }
    let keys = "SELECT array_to_string(key_columns, ',') FROM tidewire.watches";
    assert_eq!(fixture.text(keys).await, "number");
    fixture.run("ALTER TABLE orders DROP COLUMN note").await;
    let what = fixture.told(2).await;
    assert_eq!(what.last().map(String::as_str), Some(r#"{"what": "column note was dropped"}"#));
    fixture.tear_down().await;
}

#[tokio::test]
async fn a_renamed_table_keeps_its_stream() {
    let fixture = watched("CREATE TABLE orders (id int PRIMARY KEY)").await;
    fixture.run("ALTER TABLE orders RENAME TO purchases").await;
    let what = fixture.told(1).await.concat();
    assert_eq!(what, r#"{"what": "the table was renamed to purchases"}"#);
    fixture.run("INSERT INTO purchases VALUES (1)").await;
    fixture.caught_up().await;
    let log = fixture.log().await;
    let last = log.last().expect("an event");
    assert_eq!((last.stream.as_str(), last.table.as_deref()), ("table/orders", Some("orders")));
    fixture.run("CREATE TABLE orders (id int PRIMARY KEY)").await;
    let taken = fixture.sql.batch_execute("SELECT tidewire.watch('orders')").await;
    let taken = taken.expect_err("the name is taken").as_db_error().cloned().expect("it says so");
    assert_eq!(taken.message(), "another table is watched under the name orders");
    fixture.run("SELECT tidewire.unwatch('purchases'); SELECT tidewire.watch('orders')").await;
    fixture.run("INSERT INTO purchases VALUES (2); INSERT INTO orders VALUES (3)").await;
    fixture.caught_up().await;
    let entities = fixture.changes().await.into_iter().map(|(_, entity)| entity);
    assert_eq!(entities.collect::<Vec<_>>(), ["1", "3"]);
    fixture.tear_down().await;
}

#[tokio::test]
async fn a_dropped_table_ends_its_stream() {
    let fixture = watched("CREATE TABLE orders (id int PRIMARY KEY)").await;
    fixture.run("INSERT INTO orders VALUES (1); DROP TABLE orders").await;
    fixture.until("SELECT count(*) = 0 FROM tidewire.watches").await;
    fixture.caught_up().await;
    let log = fixture.log().await;
    let controls: Vec<_> = log.iter().map(|event| event.control.as_deref()).collect();
    assert_eq!(controls, [Some("create"), None, Some("delete")]);
    assert_eq!(fixture.number("SELECT count(*) FROM tidewire.streams").await, 0);
    assert_eq!(fixture.number("SELECT count(*) FROM tidewire.stream_purges").await, 1);
    fixture.run("CREATE TABLE orders (id int PRIMARY KEY)").await;
    fixture.run("SELECT tidewire.watch('orders'); INSERT INTO orders VALUES (2)").await;
    fixture.caught_up().await;
    assert_eq!(fixture.log().await.len(), 5);
    fixture.tear_down().await;
}
