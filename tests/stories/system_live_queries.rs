//! Operators see who follows what, in `system.live_queries`, and end what they do not like.

use reqwest::Method;
use serde_json::{Value, json};
use tidewire_stories::query_tab::{run, watch};
use tidewire_stories::{Http, Issuer, Nodes, QueryTab, Store, eventually, on_both_stores};

on_both_stores!(
    live_queries_are_listed_while_they_are_followed,
    a_live_query_is_killed_from_any_node,
    users_kill_their_own,
    the_command_lists_and_kills,
);

const SECRET: &str = "a secret of HS256 that is longer than thirty-two bytes";
const SETTINGS: [(&str, &str); 3] = [
    ("TIDEWIRE_JWT_SECRET", SECRET),
    ("TIDEWIRE_NODE_LEASE_MS", "2000"),
    ("tidewire.toml", "[tables.messages]\nread = \"true\"\n"),
];

/// Of one query.
const FOLLOWED: &str = "SELECT id, total FROM messages WHERE total > 1";

async fn start(store: &Store) -> Nodes {
    let nodes = Nodes::of(store, &SETTINGS).await;
    let made = "CREATE TABLE messages (id INTEGER PRIMARY KEY, total INTEGER)";
    run(nodes.http(0), made).await;
    watch(nodes.http(0), &json!({ "table": "messages" })).await;
    nodes
}

async fn follow(http: &Http, query_id: &str) -> (QueryTab, String) {
    let mut tab = QueryTab::open(http).await;
    let entry = tab.follow(&json!({ "query_id": query_id, "sql": FOLLOWED })).await;
    let live_id = entry["live_id"].as_str().expect("a live_id").to_owned();
    (tab, live_id)
}

/// The list's rows that a condition holds for.
async fn listed(http: &Http, condition: &str) -> Vec<Value> {
    let sql = format!("SELECT * FROM system.live_queries WHERE {condition} ORDER BY live_id");
    run(http, &sql).await["rows"].as_array().expect("rows").clone()
}

/// A user with a token that may run SQL.
fn user(http: &Http, name: &str) -> Http {
    let scopes = json!({ "tables": ["*"], "streams": ["**"], "can": ["read", "sql"] });
    let claims = json!({ "sub": name, "tidewire": scopes });
    http.as_someone(Some(&Issuer::hs256(SECRET).token(&claims)))
}

async fn kill(http: &Http, live_id: &str) -> (u16, Value) {
    let sql = format!("KILL LIVE QUERY '{live_id}';");
    let answer = http.json(Method::POST, "/v1/sql", &json!({ "sql": sql })).await;
    (answer.status, answer.json())
}

/// Every node shows those of all, with what was counted, and not those of a connection that is gone.
async fn live_queries_are_listed_while_they_are_followed(store: Store) {
    let mut nodes = start(&store).await;
    let last = nodes.https().len() - 1;
    let (mut tab, live_id) = follow(nodes.http(last), "q-1").await;
    let row = eventually("it is listed", async || {
        listed(nodes.http(0), &format!("live_id = '{live_id}'")).await.pop()
    })
    .await;
    assert_eq!((&row["query_id"], &row["plan"]), (&json!("q-1"), &json!("filter")), "{row}");
    assert_eq!((&row["query"], &row["changes"]), (&json!(FOLLOWED), &json!(0)), "{row}");
    assert_eq!(row["connection_id"], tab.connection_id.as_str(), "{row}");
    run(nodes.http(0), "INSERT INTO messages VALUES (1, 7)").await;
    tab.until("q-1", &[json!({ "id": 1, "total": 7 })]).await;
    eventually("its change is counted", async || listed(nodes.http(0), "changes = 1").await.pop())
        .await;
    // As other systems print it.
    let node = row["node"].as_str().expect("a node");
    let printed = format!(
        "SELECT live_id, connection_id, query_id, query
FROM system.live_queries
WHERE node = '{node}'  -- Only process subscriptions owned by current node
  AND query LIKE '%messages%';  -- Simple filter (actual logic is more complex)"
    );
    let found = run(nodes.http(0), &printed).await;
    assert_eq!(found["rows"][0]["live_id"], live_id.as_str(), "{found}");
    drop(tab);
    eventually("it is gone with its connection", async || {
        listed(nodes.http(0), "1 = 1").await.is_empty().then_some(())
    })
    .await;
    if last > 0 {
        let (_tab, live_id) = follow(nodes.http(last), "again").await;
        let condition = format!("live_id = '{live_id}'");
        eventually("it is listed", async || listed(nodes.http(0), &condition).await.pop()).await;
        nodes.kill(last);
        eventually("it is gone with its node", async || {
            listed(nodes.http(0), &condition).await.is_empty().then_some(())
        })
        .await;
    }
}

/// Whoever administers the server ends any, wherever it is served; its client is told, and others go on.
async fn a_live_query_is_killed_from_any_node(store: Store) {
    let nodes = start(&store).await;
    let teller = nodes.http(0);
    for http in nodes.https() {
        let (mut tab, live_id) = follow(http, "a-b").await;
        let condition = format!("live_id = '{live_id}'");
        eventually("it is listed", async || listed(teller, &condition).await.pop()).await;
        let (status, answer) = kill(teller, &live_id).await;
        assert_eq!((status, &answer["row_count"]), (200, &json!(1)), "{answer}");
        let ended = tab.hear_until("subscription_ended").await;
        assert_eq!(
            (&ended["query_id"], &ended["reason"]),
            (&json!("a-b"), &json!("ended_by_operator"))
        );
        eventually("it is not listed any more", async || {
            listed(teller, &condition).await.is_empty().then_some(())
        })
        .await;
        let (status, answer) = kill(teller, &live_id).await;
        assert_eq!((status, &answer["code"]), (404, &json!("no_such_live_query")), "{answer}");
    }
}

/// A user who may run SQL ends their own, and no other's.
async fn users_kill_their_own(store: Store) {
    let nodes = start(&store).await;
    let (ada, bob) = (user(nodes.http(0), "ada"), user(nodes.http(0), "bob"));
    let (mut tab, live_id) = follow(&ada, "hers").await;
    let (status, answer) = kill(&bob, &live_id).await;
    assert_eq!((status, &answer["code"]), (403, &json!("forbidden")), "{answer}");
    let (status, answer) = kill(&ada, &live_id).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(tab.hear_until("subscription_ended").await["query_id"], "hers");
}

/// `tidewire queries`, and `tidewire queries kill`.
async fn the_command_lists_and_kills(store: Store) {
    let nodes = start(&store).await;
    let (mut tab, live_id) = follow(nodes.http(0), "it's").await;
    eventually("it is listed", async || {
        let ended = nodes.command(0, "queries").run().await;
        ended.printed.contains(&live_id).then_some(())
    })
    .await;
    nodes.command(0, "queries").with(["kill", &live_id]).run().await;
    assert_eq!(tab.hear_until("subscription_ended").await["query_id"], "it's");
}
