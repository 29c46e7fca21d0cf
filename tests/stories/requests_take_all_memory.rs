//! Clients with a credential send and ask for more at once than a node has memory for. They are asked to come
//! back, and others are served.

use reqwest::Method;
use serde_json::json;
use tidewire_stories::websocket::{TEXT, frame};
use tidewire_stories::{Answer, Http, Launch, Metrics, Raw, Server, Store, WebSocket, eventually};

const KEY: &str = "correct-horse-battery";

/// What a node may hold in these stories, and what one credential may of it.
const BUDGET_BYTES: usize = 4 << 20;
const SHARE_BYTES: f64 = (BUDGET_BYTES / 4 * 3) as f64;

const MEGABYTE: usize = 1 << 20;

/// A small budget, and patience with those who send half.
async fn start(store: &Store) -> (Launch, Server) {
    start_with(store, BUDGET_BYTES).await
}

async fn start_with(store: &Store, budget_bytes: usize) -> (Launch, Server) {
    let launch = Launch::serve(store, KEY)
        .set("TIDEWIRE_LIMITS_INFLIGHT_BYTES_MAX", &budget_bytes.to_string())
        .set("TIDEWIRE_STREAMS_READ_BYTES_MAX", "700000")
        .set("TIDEWIRE_LIMITS_BODY_TIMEOUT_MS", "120000");
    let server = launch.start().await;
    server.http().create("s").await;
    (launch, server)
}

/// Someone else.
async fn other(http: &Http) -> Http {
    let scopes = json!({ "tables": [], "streams": ["**"], "can": ["read", "append"] });
    http.holder(&http.make_key(&scopes).await)
}

/// I5, I9: bodies that arrive slowly take a part of the memory, and no more; and what is refused for that is
/// accepted when there is room.
#[tokio::test(flavor = "multi_thread")]
async fn bodies_for_which_there_is_no_room_are_asked_to_come_back() {
    let store = Store::sqlite();
    let (launch, server) = start(&store).await;
    let http = server.http();
    let other = other(http).await;
    let body = json!("x".repeat(MEGABYTE - 100)).to_string();
    let (most, rest) = body.split_at(MEGABYTE - 200);
    let head = format!(
        "POST /v1/stream/s HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {KEY}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut clients = Vec::new();
    for _ in 0..8 {
        let mut client = Raw::connect(launch.port()).await;
        client.send(&head).await;
        client.send(most).await;
        clients.push(client);
    }
    // A body's buffer has up to twice its size.
    let refusals = "inflight_refusals_total{purpose=\"body\"}";
    let metrics = Metrics::reaches(http, refusals, 5.0).await;
    let held = metrics.get("inflight_bytes{purpose=\"body\"}");
    assert!((1.0..=SHARE_BYTES).contains(&held), "{held} bytes are held");
    other.append("s", &"and others are served".repeat(1_000).into()).await;

    let (mut done, mut refused) = (0, 0);
    for client in &mut clients {
        client.send(rest).await;
        let answer = client.hears("\r\n\r\n").await;
        if answer.starts_with("HTTP/1.1 204 ") {
            done += 1;
            continue;
        }
        let answer = client.hears("\"temporary\":true").await;
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(answer.contains("\"inflight_bytes_exhausted\""), "{answer}");
        assert!(answer.to_ascii_lowercase().contains("\r\nretry-after: 1\r\n"), "{answer}");
        refused += 1;
    }
    assert!(done >= 1, "who had room is answered");
    assert!(refused >= 5, "{refused} of 8 were refused");
    Metrics::shows(http, "inflight_bytes{purpose=\"body\"}", 0.0).await;
    let request =
        http.request(Method::POST, "/v1/stream/s").header("content-type", "application/json");
    assert_eq!(Answer::of(request.body(body)).await.status, 204, "there is room again");
}

/// I5, I9: so do messages of WebSockets.
#[tokio::test(flavor = "multi_thread")]
async fn messages_for_which_there_is_no_room_are_asked_to_come_back() {
    let store = Store::sqlite();
    let (_, server) = start(&store).await;
    let http = server.http();
    let other = other(http).await;
    let long = json!({ "type": "ping", "more": "x".repeat(MEGABYTE - 1_000) }).to_string();
    let mut clients = Vec::new();
    for _ in 0..8 {
        let mut client = WebSocket::connect(http, "/v1/ws").await;
        client.hears("hello").await;
        let whole = frame(TEXT, long.as_bytes());
        let (most, rest) = whole.split_at(whole.len() - 100);
        client.send(most).await;
        clients.push((client, rest.to_vec()));
    }
    let refusals = "inflight_refusals_total{purpose=\"message\"}";
    let metrics = Metrics::reaches(http, refusals, 5.0).await;
    let held = metrics.get("inflight_bytes{purpose=\"message\"}");
    assert!((1.0..=SHARE_BYTES).contains(&held), "{held} bytes are held");
    other.append("s", &"and others are served".repeat(1_000).into()).await;

    let (mut done, mut refused) = (0, 0);
    for (client, rest) in &mut clients {
        client.send(rest).await;
        let answer = client.next().await;
        if answer["type"] == "pong" {
            done += 1;
            continue;
        }
        assert_eq!(answer["code"], "inflight_bytes_exhausted", "{answer}");
        assert_eq!(answer["temporary"], true, "{answer}");
        refused += 1;
    }
    assert!(done >= 1, "who had room is answered");
    assert!(refused >= 5, "{refused} of 8 were refused");
    Metrics::shows(http, "inflight_bytes{purpose=\"message\"}", 0.0).await;
}

/// I5, I9: answers that nobody takes are kept up to the limit; further ones are refused, and made when there is
/// room. Who reads the same page shares it.
#[tokio::test(flavor = "multi_thread")]
async fn answers_for_which_there_is_no_room_are_asked_for_again() {
    // Pages are larger than what the system takes for a client that does not read.
    const EVENT_BYTES: usize = 7 << 20;
    const BUDGET_BYTES: usize = 32 << 20;
    const SHARE_BYTES: f64 = (BUDGET_BYTES / 4 * 3) as f64;
    let store = Store::sqlite();
    let (launch, server) = start_with(&store, BUDGET_BYTES).await;
    let http = server.http();
    let other = other(http).await;
    other.create("small").await;
    other.append("small", &"and others are served".repeat(1_000).into()).await;
    let mut pages = vec!["-1".to_owned()];
    for _ in 0..8 {
        pages.push(http.append("s", &"x".repeat(EVENT_BYTES).into()).await);
    }
    pages.pop();
    let ask = |offset: &str| {
        format!(
            "GET /v1/stream/s?offset={offset} HTTP/1.1\r\nhost: localhost\r\n\
             authorization: Bearer {KEY}\r\n\r\n"
        )
    };
    let mut stalled = Vec::new();
    for _ in 0..6 {
        let mut client = Raw::connect_narrow(launch.port()).await;
        client.send(ask(&pages[0])).await;
        client.hears("200 OK").await;
        stalled.push(client);
    }
    let answers = "inflight_bytes{purpose=\"answer\"}";
    let shared = Metrics::read(http).await.get(answers);
    assert!(shared < SHARE_BYTES, "six readers of one page hold {shared} bytes");
    let mut refused = 0;
    for page in &pages[1..] {
        let mut client = Raw::connect_narrow(launch.port()).await;
        client.send(ask(page)).await;
        let answer = client.hears("\r\n").await;
        let answer =
            if answer.contains(" 503 ") { client.hears("\"temporary\"").await } else { answer };
        if answer.contains("\"inflight_bytes_exhausted\"") {
            refused += 1;
        } else {
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        }
        stalled.push(client);
    }
    let metrics = Metrics::read(http).await;
    assert!(refused >= 3, "{refused} of 7 were refused");
    assert!(metrics.get(answers) <= SHARE_BYTES, "{} bytes are held", metrics.get(answers));
    let answer = other.get("/v1/stream/small?offset=-1").await;
    assert_eq!(answer.status, 200, "{}", answer.text());

    drop(stalled);
    eventually("there is room again", async || {
        let answer = http.get(&format!("/v1/stream/s?offset={}", pages[7])).await;
        (answer.status == 200).then_some(())
    })
    .await;
}
