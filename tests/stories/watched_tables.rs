//! A table is watched, and whoever follows its stream sees its changes: by catch-up, long-poll, SSE and
//! WebSocket, through changes of its columns, until it is watched no longer.

use reqwest::Method;
use serde_json::{Value, json};
use tidewire_stories::{
    Http, Launch, Raw, ServerSent, Store, StreamSource, Tab, WebSocket, eventually, on_both_stores,
};

on_both_stores!(
    changes_reach_every_kind_of_reader,
    followers_are_told_when_columns_change_and_when_it_ends,
    odd_names_are_watched_listed_and_let_go,
    a_key_reads_the_tables_that_it_names,
);

const KEY: &str = "story-52c1d8e07b94fa36";

async fn run(http: &Http, text: &str) -> Value {
    let answer = http.json(Method::POST, "/v1/sql", &json!({ "sql": text })).await;
    assert_eq!(answer.status, 200, "{text}: {}", answer.text());
    answer.json()
}

async fn watch(http: &Http, document: &Value) -> Value {
    let answer = http.json(Method::POST, "/v1/watch", document).await;
    assert_eq!(answer.status, 200, "{document}: {}", answer.text());
    answer.json()
}

async fn orders(http: &Http) {
    run(http, "CREATE TABLE orders (id INTEGER PRIMARY KEY, total NUMERIC)").await;
    let watched = watch(http, &json!({ "table": "orders", "entity": "order" })).await;
    assert_eq!(watched["stream"], "table/orders", "{watched}");
    assert_eq!(watched["key_columns"], json!(["id"]), "{watched}");
}

/// What a change says, less what differs from run to run.
fn gist(event: &Value) -> Value {
    json!([event["operation"], event["data"], event["before"], event["entityId"]])
}

async fn changes_reach_every_kind_of_reader(store: Store) {
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    orders(http).await;
    let mut socket = WebSocket::connect(http, "/v1/ws").await;
    socket.hears("hello").await;
    socket.subscribe(&json!({ "query_id": "q", "stream": "table/orders" })).await;
    let mut sse = StreamSource::open(http, "table/orders", "-1").await;
    let tab = Tab::open(http).await;
    let mut page = ServerSent::open(http, &tab.session, None).await;
    tab.subscribe("table/orders").await;
    page.hears("subscription_created").await;
    let poll = http.get("/v1/stream/table/orders?offset=now&live=long-poll");

    let write = "INSERT INTO orders VALUES (1, 12.5), (2, 3); UPDATE orders SET total = 15 WHERE id = 1; \
                 DELETE FROM orders WHERE id = 2";
    let (polled, written) = tokio::join!(poll, async {
        // The poll need not have begun to wait: it would be answered all the same.
        run(http, write).await
    });
    assert_eq!(polled.status, 200, "{}", polled.text());
    let expected = json!([
        ["INSERT", { "id": 1, "total": 12.5 }, null, "1"],
        ["INSERT", { "id": 2, "total": 3 }, null, "2"],
        ["UPDATE", { "id": 1, "total": 15 }, { "id": 1, "total": 12.5 }, "1"],
        ["DELETE", null, { "id": 2, "total": 3 }, "2"],
    ]);
    let expected = expected.as_array().expect("an array");
    let offset = written["offset"].as_str().expect("a place");
    let read = http.get(&format!("/v1/stream/table/orders?min_offset={offset}")).await.json();
    let events: Vec<Value> = read.as_array().expect("events").iter().map(gist).collect();
    assert_eq!(&events, expected);
    let first = &read[0];
    assert_eq!((&first["type"], &first["entityCode"]), (&json!("cdc_event"), &json!("order")));
    assert_eq!(read[3]["txLast"], true, "{read}");
    assert!(read[3]["offset"].as_str().expect("an offset") <= offset, "{read} is up to {offset}");
    for event in expected {
        assert_eq!(gist(&socket.hears("event").await["payload"]), *event);
        assert_eq!(gist(&page.hears("event").await.message["payload"]), *event);
    }
    let mut got = Vec::new();
    while got.len() < expected.len() {
        let batch = sse.next().await.expect("a response that goes on");
        got.extend(batch.messages.iter().map(gist));
    }
    assert_eq!(&got, expected);
    http.json(Method::POST, "/v1/stream/table/orders", &json!([1]))
        .await
        .problem(403, "table_stream_is_read_only");
    // Counts are brought up to date now and then.
    eventually("the list shows the changes", async || {
        let listed = http.get("/v1/watch").await.json();
        let orders = &listed["watches"][0];
        let last = orders["last_offset"] == read[3]["offset"];
        (orders["events"] == 4 && orders["waiting"] == 0 && last).then_some(())
    })
    .await;
    let capture = http.get("/v1/capture").await.json();
    let mode = if matches!(store, Store::Sqlite { .. }) { "embedded" } else { "outbox" };
    assert!(capture["mode"] == mode || capture["mode"] == "wal", "{capture}");
}

async fn followers_are_told_when_columns_change_and_when_it_ends(store: Store) {
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    orders(http).await;
    let mut socket = WebSocket::connect(http, "/v1/ws").await;
    socket.hears("hello").await;
    let subscription = json!({ "query_id": "q", "stream": "table/orders" });
    socket.subscribe(&subscription).await;
    let mut raw = Raw::connect(http.port()).await;
    raw.send("GET /v1/stream/table/orders?live=sse&offset=-1 HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await;
    raw.hears("\"upToDate\":true}\n\n\r\n").await;
    run(http, "ALTER TABLE orders ADD COLUMN note TEXT").await;
    let changed = socket.hears("schema_changed").await;
    assert_eq!((&changed["query_id"], &changed["streamId"]), (&json!("q"), &json!("table/orders")));
    assert!(changed["what"].as_str().expect("words").contains("note"), "{changed}");
    assert!(changed["offset"].is_string(), "{changed}");
    raw.hears(": schema_changed 0001_").await;
    run(http, "INSERT INTO orders VALUES (1, 2, 'n')").await;
    let event = socket.hears("event").await;
    assert_eq!(event["payload"]["data"], json!({ "id": 1, "total": 2, "note": "n" }), "{event}");
    assert!(event["offset"].as_str() > changed["offset"].as_str(), "{event} after {changed}");

    run(http, "DROP TABLE orders").await;
    let ended = socket.hears("subscription_ended").await;
    assert_eq!(ended["reason"], "stream_deleted", "{ended}");
    eventually("the stream is gone", async || {
        (http.get("/v1/stream/table/orders").await.status == 404).then_some(())
    })
    .await;
    assert_eq!(http.get("/v1/watch").await.json(), json!({ "watches": [] }));
}

async fn odd_names_are_watched_listed_and_let_go(store: Store) {
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    run(http, "CREATE TABLE \"Odd na+me\" (a INTEGER, b TEXT, PRIMARY KEY (a, b))").await;
    let watched = watch(http, &json!({ "table": "\"Odd na+me\"" })).await;
    assert_eq!(watched["table"], "Odd na+me", "{watched}");
    let written = run(http, "INSERT INTO \"Odd na+me\" VALUES (1, 'x')").await;
    let offset = written["offset"].as_str().expect("a place");
    let path = format!("/v1/stream/table/Odd%20na+me?min_offset={offset}");
    let read = http.get(&path).await.json();
    let key = read[0]["entityId"].as_str().expect("a text");
    let key: Value = serde_json::from_str(key).expect("several columns are an array");
    assert_eq!(key, json!([1, "x"]));
    let client = http.client();
    client.unwatch("\"Odd na+me\"").await.expect("it was watched");
    let problem = client.unwatch("\"Odd na+me\"").await.expect_err("it is not any more");
    assert_eq!(problem.status(), Some(404), "{problem}");
    let none = http.json(Method::POST, "/v1/watch", &json!({ "table": "no_such_table" })).await;
    assert_eq!(none.status, 400, "{}", none.text());
    let request = http.request(Method::DELETE, "/v1/watch");
    tidewire_stories::Answer::of(request).await.problem(400, "invalid_request");
    let mode = http.json(Method::POST, "/v1/capture", &json!({ "mode": "magic" })).await;
    mode.problem(400, "invalid_request");
}

/// I6: what its scopes do not name is not there for it.
async fn a_key_reads_the_tables_that_it_names(store: Store) {
    let server = Launch::serve(&store, KEY).start().await;
    let http = server.http();
    orders(http).await;
    let key = async |scopes: Value| {
        let document = json!({ "name": "k", "scopes": scopes });
        let made = http.json(Method::POST, "/v1/keys", &document).await.json();
        http.as_someone(made["key"].as_str())
    };
    let reader = key(json!({ "tables": ["orders"] })).await;
    assert_eq!(reader.get("/v1/stream/table/orders").await.status, 200);
    let other = key(json!({ "tables": ["customers"] })).await;
    other.get("/v1/stream/table/orders").await.problem(403, "forbidden");
    let select = json!({ "sql": "SELECT 1" });
    reader.json(Method::POST, "/v1/sql", &select).await.problem(403, "forbidden");
    let trusted = key(json!({ "tables": [], "can": ["sql"] })).await;
    assert_eq!(trusted.json(Method::POST, "/v1/sql", &select).await.status, 200);
    trusted.get("/v1/watch").await.problem(403, "forbidden");
}
