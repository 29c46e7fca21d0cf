//! Someone sees some rows or columns of a table only, whichever way they read it.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::{Value, json};
use tidewire_stories::wait::within_patience;
use tidewire_stories::{
    Http, Issuer, Launch, Server, ServerSent, Store, StreamSource, Tab, WebSocket, on_both_stores,
};

use crate::table_subscriptions::{connect, gist, orders, run};

on_both_stores!(
    scopes_hold_for_every_way_of_reading,
    a_rule_of_the_configuration_holds_for_everyone_but_administrators,
    tenants_see_their_own_rows,
);

const KEY: &str = "story-83f1c5a2e60b7d94";
const SECRET: &str = "a secret of HS256 that is longer than thirty-two bytes";

/// What a key may see that has some columns and some rows.
fn narrow() -> Value {
    json!({
        "tables": ["orders"], "streams": ["**"], "can": ["read", "append"],
        "columns": { "orders": ["id", "status"] }, "rows": { "orders": "total < 100" },
    })
}

/// Rows that come and go, out of what the key may see and into it. Numbers that it may not see are such as
/// no time and no transaction's number contains. What it may see is in `seen_by_narrow`.
const WORK: &str = "INSERT INTO orders VALUES (1, 'o-ann', 'open', 1, 'hush-1'), (2, 'o-ann', 'rich-2', 87654200, 'hush-2'); \
    UPDATE orders SET secret = 'hush-3' WHERE id = 1; \
    UPDATE orders SET status = 'sent' WHERE id = 1; \
    UPDATE orders SET total = 87654300, status = 'rich-1' WHERE id = 1; \
    UPDATE orders SET total = 2, status = 'poor-2' WHERE id = 2; \
    DELETE FROM orders WHERE id = 1; \
    DELETE FROM orders WHERE id = 2";

fn seen_by_narrow() -> Vec<Value> {
    let shown = |id: i64, status: &str| json!({ "id": id, "status": status });
    vec![
        json!(["INSERT", shown(1, "open"), null, "1", null]),
        json!(["UPDATE", shown(1, "sent"), shown(1, "open"), "1", null]),
        json!(["DELETE", null, shown(1, "sent"), "1", null]),
        json!(["INSERT", shown(2, "poor-2"), null, "2", null]),
        json!(["DELETE", null, shown(2, "poor-2"), "2", null]),
    ]
}

/// I6: columns and rows that a key may not see do not reach it, whichever way it reads.
async fn scopes_hold_for_every_way_of_reading(store: Store) {
    let server = Launch::serve(&store, KEY).start().await;
    let admin = server.http();
    orders(admin).await;
    let http = &admin.holder(&admin.make_key(&narrow()).await);
    let mut socket = connect(http).await;
    socket.subscribe(&json!({ "query_id": "stream", "stream": "table/orders" })).await;
    let mut flat = connect(http).await;
    flat.subscribe(&json!({ "query_id": "table", "table": "orders" })).await;
    let tab = Tab::open(http).await;
    tab.subscribe("table/orders").await;
    let mut page = ServerSent::open(http, &tab.session, None).await;
    page.hears("subscription_created").await;
    let other = Tab::open(http).await;
    other.subscribe("table/orders").await;
    let mut of_session = WebSocket::connect(http, &other.socket()).await;
    of_session.hears("hello").await;
    of_session.hears("subscription_created").await;
    let mut sse = StreamSource::open(http, "table/orders", "-1").await;
    let poll = http.get("/v1/stream/table/orders?offset=now&live=long-poll");
    let (polled, _) = tokio::join!(poll, run(admin, WORK));

    let expected = seen_by_narrow();
    let mut texts = vec![polled.text()];
    let (mut by_socket, mut by_table, mut by_page, mut by_session) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in &expected {
        let event = socket.hears("event").await;
        by_socket.push(gist(&event["payload"]));
        texts.push(event.to_string());
        let event = flat.hears("cdc_event").await;
        by_table.push(gist(&event));
        texts.push(event.to_string());
        let event = page.hears("event").await.message;
        by_page.push(gist(&event["payload"]));
        texts.push(event.to_string());
        let event = of_session.hears("event").await;
        by_session.push(gist(&event["payload"]));
        texts.push(event.to_string());
    }
    let mut by_sse = Vec::new();
    while by_sse.len() < expected.len() {
        let batch = within_patience("a batch", sse.next()).await.expect("a response that goes on");
        texts.extend(batch.messages.iter().map(Value::to_string));
        by_sse.extend(batch.messages.iter().map(gist));
    }
    let gists = |events: &Value| -> Vec<Value> {
        events.as_array().expect("events").iter().map(gist).collect()
    };
    let polled = gists(&polled.json());
    assert_eq!(polled, expected[..polled.len()]);
    let read = http.get("/v1/stream/table/orders").await;
    let events = http.get("/v1/stream/table/orders?format=events").await;
    let payloads: Value =
        events.json().as_array().expect("events").iter().map(|e| e["payload"].clone()).collect();
    texts.extend([read.text(), events.text()]);
    // A subscription that begins in the past is told the same.
    let mut late = connect(http).await;
    late.subscribe(&json!({ "query_id": "late", "table": "orders", "offset": "-1" })).await;
    let mut replayed = Vec::new();
    for _ in &expected {
        let event = late.hears("cdc_event").await;
        replayed.push(gist(&event));
        texts.push(event.to_string());
    }
    for (way, seen) in [
        ("a subscription to the stream", by_socket),
        ("a subscription to the table", by_table),
        ("a session's events", by_page),
        ("a session's WebSocket", by_session),
        ("SSE", by_sse),
        ("a read", gists(&read.json())),
        ("a read with offsets", gists(&payloads)),
        ("a replay", replayed),
    ] {
        assert_eq!(seen, expected, "{way}");
    }
    for hidden in ["hush", "rich", "o-ann", "87654", "secret", "owner"] {
        for text in &texts {
            assert!(!text.contains(hidden), "{hidden} in {text}");
        }
    }
    // A fork would be a copy of all of it.
    let fork =
        http.request(Method::PUT, "/v1/stream/copy").header("stream-forked-from", "table/orders");
    tidewire_stories::Answer::of(fork).await.problem(403, "rule_not_supported");
    // What may not be seen may not be asked about either.
    http.get("/v1/stream/table/orders?where=secret+IS+NULL").await.problem(400, "column_not_found");
    let all = admin.get("/v1/stream/table/orders").await.json();
    assert_eq!(all.as_array().expect("events").len(), 8, "an administrator sees everything");
}

async fn guarded(store: &Store, rule: &str) -> Server {
    let rule = format!("[tables.orders]\nread = \"{rule}\"\n");
    Launch::serve(store, KEY).set("TIDEWIRE_JWT_SECRET", SECRET).configured(&rule).start().await
}

fn user(admin: &Http, name: &str) -> Http {
    let claims = json!({ "sub": name, "tidewire": { "tables": ["orders"] } });
    admin.as_someone(Some(&Issuer::hs256(SECRET).token(&claims)))
}

/// I6: also of a row that changes hands.
async fn a_rule_of_the_configuration_holds_for_everyone_but_administrators(store: Store) {
    let server = guarded(&store, "owner = auth.user_id()").await;
    let admin = server.http();
    orders(admin).await;
    let mut sockets = BTreeMap::new();
    for name in ["u-ann", "u-bob", "u-eve"] {
        let mut socket = connect(&user(admin, name)).await;
        socket.subscribe(&json!({ "query_id": "q", "table": "orders" })).await;
        sockets.insert(name, socket);
    }
    let mut whole = connect(admin).await;
    whole.subscribe(&json!({ "query_id": "q", "table": "orders" })).await;
    run(admin, "INSERT INTO orders VALUES (1, 'u-ann', 'x', 1, 'of-u-ann')").await;
    // The row changes hands, and its key too: ann must not learn what it is now.
    run(admin, "UPDATE orders SET id = 77, owner = 'u-bob', secret = 'of-u-bob' WHERE id = 1")
        .await;
    run(admin, "DELETE FROM orders").await;
    run(admin, "INSERT INTO orders VALUES (3, 'u-eve', 'x', 3, 'of-u-eve')").await;
    let mut told: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for (name, count) in [("u-ann", 2), ("u-bob", 2), ("u-eve", 1)] {
        let socket = sockets.get_mut(name).expect("a socket");
        for _ in 0..count {
            told.entry(name).or_default().push(socket.hears("cdc_event").await);
        }
    }
    let words = |name: &str| -> Vec<(&Value, &Value)> {
        told[name].iter().map(|event| (&event["operation"], &event["entityId"])).collect()
    };
    assert_eq!(words("u-ann"), [(&json!("INSERT"), &json!("1")), (&json!("DELETE"), &json!("1"))]);
    assert_eq!(
        words("u-bob"),
        [(&json!("INSERT"), &json!("77")), (&json!("DELETE"), &json!("77"))]
    );
    assert_eq!(words("u-eve"), [(&json!("INSERT"), &json!("3"))]);
    for (name, events) in &told {
        let text = json!(events).to_string();
        for other in ["u-ann", "u-bob", "u-eve"].into_iter().filter(|other| other != name) {
            assert!(!text.contains(other), "{other} in what {name} got: {text}");
        }
        assert!(!text.contains("left"), "what may not be seen did not leave: {text}");
    }
    for word in ["INSERT", "UPDATE", "DELETE", "INSERT"] {
        assert_eq!(whole.hears("cdc_event").await["operation"], word);
    }
}

/// I6: rows of a table with a column of tenants.
async fn tenants_see_their_own_rows(store: Store) {
    let server = Launch::serve(&store, KEY).start().await;
    let admin = server.http();
    orders(admin).await;
    run(admin, "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)").await;
    let watch = json!({ "table": "notes" });
    assert_eq!(admin.json(Method::POST, "/v1/watch", &watch).await.status, 200);
    let work = "INSERT INTO orders VALUES (1, 'acme', 'x', 1, NULL), (2, 'other', 'x', 2, NULL); \
                UPDATE orders SET owner = 'other' WHERE id = 1";
    let done = run(admin, work).await;
    let key = json!({ "tables": ["orders", "notes"], "host": "acme" });
    let http = admin.holder(&admin.make_key(&key).await);
    let offset = done["offset"].as_str().expect("an offset");
    let read = http.get(&format!("/v1/stream/table/orders?min_offset={offset}")).await;
    assert!(!read.text().contains("other"), "{}", read.text());
    let words: Vec<Value> =
        read.json().as_array().expect("events").iter().map(|e| e["operation"].clone()).collect();
    assert_eq!(words, ["INSERT", "DELETE"]);
    http.get("/v1/stream/table/notes").await.problem(404, "stream_not_found");
    http.get("/v1/stream/table/nothing").await.problem(403, "forbidden");
    // Watched without that column it is seen no more, though it was just now.
    let again = admin.json(Method::POST, "/v1/watch", &json!({ "table": "orders" })).await;
    assert_eq!(again.status, 200, "{}", again.text());
    let done = run(admin, "INSERT INTO orders VALUES (3, 'acme', 'x', 3, NULL)").await;
    let offset = done["offset"].as_str().expect("an offset");
    let read = http.get(&format!("/v1/stream/table/orders?min_offset={offset}")).await;
    read.problem(404, "stream_not_found");
}
