//! A response of `live=sse` from its head to its end, as it goes over the wire: over a connection of
//! its own and over one that it shares, ended by the stream, by time and by nobody.

use std::net::Ipv4Addr;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use reqwest::Method;
use serde_json::json;
use tidewire_stories::wait::within_patience;
use tidewire_stories::{Answer, Http, Launch, Raw, Server, Store, StreamSource, eventually};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

async fn start(settings: &[(&str, &str)]) -> (Store, Server) {
    let store = Store::sqlite();
    let launch = Launch::dev(&store);
    let launch = settings.iter().fold(launch, |launch, (name, value)| launch.set(name, value));
    let server = launch.start().await;
    server.http().create("doc").await;
    (store, server)
}

async fn close(http: &Http, body: &str) {
    let request = http.request(Method::POST, "/v1/stream/doc").header("stream-closed", "true");
    let request = request.header("content-type", "application/json").body(body.to_owned());
    let answer = Answer::of(request).await;
    assert_eq!(answer.status, 204, "close: {}", answer.text());
}

/// The last data and the close are one piece, and the connection ends with them.
#[tokio::test(flavor = "multi_thread")]
async fn a_closed_stream_ends_its_responses_and_their_connections() {
    let (_store, server) = start(&[]).await;
    let http = server.http();
    let mut raw = Raw::connect(http.port()).await;
    raw.send("GET /v1/stream/doc?live=sse&offset=-1 HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    raw.hears("\"upToDate\":true}\n\n\r\n").await;
    let first = http.append("doc", &json!("first")).await;
    let told = raw.hears(&first).await;
    assert!(told.contains("event: data\ndata:[\"first\"]\n\nevent: control\n"), "{told}");
    close(http, "[\"last\"]").await;
    let told = raw.hears("\r\n0\r\n\r\n").await;
    let (_, end) = told.rsplit_once("event: data\n").expect("the last data");
    assert!(
        end.starts_with("data:[\"last\"]\n\nevent: control\ndata:{\"streamNextOffset\":"),
        "{end}"
    );
    assert!(end.ends_with("\",\"streamClosed\":true}\n\n\r\n0\r\n\r\n"), "{end}");
    assert_eq!(end.matches("event:").count(), 1, "{end}");
    let all = raw.hung_up("the connection ends as the head said").await;
    assert!(all.contains("\r\nconnection: close\r\n"), "{all}");
    assert_eq!(all, told, "nothing comes after the end");
}

/// Time ends a response in order, with a comment.
#[tokio::test(flavor = "multi_thread")]
async fn a_response_ends_when_its_time_is_up() {
    let (_store, server) = start(&[("TIDEWIRE_STREAMS_SSE_MS", "300")]).await;
    let mut raw = Raw::connect(server.http().port()).await;
    raw.send("GET /v1/stream/doc?live=sse&offset=now HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    let end = "\"upToDate\":true}\n\n\r\n1e\r\n: come back with your offset\n\n\r\n0\r\n\r\n";
    raw.hears(end).await;
    // Whoever speaks HTTP/1.0 knows no chunks: its response ends with its connection.
    let mut old = Raw::connect(server.http().port()).await;
    old.send("GET /v1/stream/doc?live=sse&offset=now HTTP/1.0\r\nhost: localhost\r\n\r\n").await;
    let told = old.hung_up("the response ends").await;
    assert!(told.ends_with("\"upToDate\":true}\n\n: come back with your offset\n\n"), "{told}");
}

/// A stream that is deleted ends its responses without a word.
#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_stream_ends_its_responses() {
    let (_store, server) = start(&[]).await;
    let http = server.http();
    let mut source = StreamSource::open(http, "doc", "-1").await;
    source.next().await.expect("where it begins");
    http.append("doc", &json!(1)).await;
    assert_eq!(source.next().await.expect("an event").messages, [json!(1)]);
    assert_eq!(Answer::of(http.request(Method::DELETE, "/v1/stream/doc")).await.status, 204);
    // The next stream of this name is none of its business.
    http.create("doc").await;
    http.append("doc", &json!(2)).await;
    assert_eq!(within_patience("the end", source.next()).await, None);
    let readers = async || (http.metric("tidewire_live_readers").await == 0).then_some(());
    eventually("its seat is free", readers).await;
}

/// Over HTTP/2 responses share a connection, and say the same.
#[tokio::test(flavor = "multi_thread")]
async fn readers_over_http_2_get_the_same() {
    let (_store, server) = start(&[]).await;
    let http = server.http();
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, http.port())).await.expect("a server");
    let handshake = hyper::client::conn::http2::handshake::<_, _, Empty<Bytes>>(
        TokioExecutor::new(),
        TokioIo::new(stream),
    );
    let (mut requests, connection) = handshake.await.expect("HTTP/2");
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    let mut bodies = Vec::new();
    for _ in 0..3 {
        let uri = format!("{}/v1/stream/doc?live=sse&offset=-1", http.base());
        let request = hyper::Request::get(uri).body(Empty::new()).expect("a request");
        let response = requests.send_request(request).await.expect("an answer");
        assert_eq!(response.status(), 200);
        bodies.push(response.into_body());
    }
    server.readers_wait(3).await;
    http.append("doc", &json!("first")).await;
    close(http, "").await;
    for body in bodies {
        let body = within_patience("the end", body.collect()).await.expect("an end in order");
        let text = String::from_utf8(body.to_bytes().to_vec()).expect("text");
        let controls = text.matches("event: control\ndata:{\"streamNextOffset\":").count();
        assert!(text.contains("event: data\ndata:[\"first\"]\n\nevent: control\n"), "{text}");
        assert!(text.ends_with(",\"streamClosed\":true}\n\n") && controls >= 2, "{text}");
    }
}

/// Being read is being alive: a stream does not expire under its reader.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_does_not_expire_under_its_reader() {
    let (_store, server) = start(&[("TIDEWIRE_LOG_SWEEP_INTERVAL_MS", "100")]).await;
    let http = server.http();
    let create = async |stream: &str| {
        let request = http.request(Method::PUT, &format!("/v1/stream/{stream}"));
        let request = request.header("content-type", "application/json").header("stream-ttl", "1");
        assert_eq!(Answer::of(request).await.status, 201);
    };
    create("read").await;
    let mut source = StreamSource::open(http, "read", "-1").await;
    source.next().await.expect("where it begins");
    // Others of its kind expire meanwhile, one after the other.
    for unread in ["unread-1", "unread-2", "unread-3"] {
        create(unread).await;
        eventually("it expires", async || {
            let request = http.request(Method::HEAD, &format!("/v1/stream/{unread}"));
            (Answer::of(request).await.status == 404).then_some(())
        })
        .await;
    }
    http.append("read", &json!("alive")).await;
    assert_eq!(source.next().await.expect("an event").messages, [json!("alive")]);
}
