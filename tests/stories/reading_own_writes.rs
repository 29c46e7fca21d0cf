//! Someone writes through one node and reads through another, at once, and finds what they wrote.

use reqwest::Method;
use serde_json::{Value, json};
use tidewire_stories::postgres::Sql;
use tidewire_stories::{Http, Launch, Nodes, Store, WebSocket, on_both_stores};

on_both_stores!(a_place_that_is_never_reached_is_not_waited_for_for_ever);

async fn run(http: &Http, document: Value) -> Value {
    let answer = http.json(Method::POST, "/v1/sql", &document).await;
    assert_eq!(answer.status, 200, "{document}: {}", answer.text());
    answer.json()
}

/// I5: a write's offset, given to any node, is enough to see the write there.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_is_seen_on_every_node() {
    let store = Store::postgres().await;
    let nodes = Nodes::start(3, &store, &[]).await;
    run(nodes.http(0), json!({ "sql": "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)" })).await;
    let watch = json!({ "table": "t" });
    let answer = nodes.http(1).json(Method::POST, "/v1/watch", &watch).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    for number in 0..30usize {
        let writer = nodes.http(number % 3);
        let insert = json!({ "sql": "INSERT INTO t VALUES ($1, 'x')", "params": [number] });
        let written = run(writer, insert).await;
        let offset = written["offset"].as_str().expect("a place in the log").to_owned();
        for reader in nodes.https() {
            let path = format!("/v1/stream/table/t?min_offset={offset}");
            let read = reader.get(&path).await.json();
            assert_eq!(read.as_array().map(Vec::len), Some(number + 1), "up to {offset}");
            let count = json!({ "sql": "SELECT count(*) AS n FROM t", "min_offset": offset });
            assert_eq!(run(reader, count).await["rows"][0]["n"], number + 1);
        }
        if number % 10 == 0 {
            subscribes(nodes.http((number + 1) % 3), &offset, number).await;
        }
    }
}

/// A subscription that begins at the end begins after what it names.
async fn subscribes(http: &Http, min_offset: &str, number: usize) {
    let mut socket = WebSocket::connect(http, "/v1/ws").await;
    socket.hears("hello").await;
    let wanted = json!({ "query_id": "q", "stream": "table/t", "min_offset": min_offset });
    let created = socket.subscribe(&wanted).await;
    let tail = created["subscriptions"][0]["offset"].as_str().or(created["offset"].as_str());
    let events = http.get("/v1/stream/table/t?format=events").await.json();
    assert_eq!(tail, events[number]["offset"].as_str(), "{created}");
}

/// Who writes past Tidewire has a transaction's id.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_past_tidewire_is_seen_by_its_transaction() {
    let store = Store::postgres().await;
    let Store::Postgres { url } = &store else { panic!("it is PostgreSQL") };
    let nodes = Nodes::start(2, &store, &[]).await;
    run(nodes.http(0), json!({ "sql": "CREATE TABLE t (id INTEGER PRIMARY KEY)" })).await;
    let answer = nodes.http(0).json(Method::POST, "/v1/watch", &json!({ "table": "t" })).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let sql = Sql::connect(url).await.expect("a connection");
    for number in 1..=10i64 {
        let insert = format!(
            "INSERT INTO t VALUES ({number}) RETURNING (pg_current_xact_id()::text)::bigint"
        );
        let txid = sql.number(&insert).await;
        for reader in nodes.https() {
            let answer = reader.get(&format!("/v1/stream/table/t?min_txid={txid}")).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            let read = answer.json();
            let count = read.as_array().map(|events| events.len() as i64);
            assert_eq!(count, Some(number), "after transaction {txid}");
        }
    }
    nodes.http(0).get("/v1/stream/table/t?min_txid=soon").await.problem(400, "malformed_txid");
}

async fn a_place_that_is_never_reached_is_not_waited_for_for_ever(store: Store) {
    let server = Launch::dev(&store).set("TIDEWIRE_LOG_MIN_OFFSET_WAIT_MS", "50").start().await;
    let http = server.http();
    http.create("doc").await;
    let offset = http.append("doc", &json!(1)).await;
    let far = "0001_0000000000009999";
    for mode in ["", "&live=long-poll", "&live=sse"] {
        let path = |place: &str| format!("/v1/stream/doc?offset=-1&min_offset={place}{mode}");
        let problem = http.get(&path(far)).await.problem(503, "min_offset_not_reached");
        assert_eq!(problem["temporary"], true, "{problem}");
        if mode != "&live=sse" {
            assert_eq!(http.get(&path(&offset)).await.json(), json!([1]), "{mode}");
        }
    }
    http.get("/v1/stream/doc?min_offset=soon").await.problem(400, "malformed_offset");
    let session = http.open_session().await;
    let subscribe =
        |place: &str| json!({ "sessionId": session, "streamId": "doc", "min_offset": place });
    let answer = http.json(Method::POST, "/v1/subscriptions", &subscribe(far)).await;
    answer.problem(503, "min_offset_not_reached");
    let answer = http.json(Method::POST, "/v1/subscriptions", &subscribe(&offset)).await;
    assert_eq!(answer.json()["lastOffset"], *offset);
    let select = json!({ "sql": "SELECT 1", "min_offset": far });
    http.json(Method::POST, "/v1/sql", &select).await.problem(503, "min_offset_not_reached");
    let mut socket = WebSocket::connect(http, "/v1/ws").await;
    socket.hears("hello").await;
    let wanted = json!({ "query_id": "q", "stream": "doc", "min_offset": far });
    socket.say(&json!({ "type": "subscribe", "subscriptions": [wanted] })).await;
    let error = socket.hears("error").await;
    assert_eq!(
        (&error["code"], &error["temporary"]),
        (&json!("min_offset_not_reached"), &json!(true))
    );
}
