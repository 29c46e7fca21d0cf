//! A server is killed with SIGKILL, again and again, at moments of no one's choosing, while clients
//! append and follow.

use reqwest::Method;
use tidewire_stories::{Answer, Http, Launch, Store, Traffic, faults, rounds};

/// I1, I2: acknowledged appends are there, once, in order, whole; offsets have no hole.
#[tokio::test(flavor = "multi_thread")]
async fn what_sqlite_acknowledged_survives_every_kill() {
    what_was_acknowledged_survives(&Store::sqlite()).await;
}

/// I1, I2: acknowledged appends are there, once, in order, whole; offsets have no hole.
#[tokio::test(flavor = "multi_thread")]
async fn what_postgres_acknowledged_survives_every_kill() {
    what_was_acknowledged_survives(&Store::postgres().await).await;
}

async fn what_was_acknowledged_survives(store: &Store) {
    let launch = Launch::dev(store).set("TIDEWIRE_STREAMS_LONG_POLL_MS", "2000");
    let mut server = launch.start().await;
    let http = server.http().clone();
    // What a reader saw must be there after the kill too, or it saw what was not durable.
    let mut traffic = Traffic::start(&http).await;

    for round in 0..rounds(6) {
        traffic.flows().await;
        let stream = format!("round/{round}");
        make_and_close(&http, &stream).await;
        faults::random_moment().await;
        server.kill();
        server = launch.start().await;
        traffic.check().await;
        is_closed(&http, &stream).await;
    }

    traffic.ends_well().await;
    drop(traffic);
    server.stop().await;
    store.log_is_gapless().await;
}

/// Creating and closing take places in the log too.
async fn make_and_close(http: &Http, stream: &str) {
    http.create(stream).await;
    let request = http.request(Method::POST, &format!("/v1/stream/{stream}"));
    let answer = Answer::of(request.header("stream-closed", "true")).await;
    assert_eq!(answer.status, 204, "close {stream}: {}", answer.text());
}

async fn is_closed(http: &Http, stream: &str) {
    let answer = Answer::of(http.request(Method::HEAD, &format!("/v1/stream/{stream}"))).await;
    assert_eq!(answer.status, 200, "{stream} was created, and is lost");
    let closed = answer.header("stream-closed");
    assert_eq!(closed, Some("true"), "{stream} was closed, and is open");
}
