//! A page is written from the design note that sessions come from ("hot push, cold catch-up"): its
//! requests and its reading of the answers are the note's own.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::{Value, json};
use tidewire_stories::examples::shape;
use tidewire_stories::server_sent::Sent;
use tidewire_stories::{
    Answer, Http, Launch, ServerSent, Store, Tab, WebSocket, eventually, on_both_stores,
};
use tokio::task::JoinSet;

on_both_stores!(
    every_route_has_the_shape_of_the_protocol,
    a_tab_misses_nothing_while_it_is_away,
    a_session_ends_when_nobody_uses_it_any_more,
    a_session_follows_a_thousand_streams_at_most,
    requests_that_are_not_right_are_refused_by_name,
);

/// Clients that do a long job side by side.
const TOGETHER: usize = 40;

/// Section 20's table, member by member.
async fn every_route_has_the_shape_of_the_protocol(store: Store) {
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    http.create("doc-123").await;
    let tail = http.append("doc-123", &json!({ "x": 1 })).await;

    let answer = Answer::of(http.request(Method::POST, "/v1/sessions")).await;
    assert_eq!(answer.status, 201);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let opened = answer.json();
    assert_eq!(shape(&opened), json!({ "sessionId": "string", "expiresInMs": "number" }));
    assert_eq!(opened["expiresInMs"], 600_000);
    let session = opened["sessionId"].as_str().expect("a text");
    assert!(session.starts_with("tws_"), "{session}");

    let request = json!({ "sessionId": session, "streamId": "doc-123" });
    let answer = http.json(Method::POST, "/v1/subscriptions", &request).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let subscribed = json!({
        "sessionId": session, "streamId": "doc-123", "subscriptionEpoch": 1, "lastOffset": tail,
    });
    assert_eq!(answer.json(), subscribed);
    let answer = http.json(Method::POST, "/v1/subscriptions", &request).await;
    assert_eq!(answer.json(), subscribed, "saying it again changes nothing");

    let answer = http.get(&format!("/v1/session-offsets/{session}")).await;
    assert_eq!(answer.status, 200);
    let expected = json!([{ "streamId": "doc-123", "lastOffset": tail, "subscriptionEpoch": 1 }]);
    assert_eq!(answer.json(), expected);

    let acked = json!([{ "streamId": "doc-123", "lastOffset": tail }]);
    for heartbeat in
        [json!({ "sessionId": session }), json!({ "sessionId": session, "offsets": acked })]
    {
        let answer = http.json(Method::POST, "/v1/heartbeat", &heartbeat).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json(), json!({ "sessionId": session, "expiresInMs": 600_000 }));
    }

    for _ in 0..2 {
        let answer = http.json(Method::DELETE, "/v1/subscriptions", &request).await;
        assert_eq!((answer.status, answer.text().as_str()), (204, ""), "also if there was none");
    }
    let answer = http.get(&format!("/v1/session-offsets/{session}")).await;
    assert_eq!(answer.json(), json!([]));
}

/// The note's client: what it has applied, by stream.
struct Page {
    http: Http,
    tab: Tab,
    last_offsets: BTreeMap<String, String>,
    applied: Vec<(String, Value)>,
}

impl Page {
    async fn open(http: &Http) -> Page {
        let tab = Tab::open(http).await;
        Page { http: http.clone(), tab, last_offsets: BTreeMap::new(), applied: Vec::new() }
    }

    /// `shouldApply` and `applyDelta`.
    fn apply(&mut self, stream: &str, offset: &str, payload: &Value) {
        if self.last_offsets.get(stream).is_none_or(|last| last.as_str() < offset) {
            self.last_offsets.insert(stream.to_owned(), offset.to_owned());
            self.applied.push((stream.to_owned(), payload.clone()));
        }
    }

    /// `onEvent`.
    fn on_event(&mut self, Sent { message, .. }: &Sent) {
        let text = |member: &str| message[member].as_str().unwrap_or_default();
        assert_eq!(text("type"), "event", "{message}");
        self.apply(text("streamId"), text("offset"), &message["payload"]);
    }

    async fn heartbeat(&self) {
        let offsets = self.last_offsets.iter();
        let offsets = offsets.map(|(s, o)| json!({ "streamId": s, "lastOffset": o }));
        self.tab.heartbeat(&offsets.collect()).await;
    }

    async fn catch_up(&mut self) {
        let offsets = self.tab.offsets().await;
        for pointer in offsets.as_array().expect("an array") {
            let stream = pointer["streamId"].as_str().expect("streamId");
            let from = pointer["lastOffset"].as_str().expect("lastOffset");
            let path = format!("/v1/stream/{stream}?offset={from}&format=events");
            let batch = self.http.get(&path).await.json();
            for event in batch.as_array().expect("an array") {
                self.apply(stream, event["offset"].as_str().expect("offset"), &event["payload"]);
            }
        }
    }
}

/// I3: open, subscribe, catch up, go away, come back: each change is applied once and in order,
/// whether it was pushed, caught up or replayed.
async fn a_tab_misses_nothing_while_it_is_away(store: Store) {
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    for stream in ["left", "right"] {
        http.create(stream).await;
        http.append(stream, &json!("before anyone came")).await;
    }
    let mut page = Page::open(http).await;
    let mut live = ServerSent::open(http, &page.tab.session, None).await;
    page.tab.subscribe("left").await;
    page.tab.subscribe("right").await;
    live.hears("subscription_created").await;
    live.hears("subscription_created").await;
    page.catch_up().await;
    assert_eq!(page.applied, [], "a subscription begins at the tail");

    let mut expected = Vec::new();
    let mut number = 0;
    for round in ["online", "away", "back"] {
        for stream in ["left", "right", "left"] {
            number += 1;
            http.append(stream, &json!(number)).await;
            expected.push((stream.to_owned(), json!(number)));
        }
        match round {
            "away" => {
                // The browser comes back by itself, and the note's client catches up as well: what
                // comes both ways is applied once.
                live = ServerSent::open(http, &page.tab.session, None).await;
                live.hears("subscription_created").await;
                page.catch_up().await;
                page.applied.sort_by_key(|(_, number)| number.as_i64());
                for sent in live.events(3).await {
                    page.on_event(&sent);
                }
            }
            _ => {
                for sent in live.events(3).await {
                    page.on_event(&sent);
                }
            }
        }
        if round == "online" {
            page.heartbeat().await;
            drop(live);
            live = ServerSent::open(http, &Tab::open(http).await.session, None).await;
        }
    }
    assert_eq!(page.applied, expected);
    page.tab.unsubscribe("left").await;
    live.hears("subscription_ended").await;
}

/// A session lives while it is used, by heartbeats or by a live connection, and not much longer.
async fn a_session_ends_when_nobody_uses_it_any_more(store: Store) {
    let launch = Launch::dev(&store)
        .set("TIDEWIRE_SESSIONS_TTL_MS", "2500")
        .set("TIDEWIRE_LOG_SWEEP_INTERVAL_MS", "100");
    let server = launch.start().await;
    let http = server.http();
    http.create("doc").await;
    let (connected, beating) = (Tab::open(http).await, Tab::open(http).await);
    let mut live = WebSocket::connect(http, &connected.socket()).await;
    live.hears("hello").await;
    for tab in [&connected, &beating] {
        tab.subscribe("doc").await;
    }
    let idle = Tab::open(http).await;
    idle.subscribe("doc").await;
    // However long that takes, the others are older and outlive it.
    eventually("a session that nobody uses expires", async || {
        beating.heartbeat(&json!([])).await;
        let answer = http.get(&format!("/v1/session-offsets/{}", idle.session)).await;
        (answer.status == 404).then(|| answer.problem(404, "session_not_found"))
    })
    .await;
    for tab in [&connected, &beating] {
        assert_eq!(tab.offsets().await[0]["streamId"], "doc");
    }
    drop(live);
    eventually("a session whose connection has gone expires", async || {
        let answer = http.get(&format!("/v1/session-offsets/{}", connected.session)).await;
        (answer.status == 404).then_some(())
    })
    .await;
}

/// I5: what one session follows has an end.
async fn a_session_follows_a_thousand_streams_at_most(store: Store) {
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    let tab = Tab::open(http).await;
    http.create("s/1000").await;
    let mut following = JoinSet::new();
    for first in 0..TOGETHER {
        let (http, tab) = (http.clone(), tab.clone());
        following.spawn(async move {
            for number in (first..1_000).step_by(TOGETHER) {
                let stream = format!("s/{number}");
                http.create(&stream).await;
                tab.subscribe(&stream).await;
            }
        });
    }
    following.join_all().await;
    let request = json!({ "sessionId": tab.session, "streamId": "s/1000" });
    let answer = http.json(Method::POST, "/v1/subscriptions", &request).await;
    answer.problem(429, "too_many_subscriptions");
    tab.unsubscribe("s/0").await;
    tab.subscribe("s/1000").await;
    assert_eq!(tab.offsets().await.as_array().expect("an array").len(), 1_000);
}

/// I9: what makes no sense is refused by name, and changes nothing.
async fn requests_that_are_not_right_are_refused_by_name(store: Store) {
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    http.create("doc").await;
    let tab = Tab::open(http).await;
    tab.subscribe("doc").await;
    let (path, session) = ("/v1/subscriptions", &tab.session);
    for body in [
        json!([]),
        json!({}),
        json!({ "sessionId": session }),
        json!({ "sessionId": 1, "streamId": "doc" }),
    ] {
        for method in [Method::POST, Method::DELETE] {
            http.json(method, path, &body).await.problem(400, "invalid_session_request");
        }
    }
    let answer = Answer::of(http.request(Method::POST, path).body("{")).await;
    answer.problem(400, "invalid_session_request");
    let subscribe = async |stream: &str, offset: &str| {
        let body = json!({ "sessionId": session, "streamId": stream, "offset": offset });
        http.json(Method::POST, path, &body).await
    };
    subscribe("there-is-none", "-1").await.problem(404, "stream_not_found");
    subscribe("a//b", "-1").await.problem(400, "invalid_stream_name");
    subscribe("doc", "yesterday").await.problem(400, "malformed_offset");
    subscribe("doc", "0007_0000000000000001").await.problem(410, "offset_of_another_epoch");
    let one = json!({ "streamId": "doc", "lastOffset": "0001_0000000000000000" });
    let many = json!({ "sessionId": session, "offsets": vec![one; 10_001] });
    let answer = http.json(Method::POST, "/v1/heartbeat", &many).await;
    answer.problem(400, "invalid_session_request");
    for (method, path) in [
        (Method::GET, "/v1/sessions".to_owned()),
        (Method::PUT, "/v1/subscriptions".to_owned()),
        (Method::GET, "/v1/heartbeat".to_owned()),
        (Method::POST, format!("/v1/session-offsets/{session}")),
        (Method::POST, format!("/v1/live/{session}")),
    ] {
        let answer = Answer::of(http.request(method, &path)).await;
        answer.problem(405, "method_not_allowed");
        assert!(answer.header("allow").is_some(), "{path}: {answer:?}");
    }
    let plain = Answer::of(http.request(Method::GET, "/v1/ws")).await;
    plain.problem(426, "websocket_required");
    assert_eq!(tab.pointer("doc").await.as_deref(), Some("0001_0000000000000000"));
}
