//! A worker that waits to be woken: pull-wake subscriptions, in the shapes of PROTOCOL.md, section 14.

use reqwest::Method;
use serde_json::{Value, json};

use crate::http::Http;
use crate::wait::eventually;

/// Has a subscription follow a stream. Wakes are announced in `doc/wakes-` and its id.
pub async fn subscribe(http: &Http, id: &str, stream: &str) {
    let wake_stream = format!("doc/wakes-{id}");
    let body = json!({ "type": "pull-wake", "streams": [stream], "wake_stream": wake_stream });
    let answer = http.json(Method::PUT, &path(id), &body).await;
    assert_eq!(answer.status, 201, "{body}: {}", answer.text());
}

/// Waits until a subscription is woken for the first time.
pub async fn woken(http: &Http, id: &str) {
    eventually("the subscription is woken", async || {
        (http.get(&path(id)).await.json()["generation"] == 1).then_some(())
    })
    .await;
}

/// Claims the work, and returns what there is to do and the token for it.
pub async fn claim(http: &Http, id: &str) -> Value {
    let path = format!("{}/claim", path(id));
    let answer = http.json(Method::POST, &path, &json!({ "worker": "w" })).await;
    assert_eq!(answer.status, 200, "claim: {}", answer.text());
    answer.json()
}

/// The token of a wake of some subscription, made for that.
pub async fn wake_token(http: &Http) -> String {
    let (id, stream) = ("watcher", "doc/watched");
    http.create(stream).await;
    subscribe(http, id, stream).await;
    http.append(stream, &json!(1)).await;
    woken(http, id).await;
    claim(http, id).await["token"].as_str().expect("a token").to_owned()
}

fn path(id: &str) -> String {
    format!("/v1/stream/__ds/subscriptions/{id}")
}
