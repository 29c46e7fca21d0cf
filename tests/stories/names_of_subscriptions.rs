//! A name on a connection is of one thing. One that a session has is the session's: nothing else gets it,
//! and what the session follows is not lost by someone's asking.

use reqwest::Method;
use serde_json::{Value, json};
use tidewire_stories::{Http, Launch, Store, WebSocket, on_both_stores};

use crate::table_subscriptions::{connect, orders};

on_both_stores!(
    a_name_of_the_session_is_not_given_to_anything_else,
    a_name_of_the_connections_own_is_begun_anew_by_every_kind,
    a_name_is_free_again_when_the_session_lets_it_go,
);

/// One of each kind that may be asked for, under a name.
fn of_every_kind(name: &str) -> [Value; 4] {
    [
        json!({ "query_id": name, "stream": "other" }),
        json!({ "query_id": name, "table": "orders" }),
        json!({ "query_id": name, "entity_code": "order", "entity_ids": ["1"] }),
        json!({ "query_id": name, "sql": "SELECT id FROM orders" }),
    ]
}

async fn streams(http: &Http) {
    orders(http).await;
    for stream in ["doc", "other", "notes"] {
        http.create(stream).await;
    }
}

async fn open_session(http: &Http) -> String {
    let answer = http.json(Method::POST, "/v1/sessions", &json!({})).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["sessionId"].as_str().expect("an id").to_owned()
}

async fn connect_session(http: &Http, session: &str) -> WebSocket {
    let mut socket = WebSocket::connect(http, &format!("/v1/live/{session}")).await;
    socket.hears("hello").await;
    socket
}

/// That the connection still gets what is appended to a stream, under its name.
async fn still_follows(http: &Http, socket: &mut WebSocket, stream: &str, name: &str) {
    let offset = http.append(stream, &json!({ "after": name })).await;
    let event = socket.hears("event").await;
    assert_eq!((&event["query_id"], &event["offset"]), (&json!(name), &json!(offset)), "{event}");
}

async fn a_name_of_the_session_is_not_given_to_anything_else(store: Store) {
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    streams(http).await;
    let session = open_session(http).await;
    let mut socket = connect_session(http, &session).await;
    // `SUBSCRIBE` has no name of its own, and would take this one.
    socket.subscribe(&json!({ "query_id": "entity/order", "stream": "notes" })).await;
    let created = socket.subscribe(&json!({ "query_id": "q", "stream": "doc" })).await;
    assert_eq!(created["reset"], false, "{created}");

    for asked in of_every_kind("q") {
        socket.say(&json!({ "type": "subscribe", "subscriptions": [asked] })).await;
        let refused = socket.hears("error").await;
        assert_eq!(refused["code"], "query_id_in_use", "{asked}: {refused}");
        assert_eq!(refused["query_id"], "q", "{refused}");
        still_follows(http, &mut socket, "doc", "q").await;
    }
    let payload = json!({ "entityCode": "order", "entityIds": ["1"] });
    socket.say(&json!({ "type": "SUBSCRIBE", "payload": payload })).await;
    let refused = socket.hears("error").await;
    assert_eq!(refused["code"], "query_id_in_use", "{refused}");
    assert_eq!(refused["query_id"], "entity/order", "{refused}");
    still_follows(http, &mut socket, "notes", "entity/order").await;

    // The same thing again is how gaps are mended.
    let again = json!({ "query_id": "q", "stream": "doc", "offset": "-1" });
    let created = socket.subscribe(&again).await;
    assert_eq!((&created["reset"], &created["streamId"]), (&json!(true), &json!("doc")));
    for _ in 0..4 {
        assert_eq!(socket.hears("event").await["query_id"], "q");
    }
    still_follows(http, &mut socket, "doc", "q").await;
}

async fn a_name_of_the_connections_own_is_begun_anew_by_every_kind(store: Store) {
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    streams(http).await;
    let mut socket = connect(http).await;
    let created = socket.subscribe(&json!({ "query_id": "q", "stream": "doc" })).await;
    assert_eq!(created["reset"], false, "{created}");
    for asked in of_every_kind("q").into_iter().chain(of_every_kind("q")) {
        let created = socket.subscribe(&asked).await;
        assert_eq!(created["reset"], true, "{asked}: {created}");
    }
    let created = socket.subscribe(&json!({ "query_id": "q", "stream": "doc" })).await;
    assert_eq!(created["reset"], true, "{created}");
    still_follows(http, &mut socket, "doc", "q").await;
}

async fn a_name_is_free_again_when_the_session_lets_it_go(store: Store) {
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    streams(http).await;
    let session = open_session(http).await;
    let mut socket = connect_session(http, &session).await;
    for asked in of_every_kind("q") {
        let created = socket.subscribe(&json!({ "query_id": "q", "stream": "doc" })).await;
        assert_eq!(created["streamId"], "doc", "{created}");
        socket.say(&json!({ "type": "unsubscribe", "query_ids": ["q"] })).await;
        assert_eq!(socket.hears("subscription_ended").await["reason"], "unsubscribed");
        let created = socket.subscribe(&asked).await;
        assert_eq!(created["query_id"], "q", "{created}");
        socket.say(&json!({ "type": "unsubscribe", "query_ids": ["q"] })).await;
        assert_eq!(socket.hears("subscription_ended").await["reason"], "unsubscribed");
    }
}
