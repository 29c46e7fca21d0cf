//! Which events the changes of rows become.

use serde_json::json;

use crate::stage::Stage;

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(operation, entity): &(&str, &str)| ((*operation).into(), (*entity).into());
    expected.iter().map(owned).collect()
}

#[tokio::test]
async fn changes_reach_the_log_with_both_images() {
    let stage = Stage::set().await;
    stage.run("CREATE TABLE orders (id int PRIMARY KEY, note text)").await;
    stage.run("SELECT tidewire.watch('orders')").await;
    stage.run("INSERT INTO orders VALUES (1, 'a'), (2, 'b')").await;
    stage.run("UPDATE orders SET id = 3, note = 'c' WHERE id = 1; DELETE FROM orders").await;
    stage.run("TRUNCATE orders").await;
    stage.caught_up().await;
    let log = stage.log().await;
    assert_eq!(log[0].control.as_deref(), Some("create"));
    assert!(log.iter().all(|event| event.stream == "table/orders"));
    let offsets: Vec<i64> = log.iter().map(|event| event.offset).collect();
    assert_eq!(offsets, (1..=7).collect::<Vec<i64>>(), "there are no gaps");
    assert_eq!(log[3].before, Some(json!({"id": 1, "note": "a"})));
    assert_eq!(log[3].after, Some(json!({"id": 3, "note": "c"})));
    let expected = [
        ("INSERT", "1"),
        ("INSERT", "2"),
        ("UPDATE", "3"),
        ("DELETE", "2"),
        ("DELETE", "3"),
        ("TRUNCATE", ""),
    ];
    assert_eq!(stage.changes().await, pairs(&expected));
    let last: Vec<bool> = log.iter().map(|event| event.tx_last).collect();
    assert_eq!(last, [true, false, true, false, false, true, true]);
    stage.strike().await;
}
