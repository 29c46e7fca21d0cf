//! A client that was away comes back with its offset, and is told what it missed: by changes where they
//! say all of it, else with all rows.

use serde_json::{Value, json};
use tidewire_stories::query_tab::run;
use tidewire_stories::wait::within_patience;
use tidewire_stories::{Launch, Nodes, QueryTab, Store, on_both_stores};

use crate::live_queries::orders;

on_both_stores!(
    a_filter_goes_on_on_any_node,
    what_changes_cannot_tell_is_told_by_all_rows,
    an_offset_of_nowhere_is_no_error,
);

const SELECT: &str = "SELECT id, total FROM orders WHERE status = 'open'";

fn from(offset: Option<&str>, etag: &Value) -> Value {
    json!({ "query_id": "q", "sql": SELECT, "offset": offset, "etag": etag })
}

async fn a_filter_goes_on_on_any_node(store: Store) {
    let nodes = Nodes::of(&store, &[]).await;
    let http = nodes.http(0);
    orders(http).await;
    run(http, "INSERT INTO orders VALUES (1,'ann','open',1),(2,'ann','open',2)").await;
    let mut tab = QueryTab::open(http).await;
    let entry = tab.follow(&from(None, &Value::Null)).await;
    for round in 0..3_i64 {
        let offset = tab.offset("q").expect("an offset").to_owned();
        let id = 10 + round;
        run(http, &format!("INSERT INTO orders VALUES ({id},'ann','open',0)")).await;
        run(http, &format!("UPDATE orders SET total = total + 1 WHERE id = {id}")).await;
        run(http, "UPDATE orders SET status = 'paid' WHERE id = 1").await;
        let last = nodes.https().len() - 1;
        let mut back = QueryTab::open(nodes.http(last)).await;
        back.inherit(&mut tab, "q");
        back.ask(&[from(Some(&offset), &entry["etag"])]).await;
        let created = back.hear_until("subscription_created").await;
        let created = &created["subscriptions"][0];
        assert_eq!((&created["reset"], created.get("initial_results")), (&json!(false), None));
        back.until_as_run(http, "q", SELECT, false).await;
        tab = back;
    }
    run(http, "DELETE FROM orders").await;
    tab.until("q", &[]).await;
}

async fn what_changes_cannot_tell_is_told_by_all_rows(store: Store) {
    let server = Launch::dev(&store).set("TIDEWIRE_QUERIES_RESUME_EVENTS_MAX", "5").start().await;
    let http = server.http();
    orders(http).await;
    let mut tab = QueryTab::open(http).await;
    let etag = tab.follow(&from(None, &Value::Null)).await["etag"].clone();
    let offset = tab.offset("q").expect("an offset").to_owned();
    let other = tab.follow(&from(Some(&offset), &json!("another"))).await;
    assert_eq!(other["reset"], true, "another query's rows: {other}");
    run(http, "INSERT INTO orders SELECT 100 + id, 'ann', 'open', 0 FROM orders").await;
    for id in 0..7 {
        run(http, &format!("INSERT INTO orders VALUES ({id},'ann','open',0)")).await;
    }
    let far = tab.follow(&from(Some(&offset), &etag)).await;
    assert_eq!(far["reset"], true, "more has happened than is told again: {far}");
    assert_eq!(tab.rows("q").len(), 7);
    let offset = tab.offset("q").expect("an offset").to_owned();
    run(http, "ALTER TABLE orders ADD COLUMN note TEXT").await;
    // The database tells of it a little later.
    let altered = async { while tab.follow(&from(Some(&offset), &etag)).await["reset"] != true {} };
    within_patience("all rows of a table that is another", altered).await;
    let largest = json!({ "query_id": "w", "sql": "SELECT id FROM orders ORDER BY id LIMIT 1" });
    tab.follow(&largest).await;
    let offset = tab.offset("w").expect("an offset").to_owned();
    let mut again = largest.clone();
    again["offset"] = offset.into();
    let window = tab.follow(&again).await;
    assert_eq!(window["reset"], true, "a window is more than its changes: {window}");
}

async fn an_offset_of_nowhere_is_no_error(store: Store) {
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    orders(http).await;
    run(http, "INSERT INTO orders VALUES (1,'ann','open',1)").await;
    let mut tab = QueryTab::open(http).await;
    for offset in ["0009_0000000000000001", "0001_9999999999999999", "0001_0000000000000000"] {
        let created = tab.follow(&from(Some(offset), &Value::Null)).await;
        if created.get("initial_results").is_some() {
            assert_eq!(created["reset"], true, "{created}");
        }
        tab.until("q", &[json!({ "id": 1, "total": 1 })]).await;
    }
    tab.ask(&[from(Some("yesterday"), &Value::Null)]).await;
    assert_eq!(tab.hear_until("error").await["code"], "malformed_offset");
}
