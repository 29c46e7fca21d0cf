//! A server gets SIGTERM: it finishes what it has begun, sends its readers away kindly, and goes.

use bytes::Bytes;
use reqwest::Method;
use serde_json::json;
use tidewire_client::{Client, ReadFrom};
use tidewire_stories::wait::within_patience;
use tidewire_stories::{Answer, Http, Launch, Raw, Store, Transcript};

/// I1: what was begun is finished, and the process ends by itself with success. (SQLite)
#[tokio::test(flavor = "multi_thread")]
async fn sqlite_drains_and_loses_nothing() {
    drains(&Store::sqlite()).await;
}

/// I1: what was begun is finished, and the process ends by itself with success. (PostgreSQL)
#[tokio::test(flavor = "multi_thread")]
async fn postgres_drains_and_loses_nothing() {
    drains(&Store::postgres().await).await;
}

/// I3: whoever followed the stream goes on where the old server left it, at the next one.
#[tokio::test(flavor = "multi_thread")]
async fn a_follower_goes_on_at_the_next_server() {
    let store = Store::sqlite();
    let launch = Launch::dev(&store);
    let server = launch.start().await;
    let http = server.http().clone();
    http.create("followed").await;
    http.append("followed", &json!(0)).await;
    let client = Client::new(http.base(), None).expect("a client");
    let mut follow = client.follow("followed", ReadFrom::Start).expect("a stream's name");
    assert_eq!(next_messages(&mut follow).await, ["0"]);

    server.stop().await;
    let _server = launch.start().await;
    http.append("followed", &json!(1)).await;
    http.append("followed", &json!(2)).await;

    let mut got = Vec::new();
    while got.len() < 2 {
        got.extend(next_messages(&mut follow).await);
    }
    assert_eq!(got, ["1", "2"], "after the restart");
}

async fn next_messages(follow: &mut tidewire_client::Follow) -> Vec<Bytes> {
    let batch = within_patience("the follower gets a batch", follow.next()).await;
    batch.expect("a stream that can be read").expect("a stream that is open").messages
}

async fn drains(store: &Store) {
    // Whoever is not sent away holds the process up for longer than this test waits.
    let launch = Launch::dev(store)
        .set("TIDEWIRE_STREAMS_LONG_POLL_MS", "300000")
        .set("TIDEWIRE_STREAMS_SSE_MS", "300000")
        .set("TIDEWIRE_SHUTDOWN_GRACE_MS", "300000");
    let mut server = launch.start().await;
    let http = server.http().clone();
    http.create("drained").await;
    let tail = http.append("drained", &json!("before")).await;
    let long_poll = wait_by_long_poll(&http, &tail);
    let mut sse = wait_by_sse(&http, &tail).await;
    server.readers_wait(2).await;
    let mut append = begin_append(launch.port()).await;

    server.process().signal("TERM");

    let goodbye = within_patience("the SSE response ends", read_to_end(&mut sse)).await;
    assert!(goodbye.contains("\nretry: "), "SSE ended without a hint: {goodbye}");
    let answer = within_patience("the long-poll ends", long_poll).await;
    assert_eq!(answer.status, 204, "the long-poll: {}", answer.text());
    assert_eq!(answer.next_offset(), tail, "where the long-poll goes on");
    // The readers are gone, so the server is draining; now the append is finished.
    append.send("\"during\"").await;
    let answer = append.hung_up("the connection of the append").await;
    assert!(answer.contains("HTTP/1.1 204"), "the append under way: {answer}");
    let ended = server.ended().await;
    assert_eq!(ended.code, Some(0), "the process: {}", ended.said);

    let server = launch.start().await;
    let transcript = Transcript::read(server.http(), "drained").await;
    let payloads: Vec<_> = transcript.events().iter().map(|event| &event.payload).collect();
    assert_eq!(payloads, ["before", "during"]);
}

fn wait_by_long_poll(http: &Http, tail: &str) -> impl Future<Output = Answer> {
    let path = format!("/v1/stream/drained?live=long-poll&offset={tail}");
    let request = http.request(Method::GET, &path);
    let mut task = tokio::task::JoinSet::new();
    task.spawn(Answer::of(request));
    async move {
        let ended = task.join_next().await.expect("one task");
        ended.expect("a long-poll that is answered")
    }
}

async fn wait_by_sse(http: &Http, tail: &str) -> reqwest::Response {
    let path = format!("/v1/stream/drained?live=sse&offset={tail}");
    let response = http.request(Method::GET, &path).send().await.expect("an answer");
    assert_eq!(response.status(), 200);
    response
}

/// An append whose body is asked for and has not been sent: it is in the server's hands.
async fn begin_append(port: u16) -> Raw {
    let mut append = Raw::connect(port).await;
    let head = "POST /v1/stream/drained HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\n\
                content-type: application/json\r\ncontent-length: 8\r\n\r\n";
    append.send(head).await;
    append.hears("100 Continue").await;
    append
}

/// All that is left of a response, which must end in order.
async fn read_to_end(response: &mut reqwest::Response) -> String {
    let mut text = String::new();
    while let Some(piece) = response.chunk().await.expect("a response that ends in order") {
        text.push_str(&String::from_utf8_lossy(&piece));
    }
    text
}
