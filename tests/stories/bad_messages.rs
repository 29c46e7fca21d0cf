//! Clients say over a WebSocket what nobody should, in text and in frames.

use reqwest::Method;
use serde_json::{Value, json};
use tidewire_stories::websocket::{
    BINARY, CLOSE, COMPRESSED, Frame, PING, PONG, TEXT, deflate, frame,
};
use tidewire_stories::{
    Answer, Http, Launch, Metrics, Raw, Server, Store, WebSocket, on_both_stores,
};

on_both_stores!(
    what_makes_no_sense_is_an_error_and_the_connection_stays,
    each_subscription_of_a_message_fails_alone,
    one_subscription_too_many_is_refused_and_the_others_stay,
    frames_that_break_the_rules_are_closed_with_their_code,
    handshakes_that_are_not_right_are_refused_by_name,
    clients_that_vanish_leave_nothing_behind,
    whoever_floods_the_server_after_breaking_a_rule_fills_no_memory,
);

const MESSAGE_BYTES_MAX: usize = 100_000;

async fn start(store: &Store) -> Server {
    let bytes_max = MESSAGE_BYTES_MAX.to_string();
    let launch = Launch::dev(store).set("TIDEWIRE_LIVE_MESSAGE_BYTES_MAX", &bytes_max);
    let server = launch.start().await;
    server.http().create("doc").await;
    server
}

/// Someone who behaves, and must not notice the others.
struct Bystander(WebSocket);

impl Bystander {
    async fn come(http: &Http) -> Bystander {
        let mut socket = WebSocket::connect(http, "/v1/ws").await;
        socket.hears("hello").await;
        socket.subscribe(&json!({ "query_id": "mine", "stream": "doc" })).await;
        Bystander(socket)
    }

    async fn notices_nothing(&mut self, http: &Http) {
        let offset = http.append("doc", &json!("all is well")).await;
        let event = self.0.hears("event").await;
        assert_eq!(event["offset"], *offset, "{event}");
    }
}

async fn connected(http: &Http) -> WebSocket {
    let mut client = WebSocket::connect(http, "/v1/ws").await;
    client.hears("hello").await;
    client
}

fn subscribe(subscription: &Value) -> String {
    json!({ "type": "subscribe", "subscriptions": [subscription] }).to_string()
}

/// Messages, each with the code of the error that answers it.
fn nonsense() -> Vec<(String, &'static str)> {
    let long = "q".repeat(257);
    let mut nonsense: Vec<(String, &str)> = vec![
        (subscribe(&json!({ "query_id": "", "stream": "doc" })), "invalid_query_id"),
        (subscribe(&json!({ "query_id": long, "stream": "doc" })), "invalid_query_id"),
        (subscribe(&json!({ "query_id": "a\u{0}b", "stream": "doc" })), "invalid_query_id"),
        (subscribe(&json!({ "query_id": "a\nb", "stream": "doc" })), "invalid_query_id"),
        (subscribe(&json!({ "query_id": 7, "stream": "doc" })), "malformed_message"),
        (subscribe(&json!({ "stream": "doc" })), "malformed_message"),
        (subscribe(&json!("doc")), "malformed_message"),
        (subscribe(&json!({ "query_id": "q" })), "unsupported_subscription"),
        (subscribe(&json!({ "query_id": "q", "table": "t" })), "table_not_found"),
        (subscribe(&json!({ "query_id": "q", "table": 7 })), "malformed_message"),
        (subscribe(&json!({ "query_id": "q", "table": "a//b" })), "invalid_stream_name"),
        (subscribe(&json!({ "query_id": "q", "entity_code": "e" })), "invalid_entities"),
        (subscribe(&json!({ "query_id": "q", "entity_code": 1 })), "malformed_message"),
        (subscribe(&json!({ "query_id": "q", "sql": "SELECT 1 FROM t" })), "table_not_found"),
        (subscribe(&json!({ "query_id": "q", "sql": 1 })), "malformed_message"),
        (subscribe(&json!({ "query_id": "q", "stream": "a//b" })), "invalid_stream_name"),
        (subscribe(&json!({ "query_id": "q", "stream": "\u{0}" })), "invalid_stream_name"),
        (
            subscribe(&json!({ "query_id": "q", "stream": "n".repeat(2_000) })),
            "stream_name_too_long",
        ),
        (subscribe(&json!({ "query_id": "q", "stream": "none" })), "stream_not_found"),
    ];
    for (offset, code) in [
        ("yesterday", "malformed_offset"),
        ("0009_0000000000000001", "offset_of_another_epoch"),
        ("0001_9999999999999999", "offset_beyond_tip"),
    ] {
        let wanted = json!({ "query_id": "q", "stream": "doc", "offset": offset });
        nonsense.push((subscribe(&wanted), code));
    }
    let deep = format!("{{\"type\":{}", "[".repeat(50_000));
    let wide = format!("{{\"type\":\"ping\",\"type\":\"{}\"}}", "x".repeat(50_000));
    for text in ["", " ", "ping", "{", "[]", "null", "7", "\"ping\"", "{}", "{} {}", &deep, &wide] {
        nonsense.push((text.to_owned(), "malformed_message"));
    }
    for message in [
        json!({ "type": null }),
        json!({ "type": ["ping"] }),
        json!({ "type": "auth" }),
        json!({ "type": "subscribe" }),
        json!({ "type": "subscribe", "subscriptions": {} }),
        json!({ "type": "unsubscribe", "query_ids": "q" }),
        json!({ "type": "unsubscribe", "query_ids": [1] }),
        json!({ "type": "SUBSCRIBE" }),
        json!({ "type": "SUBSCRIBE", "payload": { "entityCode": "e", "entityIds": [1] } }),
        json!({ "type": "UNSUBSCRIBE", "payload": {} }),
        json!({ "type": "ack" }),
        json!({ "type": "ack", "offsets": [{}] }),
    ] {
        nonsense.push((message.to_string(), "malformed_message"));
    }
    for kind in ["", "PING", "hello", "event", "\u{0}"] {
        nonsense.push((json!({ "type": kind }).to_string(), "unknown_message"));
    }
    for (code, ids) in [("", vec!["1"]), ("e", vec![]), ("e", vec![""]), ("e\n", vec!["1"])] {
        let payload = json!({ "entityCode": code, "entityIds": ids });
        let message = json!({ "type": "SUBSCRIBE", "payload": payload });
        nonsense.push((message.to_string(), "invalid_entities"));
    }
    nonsense.extend([
        (json!({ "type": "unsubscribe", "query_ids": ["q"] }).to_string(), "no_such_subscription"),
        (
            json!({ "type": "ack", "offsets": [{ "lastOffset": "x" }] }).to_string(),
            "malformed_offset",
        ),
    ]);
    nonsense
}

/// I9: every message that is not right has the name of what is wrong with it, and is all that is
/// refused.
async fn what_makes_no_sense_is_an_error_and_the_connection_stays(store: Store) {
    let server = start(&store).await;
    let mut bystander = Bystander::come(server.http()).await;
    let mut client = connected(server.http()).await;
    for (text, code) in nonsense() {
        let shown: String = text.chars().take(100).collect();
        client.send(frame(TEXT, text.as_bytes())).await;
        let error = client.hears("error").await;
        assert_eq!(error["code"], code, "{shown}: {error}");
        for member in ["message", "hint"] {
            assert!(error[member].as_str().is_some_and(|text| !text.is_empty()), "{error}");
        }
        assert_eq!(error["temporary"], false, "{error}");
        client.say(&json!({ "type": "ping" })).await;
        client.hears("pong").await;
    }
    // What is merely unknown is ignored, as it must be for what may come to be known.
    let lenient = json!({ "query_id": "é".repeat(128), "stream": "doc", "more": { "x": [1] } });
    client.subscribe(&lenient).await;
    bystander.notices_nothing(server.http()).await;
}

/// Good ones stand beside bad ones.
async fn each_subscription_of_a_message_fails_alone(store: Store) {
    let server = start(&store).await;
    let mut client = connected(server.http()).await;
    let message = json!({ "type": "subscribe", "subscriptions": [
        { "query_id": "bad", "stream": "none" },
        { "query_id": "good", "stream": "doc" },
        { "query_id": "worse", "stream": "doc", "offset": "?" },
        { "query_id": "", "stream": "doc" },
        { "query_id": "fine", "stream": "/v1/stream/doc" },
    ]});
    client.say(&message).await;
    let (mut errors, mut created) = (Vec::new(), Vec::new());
    while errors.len() + created.len() < 5 {
        let message = client.next().await;
        match message["type"].as_str() {
            Some("error") => errors.push((message["query_id"].clone(), message["code"].clone())),
            _ => {
                let entries = message["subscriptions"].as_array().expect("entries");
                created.extend(entries.iter().map(|entry| entry["query_id"].clone()));
            }
        }
    }
    created.sort_by_key(Value::to_string);
    assert_eq!(created, ["fine", "good"]);
    let expected = [
        (json!("worse"), json!("malformed_offset")),
        (json!(null), json!("invalid_query_id")),
        (json!("bad"), json!("stream_not_found")),
    ];
    assert_eq!(errors, expected);
    server.http().append("doc", &json!(1)).await;
    let mut names = [client.hears("event").await, client.hears("event").await];
    names.sort_by_key(|event| event["query_id"].to_string());
    assert_eq!(names.map(|event| event["query_id"].clone()), ["fine", "good"]);
}

/// I5: a connection has `live.subscriptions_max` subscriptions and no more.
async fn one_subscription_too_many_is_refused_and_the_others_stay(store: Store) {
    let server = start(&store).await;
    let mut client = connected(server.http()).await;
    let wanted: Vec<Value> = (0..=1_000)
        .map(|number| json!({ "query_id": number.to_string(), "stream": "doc", "offset": "-1" }))
        .collect();
    client.say(&json!({ "type": "subscribe", "subscriptions": wanted })).await;
    let error = client.hears("error").await;
    assert_eq!(
        (&error["code"], &error["query_id"]),
        (&json!("too_many_subscriptions"), &json!("1000"))
    );
    let mut created = 0;
    while created < 1_000 {
        let message = client.hears("subscription_created").await;
        created += message["subscriptions"].as_array().expect("entries").len();
    }
    Metrics::shows(server.http(), "live_subscriptions", 1_000.0).await;
    server.http().append("doc", &json!("for all of them")).await;
    for _ in 0..1_000 {
        client.hears("event").await;
    }
    // One that is begun anew takes no further place.
    let again = json!({ "query_id": "0", "stream": "doc" });
    assert_eq!(client.subscribe(&again).await["reset"], true);
}

/// Frames, each with the code that it is closed with (RFC 6455, section 7.4.1).
fn broken_frames() -> Vec<(&'static str, Vec<u8>, u16)> {
    let unmasked = [&[TEXT, 15][..], b"{\"type\":\"ping\"}"].concat();
    let endless = [&[TEXT, 0xFF][..], &u64::MAX.to_be_bytes()].concat();
    let large = vec![b' '; MESSAGE_BYTES_MAX + 1];
    let half = vec![b' '; MESSAGE_BYTES_MAX / 2 + 1];
    let in_pieces = [frame(0x01, &half), frame(0x80, &half)].concat();
    let long_ping = frame(PING, &[0; 126]);
    let wrong_code = frame(CLOSE, &1005u16.to_be_bytes());
    vec![
        ("binary", frame(BINARY, b"{\"type\":\"ping\"}"), 1003),
        ("not masked", unmasked, 1002),
        ("an opcode there is none of", frame(0x83, b""), 1002),
        ("a reserved bit", frame(TEXT | 0x20, b"{}"), 1002),
        ("compressed without an agreement", frame(TEXT | COMPRESSED, &deflate(b"{}")), 1002),
        ("a continuation of nothing", frame(0x80, b"{}"), 1002),
        ("a message inside another", [frame(0x01, b"{"), frame(TEXT, b"}")].concat(), 1002),
        ("a ping in pieces", frame(0x09, b""), 1002),
        ("a ping that is too long", long_ping, 1002),
        ("a close frame of one byte", frame(CLOSE, b"x"), 1002),
        ("a close frame with a code that nobody sends", wrong_code, 1002),
        ("text that is not UTF-8", frame(TEXT, &[b'"', 0xC3, 0x28, b'"']), 1007),
        ("a message that is too large", frame(TEXT, &large), 1009),
        ("a message that is too large, in pieces", in_pieces, 1009),
        ("a length that nothing has", endless, 1009),
    ]
}

/// I9: whoever breaks the rules of the protocol below is told which, and closed; nobody else is.
async fn frames_that_break_the_rules_are_closed_with_their_code(store: Store) {
    let server = start(&store).await;
    let http = server.http();
    let mut bystander = Bystander::come(http).await;
    for (what, bytes, code) in broken_frames() {
        let mut client = connected(http).await;
        client.send(bytes).await;
        let farewell = client.closed().await;
        assert_eq!(farewell.code, code, "{what}: {farewell:?}");
        assert!(
            farewell.messages.is_empty() && !farewell.reason.is_empty(),
            "{what}: {farewell:?}"
        );
    }
    let offer = [("sec-websocket-extensions", "permessage-deflate")];
    for (what, payload, code) in [
        ("what is not deflated", b"\xFF\xFF\xFF\xFF".to_vec(), 1002),
        ("a bomb", deflate(&vec![b' '; 100 * MESSAGE_BYTES_MAX]), 1009),
    ] {
        let mut client = WebSocket::connect_with(http, "/v1/ws", &offer).await;
        client.hears("hello").await;
        client.send(frame(TEXT | COMPRESSED, &payload)).await;
        assert_eq!(client.closed().await.code, code, "{what}");
    }
    // What is allowed, if rare: a ping between two pieces of a message, and an empty last piece.
    let mut client = connected(http).await;
    let pieces = [frame(0x01, b"{\"type\":"), frame(PING, b"there?"), frame(PONG, b"unasked")];
    client.send([pieces.concat(), frame(0x00, b"\"ping\"}"), frame(0x80, b"")].concat()).await;
    assert_eq!(client.frame().await, Some(Frame::Pong(b"there?".to_vec())));
    client.hears("pong").await;
    client.send(frame(CLOSE, b"")).await;
    assert_eq!(client.closed().await.code, 1000, "whoever closes is answered");
    bystander.notices_nothing(http).await;
}

/// I9: what is not a WebSocket is told so over HTTP.
async fn handshakes_that_are_not_right_are_refused_by_name(store: Store) {
    let server = start(&store).await;
    let good = [
        ("upgrade", "websocket"),
        ("connection", "upgrade"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    for (name, value, status, code) in [
        ("upgrade", "h2c", 426, "websocket_required"),
        ("connection", "close", 426, "websocket_required"),
        ("sec-websocket-version", "8", 400, "bad_handshake"),
        ("sec-websocket-key", "short", 400, "bad_handshake"),
        ("origin", "https://evil.example", 403, "origin_not_allowed"),
    ] {
        let mut request = server.http().request(Method::GET, "/v1/ws");
        for (header, right) in good.into_iter().filter(|(header, _)| *header != name) {
            request = request.header(header, right);
        }
        let answer = Answer::of(request.header(name, value)).await;
        answer.problem(status, code);
    }
}

/// I9: connections that break off anywhere are forgotten.
async fn clients_that_vanish_leave_nothing_behind(store: Store) {
    let server = start(&store).await;
    let http = server.http();
    let mut bystander = Bystander::come(http).await;
    for beginning in [&frame(TEXT, b"{\"type\":\"ping\"}")[..9], &[TEXT], &frame(0x01, b"{"), b""] {
        let mut client = connected(http).await;
        client.subscribe(&json!({ "query_id": "q", "stream": "doc" })).await;
        client.send(beginning).await;
    }
    let mut garbage = Raw::connect(http.port()).await;
    garbage.send("GET /v1/ws HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\n").await;
    drop(garbage);
    Metrics::shows(http, "live_websockets", 1.0).await;
    Metrics::shows(http, "live_subscriptions", 1.0).await;
    bystander.notices_nothing(http).await;
}

/// I5: nothing is kept of what comes after the server has said that it is over.
async fn whoever_floods_the_server_after_breaking_a_rule_fills_no_memory(store: Store) {
    const PIECE_BYTES: usize = 1 << 20;
    const PIECES: usize = 400;
    let mut server = start(&store).await;
    let http = server.http().clone();
    let mut client = connected(&http).await;
    client.send(frame(0x83, b"there is no such frame")).await;
    let before = server.process().resident_bytes();
    let piece = vec![0xFF; PIECE_BYTES];
    let mut most = before;
    for _ in 0..PIECES {
        if !client.send(&piece).await {
            break;
        }
        most = most.max(server.process().resident_bytes());
    }
    let grown = (most - before) / PIECE_BYTES;
    assert!(grown < PIECES / 4, "memory has grown by {grown} MiB");
    Metrics::shows(&http, "live_websockets", 0.0).await;
}
