//! A tab is closed without a word, and comes back: its session remembers what it follows and how
//! far it got, for as long as it said it would.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use tidewire_client::{LiveOptions, ReadFrom};
use tidewire_stories::{EventSource, Follower, Http, Launch, Nodes, Store, Transcript, eventually};

/// I3: what was missed comes first, then it is live; by WebSocket and by SSE. (SQLite)
#[tokio::test(flavor = "multi_thread")]
async fn sqlite_gives_a_returning_tab_what_it_missed() {
    let store = Store::sqlite();
    let server = Launch::dev(&store).start().await;
    a_tab_gets_what_it_missed(server.http(), server.http()).await;
}

/// I3: the same, where the tab comes back to another node. (PostgreSQL)
#[tokio::test(flavor = "multi_thread")]
async fn another_node_gives_a_returning_tab_what_it_missed() {
    let nodes = Nodes::start(2, &Store::postgres().await, &[]).await;
    a_tab_gets_what_it_missed(nodes.http(0), nodes.http(1)).await;
}

/// A heartbeat keeps a session alive that has no connection; without one it ends. (SQLite)
#[tokio::test(flavor = "multi_thread")]
async fn sqlite_keeps_a_session_for_as_long_as_it_has_a_heartbeat() {
    a_heartbeat_keeps_a_session(&Store::sqlite()).await;
}

/// A heartbeat keeps a session alive that has no connection; without one it ends. (PostgreSQL)
#[tokio::test(flavor = "multi_thread")]
async fn postgres_keeps_a_session_for_as_long_as_it_has_a_heartbeat() {
    a_heartbeat_keeps_a_session(&Store::postgres().await).await;
}

/// A connection keeps its session alive too, and the session's time begins when it has ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_keeps_its_session() {
    let store = Store::sqlite();
    let server = short_lived(&store).start().await;
    let http = server.http();
    http.create("news").await;
    // What is older than the session that expires was kept by its connection.
    let kept = http.open_session().await;
    let options = LiveOptions::session(kept.clone());
    let follower = Follower::start(&http.client(), options, &[("news", ReadFrom::Now)]);
    follower.stands(1).await;
    let left = http.open_session().await;
    is_gone(http, &left).await;
    assert_eq!(offsets(http, &kept).await, 200, "a session with a connection");
    drop(follower);
    is_gone(http, &kept).await;
}

/// Ten heartbeats fit into it, however busy the machine is.
const TTL_MS: &str = "3000";
const BETWEEN_HEARTBEATS: Duration = Duration::from_millis(300);

fn short_lived(store: &Store) -> Launch {
    Launch::dev(store).set("TIDEWIRE_SESSIONS_TTL_MS", TTL_MS).set("TIDEWIRE_NODE_LEASE_MS", "900")
}

async fn a_tab_gets_what_it_missed(first: &Http, second: &Http) {
    for stream in ["a", "b"] {
        first.create(stream).await;
    }
    let session = first.open_session().await;
    let options = || LiveOptions::session(session.clone());
    let streams = [("a", ReadFrom::Start), ("b", ReadFrom::Start)];
    let tab = Follower::start(&first.client(), options(), &streams);
    let mut seen = [String::new(), String::new()];
    for n in 0..50 {
        seen = [first.append("a", &json!(n)).await, second.append("b", &json!(n)).await];
    }
    tab.progresses(100 - tab.count().min(100)).await;
    eventually("what was processed is remembered", async || {
        let answer = first.get(&format!("/v1/session-offsets/{session}")).await.json();
        let of = |stream| {
            let all = answer.as_array().expect("offsets").iter();
            let mut found = all.filter(move |one| one["streamId"] == stream);
            found.next().map(|one| one["lastOffset"].clone())
        };
        (of("a")? == seen[0].as_str() && of("b")? == seen[1].as_str()).then_some(())
    })
    .await;

    drop(tab);
    for n in 50..100 {
        first.append("a", &json!(n)).await;
        second.append("b", &json!(n)).await;
    }
    let tab = Follower::start(&second.client(), options(), &[]);
    tab.stands(2).await;
    for n in 100..110 {
        first.append("a", &json!(n)).await;
    }
    for (stream, seen) in ["a", "b"].into_iter().zip(&seen) {
        assert_eq!(tab.start_of(stream).as_ref(), Some(seen), "where {stream} goes on");
        tab.has_all_of(&Transcript::read(first, stream).await).await;
    }

    // The last time it comes by SSE, which acknowledges nothing.
    drop(tab);
    let read = Transcript::read(first, "a").await;
    let mut response =
        EventSource::open(second, &session, read.events().last().map(|e| &*e.offset)).await;
    let news = first.append("a", &json!("news")).await;
    loop {
        let message = response.next().await.expect("a response that stays");
        if message["type"] == "event" && message["streamId"] == "a" {
            assert_eq!(message["offset"], news.as_str(), "what it had is not repeated: {message}");
            return;
        }
    }
}

async fn a_heartbeat_keeps_a_session(store: &Store) {
    let server = short_lived(store).start().await;
    let http = server.http();
    http.create("news").await;
    let session = http.open_session().await;
    http.follow(&session, "news", "now").await;
    let forgotten = http.open_session().await;
    let body = json!({ "sessionId": session });
    // Without its heartbeats it would have gone before the other, which came later.
    while offsets(http, &forgotten).await == 200 {
        beats(http, &body).await;
    }
    assert_eq!(offsets(http, &session).await, 200, "a session with a heartbeat");
    is_gone(http, &session).await;
    let answer = http.json(Method::POST, "/v1/heartbeat", &body).await;
    answer.problem(404, "session_not_found");
}

async fn beats(http: &Http, body: &serde_json::Value) {
    let answer = http.json(Method::POST, "/v1/heartbeat", body).await;
    assert_eq!(answer.status, 200, "a heartbeat: {}", answer.text());
    tokio::time::sleep(BETWEEN_HEARTBEATS).await;
}

/// The status of asking for a session's offsets, which does not keep it alive.
async fn offsets(http: &Http, session: &str) -> u16 {
    http.get(&format!("/v1/session-offsets/{session}")).await.status
}

async fn is_gone(http: &Http, session: &str) {
    eventually("the session is gone", async || (offsets(http, session).await == 404).then_some(()))
        .await;
}
