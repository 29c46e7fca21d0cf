//! What the database's planner expects depends on all rows. Whoever may see some of them gets the same answer
//! whatever the others are (I6).

use reqwest::Method;
use serde_json::{Value, json};
use tidewire_stories::query_tab::{run, watch};
use tidewire_stories::{Http, Launch, QueryTab, Store};

const KEY: &str = "story-e13f6a0b52c94d78";

const ASKED: [&str; 4] = [
    "SELECT id FROM salaries WHERE amount > 100",
    "SELECT a.id FROM salaries a, salaries b WHERE a.amount < b.amount",
    "SELECT id, amount FROM salaries ORDER BY amount DESC LIMIT 3",
    "SELECT count(*) AS n FROM salaries WHERE amount BETWEEN 100 AND 5000",
];

/// What a caller is answered, without what differs from time to time.
async fn answers(http: &Http) -> Vec<Value> {
    let mut all = Vec::new();
    for sql in ASKED {
        let mut tab = QueryTab::open(http).await;
        tab.ask(&[json!({ "query_id": "q", "sql": sql })]).await;
        let answer = loop {
            let message = tab.hear().await;
            if message["type"] == "error" {
                break message["code"].clone();
            }
            let entry = &message["subscriptions"][0];
            if entry["query_id"] == "q" {
                break json!([entry["plan"], entry["row_count"], entry["initial_results"]]);
            }
        };
        all.push(answer);
        let explain = json!({ "sql": format!("EXPLAIN LIVE {sql}") });
        let told = http.json(Method::POST, "/v1/sql", &explain).await;
        let told = told.json();
        let rows = told["rows"].as_array().cloned().unwrap_or_default();
        let lines = rows.into_iter().filter(|row| row["key"] != "shared_by");
        all.push(lines.collect());
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn hidden_rows_make_no_difference_to_what_is_answered() {
    let store = Store::postgres().await;
    let launch = Launch::serve(&store, KEY).set("TIDEWIRE_QUERIES_COST_MAX", "500");
    let server = launch.start().await;
    let admin = server.http();
    run(admin, "CREATE TABLE salaries (id INTEGER PRIMARY KEY, owner TEXT, amount INTEGER)").await;
    watch(admin, &json!({ "table": "salaries", "host_column": "owner" })).await;
    run(admin, "INSERT INTO salaries VALUES (1, 'acme', 50), (2, 'acme', 200)").await;
    run(admin, "ANALYZE salaries").await;
    let scopes = json!({
        "tables": ["salaries"], "can": ["read", "sql"], "rows": { "salaries": "owner = 'acme'" },
    });
    let ruled_key = admin.make_key(&scopes).await;
    let scopes = json!({ "tables": ["salaries"], "can": ["read"], "hosts": ["acme"] });
    let tenant_key = admin.make_key(&scopes).await;
    let (ruled, of_tenant) = (admin.holder(&ruled_key), admin.holder(&tenant_key));
    let before = (answers(&ruled).await, answers(&of_tenant).await);
    assert!(!answers(admin).await.contains(&json!("query_too_expensive")));
    run(admin, "INSERT INTO salaries SELECT n, 'other', n FROM generate_series(1000, 5000) AS n")
        .await;
    run(admin, "ANALYZE salaries").await;
    // What the database said of a query is remembered, so that it is asked anew only by another process.
    server.stop().await;
    let server = launch.start().await;
    let admin = server.http();
    let (ruled, of_tenant) = (admin.holder(&ruled_key), admin.holder(&tenant_key));
    // Who sees all of it is refused now; who does not is told what they were told.
    assert!(answers(admin).await.contains(&json!("query_too_expensive")));
    let after = (answers(&ruled).await, answers(&of_tenant).await);
    assert_eq!(before, after);
    // Nor when a table changes under queries that are followed, which the database is then asked about anew.
    let mut tabs = [QueryTab::open(&ruled).await, QueryTab::open(&of_tenant).await];
    for tab in &mut tabs {
        for (number, sql) in ASKED.iter().enumerate() {
            tab.follow(&json!({ "query_id": number.to_string(), "sql": sql })).await;
        }
    }
    run(admin, "ALTER TABLE salaries ADD COLUMN note TEXT").await;
    run(admin, "INSERT INTO salaries VALUES (3, 'acme', 300, 'new')").await;
    for tab in &mut tabs {
        tab.until("0", &[json!({ "id": 2 }), json!({ "id": 3 })]).await;
        tab.until("3", &[json!({ "n": 2 })]).await;
    }
    assert!(answers(admin).await.contains(&json!("query_too_expensive")));
    let rebound = (answers(&ruled).await, answers(&of_tenant).await);
    let text = serde_json::to_string(&(after, rebound)).expect("JSON");
    assert!(!text.contains("\"cost\"") && !text.contains("query_too_expensive"), "{text}");
}
