//! Over TLS everything works as without it: both versions of HTTP, every way to follow a stream, and
//! readers that are slower than what they follow.

use std::net::Ipv4Addr;

use rand::distr::{Alphanumeric, SampleString as _};
use serde_json::{Value, json};
use tidewire_client::{LiveOptions, ReadFrom};
use tidewire_stories::follower::Pace;
use tidewire_stories::{
    Answer, Authority, EventSource, Files, Follower, Http, Http2, Launch, Metrics, Raw, Server,
    ServerSent, Store, Transcript, WebSocket, eventually,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Events of one stream, and how large: together far more than sockets hold.
const EVENTS: usize = 1_000;
const EVENT_BYTES: usize = 10_000;

/// A server with a certificate, and what it stands on.
struct Secured {
    server: Server,
    authority: Authority,
    _files: Files,
    _store: Store,
}

async fn start() -> Secured {
    let (store, authority) = (Store::sqlite(), Authority::new());
    let files = Files::new(&authority.issue());
    let launch = Launch::dev(&store)
        .secured(&files, &authority)
        // Room for a slow client, so that it gets everything in one go and without gaps.
        .set("TIDEWIRE_LIVE_QUEUE_BYTES_MAX", "67108864")
        .set("TIDEWIRE_STREAMS_LONG_POLL_MS", "30000");
    Secured { server: launch.start().await, authority, _files: files, _store: store }
}

/// Appends, reads, waits and follows over HTTP/1.1.
#[tokio::test(flavor = "multi_thread")]
async fn http_1_does_what_it_does_without_tls() {
    let secured = start().await;
    let http = secured.server.http();
    http.create("doc").await;
    http.append("doc", &json!({ "n": 1 })).await;
    assert_eq!(http.get("/v1/stream/doc").await.json(), json!([{ "n": 1 }]));

    let waiting = http.clone();
    let long_poll = async move { waiting.get("/v1/stream/doc?offset=now&live=long-poll").await };
    let append = async {
        secured.server.readers_wait(1).await;
        http.append("doc", &json!({ "n": 2 })).await
    };
    let (answer, _) = tokio::join!(long_poll, append);
    assert_eq!(answer.json(), json!([{ "n": 2 }]));

    let mut response = http
        .request(reqwest::Method::GET, "/v1/stream/doc?offset=-1&live=sse")
        .send()
        .await
        .expect("an answer");
    let mut heard = String::new();
    while !heard.contains("upToDate") {
        let piece = response.chunk().await.expect("more").expect("a response that stays");
        heard.push_str(&String::from_utf8_lossy(&piece));
    }
    assert!(heard.contains("data:[{\"n\":1},{\"n\":2}]"), "{heard}");

    let session = http.open_session().await;
    http.follow(&session, "doc", "-1").await;
    let mut events = ServerSent::open(http, &session, None).await;
    http.append("doc", &json!({ "n": 3 })).await;
    let payloads = events.events(3).await.into_iter().map(|sent| sent.message["payload"].clone());
    assert_eq!(payloads.collect::<Vec<Value>>(), [1, 2, 3].map(|n| json!({ "n": n })));
}

/// And over HTTP/2, which both sides prefer; all over one connection.
#[tokio::test(flavor = "multi_thread")]
async fn http_2_does_what_it_does_without_tls() {
    let secured = start().await;
    let http = secured.server.http();
    let mut http2 = Http2::connect(http).await;
    http2.ask("PUT", "/v1/stream/doc", "[1]", 201).await;
    http2.ask("POST", "/v1/stream/doc", "[2]", 204).await;
    assert_eq!(http2.ask("GET", "/v1/stream/doc", "", 200).await, "[1,2]");

    let mut sse = http2.follow("/v1/stream/doc?offset=-1&live=sse").await;
    sse.hears("data:[1,2]").await;
    let session = http.open_session().await;
    http.follow(&session, "doc", "-1").await;
    let mut live = http2.follow(&format!("/v1/live/{session}")).await;
    live.hears("\"payload\":2").await;
    http2.ask("POST", "/v1/stream/doc", "[3]", 204).await;
    sse.hears("data:[3]").await;
    live.hears("\"payload\":3").await;
    let long_poll = http2.ask("GET", "/v1/stream/doc?offset=-1&live=long-poll", "", 200).await;
    assert_eq!(long_poll, "[1,2,3]");
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_1_2_and_1_3_are_spoken_and_plain_http_is_told_so() {
    let secured = start().await;
    let port = secured.server.http().port();
    for version in rustls::ALL_VERSIONS {
        let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.expect("a connection");
        let secure = secured.authority.secure(socket, &[version], &[]).await;
        let mut secure = secure.unwrap_or_else(|error| panic!("{version:?}: {error}"));
        let request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        secure.write_all(request).await.expect("a request");
        let mut answer = String::new();
        secure.read_to_string(&mut answer).await.expect("an answer, and a farewell");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{version:?}: {answer}");
    }
    let mut plain = Raw::connect(port).await;
    plain.send("GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    let answer = plain.hung_up("the answer to plain HTTP").await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    let refused = Metrics::read(secured.server.http()).await;
    assert_eq!(refused.get("connections_refused_total{reason=\"not_tls\"}"), 1.0);
}

/// A page that is larger than any buffer, in both directions.
#[tokio::test(flavor = "multi_thread")]
async fn large_bodies_arrive_whole() {
    let secured = start().await;
    let http = secured.server.http();
    let large = noise(3 << 20);
    for (stream, version) in [("one", 1), ("two", 2)] {
        http.create(stream).await;
        let path = format!("/v1/stream/{stream}");
        let body = Value::from(vec![large.clone()]).to_string();
        let read = if version == 1 {
            let append = http.request(reqwest::Method::POST, &path).body(body.clone());
            let answer = Answer::of(append.header("content-type", "application/json")).await;
            assert_eq!(answer.status, 204, "{}", answer.text());
            http.get(&path).await.body
        } else {
            let mut http2 = Http2::connect(http).await;
            http2.ask("POST", &path, &body, 204).await;
            http2.ask("GET", &path, "", 200).await
        };
        assert!(read == body, "{} bytes of {} over HTTP/{version}", read.len(), body.len());
    }
}

/// I3, I5: a WebSocket that is not read while everything is appended gets all of it, in order.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_websocket_gets_everything_in_order() {
    a_slow_websocket(&[]).await;
}

/// The same for one that compresses.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_websocket_that_compresses_gets_everything_in_order() {
    a_slow_websocket(&[("sec-websocket-extensions", "permessage-deflate")]).await;
}

async fn a_slow_websocket(headers: &[(&str, &str)]) {
    let secured = start().await;
    let http = secured.server.http();
    http.create("doc").await;
    let mut slow = WebSocket::connect_narrow_with(http, "/v1/ws", headers).await;
    slow.hears("hello").await;
    slow.subscribe(&json!({ "query_id": "q", "stream": "doc", "offset": "now" })).await;
    append_all(http).await;
    Metrics::reaches(http, "live_queue_bytes", 1.0).await;
    for n in 0..EVENTS {
        let event = slow.hears("event").await;
        assert_eq!(event["payload"]["n"], n, "the order");
        assert_eq!(event["payload"]["text"].as_str().map(str::len), Some(EVENT_BYTES));
    }
    Metrics::shows(http, "live_queue_bytes", 0.0).await;
}

/// The chunks of a session's SSE response are written past hyper, and are encrypted all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_event_source_gets_everything_in_order() {
    let secured = start().await;
    let http = secured.server.http();
    http.create("doc").await;
    let session = http.open_session().await;
    http.follow(&session, "doc", "now").await;
    let mut slow = EventSource::open(http, &session, None).await;
    append_all(http).await;
    let mut expected = 0;
    while expected < EVENTS {
        let message = slow.next().await.expect("a response that stays");
        if message["type"] == "event" {
            assert_eq!(message["payload"]["n"], expected, "the order");
            expected += 1;
        }
    }
}

/// The client library, which stops and goes on, with compression and without.
#[tokio::test(flavor = "multi_thread")]
async fn followers_that_pause_lose_nothing() {
    let secured = start().await;
    let http = secured.server.http();
    http.create("doc").await;
    let followers = [true, false].map(|compression| {
        let options = LiveOptions { compression, ..LiveOptions::default() };
        Follower::start(&http.client(), options, &[("doc", ReadFrom::Start)])
    });
    for follower in &followers {
        follower.stands(1).await;
        follower.reads(Pace::Stopped);
    }
    append_all(http).await;
    let transcript = Transcript::read(http, "doc").await;
    for follower in &followers {
        follower.reads(Pace::Full);
        follower.has_all_of(&transcript).await;
        assert_eq!(follower.losses(), [""; 0], "nobody was disconnected");
    }
}

/// A server that is told to stop says so to its encrypted clients, to the last byte.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_says_farewell() {
    let secured = start().await;
    let mut websocket = WebSocket::connect(secured.server.http(), "/v1/ws").await;
    websocket.hears("hello").await;
    let stopped = secured.server.stop();
    let (farewell, _) = tokio::join!(websocket.closed(), stopped);
    assert_eq!(farewell.code, 1001);
    assert_eq!(farewell.messages.last().expect("closing")["type"], "closing");
}

/// The command line knows whom it may trust, and trusts nobody else.
#[tokio::test(flavor = "multi_thread")]
async fn commands_work_with_a_private_authority() {
    let secured = start().await;
    let http = secured.server.http();
    let folder = tempfile::tempdir().expect("a folder");
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, secured.authority.pem()).expect("a file");
    let ca = ca.to_string_lossy();
    let command = |words: &[&str]| {
        Launch::command(words[0]).with(words[1..].iter().copied()).with(["--url", http.base()])
    };
    let publish = command(&["publish", "doc", "{\"n\": 1}"]);
    let stranger = publish.run().await;
    assert_eq!(stranger.code, Some(1), "{}", stranger.said);
    assert!(stranger.said.contains("certificate"), "{}", stranger.said);
    let published = publish.with(["--ca", &ca]).run().await;
    assert_eq!(published.code, Some(0), "{}", published.said);

    let nodes = command(&["nodes"]).set("TIDEWIRE_CA", &ca).run().await;
    assert_eq!(nodes.code, Some(0), "{}", nodes.said);
    assert!(nodes.said.contains(http.base()), "{}", nodes.said);

    let close =
        http.request(reqwest::Method::POST, "/v1/stream/doc").header("stream-closed", "true");
    assert_eq!(Answer::of(close).await.status, 204);
    let tail = command(&["tail", "--stream", "doc", "--ca", &ca]).run().await;
    assert_eq!(tail.code, Some(0), "{}", tail.said);
    assert!(tail.said.contains("{\"n\": 1}"), "{}", tail.said);
}

/// I5: one who never reads costs what its queue may hold, and is not in anyone's way.
#[tokio::test(flavor = "multi_thread")]
async fn one_who_never_reads_delays_nobody() {
    let secured = start().await;
    let http = secured.server.http();
    http.create("doc").await;
    let mut deaf = WebSocket::connect_narrow_with(http, "/v1/ws", &[]).await;
    deaf.hears("hello").await;
    deaf.subscribe(&json!({ "query_id": "q", "stream": "doc", "offset": "now" })).await;
    let mut attentive = WebSocket::connect(http, "/v1/ws").await;
    attentive.hears("hello").await;
    attentive.subscribe(&json!({ "query_id": "q", "stream": "doc", "offset": "now" })).await;
    append_all(http).await;
    for n in 0..EVENTS {
        assert_eq!(attentive.hears("event").await["payload"]["n"], n);
    }
    eventually("what the deaf one has not read waits", async || {
        (http.metric("tidewire_live_queue_bytes").await > 0).then_some(())
    })
    .await;
}

/// Ten at a time, so that it does not take long.
async fn append_all(http: &Http) {
    let text = noise(EVENT_BYTES);
    let path = "/v1/stream/doc";
    for ten in 0..EVENTS / 10 {
        let messages = (0..10).map(|one| json!({ "n": ten * 10 + one, "text": text }));
        let body: Value = messages.collect();
        let answer = http.json(reqwest::Method::POST, path, &body).await;
        assert_eq!(answer.status, 204, "{}", answer.text());
    }
}

/// Text that hardly shrinks.
fn noise(length: usize) -> String {
    Alphanumeric.sample_string(&mut rand::rng(), length)
}
