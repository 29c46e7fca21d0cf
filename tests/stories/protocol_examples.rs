//! Someone writes a client from PROTOCOL.md alone: every example of sections 22, 29 and 30 is real.

mod groups;

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::{Value, json};
use tidewire_stories::examples::{examples, examples_of, shape};
use tidewire_stories::query_tab::{run, watch};
use tidewire_stories::{Launch, Metrics, ServerSent, Store, Tab, WebSocket, on_both_stores};

on_both_stores!(
    what_clients_say_in_the_protocol_is_understood,
    what_the_server_says_in_the_protocol_is_what_it_says,
    server_sent_events_say_the_same_and_when_to_come_back,
    what_the_protocol_says_of_queries_is_so,
);

const KEY: &str = "story-7d20c4f1b8e6593a";

/// The stream of the examples, and how many events it has here: more than their offsets.
const STREAM: &str = "doc-123";
const EVENTS: usize = 60;

/// Each of a client's examples is sent where it makes sense, and answered as the text says.
async fn what_clients_say_in_the_protocol_is_understood(store: Store) {
    let launch = Launch::serve(&store, KEY).set("TIDEWIRE_LIVE_PING_MS", "100");
    let server = launch.start().await;
    let http = server.http();
    http.create(STREAM).await;
    http.create("other").await;
    http.create("elsewhere").await;
    for number in 0..EVENTS {
        http.append(STREAM, &json!({ "x": number })).await;
    }
    let examples = examples("client");
    let subscribe = examples.iter().find(|e| e["type"] == "subscribe").expect("a subscribe");
    for example in &examples {
        let tab = Tab::open(http).await;
        let mut client = WebSocket::connect(&http.as_someone(None), &tab.socket()).await;
        let kind = example["type"].as_str().expect("a type");
        if kind != "auth" {
            client.say(&json!({ "type": "auth", "token": KEY })).await;
            client.hears("hello").await;
        }
        let mut said = example.clone();
        match kind {
            "auth" => {
                said["token"] = KEY.into();
                client.say(&said).await;
                let hello = client.hears("hello").await;
                assert_eq!(hello["session"], *tab.session, "{hello}");
            }
            "subscribe" if said["subscriptions"][0].get("entity_code").is_some() => {
                client.say(&said).await;
                let created = client.hears("subscription_created").await;
                let entry = &created["subscriptions"][0];
                assert_eq!(entry["query_id"], "projects", "{created}");
                assert_eq!(entry["offset"], said["subscriptions"][0]["offset"], "{created}");
            }
            "SUBSCRIBE" => {
                client.say(&said).await;
                let created = client.hears("subscription_created").await;
                let entry = &created["subscriptions"][0];
                assert_eq!(entry["query_id"], "entity/project", "{created}");
                assert_eq!(
                    (&entry["entityCode"], &entry["entities"]),
                    (&json!("project"), &json!(2))
                );
            }
            "UNSUBSCRIBE" => {
                let payload = json!({ "entityCode": "project", "entityIds": ["7", "8"] });
                client.say(&json!({ "type": "SUBSCRIBE", "payload": payload })).await;
                client.hears("subscription_created").await;
                client.say(&said).await;
                let ended = client.hears("subscription_ended").await;
                assert_eq!(ended["query_id"], "entity/project", "{ended}");
                assert_eq!(ended["reason"], "unsubscribed", "{ended}");
            }
            "subscribe" => {
                client.say(&said).await;
                gets_everything(&mut client).await;
            }
            "unsubscribe" => {
                client.say(subscribe).await;
                gets_everything(&mut client).await;
                client.say(&said).await;
                let ended = client.hears("subscription_ended").await;
                assert_eq!(ended["query_id"], "doc", "{ended}");
                assert_eq!(ended["reason"], "unsubscribed", "{ended}");
                assert_eq!(ended["streamId"], STREAM, "{ended}");
            }
            "ack" => {
                client
                    .subscribe(&json!({ "query_id": "o", "stream": "other", "offset": "-1" }))
                    .await;
                client.say(subscribe).await;
                gets_everything(&mut client).await;
                // There is progress to tell of only when the log has grown.
                http.append("elsewhere", &json!(1)).await;
                client.hears("progress").await;
                client.say(&said).await;
                // The first names a subscription; the second, which names none, moves the other too.
                tab.gets_to(STREAM, "0001_0000000000000042").await;
                tab.gets_to("other", "0001_0000000000000040").await;
            }
            "ping" => {
                client.say(&said).await;
                let pong = client.hears("pong").await;
                assert_eq!(pong, json!({ "type": "pong" }));
            }
            other => panic!("the protocol has an example that is not tried here: {other}"),
        }
    }
    assert_eq!(examples.len(), 8, "a client has seven messages, and one of them has two forms");
}

/// What the example of `subscribe` asks for: the stream from its start.
async fn gets_everything(client: &mut WebSocket) {
    let created = client.hears("subscription_created").await;
    let entry = &created["subscriptions"][0];
    assert_eq!(entry["query_id"], "doc", "{created}");
    assert_eq!(entry["streamId"], STREAM, "{created}");
    assert_eq!(entry["offset"], "0001_0000000000000000", "{created}");
    assert_eq!(entry["reset"], false, "{created}");
    for number in 0..EVENTS {
        let event = client.hears("event").await;
        assert_eq!(event["payload"]["x"], number, "{event}");
    }
}

/// Each of the server's examples has the members, and the words, of the message it stands for.
async fn what_the_server_says_in_the_protocol_is_what_it_says(store: Store) {
    let launch = Launch::dev(&store)
        .set("TIDEWIRE_LIVE_PING_MS", "100")
        .set("TIDEWIRE_LIVE_NOTIFY_BYTES", "60000")
        .set("TIDEWIRE_LIVE_QUEUE_EVENTS_MAX", "1");
    let server = launch.start().await;
    let http = server.http();
    let mut said = BTreeMap::new();
    let mut hear = |message: Value| {
        let kind = message["type"].as_str().expect("a type").to_owned();
        said.insert(kind, message);
    };

    let tab = Tab::open(http).await;
    let mut client = WebSocket::connect(http, &tab.socket()).await;
    hear(client.hears("hello").await);
    client.say(&json!({ "type": "ping" })).await;
    hear(client.hears("pong").await);
    let wanted = json!({ "query_id": "doc", "stream": STREAM });
    let subscribe = json!({ "type": "subscribe", "subscriptions": [wanted] });
    client.say(&subscribe).await;
    hear(client.hears("error").await);
    http.create(STREAM).await;
    client.say(&subscribe).await;
    hear(client.hears("subscription_created").await);
    http.append(STREAM, &json!({ "x": 1 })).await;
    hear(client.hears("event").await);
    http.append(STREAM, &json!("x".repeat(60_000))).await;
    hear(client.hears("notify").await);
    hear(client.hears_at_last("progress").await);

    for (path, document) in [
        ("/v1/sql", json!({ "sql": "CREATE TABLE orders (id INTEGER PRIMARY KEY)" })),
        ("/v1/watch", json!({ "table": "orders" })),
        ("/v1/sql", json!({ "sql": "CREATE TABLE projects (id INTEGER PRIMARY KEY, name TEXT)" })),
        ("/v1/watch", json!({ "table": "projects", "entity": "project" })),
        ("/v1/sql", json!({ "sql": "INSERT INTO projects VALUES (7, 'x')" })),
    ] {
        let answer = http.json(Method::POST, path, &document).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    }
    client.subscribe(&json!({ "query_id": "t", "stream": "table/orders" })).await;
    let alter = json!({ "sql": "ALTER TABLE orders ADD COLUMN note TEXT" });
    assert_eq!(http.json(Method::POST, "/v1/sql", &alter).await.status, 200);
    hear(client.hears_at_last("schema_changed").await);

    let payload = json!({ "entityCode": "project", "entityIds": ["7"] });
    client.say(&json!({ "type": "SUBSCRIBE", "payload": payload })).await;
    client.hears_at_last("subscription_created").await;
    let update = json!({ "sql": "UPDATE projects SET name = 'y'" });
    assert_eq!(http.json(Method::POST, "/v1/sql", &update).await.status, 200);
    hear(client.hears_at_last("INVALIDATE").await);
    client.say(&json!({ "type": "unsubscribe", "query_ids": ["entity/project"] })).await;
    client.hears_at_last("subscription_ended").await;

    let mut slow = WebSocket::connect_narrow(http, "/v1/ws").await;
    slow.hears("hello").await;
    slow.subscribe(&json!({ "query_id": "doc", "stream": STREAM })).await;
    while Metrics::read(http).await.get("live_gaps_total") < 1.0 {
        http.append(STREAM, &json!("x".repeat(50_000))).await;
        client.hears("event").await;
    }
    hear(slow.hears_at_last("gap").await);
    drop(slow);

    let close = http.request(Method::POST, &format!("/v1/stream/{STREAM}"));
    let closed = close.header("stream-closed", "true").send().await.expect("an answer");
    assert_eq!(closed.status(), 204, "closing the stream");
    hear(client.hears("subscription_ended").await);
    let (stopped, farewell) = tokio::join!(server.stop(), client.closed());
    assert_eq!((stopped.code, farewell.code), (Some(0), 1001), "{farewell:?}");
    farewell.messages.into_iter().for_each(&mut hear);

    let examples = examples("server");
    for example in &examples {
        let kind = example["type"].as_str().expect("a type");
        let message = said.get(kind).unwrap_or_else(|| {
            panic!("the protocol has an example that was not provoked here: {example}")
        });
        assert_eq!(shape(example), shape(message), "the example of {kind}, and {message}");
        for word in ["type", "code", "reason", "temporary", "message", "hint", "payload"] {
            assert_eq!(example[word], message[word], "{word} in the example of {kind}");
        }
    }
    assert_eq!(examples.len(), said.len(), "messages without an example: {said:?}");
}

/// Section 21: what stands in the log has its place as `id:`, what does not has none, and the last
/// word is `retry:`.
async fn server_sent_events_say_the_same_and_when_to_come_back(store: Store) {
    let server = Launch::dev(&store).set("TIDEWIRE_LIVE_PING_MS", "100").start().await;
    let http = server.http();
    http.create(STREAM).await;
    let tab = Tab::open(http).await;
    let mut page = ServerSent::open(http, &tab.session, None).await;
    tab.subscribe(STREAM).await;
    assert_eq!(page.hears("subscription_created").await.id, None);
    let offset = http.append(STREAM, &json!({ "x": 1 })).await;
    let event = page.hears("event").await;
    assert_eq!(event.id.as_ref(), Some(&offset));
    let mut expected = examples("server").into_iter().find(|e| e["type"] == "event").expect("one");
    (expected["query_id"], expected["offset"]) = (STREAM.into(), offset.into());
    assert_eq!(event.message, expected);
    let progress = page.hears("progress").await;
    assert_eq!(progress.id.as_deref(), progress.message["offset"].as_str());
    let (_, closing) = tokio::join!(server.stop(), page.hears("closing"));
    assert_eq!(closing.id, None);
    assert_eq!(page.retry_ms(), closing.message["reconnect_in_ms"].as_u64());
    assert_eq!(page.next().await, None, "after the last word");
}

/// Section 29: the example's query is followed, and each message is as the text shows it.
async fn what_the_protocol_says_of_queries_is_so(store: Store) {
    const ROWS: usize = 3_000;
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    run(http, "CREATE TABLE orders (id INTEGER PRIMARY KEY, total INTEGER, status TEXT)").await;
    watch(http, &json!({ "table": "orders" })).await;
    run(http, "INSERT INTO orders VALUES (1, 5, 'open')").await;
    let mut client = WebSocket::connect(http, "/v1/ws").await;
    client.hears("hello").await;
    let mut said = BTreeMap::new();
    let mut hear = |message: Value| {
        let kind = message["type"].as_str().expect("a type").to_owned();
        said.entry(kind).or_insert(message);
    };
    let wanted = examples_of("29. Live queries", "client");
    assert_eq!(wanted.len(), 1);
    client.say(&wanted[0]).await;
    hear(client.hears("subscription_created").await);
    run(http, "UPDATE orders SET total = 6").await;
    hear(client.hears("change").await);
    let rows: Vec<String> =
        (2..ROWS).map(|id| format!("({id}, {}, 'open')", 1_000_000_000)).collect();
    run(http, &format!("INSERT INTO orders VALUES {}", rows.join(","))).await;
    let mut other = WebSocket::connect(http, "/v1/ws").await;
    other.hears("hello").await;
    other.say(&wanted[0]).await;
    let created = other.hears("subscription_created").await;
    assert_eq!(created["subscriptions"][0]["more"], true, "a large result");
    let mut batch = other.hears("initial_batch").await;
    while batch["more"] == true {
        batch = other.hears("initial_batch").await;
    }
    hear(batch);
    let examples = examples_of("29. Live queries", "server");
    for example in &examples {
        let kind = example["type"].as_str().expect("a type");
        assert_eq!(shape(example), shape(&said[kind]), "the example of {kind}");
        for word in ["type", "change_type", "more"] {
            assert_eq!(example[word], said[kind][word], "{word} in the example of {kind}");
        }
    }
    assert_eq!(examples.len(), said.len(), "messages without an example: {said:?}");
}
