//! Many clients that show no credential send large things, or begin to. They take next to nothing, and
//! everyone else is served.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use futures_util::StreamExt as _;
use serde_json::json;
use tidewire_stories::websocket::{Frame, TEXT, frame};
use tidewire_stories::{Http2, Launch, Metrics, Raw, Server, Store, WebSocket};
use tokio::task::JoinSet;

const KEY: &str = "correct-horse-battery";

/// What a node may hold in these stories, and what strangers may of it.
const BUDGET_BYTES: usize = 1 << 20;
const STRANGERS_BYTES: f64 = (BUDGET_BYTES / 8) as f64;

/// A small budget, and patience with those who send half.
async fn start(store: &Store) -> (Launch, Server) {
    let launch = Launch::serve(store, KEY)
        .set("TIDEWIRE_LIMITS_INFLIGHT_BYTES_MAX", &BUDGET_BYTES.to_string())
        .set("TIDEWIRE_LIMITS_HEADER_TIMEOUT_MS", "120000")
        .set("TIDEWIRE_LIMITS_BODY_TIMEOUT_MS", "120000");
    let server = launch.start().await;
    server.http().create("s").await;
    (launch, server)
}

/// Every route that has a body.
const ROUTES: &[&str] = &[
    "PUT /v1/stream/s",
    "POST /v1/stream/s",
    "PUT /v1/stream/__ds/subscriptions/x",
    "POST /v1/stream/__ds/subscriptions/x/streams",
    "POST /v1/stream/__ds/subscriptions/x/claim",
    "POST /v1/stream/__ds/subscriptions/x/callback",
    "POST /v1/stream/__ds/subscriptions/x/ack",
    "POST /v1/stream/__ds/subscriptions/x/release",
    "POST /v1/sessions",
    "POST /v1/subscriptions",
    "DELETE /v1/subscriptions",
    "POST /v1/keys",
    "POST /v1/keys/1/rotate",
    "POST /v1/tickets",
    "POST /v1/cookie",
    "POST /v1/control",
    "POST /v1/sql",
    "POST /v1/watch",
    "DELETE /v1/watch",
    "POST /v1/capture",
    "PUT /v1/groups/g",
    "POST /v1/groups/g/claim",
    "POST /v1/groups/g/ack",
    "POST /v1/groups/g/nack",
    "POST /v1/groups/g/extend",
    "POST /v1/groups/g/change",
    "POST /v1/groups/g/reset",
    "POST /v1/groups/g/dead/redrive",
    "POST /v1/groups/g/dead/drop",
    "POST /v1/nowhere",
];

fn head(route: &str, more: &str, length: usize) -> String {
    format!(
        "{route} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         {more}content-length: {length}\r\n\r\n"
    )
}

/// I9: who has no credential, or a wrong one, is told so before the body is there, on every route; and gets
/// to see that, though they go on sending.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_is_not_read_before_the_credential() {
    let store = Store::sqlite();
    let (launch, server) = start(&store).await;
    let mut clients = Vec::new();
    for (index, route) in ROUTES.iter().enumerate() {
        let wrong = if index % 2 == 0 { "" } else { "authorization: Bearer wrong-one\r\n" };
        let mut client = Raw::connect(launch.port()).await;
        client.send(head(route, wrong, 16 << 20)).await;
        let answer = client.hears("}").await;
        assert!(answer.starts_with("HTTP/1.1 401 "), "{route}: {answer}");
        let lower = answer.to_ascii_lowercase();
        assert!(lower.contains("\r\nconnection: close"), "nothing can follow: {route}: {answer}");
        clients.push(client);
    }
    let metrics = Metrics::read(server.http()).await;
    assert_eq!(metrics.get("inflight_bytes{purpose=\"body\"}"), 0.0);
    drop(clients);
    let mut sending = Raw::connect(launch.port()).await;
    sending.send(head("POST /v1/stream/s", "", 16 << 20)).await;
    for _ in 0..16 {
        sending.send(vec![b'x'; 64 << 10]).await;
    }
    let answer = sending.hears("}").await;
    assert!(answer.starts_with("HTTP/1.1 401 "), "after a megabyte of it: {answer}");
}

/// I9: a heartbeat's token may be in its body, so that is read. It is small, and all strangers share a part of
/// the node's budget that leaves the rest to those who are known.
#[tokio::test(flavor = "multi_thread")]
async fn half_sent_heartbeats_of_strangers_keep_nobody_out() {
    let store = Store::sqlite();
    let (launch, server) = start(&store).await;
    let http = server.http();
    let mut clients = Vec::new();
    for _ in 0..40 {
        let mut client = Raw::connect(launch.port()).await;
        client.send(head("POST /v1/heartbeat", "", 60_000)).await;
        client.send(vec![b' '; 59_990]).await;
        clients.push(client);
    }
    let refusals = "inflight_refusals_total{purpose=\"body\"}";
    let metrics = Metrics::reaches(http, refusals, 30.0).await;
    let held = metrics.get("inflight_stranger_bytes");
    assert!((1.0..=STRANGERS_BYTES).contains(&held), "strangers hold {held} bytes");

    // All of them are still there, and those who are known are served.
    http.append("s", &"x".repeat(300_000).into()).await;
    let session = http.open_session().await;
    let heartbeat = json!({ "sessionId": session, "offsets": [] });
    let answer = http.json(reqwest::Method::POST, "/v1/heartbeat", &heartbeat).await;
    assert_eq!(answer.status, 200, "{}", answer.text());

    let mut refused = 0;
    for client in &mut clients {
        client.send([b' '; 10]).await;
        let answer = client.hears("\"temporary\"").await;
        if answer.starts_with("HTTP/1.1 503 ") {
            refused += 1;
            assert!(answer.contains("\"inflight_bytes_exhausted\""), "{answer}");
            assert!(answer.to_ascii_lowercase().contains("\r\nretry-after: 1\r\n"), "{answer}");
        } else {
            assert!(answer.starts_with("HTTP/1.1 40"), "neither room nor a session: {answer}");
        }
    }
    // It may be all of them: each can be refused while those who are about to be hold the rest.
    assert!((30..=40).contains(&refused), "{refused} of 40 were refused");
    Metrics::shows(http, "inflight_stranger_bytes", 0.0).await;

    // There is room again, for one who has a token in the body.
    let heartbeat = json!({ "sessionId": session, "offsets": [], "token": KEY });
    let stranger = http.as_someone(None);
    let answer = stranger.json(reqwest::Method::POST, "/v1/heartbeat", &heartbeat).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let long = json!({ "sessionId": session, "token": KEY, "more": "x".repeat(64 << 10) });
    let answer = stranger.json(reqwest::Method::POST, "/v1/heartbeat", &long).await;
    answer.problem(413, "body_too_large");
    let answer = http.json(reqwest::Method::POST, "/v1/heartbeat", &long).await;
    assert_eq!(answer.status, 200, "with the token in a header it may be long: {}", answer.text());
}

/// A body that brings this much, and then no more.
fn half(bytes: usize) -> Body {
    let piece = Ok::<_, Infallible>(Bytes::from(vec![b' '; bytes]));
    Body::from_stream(futures_util::stream::iter([piece]).chain(futures_util::stream::pending()))
}

/// I9: the same over HTTP/2, where one connection has many requests.
#[tokio::test(flavor = "multi_thread")]
async fn requests_of_strangers_over_one_connection_take_little() {
    let store = Store::sqlite();
    let (_, server) = start(&store).await;
    let http = server.http();
    let stranger = http.as_someone(None);
    let mut connection = Http2::connect(&stranger).await;
    let mut answers = Vec::new();
    for _ in 0..60 {
        let answer = connection.send("POST", "/v1/stream/s", half(1 << 20)).await;
        let answer = answer.expect("an answer before the body");
        assert_eq!(answer.status(), 401);
        answers.push(answer);
    }
    let mut heartbeats = JoinSet::new();
    for _ in 0..20 {
        let mut connection = Http2::connect(&stranger).await;
        heartbeats.spawn(async move {
            let _never = connection.send("POST", "/v1/heartbeat", half(60_000)).await;
        });
    }
    let refusals = "inflight_refusals_total{purpose=\"body\"}";
    let metrics = Metrics::reaches(http, refusals, 10.0).await;
    let held = metrics.get("inflight_stranger_bytes");
    assert!((1.0..=STRANGERS_BYTES).contains(&held), "strangers hold {held} bytes");
    http.append("s", &"x".repeat(300_000).into()).await;
    heartbeats.shutdown().await;
    Metrics::shows(http, "inflight_stranger_bytes", 0.0).await;
}

/// The beginning of a message of a megabyte.
fn beginning() -> Vec<u8> {
    let mut bytes = frame(TEXT, &vec![b' '; 1 << 20]);
    bytes.truncate(64 << 10);
    bytes
}

/// I9: a WebSocket whose client has not said who it is takes no long messages, however they come.
#[tokio::test(flavor = "multi_thread")]
async fn long_messages_of_strangers_are_refused_by_their_beginning() {
    let store = Store::sqlite();
    let (_, server) = start(&store).await;
    let stranger = server.http().as_someone(None);
    let mut clients = Vec::new();
    for _ in 0..100 {
        clients.push(WebSocket::connect(&stranger, "/v1/ws").await);
    }
    let beginning = beginning();
    for client in &mut clients {
        client.send(&beginning).await;
    }
    for client in &mut clients {
        is_too_big(client).await;
    }
    // In pieces, none of which is long.
    let mut client = WebSocket::connect(&stranger, "/v1/ws").await;
    client.send(frame(0x01, &[b' '; 8_000])).await;
    client.send(frame(0x00, &[b' '; 8_000])).await;
    is_too_big(&mut client).await;
    // Who says who they are first may say the rest at once.
    let mut client = WebSocket::connect(&stranger, "/v1/ws").await;
    let auth = json!({ "type": "auth", "token": KEY }).to_string();
    let long = json!({ "type": "ping", "more": "x".repeat(300_000) }).to_string();
    let all = [frame(TEXT, auth.as_bytes()), frame(TEXT, long.as_bytes())].concat();
    client.send(all).await;
    client.hears("hello").await;
    client.hears("pong").await;
}

async fn is_too_big(client: &mut WebSocket) {
    match client.frame().await {
        Some(Frame::Close { code: 1009, reason }) => {
            assert!(reason.contains("auth"), "{reason}");
        }
        other => panic!("the connection was to be closed with 1009, not {other:?}"),
    }
}
