//! Clients go too far in every direction there is.

use std::time::Duration;

use reqwest::{Method, RequestBuilder};
use serde_json::json;
use tidewire_stories::{Answer, Http, Launch, Raw, Server, Store, eventually};

/// Small limits, so that reaching them takes no time.
async fn start(store: &Store) -> (Launch, Server) {
    let launch = Launch::dev(store)
        .set("TIDEWIRE_LIMITS_BODY_BYTES_MAX", "1000")
        .set("TIDEWIRE_LIMITS_STREAM_NAME_BYTES_MAX", "50")
        .set("TIDEWIRE_LIMITS_QUERY_BYTES_MAX", "100")
        .set("TIDEWIRE_LIMITS_MESSAGES_PER_APPEND_MAX", "5")
        .set("TIDEWIRE_LIMITS_LIVE_READERS_MAX", "1")
        .set("TIDEWIRE_LIMITS_HEADER_TIMEOUT_MS", "500")
        .set("TIDEWIRE_LIMITS_BODY_TIMEOUT_MS", "500");
    let server = launch.start().await;
    server.http().create("s").await;
    (launch, server)
}

fn append(http: &Http, body: impl Into<reqwest::Body>) -> RequestBuilder {
    let request = http.request(Method::POST, "/v1/stream/s");
    request.header("content-type", "application/json").body(body)
}

/// Checks that a request is refused for good, under this name.
async fn refused(request: RequestBuilder, status: u16, code: &str) {
    let problem = Answer::of(request).await.problem(status, code);
    assert_eq!(problem["temporary"], false, "{problem}");
}

/// I9: what is too large or not well-formed is refused by name, and the server goes on.
#[tokio::test(flavor = "multi_thread")]
async fn appends_that_go_too_far_are_refused_by_name() {
    let store = Store::sqlite();
    let (_, server) = start(&store).await;
    let http = server.http();
    let large = format!("\"{}\"", "x".repeat(1_000));
    refused(append(http, large), 413, "body_too_large").await;
    refused(append(http, "[1,2,3,4,5,6]"), 413, "too_many_messages").await;
    for malformed in ["{", "[1,", "{} {}", "nul", "\u{1}", "[[[[[["] {
        refused(append(http, malformed), 400, "invalid_json").await;
    }
    refused(append(http, vec![b'"', 0xff, b'"']), 400, "invalid_json").await;
    refused(append(http, "[]"), 400, "empty_append").await;
    refused(append(http, ""), 400, "empty_append").await;
    let half_a_stamp = append(http, "1").header("producer-id", "p");
    refused(half_a_stamp, 400, "incomplete_producer").await;
    let no_number = append(http, "1").header("producer-id", "p").header("producer-epoch", "0");
    refused(no_number.header("producer-seq", "-1"), 400, "invalid_header").await;
    let untyped = http.request(Method::POST, "/v1/stream/s").body("1");
    refused(untyped, 400, "missing_content_type").await;
    http.append("s", &"and still it takes what is right".into()).await;
}

/// I9: names and questions that make no sense are refused by name.
#[tokio::test(flavor = "multi_thread")]
async fn reads_that_make_no_sense_are_refused_by_name() {
    let store = Store::sqlite();
    let (_, server) = start(&store).await;
    let http = server.http();
    let get = |path: &str| http.request(Method::GET, &format!("/v1/stream/{path}"));
    let long = "n".repeat(51);
    refused(get(&long), 414, "stream_name_too_long").await;
    refused(get("a//b"), 400, "invalid_stream_name").await;
    refused(get("a%00b"), 400, "invalid_stream_name").await;
    refused(get(&format!("s?offset={}", "0".repeat(100))), 414, "query_too_long").await;
    for offset in ["abc", "0001_1", "-2", "0001-0000000000000001", "0001_000000000000000x", ""] {
        refused(get(&format!("s?offset={offset}")), 400, "malformed_offset").await;
    }
    refused(get("s?offset=-1&offset=now"), 400, "several_offsets").await;
    refused(get("s?offset=-1&live=telepathy"), 400, "unknown_live_mode").await;
    refused(get("s?live=sse"), 400, "live_without_offset").await;
    refused(get("s?format=poem"), 400, "unknown_format").await;
    refused(get("there-is-none"), 404, "stream_not_found").await;
    refused(get("s?offset=0001_9999999999999999"), 410, "offset_beyond_tip").await;
    refused(get("s?offset=9999_0000000000000001"), 410, "offset_of_another_epoch").await;
    let patch = http.request(Method::PATCH, "/v1/stream/s");
    refused(patch, 405, "method_not_allowed").await;
    refused(http.request(Method::GET, "/v2/stream/s"), 404, "no_such_route").await;
}

/// I5: one reader too many is asked to come back, and can when another leaves.
#[tokio::test(flavor = "multi_thread")]
async fn one_reader_too_many_is_asked_to_come_back() {
    let store = Store::sqlite();
    let (_, server) = start(&store).await;
    let path = "/v1/stream/s?live=sse&offset=now";
    let first = server.http().request(Method::GET, path).send().await.expect("an answer");
    assert_eq!(first.status(), 200, "the first reader");
    let answer = server.http().get(path).await;
    let problem = answer.problem(503, "too_many_live_readers");
    assert_eq!(problem["temporary"], true, "{problem}");
    assert!(answer.header("retry-after").is_some(), "{answer:?}");
    drop(first);
    eventually("there is a place when the first reader has left", async || {
        let response = server.http().request(Method::GET, path).send().await.ok()?;
        (response.status() == 200).then_some(())
    })
    .await;
}

/// I9: headers that never end fill no memory.
#[tokio::test(flavor = "multi_thread")]
async fn headers_that_are_too_large_are_refused() {
    let store = Store::sqlite();
    let (_, server) = start(&store).await;
    let request = server.http().request(Method::GET, "/healthz");
    let answer = Answer::of(request.header("x-large", "x".repeat(64 << 10))).await;
    assert_eq!(answer.status, 431);
}

/// I9: whoever takes for ever to ask is cut off.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_finishes_its_headers_is_cut_off() {
    let head = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n";
    are_cut_off([("half of the headers", head), ("half of the first line", "GET /heal")]).await;
}

/// I9: so is whoever does not get as far as saying which HTTP it speaks.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_says_anything_is_cut_off() {
    are_cut_off([("half of HTTP/2's first words", "PRI * HTTP/2.0\r\n"), ("nothing", "")]).await;
}

async fn are_cut_off(beginnings: [(&str, &str); 2]) {
    let store = Store::sqlite();
    let (launch, server) = start(&store).await;
    for (what, beginning) in beginnings {
        let mut slow = Raw::connect(launch.port()).await;
        slow.send(beginning).await;
        slow.hung_up(&format!("the connection of a client that sent {what}")).await;
    }
    let answer = server.http().get("/healthz").await;
    assert_eq!(answer.status, 200, "everyone else");
}

/// I9: a header now and then does not keep the connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_drips_its_headers_is_cut_off() {
    let store = Store::sqlite();
    let (launch, _server) = start(&store).await;
    let mut slow = Raw::connect(launch.port()).await;
    slow.send("GET /healthz HTTP/1.1\r\nhost: localhost\r\n").await;
    eventually("the server takes no more headers", async || {
        let cut_off = !slow.send("x-drip: 1\r\n").await;
        // The pace of the drip; whatever it is, the server must put an end to it.
        tokio::time::sleep(Duration::from_millis(50)).await;
        cut_off.then_some(())
    })
    .await;
}

/// I9: a body that never comes is given up by name.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_never_comes_is_given_up() {
    let answer = answer_to_body(10, "[1,").await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains("\"body_timeout\""), "{answer}");
}

/// I9: a body that is far too large is not read to its end.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_does_not_end_is_given_up() {
    let answer = answer_to_body(1_000_000, &"x".repeat(100_000)).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert!(answer.contains("\"body_too_large\""), "{answer}");
}

/// A client that is not told so sends its next request on a connection that is being closed, and
/// cannot know what became of it.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_ends_the_connection_says_so() {
    for (length, sent) in [(10, "[1,".to_owned()), (1_000_000, "x".repeat(100_000))] {
        let answer = answer_to_body(length, &sent).await;
        let head = answer.split("\r\n\r\n").next().unwrap_or_default();
        let says_so = head.to_ascii_lowercase().contains("\r\nconnection: close");
        assert!(says_so, "{} of {length} bytes were sent: {head}", sent.len());
    }
}

/// What the server says, up to its hanging up, to an append of which only a part arrives.
async fn answer_to_body(length: usize, sent: &str) -> String {
    let store = Store::sqlite();
    let (launch, _server) = start(&store).await;
    let mut client = Raw::connect(launch.port()).await;
    let head = format!(
        "POST /v1/stream/s HTTP/1.1\r\nhost: localhost\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    client.send(head).await;
    client.send(sent).await;
    client.hung_up("the connection of an unfinished append").await
}

/// I9: what is asked of groups is bounded, by name.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_of_groups_is_bounded_by_name() {
    let store = Store::sqlite();
    let launch = Launch::dev(&store)
        .set("TIDEWIRE_GROUPS_BATCH_SIZE_MAX", "500")
        .set("TIDEWIRE_GROUPS_LEASE_MS_MAX", "60000")
        .set("TIDEWIRE_GROUPS_WAIT_MS_MAX", "1000")
        .set("TIDEWIRE_GROUPS_WAIT_MS", "0")
        .set("TIDEWIRE_GROUPS_TRANSACTION_EVENTS_MAX", "5")
        .set("TIDEWIRE_GROUPS_BATCH_SIZE", "3");
    let server = launch.start().await;
    let http = server.http();
    let put = |group: &str, body: serde_json::Value| {
        let request = http.request(Method::PUT, &format!("/v1/groups/{group}"));
        request.header("content-type", "application/json").body(body.to_string())
    };
    let post = |step: &str, body: serde_json::Value| {
        let request = http.request(Method::POST, &format!("/v1/groups/g/{step}"));
        request.header("content-type", "application/json").body(body.to_string())
    };
    for wish in [
        json!({ "partitions": 0 }),
        json!({ "partitions": 1_025 }),
        json!({ "max_attempts": 0 }),
        json!({ "on_dead": "panic" }),
        json!({ "start": "yesterday" }),
        json!({ "start": { "time": "noon" } }),
        json!({ "streams": ["table/orders"] }),
        json!({ "tables": vec!["t"; 1_001] }),
        json!({ "partition": 3 }),
    ] {
        refused(put("g", wish), 400, "invalid_group").await;
    }
    refused(put(&"n".repeat(256), json!({})), 400, "invalid_group").await;
    refused(put("a%2Fb", json!({})), 400, "invalid_group").await;
    let offset = json!({ "start": { "offset": "x" } });
    refused(put("g", offset), 400, "malformed_offset").await;
    refused(post("claim", json!({})), 404, "group_not_found").await;
    refused(post("change", json!({})), 404, "group_not_found").await;
    refused(post("reset", json!({ "to": "now" })), 404, "group_not_found").await;
    refused(post("dead/redrive", json!({ "all": true })), 404, "group_not_found").await;

    let made = Answer::of(put("g", json!({ "partitions": 1 }))).await;
    assert_eq!(made.status, 201, "{}", made.text());
    refused(post("claim", json!({ "batch_size": 501 })), 400, "batch_too_large").await;
    for claim in [
        json!({ "batch_size": 0 }),
        json!({ "lease_ms": 99 }),
        json!({ "lease_ms": 60_001 }),
        json!({ "wait_ms": 1_001 }),
        json!({ "member": "" }),
        json!({ "member": "a/b" }),
        json!({ "members": 1 }),
    ] {
        refused(post("claim", claim), 400, "invalid_group").await;
    }
    refused(post("claim", json!({ "partition": 1 })), 404, "partition_not_found").await;
    refused(post("reset", json!({ "to": "now", "partition": 1 })), 404, "partition_not_found")
        .await;
    for step in ["ack", "nack", "extend"] {
        refused(post(step, json!({ "token": "0.1.1.AAAA" })), 400, "invalid_lease_token").await;
    }
    refused(
        post("dead/drop", json!({ "offset": "0001_0000000000000001" })),
        404,
        "letter_not_found",
    )
    .await;
    let letters = http.request(Method::GET, "/v1/groups/g/dead?limit=1001");
    refused(letters, 400, "invalid_group").await;

    // Six messages of one append are more than a batch may have.
    http.create("s").await;
    let answer = Answer::of(append(http, "[1,2,3,4,5,6]")).await;
    assert_eq!(answer.status, 204, "{}", answer.text());
    let problem = eventually("the partition stops", async || {
        let answer = Answer::of(post("claim", json!({}))).await;
        (answer.status == 409).then(|| answer.problem(409, "group_stopped"))
    })
    .await;
    assert_eq!(problem["stopped"]["code"], "transaction_too_large", "{problem}");
}

/// I9: where the memory is used up, batches and letters are refused, by name.
#[tokio::test(flavor = "multi_thread")]
async fn batches_that_do_not_fit_the_memory_are_refused_by_name() {
    let store = Store::sqlite();
    // Less than any process takes.
    let launch = Launch::dev(&store).set("TIDEWIRE_LIVE_MEMORY_BYTES_MAX", "1048576");
    let server = launch.start().await;
    let http = server.http();
    let answer = http.json(Method::PUT, "/v1/groups/g", &json!({ "partitions": 1 })).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let claim = http.json(Method::POST, "/v1/groups/g/claim", &json!({})).await;
    let letters = http.get("/v1/groups/g/dead").await;
    for refused in [claim, letters] {
        let problem = refused.problem(503, "over_memory_budget");
        assert_eq!(problem["temporary"], true, "{problem}");
    }
}
