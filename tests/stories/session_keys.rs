//! Sessions and live connections of a server that asks for a key.

use reqwest::Method;
use serde_json::json;
use tidewire_stories::{Answer, Launch, Server, ServerSent, Store, Tab, WebSocket, on_both_stores};

on_both_stores!(
    without_the_key_nothing_is_told,
    a_websocket_presents_its_key_in_a_header_or_in_its_first_message,
    a_websocket_without_the_key_is_closed,
    a_websocket_that_never_presents_a_key_is_closed,
    a_page_that_is_left_sends_its_key_in_the_body,
);

const KEY: &str = "story-e1c50b9d7f248a36";

async fn start(store: &Store) -> Server {
    let server = Launch::serve(store, KEY).start().await;
    server.http().create("secret").await;
    server.http().append("secret", &json!("for the owner")).await;
    server
}

/// I6: whoever has a session's id but not the key gets nothing of it.
async fn without_the_key_nothing_is_told(store: Store) {
    let server = start(&store).await;
    let tab = Tab::open(server.http()).await;
    tab.subscribe_at("secret", "-1").await;
    let session = &tab.session;
    let subscription = json!({ "sessionId": session, "streamId": "secret" });
    let heartbeat = json!({ "sessionId": session, "token": "wrong" });
    for token in [None, Some("wrong")] {
        let stranger = server.http().as_someone(token);
        for (method, path) in [
            (Method::POST, "/v1/sessions".to_owned()),
            (Method::POST, "/v1/subscriptions".to_owned()),
            (Method::DELETE, "/v1/subscriptions".to_owned()),
            (Method::POST, "/v1/heartbeat".to_owned()),
            (Method::GET, format!("/v1/session-offsets/{session}")),
            (Method::GET, format!("/v1/live/{session}")),
            (Method::GET, format!("/v1/route?session={session}")),
            (Method::GET, "/v1/nodes".to_owned()),
        ] {
            let body = if path == "/v1/heartbeat" { &heartbeat } else { &subscription };
            let answer = stranger.json(method.clone(), &path, body).await;
            answer.problem(401, "unauthorized");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"), "{method} {path}");
        }
    }
    let mut live = ServerSent::open(server.http(), session, None).await;
    assert_eq!(live.events(1).await[0].message["payload"], "for the owner");
}

/// A program sends its key in a header, a browser in its first message; both get the same.
async fn a_websocket_presents_its_key_in_a_header_or_in_its_first_message(store: Store) {
    let server = start(&store).await;
    let stranger = server.http().as_someone(None);
    let tab = Tab::open(server.http()).await;
    tab.subscribe_at("secret", "-1").await;
    for path in ["/v1/ws".to_owned(), tab.socket(), format!("/v1/live/{}", tab.session)] {
        let mut program = WebSocket::connect(server.http(), &path).await;
        let mut browser = WebSocket::connect(&stranger, &path).await;
        browser.say(&json!({ "type": "ping" })).await;
        browser.hears("pong").await;
        browser.say(&json!({ "type": "auth", "token": KEY })).await;
        // Saying it again, or though it is known, is harmless.
        for client in [&mut program, &mut browser] {
            client.hears("hello").await;
            client.say(&json!({ "type": "auth", "token": KEY })).await;
            if path == "/v1/ws" {
                let wanted = json!({ "query_id": "q", "stream": "secret", "offset": "-1" });
                client.subscribe(&wanted).await;
            } else {
                client.hears("subscription_created").await;
            }
            assert_eq!(client.hears("event").await["payload"], "for the owner", "{path}");
        }
    }
}

/// I6: a wrong key, and anything else before the right one, is an error and close code 1008.
async fn a_websocket_without_the_key_is_closed(store: Store) {
    let server = start(&store).await;
    let stranger = server.http().as_someone(None);
    let tab = Tab::open(server.http()).await;
    let wanted = json!({ "query_id": "q", "stream": "secret", "offset": "-1" });
    for message in [
        json!({ "type": "auth", "token": "wrong" }),
        json!({ "type": "auth", "token": format!("{KEY}0") }),
        json!({ "type": "auth", "token": "" }),
        json!({ "type": "subscribe", "subscriptions": [wanted] }),
        json!({ "type": "unsubscribe", "query_ids": ["q"] }),
        json!({ "type": "ack", "offsets": [{ "lastOffset": "0001_0000000000000001" }] }),
    ] {
        for path in ["/v1/ws".to_owned(), tab.socket(), "/v1/ws?session=nobody".to_owned()] {
            let mut client = WebSocket::connect(&stranger, &path).await;
            client.say(&message).await;
            let farewell = client.closed().await;
            assert_eq!(farewell.code, 1008, "{message}: {farewell:?}");
            let [error] = &farewell.messages[..] else { panic!("{message}: {farewell:?}") };
            assert_eq!(error["type"], "error", "{message}");
            assert_eq!(error["code"], "unauthorized", "{message}");
        }
    }
}

/// I5: whoever does not say who they are does not keep the connection, whatever else they say.
async fn a_websocket_that_never_presents_a_key_is_closed(store: Store) {
    let launch = Launch::serve(&store, KEY).set("TIDEWIRE_LIMITS_HEADER_TIMEOUT_MS", "1000");
    let server = launch.start().await;
    let stranger = server.http().as_someone(None);
    let mut silent = WebSocket::connect(&stranger, "/v1/ws").await;
    let mut pinging = WebSocket::connect(&stranger, "/v1/ws").await;
    pinging.say(&json!({ "type": "ping" })).await;
    for client in [&mut silent, &mut pinging] {
        let farewell = client.closed().await;
        assert_eq!(farewell.code, 1008, "{farewell:?}");
        assert_eq!(farewell.messages.last().expect("an error")["code"], "unauthorized");
    }
}

/// `navigator.sendBeacon` sets no headers: text/plain, with the token inside.
async fn a_page_that_is_left_sends_its_key_in_the_body(store: Store) {
    let server = start(&store).await;
    let stranger = server.http().as_someone(None);
    let tab = Tab::open(server.http()).await;
    tab.subscribe_at("secret", "-1").await;
    let offset = "0001_0000000000000001";
    let beacon = async |token: &str| {
        let offsets = json!([{ "streamId": "secret", "lastOffset": offset }]);
        let body = json!({ "sessionId": tab.session, "offsets": offsets, "token": token });
        let request = stranger.request(Method::POST, "/v1/heartbeat");
        let request = request.header("content-type", "text/plain;charset=UTF-8");
        Answer::of(request.body(body.to_string())).await
    };
    beacon("wrong").await.problem(401, "unauthorized");
    assert_ne!(tab.pointer("secret").await.as_deref(), Some(offset), "before the key");
    let answer = beacon(KEY).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(tab.pointer("secret").await.as_deref(), Some(offset), "it is durable");
}
