//! Administrators see who is connected, from where, since when, and with which key.

use reqwest::Method;
use serde_json::{Value, json};
use tidewire_stories::wait::eventually;
use tidewire_stories::{Http, Nodes, Store, Wire, on_both_stores};

on_both_stores!(a_connection_is_shown_with_its_facts, connections_are_found_by_user_key_and_name,);

async fn start(store: &Store) -> Nodes {
    let nodes = Nodes::of(store, &[]).await;
    nodes.http(0).create("doc/1").await;
    nodes
}

async fn listed(http: &Http, query: &str) -> Value {
    let answer = http.get(&format!("/v1/connections{query}")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// A key that may read, and its number.
async fn key(http: &Http, name: &str) -> (Http, i64) {
    let wanted = json!({ "name": name, "scopes": { "tables": [], "streams": ["**"] } });
    let answer = http.json(Method::POST, "/v1/keys", &wanted).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let made = answer.json();
    let token = made["key"].as_str().expect("a key").to_owned();
    (http.as_someone(Some(&token)), made["id"].as_i64().expect("a number"))
}

async fn a_connection_is_shown_with_its_facts(store: Store) {
    let nodes = start(&store).await;
    let http = nodes.http(0);
    let (reader, id) = key(http, "reader").await;
    let mut wire = Wire::open(&reader, "/v1/ws").await;
    let hello = wire.hears("hello").await;
    let request = json!([{ "query_id": "q", "stream": "doc/1" }]);
    wire.say(&json!({ "type": "subscribe", "subscriptions": request })).await;
    wire.hears("subscription_created").await;

    let all = listed(http, "").await;
    assert_eq!(all["total"], 1, "{all}");
    let shown = &all["connections"][0];
    assert_eq!(shown["connectionId"], hello["connection_id"]);
    assert_eq!(shown["node"], hello["node"]);
    assert_eq!(shown["apiKeyId"], id);
    assert_eq!(shown["isAuthenticated"], true);
    assert_eq!(shown["subscriptions"], 1);
    assert_eq!(shown["metadata"]["transport"], "websocket");
    assert_eq!(shown["metadata"]["address"], "127.0.0.1");
    for moment in ["connectedAt", "lastHeartbeatAt"] {
        let text = shown[moment].as_str().expect("a moment");
        assert!(text.ends_with('Z') && text.len() == "2026-01-02T03:04:05.678Z".len(), "{text}");
    }
    assert!(!all.to_string().contains("tw_"), "{all}");

    // On another node it is not; the command asks them all.
    let elsewhere = listed(nodes.http(nodes.https().len() - 1), "").await;
    assert_eq!(elsewhere["total"], usize::from(nodes.https().len() == 1), "{elsewhere}");
    let ended = nodes.command(nodes.https().len() - 1, "connections").run().await;
    let name = hello["connection_id"].as_str().expect("a name");
    assert!(ended.code == Some(0) && ended.printed.contains(name), "{}", ended.said);
}

async fn connections_are_found_by_user_key_and_name(store: Store) {
    let nodes = start(&store).await;
    let http = nodes.http(0);
    let (one, first) = key(http, "one").await;
    let (other, second) = key(http, "other").await;
    let mut wires = Vec::new();
    for who in [&one, &one, &other] {
        let mut wire = Wire::open(who, "/v1/ws").await;
        let hello = wire.hears("hello").await;
        wires.push((wire, hello["connection_id"].as_str().expect("a name").to_owned()));
    }
    let total = async |query: &str| listed(http, query).await["total"].as_u64();
    assert_eq!(total("").await, Some(3));
    assert_eq!(total(&format!("?key_id={first}")).await, Some(2));
    assert_eq!(total(&format!("?key_id={second}")).await, Some(1));
    assert_eq!(total("?user_id=ann").await, Some(0));
    assert_eq!(total(&format!("?connection_id={}", wires[1].1)).await, Some(1));
    let some = listed(http, "?limit=2").await;
    assert_eq!(
        (&some["total"], some["connections"].as_array().map(Vec::len)),
        (&json!(3), Some(2))
    );
    for wrong in ["?limit=many", "?limit=1000000", "?key_id=one"] {
        http.get(&format!("/v1/connections{wrong}")).await.problem(400, "invalid_request");
    }
    // Those who are gone are not shown.
    drop(wires);
    let gone = async || (listed(http, "").await["total"] == 0).then_some(());
    eventually("nobody is connected", gone).await;
}
