//! Streams of every kind over live connections: what was appended is what arrives, and every end has
//! its reason.

use reqwest::Method;
use serde_json::{Value, json};
use tidewire_client::{Client, LiveOptions, ReadFrom, Update};
use tidewire_stories::wait::within_patience;
use tidewire_stories::{Answer, Http, Launch, ServerSent, Store, Tab, WebSocket, on_both_stores};

on_both_stores!(
    json_text_and_bytes_arrive_as_they_were_appended,
    a_subscription_says_why_it_ends,
    a_subscription_waits_until_the_log_has_got_somewhere,
);

async fn create(http: &Http, stream: &str, kind: &str) {
    let request = http.request(Method::PUT, &format!("/v1/stream/{stream}"));
    let answer = Answer::of(request.header("content-type", kind)).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
}

async fn append(http: &Http, stream: &str, kind: &str, body: Vec<u8>) {
    let request = http.request(Method::POST, &format!("/v1/stream/{stream}"));
    let answer = Answer::of(request.header("content-type", kind).body(body)).await;
    assert_eq!(answer.status, 204, "{}", answer.text());
}

/// Bytes in base64, text as a string, JSON as JSON, line breaks and all; replayed and live.
async fn json_text_and_bytes_arrive_as_they_were_appended(store: Store) {
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    let binary = "application/octet-stream";
    let kinds: [(&str, Vec<u8>, Value, Option<&str>); 3] = [
        (
            "application/json",
            b"{\r\n  \"x\": [1,\n 2.50],\n \"y\": \"\\n\"}".to_vec(),
            json!({ "x": [1, 2.50], "y": "\n" }),
            None,
        ),
        (
            "text/plain",
            "tide\r\n\u{2028}\"öß\u{0}\"".into(),
            json!("tide\r\n\u{2028}\"öß\u{0}\""),
            None,
        ),
        (binary, vec![0, 255, 10, 13], json!("AP8KDQ=="), Some("base64")),
    ];
    for (number, (kind, body, payload, encoding)) in kinds.into_iter().enumerate() {
        let stream = format!("s{number}");
        create(http, &stream, kind).await;
        append(http, &stream, kind, body.clone()).await;
        let tab = Tab::open(http).await;
        tab.subscribe_at(&stream, "-1").await;
        let mut page = ServerSent::open(http, &tab.session, None).await;
        let mut socket = WebSocket::connect(http, "/v1/ws").await;
        socket.hears("hello").await;
        socket.subscribe(&json!({ "query_id": "q", "stream": stream, "offset": "-1" })).await;
        page.hears("subscription_created").await;
        for round in ["replayed", "live"] {
            if round == "live" {
                append(http, &stream, kind, body.clone()).await;
            }
            for event in [socket.hears("event").await, page.hears("event").await.message] {
                assert_eq!(event["payload"], payload, "{kind}, {round}");
                assert_eq!(event["encoding"].as_str(), encoding, "{kind}, {round}");
            }
        }
        let client = Client::new(http.base(), None).expect("a client");
        let mut live = client.live(LiveOptions::default()).expect("options that make sense");
        live.subscribe("q", &stream, ReadFrom::Start).expect("a stream's name");
        let event = loop {
            let update = within_patience("an update", live.next()).await.expect("no error");
            if let Some(Update::Event(event)) = update {
                break event;
            }
        };
        if event.is_json {
            assert_eq!(event.json::<Value>().expect("JSON"), payload, "{kind}");
        } else {
            assert_eq!(event.payload, body, "{kind}");
        }
    }
}

/// A stream that is closed is sent to its end; one that is deleted is gone; and what was ended is not
/// heard of again.
async fn a_subscription_says_why_it_ends(store: Store) {
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    for stream in ["closed", "deleted"] {
        http.create(stream).await;
    }
    let mut client = WebSocket::connect(http, "/v1/ws").await;
    client.hears("hello").await;
    for stream in ["closed", "deleted"] {
        client.subscribe(&json!({ "query_id": stream, "stream": stream })).await;
    }
    let request = http.request(Method::POST, "/v1/stream/closed");
    let request =
        request.header("content-type", "application/json").header("stream-closed", "true");
    assert_eq!(Answer::of(request.body("[\"the last\"]")).await.status, 204);
    assert_eq!(client.hears("event").await["payload"], "the last");
    let ended = client.hears("subscription_ended").await;
    assert_eq!(ended["reason"], "stream_closed", "{ended}");
    let answer = Answer::of(http.request(Method::DELETE, "/v1/stream/deleted")).await;
    assert_eq!(answer.status, 204);
    let ended = client.hears("subscription_ended").await;
    assert_eq!(
        (&ended["query_id"], &ended["reason"]),
        (&json!("deleted"), &json!("stream_deleted"))
    );
    // Whoever comes after the close gets all of it, and then the end.
    client.subscribe(&json!({ "query_id": "late", "stream": "closed", "offset": "-1" })).await;
    assert_eq!(client.hears("event").await["payload"], "the last");
    assert_eq!(client.hears("subscription_ended").await["reason"], "stream_closed");
    // A stream of the same name is another one.
    http.create("deleted").await;
    client.subscribe(&json!({ "query_id": "deleted", "stream": "deleted" })).await;
    http.append("deleted", &json!("of the new one")).await;
    assert_eq!(client.hears("event").await["payload"], "of the new one");
}

/// `min_offset`: what somebody else was told has happened is there when the subscription begins.
async fn a_subscription_waits_until_the_log_has_got_somewhere(store: Store) {
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    http.create("doc").await;
    let first = http.append("doc", &json!(1)).await;
    let position: u64 = first[5..].parse().expect("a number");
    let next = format!("{}{:016}", &first[..5], position + 1);
    let mut client = WebSocket::connect(http, "/v1/ws").await;
    client.hears("hello").await;
    let wanted = json!({ "query_id": "q", "stream": "doc", "offset": "-1", "min_offset": next });
    client.say(&json!({ "type": "subscribe", "subscriptions": [wanted] })).await;
    client.say(&json!({ "type": "ping" })).await;
    client.hears("pong").await;
    assert_eq!(http.append("doc", &json!(2)).await, next);
    client.hears("subscription_created").await;
    for number in [1, 2] {
        assert_eq!(client.hears("event").await["payload"], number);
    }
}
