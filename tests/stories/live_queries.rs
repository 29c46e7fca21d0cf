//! Clients follow queries, rows change by plain SQL, and what they are told makes of their first rows
//! what the query gives.

use serde_json::{Value, json};
use tidewire_stories::query_tab::{run, watch};
use tidewire_stories::{Http, Issuer, Launch, QueryTab, Store, on_both_stores};

on_both_stores!(
    each_kind_of_query_follows_its_rows,
    a_bad_query_fails_alone_and_says_where,
    a_row_that_leaves_is_told_as_it_was,
    parameters_and_who_asks_are_part_of_a_query,
    nothing_is_said_of_tables_that_may_not_be_read,
    a_large_result_comes_in_pieces_and_changes_after_it,
    a_result_without_its_offset_is_told_it_later,
    limits_have_names,
    explain_says_how_a_query_is_kept,
);

const KEY: &str = "story-51d7e2c90ab64f38";
const SECRET: &str = "a secret of HS256 that is longer than thirty-two bytes";

pub(crate) async fn orders(http: &Http) {
    run(
        http,
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, owner TEXT, status TEXT, total INTEGER)",
    )
    .await;
    watch(http, &json!({ "table": "orders" })).await;
}

/// I4, at the end of every statement.
async fn each_kind_of_query_follows_its_rows(store: Store) {
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    orders(http).await;
    run(
        http,
        "INSERT INTO orders VALUES (1,'ann','open',5),(2,'bob','open',50),(3,'ann','paid',7)",
    )
    .await;
    let queries = [
        ("open", "SELECT id, total FROM orders WHERE status = 'open'", false, "filter"),
        ("largest", "SELECT id, total FROM orders ORDER BY total DESC, id LIMIT 2", true, "window"),
        (
            "by owner",
            "SELECT owner, count(*) AS n, sum(total) AS total FROM orders GROUP BY owner",
            false,
            "aggregate",
        ),
        (
            "pairs",
            "SELECT a.id AS a, b.id AS b FROM orders a JOIN orders b ON a.owner = b.owner AND a.id < b.id",
            false,
            "requery",
        ),
    ];
    let mut tab = QueryTab::open(http).await;
    let all: Vec<Value> =
        queries.iter().map(|(name, sql, ..)| json!({ "query_id": name, "sql": sql })).collect();
    tab.ask(&all).await;
    let statements = [
        "INSERT INTO orders VALUES (4,'ann','open',60)",
        "UPDATE orders SET total = 6 WHERE id = 1",
        "UPDATE orders SET owner = 'bob' WHERE id = 3",
        "UPDATE orders SET status = 'paid' WHERE id = 2",
        "INSERT INTO orders VALUES (5,'cid','open',1),(6,'cid','open',2),(7,NULL,'open',3)",
        "UPDATE orders SET total = total + 1",
        "DELETE FROM orders WHERE id IN (4, 6)",
        "DELETE FROM orders",
    ];
    for (name, sql, ordered, _) in queries {
        tab.until_as_run(http, name, sql, ordered).await;
    }
    for (name, _, _, plan) in queries {
        let entry = tab.entry(name);
        assert_eq!(entry["plan"], plan, "{entry}");
        assert_eq!(entry["live_id"], format!("{}-{name}", tab.connection_id), "{entry}");
        assert_eq!((&entry["reset"], &entry["more"]), (&json!(false), &json!(false)), "{entry}");
    }
    for statement in statements {
        let offset = run(http, statement).await["offset"].as_str().expect("an offset").to_owned();
        for (name, sql, ordered, _) in queries {
            tab.until_as_run(http, name, sql, ordered).await;
            let told = tab.offset(name).unwrap_or_default();
            assert!(told <= offset.as_str(), "{name} is told at {told}, after {offset}");
        }
    }
}

async fn a_bad_query_fails_alone_and_says_where(store: Store) {
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    orders(http).await;
    run(http, "CREATE TABLE unwatched (id INTEGER PRIMARY KEY)").await;
    let mut tab = QueryTab::open(http).await;
    tab.ask(&[
        json!({ "query_id": "column", "sql": "SELECT id, totl FROM orders" }),
        json!({ "query_id": "good", "sql": "SELECT id FROM orders" }),
        json!({ "query_id": "write", "sql": "DELETE FROM orders" }),
        json!({ "query_id": "table", "sql": "SELECT * FROM nowhere" }),
        json!({ "query_id": "unwatched", "sql": "SELECT * FROM unwatched" }),
        json!({ "query_id": "words", "sql": 7 }),
    ])
    .await;
    let (mut errors, mut created) = (Vec::new(), 0);
    while errors.len() + created < 6 {
        let message = tab.hear().await;
        match message["type"].as_str() {
            Some("error") => errors.push(message),
            Some("subscription_created") => created += 1,
            _ => panic!("not expected: {message}"),
        }
    }
    let of = |name: &str| errors.iter().find(|e| e["query_id"] == name).expect("an error");
    let column = of("column");
    assert_eq!((&column["code"], &column["position"]), (&json!("column_not_found"), &json!(12)));
    assert!(of("write")["hint"].is_string());
    assert_eq!(of("table")["code"], "table_not_found");
    assert_eq!(of("unwatched")["code"], "table_not_watched");
    assert_eq!(of("words")["code"], "malformed_message");
    run(http, "INSERT INTO orders VALUES (1, 'ann', 'open', 1)").await;
    tab.until("good", &[json!({ "id": 1 })]).await;
}

async fn a_row_that_leaves_is_told_as_it_was(store: Store) {
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    orders(http).await;
    run(http, "INSERT INTO orders VALUES (1, 'ann', 'open', 1)").await;
    let mut tab = QueryTab::open(http).await;
    let query =
        json!({ "query_id": "q", "sql": "SELECT id, total FROM orders WHERE status = 'open'" });
    tab.follow(&query).await;
    run(http, "UPDATE orders SET status = 'paid', total = 2").await;
    let change = tab.hear_until("change").await;
    assert_eq!(change["change_type"], "DELETE", "{change}");
    assert_eq!(change["rows"], json!([{ "id": 1, "total": 1 }]), "as it was: {change}");
    run(http, "UPDATE orders SET total = 3").await;
    run(http, "UPDATE orders SET status = 'open'").await;
    let change = tab.hear_until("change").await;
    assert_eq!(change["change_type"], "INSERT", "{change}");
    assert_eq!(change["rows"], json!([{ "id": 1, "total": 3 }]), "{change}");
    tab.socket.say(&json!({ "type": "unsubscribe", "query_ids": ["q"] })).await;
    let ended = tab.hear_until("subscription_ended").await;
    assert_eq!(ended["reason"], "unsubscribed", "{ended}");
}

fn user(http: &Http, name: &str, scopes: &Value) -> Http {
    let claims = json!({ "sub": name, "tidewire": scopes });
    http.as_someone(Some(&Issuer::hs256(SECRET).token(&claims)))
}

/// I6: rows, columns and tenants as for every other way of reading a table.
async fn parameters_and_who_asks_are_part_of_a_query(store: Store) {
    let launch = Launch::serve(&store, KEY).set("TIDEWIRE_JWT_SECRET", SECRET);
    let server = launch.configured("[tables.orders]\nread = \"true\"\n").start().await;
    let http = server.http();
    orders(http).await;
    run(http, "INSERT INTO orders VALUES (1,'ann','open',1),(2,'bob','open',2),(3,'ann','paid',3)")
        .await;
    let all = json!({ "tables": ["orders"] });
    let own = json!({
        "tables": ["orders"],
        "rows": { "orders": "owner = auth.user_id()" },
        "columns": { "orders": ["id", "total"] },
    });
    let mine =
        json!({ "query_id": "mine", "sql": "SELECT id FROM orders WHERE owner = CURRENT_USER()" });
    let above = |least: i64| {
        let sql = "SELECT id, total FROM orders WHERE total >= $1";
        json!({ "query_id": "above", "sql": sql, "params": [least] })
    };
    let mut ann = QueryTab::open(&user(http, "ann", &all)).await;
    let mut bob = QueryTab::open(&user(http, "bob", &own)).await;
    ann.follow(&mine).await;
    ann.follow(&above(2)).await;
    bob.follow(&above(0)).await;
    ann.until("mine", &[json!({ "id": 1 }), json!({ "id": 3 })]).await;
    ann.until("above", &[json!({ "id": 2, "total": 2 }), json!({ "id": 3, "total": 3 })]).await;
    assert_eq!(bob.rows("above"), [json!({ "id": 2, "total": 2 })]);
    if matches!(store, Store::Sqlite { .. }) {
        for sql in
            ["SELECT id FROM orders WHERE total >= ?1", "SELECT id FROM orders WHERE total >= ?"]
        {
            ann.follow(&json!({ "query_id": "question", "sql": sql, "params": [3] })).await;
            ann.until("question", &[json!({ "id": 3 })]).await;
        }
    }
    bob.ask(&[json!({ "query_id": "hidden", "sql": "SELECT owner FROM orders" })]).await;
    let refused = bob.hear_until("error").await;
    assert_eq!(refused["code"], "column_not_found", "{refused}");
    run(http, "UPDATE orders SET owner = 'bob' WHERE id = 3").await;
    ann.until("mine", &[json!({ "id": 1 })]).await;
    bob.until("above", &[json!({ "id": 2, "total": 2 }), json!({ "id": 3, "total": 3 })]).await;
}

/// I6: a refusal is the same whether or not there is such a table.
async fn nothing_is_said_of_tables_that_may_not_be_read(store: Store) {
    let launch = Launch::serve(&store, KEY).set("TIDEWIRE_JWT_SECRET", SECRET);
    let server = launch.configured("[tables.visible]\nread = \"true\"\n").start().await;
    let http = server.http();
    orders(http).await;
    run(http, "CREATE TABLE visible (id INTEGER PRIMARY KEY)").await;
    watch(http, &json!({ "table": "visible" })).await;
    let someone = user(http, "ann", &json!({ "tables": ["visible"] }));
    let mut tab = QueryTab::open(&someone).await;
    let mut refusals = Vec::new();
    for sql in [
        "SELECT 1 FROM orders",
        "SELECT 1 FROM absent",
        "SELECT nonsense FROM orders",
        "SELECT 1 FROM visible WHERE id IN (SELECT id FROM orders)",
        "WITH x AS (SELECT id FROM orders) SELECT 1 FROM visible, x",
    ] {
        tab.ask(&[json!({ "query_id": "q", "sql": sql })]).await;
        refusals.push(tab.hear_until("error").await);
    }
    for refusal in &refusals {
        assert_eq!(refusal["code"], "forbidden", "{refusal}");
        assert_eq!(refusal, &refusals[0]);
    }
    tab.follow(&json!({ "query_id": "q", "sql": "SELECT id FROM visible" })).await;
}

async fn a_large_result_comes_in_pieces_and_changes_after_it(store: Store) {
    const ROWS: usize = 3_000;
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    orders(http).await;
    let filler = "x".repeat(100);
    for thousand in 0..ROWS / 1_000 {
        let rows = (0..1_000).map(|n| format!("({}, '{filler}', 'open', 0)", thousand * 1_000 + n));
        let rows: Vec<String> = rows.collect();
        run(http, &format!("INSERT INTO orders VALUES {}", rows.join(","))).await;
    }
    let mut tab = QueryTab::open(http).await;
    let entry = tab.follow(&json!({ "query_id": "q", "sql": "SELECT * FROM orders" })).await;
    assert_eq!((&entry["row_count"], &entry["more"]), (&json!(ROWS), &json!(true)));
    assert_eq!(tab.rows("q").len(), ROWS);
    run(http, "UPDATE orders SET total = 1").await;
    while tab.rows("q").iter().any(|row| row["total"] == 0) {
        tab.hear().await;
    }
    assert_eq!(tab.rows("q").len(), ROWS);
}

/// Nothing is held back for its offset, and the offset follows.
async fn a_result_without_its_offset_is_told_it_later(store: Store) {
    let server = Launch::dev(&store).set("TIDEWIRE_QUERIES_SETTLE_WAIT_MS", "0").start().await;
    let http = server.http();
    orders(http).await;
    let mut tab = QueryTab::open(http).await;
    let pairs = "SELECT a.id FROM orders a JOIN orders b ON a.id = b.id";
    tab.follow(&json!({ "query_id": "filter", "sql": "SELECT id FROM orders" })).await;
    tab.follow(&json!({ "query_id": "requery", "sql": pairs })).await;
    run(http, "INSERT INTO orders VALUES (1, 'ann', 'open', 1)").await;
    for name in ["filter", "requery"] {
        tab.until(name, &[json!({ "id": 1 })]).await;
        while tab.offset(name).is_none() {
            tab.hear().await;
        }
    }
}

async fn limits_have_names(store: Store) {
    let launch = Launch::dev(&store)
        .set("TIDEWIRE_QUERIES_PER_CONNECTION_MAX", "1")
        .set("TIDEWIRE_QUERIES_ROWS_MAX", "2")
        .set("TIDEWIRE_QUERIES_UNINDEXED_MAX", "1");
    let server = launch.start().await;
    let http = server.http();
    orders(http).await;
    run(http, "INSERT INTO orders VALUES (1,'ann','open',1),(2,'ann','open',2)").await;
    let mut tab = QueryTab::open(http).await;
    tab.follow(&json!({ "query_id": "one", "sql": "SELECT id FROM orders" })).await;
    tab.ask(&[json!({ "query_id": "two", "sql": "SELECT id FROM orders" })]).await;
    let refused = tab.hear_until("error").await;
    assert_eq!(refused["code"], "too_many_queries", "{refused}");
    let mut other = QueryTab::open(http).await;
    let like = "SELECT id FROM orders WHERE status LIKE '%x%'";
    other.ask(&[json!({ "query_id": "q", "sql": like })]).await;
    let refused = other.hear_until("error").await;
    assert_eq!(refused["code"], "too_many_unindexed", "{refused}");
    other.follow(&json!({ "query_id": "q", "sql": "SELECT id FROM orders" })).await;
    let owner = "SELECT id FROM orders WHERE owner = 'cid'";
    QueryTab::open(http).await.follow(&json!({ "query_id": "q", "sql": owner })).await;
    let mut other = QueryTab::open(http).await;
    let values: Vec<String> = (10..400).map(|id| format!("({id},'ann','open',1)")).collect();
    run(http, &format!("INSERT INTO orders VALUES {}", values.join(","))).await;
    other.ask(&[json!({ "query_id": "q", "sql": "SELECT id FROM orders" })]).await;
    let refused = other.hear_until("error").await;
    assert_eq!(refused["code"], "result_too_large", "{refused}");
    // The number is the one of the setting, not what is read of a window.
    let message = refused["message"].as_str().unwrap_or_default();
    assert!(message.contains("more than 2 rows (queries.rows_max)"), "{refused}");
}

async fn explain_says_how_a_query_is_kept(store: Store) {
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    orders(http).await;
    let explained = run(http, "EXPLAIN LIVE SELECT id FROM orders WHERE lower(status) = 'x'").await;
    let rows = explained["rows"].as_array().expect("rows");
    let value = |key: &str| rows.iter().find(|row| row["key"] == key).map(|row| &row["value"]);
    assert_eq!(value("plan"), Some(&json!("requery")), "{explained}");
    assert_eq!(value("table"), Some(&json!("orders")));
    assert!(value("why").is_some_and(|why| why.as_str().is_some_and(|why| !why.is_empty())));
    assert!(value("sql").is_some());
}
