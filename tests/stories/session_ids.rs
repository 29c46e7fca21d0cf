//! Someone tries ids that are not theirs, or no longer, or nobody's.

use reqwest::Method;
use serde_json::{Value, json};
use tidewire_stories::{Answer, Http, Launch, Store, Tab, WebSocket, eventually, on_both_stores};

on_both_stores!(what_is_no_session_of_yours_is_always_the_same_404);

/// I6: an id that was made up, cut, changed, made by another server or has expired is answered alike
/// by every route, so that nothing can be learned from trying.
async fn what_is_no_session_of_yours_is_always_the_same_404(store: Store) {
    let launch = Launch::dev(&store)
        .set("TIDEWIRE_SESSIONS_TTL_MS", "2500")
        .set("TIDEWIRE_LOG_SWEEP_INTERVAL_MS", "100");
    let server = launch.start().await;
    let http = server.http();
    http.create("doc").await;
    let elsewhere = Store::sqlite();
    let elsewhere = Launch::dev(&elsewhere).start().await;
    let foreign = Tab::open(elsewhere.http()).await.session;

    let expired = Tab::open(http).await;
    let not_found = eventually("the session expires", async || {
        let answer = http.get(&format!("/v1/session-offsets/{}", expired.session)).await;
        (answer.status == 404).then_some(answer)
    })
    .await;
    not_found.problem(404, "session_not_found");

    let valid = Tab::open(http).await;
    let _live = WebSocket::connect(http, &valid.socket()).await;
    let valid = valid.session;
    let (last, rest) = (valid.chars().last().expect("a character"), &valid[..valid.len() - 1]);
    let other = if last == 'A' { 'E' } else { 'A' };
    let ids = [
        expired.session.clone(),
        foreign,
        format!("tws_{}", "A".repeat(43)),
        format!("{rest}{other}"),
        rest.to_owned(),
        format!("{valid}A"),
        valid[..24].to_owned(),
        valid.to_uppercase(),
        valid.trim_start_matches("tws_").to_owned(),
        "tws_".to_owned(),
        "session".to_owned(),
        "x".repeat(2_000),
    ];
    let mut said = Vec::new();
    for id in &ids {
        for (route, answer) in every_route(http, id).await {
            answer.problem(404, "session_not_found");
            assert_eq!(answer.text(), not_found.text(), "{route} with {id}");
        }
        for path in [format!("/v1/live/{id}"), format!("/v1/ws?session={id}")] {
            let farewell = WebSocket::connect(http, &path).await.closed().await;
            assert_eq!(farewell.code, 1008, "{path}: {farewell:?}");
            let [error] = &farewell.messages[..] else { panic!("{path}: {farewell:?}") };
            assert_eq!(error["code"], "session_not_found", "{path}");
            said.push((error.clone(), farewell.reason));
        }
    }
    said.dedup();
    assert_eq!(said.len(), 1, "the WebSockets were told different things: {said:?}");
    let answer = http.get(&format!("/v1/session-offsets/{valid}")).await;
    assert_eq!(answer.json(), json!([]), "the one who has the session");
}

async fn every_route(http: &Http, id: &str) -> Vec<(&'static str, Answer)> {
    let subscription = json!({ "sessionId": id, "streamId": "doc" });
    let nowhere = json!({ "sessionId": id, "streamId": "there-is-none" });
    let offset = json!({ "streamId": "doc", "lastOffset": "0001_0000000000000000" });
    let heartbeat = json!({ "sessionId": id, "offsets": [offset] });
    let bare = json!({ "sessionId": id });
    let send = async |method: Method, path: &str, body: &Value| http.json(method, path, body).await;
    vec![
        ("subscribe", send(Method::POST, "/v1/subscriptions", &subscription).await),
        ("subscribe to nothing", send(Method::POST, "/v1/subscriptions", &nowhere).await),
        ("unsubscribe", send(Method::DELETE, "/v1/subscriptions", &subscription).await),
        ("heartbeat", send(Method::POST, "/v1/heartbeat", &heartbeat).await),
        ("bare heartbeat", send(Method::POST, "/v1/heartbeat", &bare).await),
        ("session-offsets", http.get(&format!("/v1/session-offsets/{id}")).await),
        ("live", http.get(&format!("/v1/live/{id}")).await),
    ]
}
