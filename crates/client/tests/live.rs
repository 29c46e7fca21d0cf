//! A live connection, against a server that the test plays itself: what only a socket can show. The
//! rules behind it are tested in the crate, against a simulated server.

mod node;

use std::future::Future;
use std::time::Duration;

use futures_util::StreamExt as _;
use node::{Node, Peer, header};
use serde_json::{Value, json};
use tidewire_client::{Backoff, Client, ClientError, Live, LiveOptions, ReadFrom, Update};
use yawc::close::CloseCode;
use yawc::{Frame, OpCode};

fn offset(position: u64) -> String {
    format!("0001_{position:016}")
}

fn hello(node: &str) -> Value {
    json!({"type": "hello", "connection_id": "c1", "node": node})
}

fn created(position: u64) -> Value {
    let subscription = json!({"query_id": "doc", "live_id": "c1-doc", "streamId": "doc-123",
        "contentType": "application/json", "offset": offset(position), "reset": false});
    json!({"type": "subscription_created", "subscriptions": [subscription]})
}

fn event(position: u64, payload: &Value) -> Value {
    json!({"type": "event", "query_id": "doc", "streamId": "doc-123",
        "offset": offset(position), "payload": payload})
}

/// What a test asserts of an update.
fn brief(update: Option<Update>) -> String {
    match update.expect("an update") {
        Update::Connected { node, .. } => format!("connected to {node}"),
        Update::Disconnected { .. } => "disconnected".to_owned(),
        Update::Created { query_id, resumed, .. } => format!("{query_id} resumed: {resumed}"),
        Update::Event(event) => {
            format!("{} {}", event.query_id, String::from_utf8_lossy(&event.payload))
        }
        Update::Progress { offset } => format!("progress {offset}"),
        Update::Ended { query_id, reason, .. } => format!("{query_id} ended: {reason}"),
        Update::Problem { problem, .. } => problem.code.unwrap_or_default(),
        other => format!("{other:?}"),
    }
}

async fn briefs(live: &mut Live, count: usize) -> Vec<String> {
    let mut briefs = Vec::new();
    for _ in 0..count {
        briefs.push(brief(live.next().await.expect("no error")));
    }
    briefs
}

fn options() -> LiveOptions {
    let backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(50));
    LiveOptions { backoff, ..LiveOptions::default() }
}

fn live(node: &Node, options: LiveOptions) -> Live {
    let client = Client::new(&node.url(), Some("secret")).expect("a client");
    let mut live = client.live(options).expect("a live connection");
    live.subscribe("doc", "doc-123", ReadFrom::Start).expect("a subscription");
    live
}

/// A peer that has greeted and confirmed the one subscription.
async fn greeted(node: &Node, name: &str, position: u64) -> (Peer, Value) {
    let mut peer = node.peer().await;
    peer.says(hello(name)).await;
    let request = peer.hears().await;
    peer.says(created(position)).await;
    (peer, request)
}

async fn both<A, B>(client: impl Future<Output = A>, server: impl Future<Output = B>) -> (A, B) {
    let both = async { tokio::join!(client, server) };
    tokio::time::timeout(Duration::from_secs(20), both).await.expect("both come to an end")
}

#[tokio::test]
async fn a_client_moves_to_another_node_and_goes_on_where_it_was() {
    let (first, second) = (Node::listen().await, Node::listen().await);
    let mut live = live(&first, LiveOptions { addresses: vec![second.url()], ..options() });
    let server = async {
        let (mut peer, request) = greeted(&first, "n1", 0).await;
        let expected = json!({"type": "subscribe", "subscriptions":
            [{"query_id": "doc", "stream": "doc-123", "offset": "-1"}]});
        assert_eq!(request, expected);
        assert_eq!(header(&peer.head, "authorization"), Some("Bearer secret"));
        peer.says(event(1, &json!({"n": 1}))).await;
        peer.says(event(2, &json!({"n": 2}))).await;
        drop(peer);
        let (mut peer, request) = greeted(&second, "n2", 2).await;
        assert_eq!(request["subscriptions"][0]["offset"], offset(2));
        peer.says(event(2, &json!({"n": 2}))).await;
        peer.says(event(3, &json!({"n": 3}))).await;
        peer
    };
    let (updates, _peer) = both(briefs(&mut live, 8), server).await;
    let expected = [
        "connected to n1",
        "doc resumed: false",
        "doc {\"n\":1}",
        "doc {\"n\":2}",
        "disconnected",
        "connected to n2",
        "doc resumed: true",
        "doc {\"n\":3}",
    ];
    assert_eq!(updates, expected);
}

#[tokio::test]
async fn messages_are_compressed_where_both_sides_want_it() {
    for compression in [true, false] {
        let node = Node::listen().await;
        let mut live = live(&node, LiveOptions { compression, ..options() });
        let text = "a text that repeats itself ".repeat(200);
        // Enough subscriptions that the request is worth compressing.
        for number in 0..50 {
            live.subscribe(&format!("q{number}"), "doc-123", ReadFrom::Now).expect("a name");
        }
        let server = async {
            let (mut peer, request) = greeted(&node, "n1", 0).await;
            assert_eq!(header(&peer.head, "sec-websocket-extensions").is_some(), compression);
            assert_eq!(request["subscriptions"].as_array().map(Vec::len), Some(51));
            peer.says(event(1, &json!(text))).await;
            peer
        };
        let (updates, _peer) = both(briefs(&mut live, 3), server).await;
        assert_eq!(updates[2], format!("doc \"{text}\""));
    }
}

#[tokio::test]
async fn a_large_event_is_read_over_http_and_what_follows_waits_for_it() {
    let node = Node::listen().await;
    let mut live = live(&node, options());
    let server = async {
        let (mut peer, _) = greeted(&node, "n1", 0).await;
        peer.says(event(1, &json!(1))).await;
        peer.says(json!({"type": "notify", "query_id": "doc", "offset": offset(2)})).await;
        peer.says(event(3, &json!(3))).await;
        let unwell = node.answer("503 Unavailable", "", "").await.0;
        assert_eq!(
            unwell,
            format!("GET /v1/stream/doc-123?offset={}&format=events HTTP/1.1", offset(1))
        );
        let page = json!([{"offset": offset(2), "payload": "aGk=", "encoding": "base64"}]);
        let headers = format!("stream-next-offset: {}\r\n", offset(2));
        assert_eq!(node.answer("200 OK", &headers, &page.to_string()).await.0, unwell);
        peer
    };
    let (updates, _peer) = both(briefs(&mut live, 5), server).await;
    assert_eq!(updates[2..], ["doc 1", "doc hi", "doc 3"]);
}

#[tokio::test]
async fn a_gap_is_asked_for_again() {
    let node = Node::listen().await;
    let mut live = live(&node, options());
    let server = async {
        let (mut peer, _) = greeted(&node, "n1", 0).await;
        peer.says(event(1, &json!(1))).await;
        let gap = json!({"type": "gap", "query_id": "doc", "from": offset(1), "to": offset(3)});
        peer.says(gap).await;
        peer.says(event(4, &json!(4))).await;
        assert_eq!(peer.hears().await["subscriptions"][0]["offset"], offset(1));
        peer.says(event(5, &json!(5))).await;
        peer.says(created(1)).await;
        for position in 1..=5 {
            peer.says(event(position, &json!(position))).await;
        }
        peer
    };
    let (updates, _peer) = both(briefs(&mut live, 8), server).await;
    let expected = ["doc 1", "doc resumed: true", "doc 2", "doc 3", "doc 4", "doc 5"];
    assert_eq!(updates[2..], expected);
}

#[tokio::test]
async fn a_wrong_token_ends_it_and_is_not_shown() {
    let node = Node::listen().await;
    let mut live = live(&node, options());
    let problem = r#"{"code":"unauthorized","detail":"no","temporary":false}"#;
    let (error, _) = both(live.next(), node.answer("401 Unauthorized", "", problem)).await;
    let error = error.expect_err("a refusal");
    assert_eq!(error.status(), Some(401));
    assert!(!format!("{error:?} {error} {live:?}").contains("secret"));
    assert!(live.next().await.expect("no second error").is_none());
}

/// Two that came back would go on to close each other.
#[tokio::test]
async fn one_whose_user_came_elsewhere_stays_away() {
    let node = Node::listen().await;
    let mut live = live(&node, options());
    let server = async {
        let (mut peer, _) = greeted(&node, "a", 0).await;
        peer.sends(Frame::close(CloseCode::from(4000), "New connection")).await;
        peer
    };
    let client = async {
        briefs(&mut live, 2).await;
        live.next().await
    };
    let (update, _peer) = both(client, server).await;
    let error = update.expect_err("a refusal");
    assert!(error.to_string().contains("New connection"), "{error}");
}

#[tokio::test]
async fn a_server_that_closes_for_good_is_not_asked_again() {
    for (temporary, then) in [(false, None), (true, Some("disconnected"))] {
        let node = Node::listen().await;
        let mut live = live(&node, options());
        let server = async {
            let mut peer = node.peer().await;
            peer.says(json!({"type": "error", "code": "session_not_found",
                "message": "there is no such session", "temporary": temporary}))
                .await;
            peer.sends(Frame::close(CloseCode::Policy, "session_not_found")).await;
            peer
        };
        let client = async {
            assert_eq!(briefs(&mut live, 1).await, ["session_not_found"]);
            live.next().await
        };
        let (update, _peer) = both(client, server).await;
        match then {
            Some(then) => assert_eq!(brief(update.expect("it comes back")), then),
            None => assert_eq!(update.expect_err("a refusal").status(), Some(404)),
        }
    }
}

#[tokio::test]
async fn a_silent_server_is_asked_and_then_given_up() {
    let node = Node::listen().await;
    let silence_max = Duration::from_millis(100);
    let mut live = live(&node, LiveOptions { silence_max, ..options() });
    let server = async {
        let (mut peer, _) = greeted(&node, "n1", 0).await;
        assert_eq!(peer.hears_frame().await.opcode(), OpCode::Ping);
        // It is not read from again, so nothing answers the second one.
        peer.sends(Frame::pong("")).await;
        let (again, _) = greeted(&node, "n1", 0).await;
        (peer, again)
    };
    let (updates, _peers) = both(briefs(&mut live, 4), server).await;
    assert_eq!(updates[2..], ["disconnected", "connected to n1"]);
}

#[tokio::test]
async fn a_ping_is_answered() {
    let node = Node::listen().await;
    let mut live = live(&node, options());
    // Also: it can be moved to a task of its own.
    let client = tokio::spawn(async move { briefs(&mut live, 3).await });
    let server = async {
        let (mut peer, _) = greeted(&node, "n1", 0).await;
        peer.sends(Frame::ping("are you there")).await;
        let pong = peer.hears_frame().await;
        assert_eq!((pong.opcode(), pong.payload().as_ref()), (OpCode::Pong, &b"are you there"[..]));
        peer.says(event(1, &json!(1))).await;
        peer
    };
    let (updates, _peer) = both(client, server).await;
    assert_eq!(updates.expect("no panic")[2], "doc 1");
}

#[tokio::test]
async fn acknowledgements_go_out_together_and_the_last_with_the_farewell() {
    let node = Node::listen().await;
    let options = LiveOptions { session: Some("tws_1".into()), ..options() };
    let mut live = live(&node, options);
    let server = async {
        let (mut peer, _) = greeted(&node, "n1", 0).await;
        assert!(peer.head.starts_with("GET /v1/ws?session=tws_1 HTTP/1.1"), "{}", peer.head);
        for position in 1..=20 {
            peer.says(event(position, &json!(position))).await;
        }
        let mut acks = 0;
        let mut last = Value::Null;
        loop {
            let frame = peer.hears_frame().await;
            if frame.opcode() == OpCode::Close {
                peer.goes().await;
                return (acks, last);
            }
            let message: Value = serde_json::from_slice(frame.payload()).expect("JSON");
            assert_eq!(message["offsets"][0]["streamId"], "doc-123");
            last = message["offsets"][0]["lastOffset"].clone();
            acks += 1;
        }
    };
    let client = async {
        for _ in 0..22 {
            if let Some(Update::Event(event)) = live.next().await.expect("no error") {
                live.ack(&event);
            }
        }
        Box::pin(live.close()).await.expect("a farewell");
    };
    let ((), (acks, last)) = both(client, server).await;
    assert_eq!(last, offset(20));
    assert!(acks <= 5, "{acks} messages for 20 acknowledgements");
}

#[tokio::test]
async fn without_a_connection_the_last_acknowledgements_go_by_a_heartbeat() {
    let (gone, other) = (Node::listen().await, Node::listen().await);
    let addresses = vec![other.url()];
    let options = LiveOptions { session: Some("tws_1".into()), addresses, ..options() };
    let mut live = live(&gone, options);
    let server = async {
        let (mut peer, _) = greeted(&gone, "n1", 0).await;
        peer.says(event(1, &json!(1))).await;
        drop((peer, gone));
        // The node that is still there is asked for a connection first.
        other.answer("503 Unavailable", "", "").await;
        other.answer("200 OK", "", r#"{"sessionId":"tws_1","expiresInMs":1}"#).await
    };
    let client = async {
        briefs(&mut live, 2).await;
        let Some(Update::Event(event)) = live.next().await.expect("no error") else {
            panic!("no event");
        };
        assert_eq!(briefs(&mut live, 2).await, ["disconnected", "disconnected"]);
        live.ack(&event);
        Box::pin(live.close()).await
    };
    let (closed, (line, body)) = both(client, server).await;
    closed.expect("the other node took them");
    assert_eq!(line, "POST /v1/heartbeat HTTP/1.1");
    let body: Value = body.parse().expect("JSON");
    let offsets = json!([{"streamId": "doc-123", "lastOffset": offset(1)}]);
    assert_eq!(body, json!({"sessionId": "tws_1", "offsets": offsets}));
}

#[tokio::test]
async fn a_text_streams_events_are_text_and_come_as_a_stream() {
    let node = Node::listen().await;
    let mut live = live(&node, options());
    live.subscribe_after("doc", "doc-123", ReadFrom::Start, &offset(1)).expect("a subscription");
    let server = async {
        let mut peer = node.peer().await;
        assert_eq!(peer.hears().await["subscriptions"][0]["min_offset"], offset(1));
        let mut created = created(0);
        created["subscriptions"][0]["contentType"] = json!("text/plain");
        peer.says(created).await;
        peer.says(event(1, &json!("it's \"text\"\n"))).await;
        peer.says(json!({"type": "notify", "query_id": "doc", "offset": offset(2)})).await;
        let page = json!([{"offset": offset(2), "payload": "large"}]);
        let headers = format!("stream-next-offset: {}\r\n", offset(2));
        node.answer("200 OK", &headers, &page.to_string()).await;
        peer
    };
    let client = live.into_stream().take(3).map(|update| brief(update.ok())).collect::<Vec<_>>();
    let (updates, _peer) = both(client, server).await;
    assert_eq!(updates[1..], ["doc it's \"text\"\n", "doc large"]);
}

#[tokio::test]
async fn a_server_that_goes_away_says_when_to_come_back() {
    let node = Node::listen().await;
    let mut live = live(&node, options());
    let server = async {
        let (mut peer, _) = greeted(&node, "n1", 0).await;
        peer.says(json!({"type": "closing", "reason": "shutting_down", "reconnect_in_ms": 321}))
            .await;
    };
    let client = async {
        briefs(&mut live, 2).await;
        live.next().await.expect("no error")
    };
    let (update, ()) = both(client, server).await;
    let Some(Update::Disconnected { error, retry_in }) = update else {
        panic!("{update:?}");
    };
    assert_eq!(retry_in, Duration::from_millis(321));
    assert!(error.to_string().contains("shutting_down"), "{error}");
}

#[tokio::test]
async fn a_caller_who_drops_the_future_all_the_time_misses_nothing() {
    let node = Node::listen().await;
    let mut live = live(&node, options());
    let server = async {
        let (mut peer, _) = greeted(&node, "n1", 0).await;
        for position in 1..=50 {
            peer.says(event(position, &json!(position))).await;
            tokio::task::yield_now().await;
        }
        peer
    };
    let client = async {
        let mut updates = Vec::new();
        while updates.len() < 52 {
            tokio::select! {
                biased;
                update = live.next() => updates.push(brief(update.expect("no error"))),
                () = tokio::task::yield_now() => {}
            }
        }
        updates
    };
    let (updates, _peer) = both(client, server).await;
    let expected: Vec<String> = (1..=50).map(|position| format!("doc {position}")).collect();
    assert_eq!(updates[2..], expected);
}

#[tokio::test]
async fn a_subscription_ends_alone_and_with_the_last_everything() {
    let node = Node::listen().await;
    let mut live = live(&node, options());
    live.subscribe("other", "doc-404", ReadFrom::Now).expect("a subscription");
    let server = async {
        let (mut peer, _) = greeted(&node, "n1", 0).await;
        peer.says(json!({"type": "error", "query_id": "other", "code": "stream_not_found",
            "message": "there is no stream of this name", "temporary": false}))
            .await;
        peer.says(event(1, &json!(1))).await;
        peer.says(json!({"type": "subscription_ended", "query_id": "doc",
            "reason": "stream_closed"}))
            .await;
        peer
    };
    let client = async {
        let updates = briefs(&mut live, 5).await;
        (updates, live.next().await.expect("no error"))
    };
    let ((updates, last), _peer) = both(client, server).await;
    assert_eq!(updates[2..], ["stream_not_found", "doc 1", "doc ended: stream_closed"]);
    assert!(last.is_none());
}

#[tokio::test]
async fn what_a_session_follows_comes_without_being_asked_for() {
    let node = Node::listen().await;
    let client = Client::new(&node.url(), None).expect("a client");
    let mut live = client.live(LiveOptions::session("tws_1")).expect("a live connection");
    let server = async {
        let mut peer = node.peer().await;
        peer.says(hello("n1")).await;
        peer.says(created(4)).await;
        peer.says(event(5, &json!(5))).await;
        peer
    };
    let (updates, _peer) = both(briefs(&mut live, 3), server).await;
    assert_eq!(updates[1..], ["doc resumed: false", "doc 5"]);
}

#[tokio::test]
async fn names_that_cannot_be_are_refused() {
    let node = Node::listen().await;
    let mut live = live(&node, options());
    for (query_id, stream) in [("", "doc"), (&*"x".repeat(257), "doc"), ("doc", "a//b")] {
        let refused = live.subscribe(query_id, stream, None);
        assert!(
            matches!(refused, Err(ClientError::Unusable(_))),
            "{query_id} {stream}: {refused:?}"
        );
    }
    let options = LiveOptions { addresses: vec!["nowhere".into()], ..options() };
    let refused = Client::new(&node.url(), None).expect("a client").live(options);
    assert!(matches!(refused, Err(ClientError::Unusable(_))));
}
