//! Sessions and nodes over HTTP, against a server that the test plays itself.

// The half of it that speaks WebSocket is for the tests of live connections.
#[expect(dead_code, reason = "each test uses a part of the node")]
mod node;

use std::time::Duration;

use node::Node;
use serde_json::{Value, json};
use tidewire_client::{Client, ClientError, ReadFrom, SessionOffset};

/// What a request got, and what it was: its first line and its body.
async fn ask<T>(
    node: &Node,
    answer: (&str, Value),
    request: impl Future<Output = Result<T, ClientError>>,
) -> (T, String, Value) {
    let body = if answer.1.is_null() { String::new() } else { answer.1.to_string() };
    let (got, (line, body)) = tokio::join!(request, node.answer(answer.0, "", &body));
    let body = if body.is_empty() { Value::Null } else { body.parse().expect("JSON") };
    (got.expect("an answer"), line, body)
}

async fn server() -> (Node, Client) {
    let node = Node::listen().await;
    let client = Client::new(&node.url(), None).expect("a client");
    (node, client)
}

#[tokio::test]
async fn a_session_is_opened() {
    let (node, client) = server().await;
    let answer = json!({"sessionId": "tws_1", "expiresInMs": 600_000});
    let (session, line, _) = ask(&node, ("201 Created", answer), client.open_session()).await;
    assert_eq!((session.id.as_str(), session.expires_in), ("tws_1", Duration::from_secs(600)));
    assert_eq!(line, "POST /v1/sessions HTTP/1.1");
}

#[tokio::test]
async fn a_session_follows_a_stream_and_leaves_it() {
    let (node, client) = server().await;
    let answer = json!({"sessionId": "s", "streamId": "doc/1", "subscriptionEpoch": 2,
        "lastOffset": "0001_0000000000000007"});
    let subscribe = client.subscribe_session("s", "doc/1", ReadFrom::Start);
    let (offset, line, body) = ask(&node, ("200 OK", answer.clone()), subscribe).await;
    assert_eq!(line, "POST /v1/subscriptions HTTP/1.1");
    assert_eq!(body, json!({"sessionId": "s", "streamId": "doc/1", "offset": "-1"}));
    let expected = SessionOffset {
        stream: "doc/1".into(),
        last_offset: "0001_0000000000000007".into(),
        subscription_epoch: Some(2),
    };
    assert_eq!(offset, expected);

    let subscribe = client.subscribe_session("s", "doc/1", None);
    let (_, _, body) = ask(&node, ("200 OK", answer), subscribe).await;
    assert_eq!(body, json!({"sessionId": "s", "streamId": "doc/1"}));

    let leave = client.unsubscribe_session("s", "doc/1");
    let ((), line, body) = ask(&node, ("204 No Content", Value::Null), leave).await;
    assert_eq!(line, "DELETE /v1/subscriptions HTTP/1.1");
    assert_eq!(body, json!({"sessionId": "s", "streamId": "doc/1"}));
}

#[tokio::test]
async fn a_heartbeat_says_how_far_the_session_got() {
    let (node, client) = server().await;
    let offsets = [SessionOffset {
        stream: "doc/1".into(),
        last_offset: "0001_0000000000000007".into(),
        subscription_epoch: None,
    }];
    let answer = json!({"sessionId": "s", "expiresInMs": 1_500});
    let beat = client.heartbeat("s", &offsets);
    let (expires_in, line, body) = ask(&node, ("200 OK", answer), beat).await;
    assert_eq!(
        (expires_in, line.as_str()),
        (Duration::from_millis(1_500), "POST /v1/heartbeat HTTP/1.1")
    );
    let entry = json!({"streamId": "doc/1", "lastOffset": "0001_0000000000000007"});
    assert_eq!(body, json!({"sessionId": "s", "offsets": [entry]}));
}

#[tokio::test]
async fn a_session_tells_its_offsets() {
    let (node, client) = server().await;
    let answer = json!([{"streamId": "a", "lastOffset": "0001_0000000000000001",
        "subscriptionEpoch": 1}]);
    let (offsets, line, _) = ask(&node, ("200 OK", answer), client.session_offsets("s/1")).await;
    assert_eq!(line, "GET /v1/session-offsets/s%2F1 HTTP/1.1");
    assert_eq!(offsets[0].subscription_epoch, Some(1));
}

#[tokio::test]
async fn nodes_are_listed_and_one_is_the_best_for_a_session() {
    let (node, client) = server().await;
    let answer = json!({"nodes": [{"node": "n1", "url": "http://a", "version": "0.1.0",
        "startedAt": "2026-01-01T00:00:00Z", "leaseMs": 10_000, "connections": 3,
        "subscriptions": 4, "position": "0001_0000000000000009", "lag": 0, "self": true}]});
    let (nodes, line, _) = ask(&node, ("200 OK", answer), client.nodes()).await;
    assert_eq!(line, "GET /v1/nodes HTTP/1.1");
    assert_eq!(
        (nodes[0].name.as_str(), nodes[0].subscriptions, nodes[0].answered),
        ("n1", 4, true)
    );

    let answer = json!({"node": "n2", "url": null, "self": false});
    let (route, line, _) = ask(&node, ("200 OK", answer), client.route("s&1")).await;
    assert_eq!(line, "GET /v1/route?session=s%261 HTTP/1.1");
    assert_eq!((route.node.as_str(), route.url, route.answered), ("n2", None, false));
}
