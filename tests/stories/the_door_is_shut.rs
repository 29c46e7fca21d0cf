//! Someone who should not be let in stands at the door.

use reqwest::Method;
use serde_json::json;
use tidewire_stories::{Answer, Http, Launch, Store};

const KEY: &str = "story-4f1d0c8be2a97365";

/// I6: a public server does not run open.
#[tokio::test(flavor = "multi_thread")]
async fn serve_does_not_start_without_a_key() {
    let ended = Launch::command("serve").with(["--listen", "127.0.0.1:0"]).run().await;
    assert_eq!(ended.code, Some(1), "serve: {}", ended.said);
    assert!(ended.said.contains("TIDEWIRE_ADMIN_KEY"), "{}", ended.said);
}

/// I6: a server that asks for no key is for this machine alone.
#[tokio::test(flavor = "multi_thread")]
async fn dev_does_not_listen_to_other_machines() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:4437"] {
        let ended = Launch::command("dev").with(["--listen", address]).run().await;
        assert_eq!(ended.code, Some(1), "{address}: {}", ended.said);
        assert!(ended.said.contains("loopback"), "{address}: {}", ended.said);
    }
}

/// I6: nothing is told to those who have no key, or a wrong one; and those who have it come in.
#[tokio::test(flavor = "multi_thread")]
async fn serve_lets_in_only_those_who_have_the_key() {
    let store = Store::sqlite();
    let server = Launch::serve(&store, KEY).start().await;
    let owner = server.http();
    owner.create("secret").await;
    owner.append("secret", &json!("for the owner")).await;

    let almost = &KEY[..KEY.len() - 1];
    let longer = format!("{KEY}0");
    for token in [None, Some(""), Some("wrong"), Some(almost), Some(&longer)] {
        let stranger = owner.as_someone(token);
        for (method, path) in every_keyed_route() {
            let answer = Answer::of(stranger.request(method.clone(), path)).await;
            assert_eq!(answer.status, 401, "{method} {path} with {token:?}");
            if method != Method::HEAD {
                answer.problem(401, "unauthorized");
            }
            let challenge = answer.header("www-authenticate");
            assert_eq!(challenge, Some("Bearer"), "{method} {path} with {token:?}");
        }
    }
    let answer = owner.get("/v1/stream/secret").await;
    assert_eq!(answer.json(), json!(["for the owner"]), "what the owner reads");
}

fn every_keyed_route() -> Vec<(Method, &'static str)> {
    vec![
        (Method::GET, "/v1/stream/secret"),
        (Method::HEAD, "/v1/stream/secret"),
        (Method::GET, "/v1/stream/secret?live=sse&offset=-1"),
        (Method::GET, "/v1/stream/there-is-none"),
        (Method::POST, "/v1/stream/secret"),
        (Method::PUT, "/v1/stream/another"),
        (Method::DELETE, "/v1/stream/secret"),
        (Method::PUT, "/v1/stream/__ds/subscriptions/mine"),
        (Method::POST, "/v1/stream/__ds/subscriptions/mine/claim"),
        (Method::GET, "/metrics"),
        (Method::GET, "/nothing/here"),
    ]
}

/// Load balancers have no key.
#[tokio::test(flavor = "multi_thread")]
async fn health_is_told_to_anyone() {
    let store = Store::sqlite();
    let server = Launch::serve(&store, KEY).start().await;
    let anyone = server.http().as_someone(None);
    for path in ["/healthz", "/readyz"] {
        assert_eq!(anyone.get(path).await.status, 200, "{path} without a key");
    }
}

/// I6: whatever happens at the door, the key is not in what the process says.
#[tokio::test(flavor = "multi_thread")]
async fn the_key_is_never_said() {
    let store = Store::sqlite();
    let launch = Launch::serve(&store, KEY).set("TIDEWIRE_LOG", "trace");
    let server = launch.start().await;
    server.http().create("secret").await;
    let stranger = server.http().as_someone(Some(&format!("{KEY}0")));
    stranger.get("/v1/stream/secret").await.problem(401, "unauthorized");
    let answer = server.http().get(&format!("/v1/stream/secret?offset={KEY}")).await;
    assert_eq!(answer.status, 400, "a key is no offset");

    let ended = server.stop().await;

    assert!(ended.said.contains("serving"), "it says nothing at all: {}", ended.said);
    assert!(!ended.said.contains(KEY), "the key is in the output: {}", ended.said);
}

/// I6: a page that points its own name at this machine gets nothing.
#[tokio::test(flavor = "multi_thread")]
async fn dev_does_not_answer_under_a_foreign_name() {
    let store = Store::sqlite();
    let server = Launch::dev(&store).start().await;
    for host in ["evil.example", "localhost.evil.example:4437", "0.0.0.0:4437"] {
        let request = server.http().request(Method::GET, "/v1/stream/any");
        let answer = Answer::of(request.header("host", host)).await;
        answer.problem(403, "host_not_allowed");
    }
}

/// I6: a page of another site cannot use the server that its visitor runs.
#[tokio::test(flavor = "multi_thread")]
async fn dev_does_not_serve_pages_of_foreign_origins() {
    let store = Store::sqlite();
    let server = Launch::dev(&store).start().await;
    server.http().create("mine").await;
    for origin in ["https://evil.example", "http://localhost.evil.example", "null"] {
        let request = server.http().request(Method::GET, "/v1/stream/mine");
        let answer = Answer::of(request.header("origin", origin)).await;
        answer.problem(403, "origin_not_allowed");
        assert_eq!(allowed_origin(&answer), None, "a read by {origin}");
        let answer = preflight(server.http(), origin).await;
        assert_eq!(allowed_origin(&answer), None, "a preflight by {origin}");
    }
    let own = "http://localhost:3000";
    let answer = preflight(server.http(), own).await;
    assert_eq!(allowed_origin(&answer), Some(own), "a preflight by {own}");
}

async fn preflight(http: &Http, origin: &str) -> Answer {
    let request = http
        .request(Method::OPTIONS, "/v1/stream/mine")
        .header("origin", origin)
        .header("access-control-request-method", "POST");
    Answer::of(request).await
}

fn allowed_origin(answer: &Answer) -> Option<&str> {
    answer.header("access-control-allow-origin")
}
