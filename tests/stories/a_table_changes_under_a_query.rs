//! Tables are altered, emptied and dropped while queries follow them.

use serde_json::json;
use tidewire_stories::query_tab::{run, watch};
use tidewire_stories::{Launch, QueryTab, Store, on_both_stores};

use crate::live_queries::orders;

on_both_stores!(
    a_query_outlives_columns_that_it_does_not_name,
    a_query_ends_with_a_column_that_it_names,
    an_emptied_table_is_told,
    a_dropped_table_ends_its_queries,
);

async fn a_query_outlives_columns_that_it_does_not_name(store: Store) {
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    orders(http).await;
    run(http, "INSERT INTO orders VALUES (1,'ann','open',1)").await;
    let mut tab = QueryTab::open(http).await;
    let selects = [
        ("filter", "SELECT id, total FROM orders WHERE status = 'open'", false),
        ("window", "SELECT id, total FROM orders ORDER BY total, id LIMIT 3", true),
        ("groups", "SELECT status, count(*) AS n FROM orders GROUP BY status", false),
        ("requery", "SELECT a.id FROM orders a JOIN orders b ON a.id = b.id", false),
    ];
    for (name, sql, _) in selects {
        tab.follow(&json!({ "query_id": name, "sql": sql })).await;
    }
    run(http, "ALTER TABLE orders ADD COLUMN note TEXT DEFAULT 'n'").await;
    run(http, "INSERT INTO orders VALUES (2,'bob','open',2,'x')").await;
    run(http, "ALTER TABLE orders DROP COLUMN owner").await;
    run(http, "UPDATE orders SET total = total + 10").await;
    for (name, sql, ordered) in selects {
        tab.until_as_run(http, name, sql, ordered).await;
    }
}

async fn a_query_ends_with_a_column_that_it_names(store: Store) {
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    orders(http).await;
    let mut tab = QueryTab::open(http).await;
    tab.follow(&json!({ "query_id": "q", "sql": "SELECT id, total FROM orders" })).await;
    tab.follow(&json!({ "query_id": "other", "sql": "SELECT id FROM orders" })).await;
    run(http, "ALTER TABLE orders DROP COLUMN total").await;
    run(http, "INSERT INTO orders VALUES (1,'ann','open')").await;
    let ended = tab.hear_until("subscription_ended").await;
    assert_eq!((&ended["query_id"], &ended["reason"]), (&json!("q"), &json!("schema_changed")));
    tab.until("other", &[json!({ "id": 1 })]).await;
}

async fn an_emptied_table_is_told(store: Store) {
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    orders(http).await;
    run(http, "INSERT INTO orders VALUES (1,'ann','open',1),(2,'ann','open',2)").await;
    let mut tab = QueryTab::open(http).await;
    let selects = [
        ("filter", "SELECT id FROM orders", false),
        ("window", "SELECT id FROM orders ORDER BY id LIMIT 3", true),
        ("groups", "SELECT count(*) AS n FROM orders", false),
        ("requery", "SELECT a.id FROM orders a JOIN orders b ON a.id = b.id", false),
    ];
    for (name, sql, _) in selects {
        tab.follow(&json!({ "query_id": name, "sql": sql })).await;
    }
    let empty = match store {
        Store::Sqlite { .. } => "DELETE FROM orders",
        Store::Postgres { .. } => "TRUNCATE orders",
    };
    run(http, empty).await;
    for (name, sql, ordered) in selects {
        tab.until_as_run(http, name, sql, ordered).await;
    }
    run(http, "INSERT INTO orders VALUES (3,'ann','open',3)").await;
    for (name, sql, ordered) in selects {
        tab.until_as_run(http, name, sql, ordered).await;
    }
}

async fn a_dropped_table_ends_its_queries(store: Store) {
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    orders(http).await;
    run(http, "CREATE TABLE others (id INTEGER PRIMARY KEY)").await;
    watch(http, &json!({ "table": "others" })).await;
    let mut tab = QueryTab::open(http).await;
    let join = "SELECT o.id FROM orders o JOIN others x ON o.id = x.id";
    tab.follow(&json!({ "query_id": "q", "sql": "SELECT id FROM orders" })).await;
    tab.follow(&json!({ "query_id": "join", "sql": join })).await;
    tab.follow(&json!({ "query_id": "others", "sql": "SELECT id FROM others" })).await;
    run(http, "DROP TABLE orders").await;
    let mut ended = Vec::new();
    while ended.len() < 2 {
        let message = tab.hear_until("subscription_ended").await;
        assert_eq!(message["reason"], "table_gone", "{message}");
        ended.push(message["query_id"].as_str().expect("a name").to_owned());
    }
    ended.sort_unstable();
    assert_eq!(ended, ["join", "q"]);
    run(http, "INSERT INTO others VALUES (1)").await;
    tab.until("others", &[json!({ "id": 1 })]).await;
}

/// Only PostgreSQL changes a column's type in place.
#[tokio::test(flavor = "multi_thread")]
async fn a_query_outlives_a_type_that_it_can_live_with() {
    let store = Store::postgres().await;
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    orders(http).await;
    run(http, "INSERT INTO orders VALUES (1,'ann','open',1),(2,'ann','open',9)").await;
    let mut tab = QueryTab::open(http).await;
    let filter = "SELECT id FROM orders WHERE total > 5";
    let again = "SELECT id FROM orders WHERE abs(total) > 5";
    for (name, sql) in [
        ("filter", filter),
        ("again", again),
        ("shown", "SELECT id, total FROM orders"),
        ("typed", "SELECT id FROM orders WHERE lower(status) = 'open'"),
    ] {
        tab.follow(&json!({ "query_id": name, "sql": sql })).await;
    }
    run(http, "ALTER TABLE orders ALTER COLUMN total TYPE bigint").await;
    run(http, "INSERT INTO orders VALUES (3,'ann','open',6000000000)").await;
    let ended = tab.hear_until("subscription_ended").await;
    assert_eq!((&ended["query_id"], &ended["reason"]), (&json!("shown"), &json!("schema_changed")));
    tab.until_as_run(http, "filter", filter, false).await;
    tab.until_as_run(http, "again", again, false).await;
    run(http, "ALTER TABLE orders ALTER COLUMN status TYPE integer USING 1").await;
    run(http, "INSERT INTO orders VALUES (4,'ann',2,7000000000)").await;
    let ended = tab.hear_until("subscription_ended").await;
    assert_eq!((&ended["query_id"], &ended["reason"]), (&json!("typed"), &json!("schema_changed")));
    tab.until_as_run(http, "filter", filter, false).await;
    tab.until_as_run(http, "again", again, false).await;
}

/// Only PostgreSQL has enums, and partitions.
#[tokio::test(flavor = "multi_thread")]
async fn a_query_sees_what_changes_a_table_past_its_rows() {
    let store = Store::postgres().await;
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    run(http, "CREATE TYPE mood AS ENUM ('sad', 'ok')").await;
    run(http, "CREATE TABLE days (id int PRIMARY KEY, m mood) PARTITION BY RANGE (id)").await;
    run(http, "CREATE TABLE low PARTITION OF days FOR VALUES FROM (0) TO (10)").await;
    run(http, "CREATE TABLE high PARTITION OF days FOR VALUES FROM (10) TO (20)").await;
    run(http, "INSERT INTO days VALUES (1,'sad'),(2,'ok'),(11,'sad'),(12,'ok')").await;
    watch(http, &json!({ "table": "days" })).await;
    let mut tab = QueryTab::open(http).await;
    let selects = [
        ("filter", "SELECT id, m FROM days", false),
        ("window", "SELECT id, m FROM days ORDER BY id LIMIT 3", true),
        ("groups", "SELECT m, count(*) AS n FROM days GROUP BY m", false),
        ("requery", "SELECT a.id, a.m FROM days a JOIN days b ON a.id = b.id", false),
    ];
    for (name, sql, _) in selects {
        tab.follow(&json!({ "query_id": name, "sql": sql })).await;
    }
    for change in [
        "ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'",
        "INSERT INTO days VALUES (3,'blue')",
        "ALTER TABLE days DETACH PARTITION high",
        "TRUNCATE low",
        "ALTER TABLE days ATTACH PARTITION high FOR VALUES FROM (10) TO (20)",
        "UPDATE days SET m = 'blue'",
        "DROP TABLE high",
    ] {
        run(http, change).await;
        for (name, sql, ordered) in selects {
            tab.until_as_run(http, name, sql, ordered).await;
        }
    }
}
