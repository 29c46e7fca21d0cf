//! Two servers start on one empty database at the same moment, and are one system from then on.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use tidewire_stories::postgres::{drop_database, fresh_database};
use tidewire_stories::{Answer, Launch, Reader, Store, Transcript, rounds};

/// The longest fallback poll there is, and a time by which only a signal can have woken anyone.
const FALLBACK_POLL_MS: &str = "60000";
const BEFORE_THE_FALLBACK: Duration = Duration::from_secs(30);

/// The schema is made once, whoever comes first; the other one uses it.
#[tokio::test(flavor = "multi_thread")]
async fn both_get_ready_on_one_schema() {
    for _ in 0..rounds(3) {
        let url = fresh_database().await;
        let store = Store::postgres_at(&url);
        let launches = [Launch::dev(&store), Launch::dev(&store)];
        let [first, second] = launches.each_ref().map(Launch::spawn);
        let first = launches[0].ready(first).await;
        let second = launches[1].ready(second).await;
        store.every_migration_was_applied_once().await;
        first.http().create("shared").await;
        second.http().append("shared", &json!("from the second")).await;
        let transcript = Transcript::read(first.http(), "shared").await;
        assert_eq!(transcript.events().len(), 1, "what the second wrote, at the first");
        first.stop().await;
        second.stop().await;
        drop_database(&url).await;
    }
}

/// I3: an append on one node wakes the readers of the other, without the fallback poll.
#[tokio::test(flavor = "multi_thread")]
async fn an_append_on_one_wakes_the_readers_of_the_other() {
    let store = Store::postgres().await;
    let launch = || {
        Launch::dev(&store)
            .set("TIDEWIRE_STREAMS_LONG_POLL_MS", "300000")
            .set("TIDEWIRE_LOG_FALLBACK_POLL_MS", FALLBACK_POLL_MS)
    };
    let (writing, reading) = (launch(), launch());
    let (writing, reading) = (writing.start().await, reading.start().await);
    writing.http().create("shared").await;
    let by_sse = Reader::sse(reading.http(), "shared");
    let path = "/v1/stream/shared?live=long-poll&offset=-1";
    let by_long_poll = Answer::of(reading.http().request(Method::GET, path));
    let mut waiting = tokio::task::JoinSet::new();
    waiting.spawn(by_long_poll);
    reading.readers_wait(2).await;

    writing.http().append("shared", &json!("news")).await;

    let woken = tokio::time::timeout(BEFORE_THE_FALLBACK, waiting.join_next()).await;
    let woken = woken.expect("the append woke no one on the other node");
    let answer = woken.expect("one task").expect("a long-poll that is answered");
    assert_eq!(answer.json(), json!(["news"]), "by long-poll");
    let transcript = Transcript::read(writing.http(), "shared").await;
    by_sse.has_all_of(&transcript).await;
}
