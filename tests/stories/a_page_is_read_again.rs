//! Pages are kept in memory for those who read them next; what is read is the stream all the same.

use reqwest::Method;
use serde_json::{Value, json};
use tidewire_stories::postgres::{drop_database, fresh_database};
use tidewire_stories::{Http, Launch, Server, Store};

/// A message of which one fills a page large enough to be kept.
fn large(number: usize) -> Value {
    json!({ "number": number, "filling": "x".repeat(5_000) })
}

async fn numbers(http: &Http, path: &str) -> Vec<u64> {
    let page = http.get(path).await.json();
    let messages = page.as_array().expect("a page of messages").clone();
    messages.iter().map(|message| message["number"].as_u64().expect("a number")).collect()
}

/// I3: a page is the stream as it is now, however often it was read before: after an append through
/// any node, after a close, and after the stream was made anew.
async fn tell(writing: &Server, reading: &Server) {
    const PATH: &str = "/v1/stream/paged";
    let (writer, reader) = (writing.http(), reading.http());
    writer.create("paged").await;
    for count in 1..=3 {
        writer.append("paged", &large(count)).await;
        for _ in 0..2 {
            let expected: Vec<u64> = (1..=count as u64).collect();
            assert_eq!(numbers(reader, PATH).await, expected, "after {count} appends");
        }
    }
    let open = reader.get(PATH).await;
    assert_eq!(open.header("stream-up-to-date"), Some("true"));
    assert_eq!(open.header("stream-closed"), None);
    writer
        .request(Method::POST, PATH)
        .header("stream-closed", "true")
        .send()
        .await
        .expect("closed");
    let closed = reader.get(PATH).await;
    assert_eq!(closed.header("stream-closed"), Some("true"), "a page kept from before the close");
    assert_ne!(closed.header("etag"), open.header("etag"));
    writer.request(Method::DELETE, PATH).send().await.expect("deleted");
    // A page kept from the deleted stream would be a 200 here.
    reader.get(PATH).await.problem(404, "stream_not_found");
    writer.create("paged").await;
    writer.append("paged", &large(9)).await;
    assert_eq!(numbers(reader, PATH).await, [9], "a page kept from another stream of this name");
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_shows_what_is_there_now() {
    let store = Store::sqlite();
    let server = Launch::dev(&store).start().await;
    tell(&server, &server).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_shows_what_another_node_wrote() {
    let url = fresh_database().await;
    let store = Store::postgres_at(&url);
    let (writing, reading) = (Launch::dev(&store).start().await, Launch::dev(&store).start().await);
    tell(&writing, &reading).await;
    writing.stop().await;
    reading.stop().await;
    drop_database(&url).await;
}

/// A page that a limit cut off is followed by the next one, from memory as from the store.
#[tokio::test(flavor = "multi_thread")]
async fn pages_follow_each_other() {
    let store = Store::sqlite();
    let server = Launch::dev(&store).set("TIDEWIRE_STREAMS_READ_EVENTS_MAX", "2").start().await;
    server.http().create("paged").await;
    for number in 0..5 {
        server.http().append("paged", &large(number)).await;
    }
    for _ in 0..2 {
        let mut path = "/v1/stream/paged?offset=-1".to_owned();
        let mut read = Vec::new();
        loop {
            let page = server.http().get(&path).await;
            read.extend(numbers(server.http(), &path).await);
            path = format!("/v1/stream/paged?offset={}", page.next_offset());
            if page.header("stream-up-to-date") == Some("true") {
                break;
            }
        }
        assert_eq!(read, [0, 1, 2, 3, 4]);
    }
    server.stop().await;
}
