//! A subscription's work outlives the server that began it.

use reqwest::Method;
use serde_json::{Value, json};
use tidewire_stories::port::free_port;
use tidewire_stories::{Answer, Http, Launch, Receiver, Store, Transcript, eventually};

/// I1, I3: a wake that could not be delivered is delivered after the restart, once. (SQLite)
#[tokio::test(flavor = "multi_thread")]
async fn sqlite_delivers_a_wake_after_a_kill() {
    a_wake_is_delivered_after_a_kill(&Store::sqlite()).await;
}

/// I1, I3: a wake that could not be delivered is delivered after the restart, once. (PostgreSQL)
#[tokio::test(flavor = "multi_thread")]
async fn postgres_delivers_a_wake_after_a_kill() {
    a_wake_is_delivered_after_a_kill(&Store::postgres().await).await;
}

/// I3: work that was claimed and never finished is announced anew after the restart. (SQLite)
#[tokio::test(flavor = "multi_thread")]
async fn sqlite_takes_back_a_lease_after_a_kill() {
    a_lease_is_taken_back_after_a_kill(&Store::sqlite()).await;
}

/// I3: work that was claimed and never finished is announced anew after the restart. (PostgreSQL)
#[tokio::test(flavor = "multi_thread")]
async fn postgres_takes_back_a_lease_after_a_kill() {
    a_lease_is_taken_back_after_a_kill(&Store::postgres().await).await;
}

const SUBSCRIPTION: &str = "/v1/stream/__ds/subscriptions/mine";

fn launch(store: &Store) -> Launch {
    Launch::dev(store)
        .set("TIDEWIRE_WEBHOOKS_ALLOW_LOOPBACK", "true")
        // A delivery that dies with its server passes on after this and a second.
        .set("TIDEWIRE_WEBHOOKS_TIMEOUT_MS", "1000")
}

async fn a_wake_is_delivered_after_a_kill(store: &Store) {
    let launch = launch(store);
    let server = launch.start().await;
    let http = server.http().clone();
    http.create("watched").await;
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}/hook");
    subscribe(
        &http,
        &json!({ "type": "webhook", "streams": ["watched"], "webhook": { "url": url } }),
    )
    .await;
    let tail = http.append("watched", &json!(1)).await;
    let failures = eventually("a delivery to no one fails", async || {
        http.get(SUBSCRIPTION).await.json()["retry_count"].as_u64()
    })
    .await;

    server.kill();
    let _server = launch.start().await;

    let kept = http.get(SUBSCRIPTION).await.json();
    assert_eq!(kept["generation"], 1, "after the restart: {kept}");
    let retries = kept["retry_count"].as_u64();
    assert!(retries >= Some(failures), "failures are forgotten: {kept}");
    let receiver = Receiver::start(port).await;
    eventually("the wake is delivered", async || receiver.wakes().first().cloned()).await;
    let settled = eventually("the receiver's answer is recorded", async || {
        let document = http.get(SUBSCRIPTION).await.json();
        (document["status"] == "active").then_some(document)
    })
    .await;
    assert_eq!(settled["streams"][0]["acked_offset"], tail.as_str(), "{settled}");

    http.append("watched", &json!(2)).await;
    eventually("the next wake is delivered", async || {
        let newest = receiver.wakes().pop()?;
        (newest.document()["generation"] == 2).then_some(())
    })
    .await;
    let wakes = receiver.wakes();
    let generations: Vec<Value> =
        wakes.iter().map(|wake| wake.document()["generation"].clone()).collect();
    assert_eq!(generations, [1, 2], "each wake once, in order");
    for wake in &wakes {
        wake.is_signed_by(&http).await;
    }
    let first = wakes[0].document();
    assert_eq!(first["subscription_id"], "mine", "{first}");
    assert_eq!(first["streams"][0]["path"], "watched", "{first}");
    assert_eq!(first["streams"][0]["tail_offset"], tail.as_str(), "{first}");
}

async fn a_lease_is_taken_back_after_a_kill(store: &Store) {
    let launch = launch(store);
    let server = launch.start().await;
    let http = server.http().clone();
    http.create("watched").await;
    http.create("wakes").await;
    subscribe(
        &http,
        &json!({
            "type": "pull-wake", "streams": ["watched"], "wake_stream": "wakes",
            "lease_ttl_ms": 1000,
        }),
    )
    .await;
    http.append("watched", &json!(1)).await;
    woken(&http, &[1]).await;
    let lost = claim(&http).await;
    assert_eq!(lost["generation"], 1, "{lost}");

    server.kill();
    let server = launch.start().await;

    woken(&http, &[1, 2]).await;
    let answer = finish(&http, &lost).await;
    answer.problem(409, "FENCED");
    let claimed = claim(&http).await;
    assert_eq!(claimed["generation"], 2, "{claimed}");
    let answer = finish(&http, &claimed).await;
    assert_eq!(answer.status, 200, "the work is done: {}", answer.text());
    let request = json!({ "worker": "another" });
    let answer = http.json(Method::POST, &format!("{SUBSCRIPTION}/claim"), &request).await;
    answer.problem(409, "NO_PENDING_WORK");
    server.stop().await;
}

async fn subscribe(http: &Http, config: &Value) {
    let answer = http.json(Method::PUT, SUBSCRIPTION, config).await;
    assert_eq!(answer.status, 201, "subscribe: {}", answer.text());
}

/// Waits until the wake stream has announced exactly these generations.
async fn woken(http: &Http, generations: &[u64]) {
    let announced = eventually("the wake stream grows", async || {
        let transcript = Transcript::read(http, "wakes").await;
        let events = transcript.events().iter();
        let announced: Vec<_> = events.map(|event| event.payload["generation"].as_u64()).collect();
        (announced.len() >= generations.len()).then_some(announced)
    })
    .await;
    let expected: Vec<_> = generations.iter().copied().map(Some).collect();
    assert_eq!(announced, expected, "generations in the wake stream");
}

async fn claim(http: &Http) -> Value {
    let request = json!({ "worker": "story" });
    let answer = http.json(Method::POST, &format!("{SUBSCRIPTION}/claim"), &request).await;
    assert_eq!(answer.status, 200, "claim: {}", answer.text());
    answer.json()
}

/// Acknowledges all of a claim's work.
async fn finish(http: &Http, claimed: &Value) -> Answer {
    let stream = &claimed["streams"][0];
    let body = json!({
        "wake_id": claimed["wake_id"],
        "generation": claimed["generation"],
        "acks": [{ "stream": stream["path"], "offset": stream["tail_offset"] }],
        "done": true,
    });
    let token = claimed["token"].as_str().expect("a token");
    let worker = http.as_someone(Some(token));
    worker.json(Method::POST, &format!("{SUBSCRIPTION}/ack"), &body).await
}
