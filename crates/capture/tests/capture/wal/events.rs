//! Which events come of it.

use serde_json::json;

use crate::fixture::Fixture;

#[tokio::test]
async fn changes_reach_the_log_with_both_images() {
    let fixture = Fixture::start_with_wal().await;
    fixture.run("CREATE TABLE orders (id int PRIMARY KEY, note text)").await;
    fixture.run("SELECT tidewire.watch('orders')").await;
    fixture.run("INSERT INTO orders VALUES (1, 'a'), (2, 'b')").await;
    fixture.run("UPDATE orders SET id = 3, note = 'c' WHERE id = 1; DELETE FROM orders").await;
    fixture.run("TRUNCATE orders").await;
    fixture.caught_up().await;
    let log = fixture.log().await;
    assert_eq!(log[0].control.as_deref(), Some("create"));
    let offsets: Vec<i64> = log.iter().map(|event| event.offset).collect();
    assert_eq!(offsets, (1..=7).collect::<Vec<i64>>(), "there are no gaps");
    assert_eq!(log[3].before, Some(json!({"id": 1, "note": "a"})));
    assert_eq!(log[3].after, Some(json!({"id": 3, "note": "c"})));
    let operations: Vec<&str> = log.iter().filter_map(|event| event.operation.as_deref()).collect();
    assert_eq!(operations, ["INSERT", "INSERT", "UPDATE", "DELETE", "DELETE", "TRUNCATE"]);
    let last: Vec<bool> = log.iter().map(|event| event.tx_last).collect();
    assert_eq!(last, [true, false, true, false, false, true, true]);
    fixture.tear_down().await;
}
