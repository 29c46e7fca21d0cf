//! Someone puts a page into a stream. It never acts as one of the server's own.

use reqwest::{Method, RequestBuilder};
use tidewire_stories::{Answer, Launch, Store};

const KEY: &str = "correct-horse-battery";

/// Every answer of a stream tells browsers not to run it, and not to guess what it is.
#[tokio::test(flavor = "multi_thread")]
async fn every_answer_of_a_stream_is_inert() {
    let store = Store::sqlite();
    let server = Launch::serve(&store, KEY).start().await;
    let http = server.http();
    let ask = |method: &str, path: &str| {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        http.request(method, &format!("/v1/stream/{path}"))
    };
    let page = "<script>fetch('/v1/keys')</script>";
    let put = ask("PUT", "page").header("content-type", "text/html").body(page);
    is_inert(put, 201).await;
    is_inert(ask("PUT", "page").header("content-type", "text/html"), 200).await;
    let append = || ask("POST", "page").header("content-type", "text/html");
    is_inert(append().body(page), 204).await;
    is_inert(append(), 400).await;
    let read = is_inert(ask("GET", "page"), 200).await;
    assert_eq!(read.header("content-type"), Some("text/html"));
    let etag = read.header("etag").expect("an ETag");
    is_inert(ask("GET", "page").header("if-none-match", etag), 304).await;
    is_inert(ask("HEAD", "page"), 200).await;
    is_inert(ask("GET", "page?format=events"), 200).await;
    is_inert(ask("GET", "page?offset=now"), 200).await;
    is_inert(ask("GET", "page?offset=x"), 400).await;
    is_inert(ask("GET", "page?offset=-1&live=long-poll"), 200).await;
    is_inert(ask("GET", "none"), 404).await;
    is_inert(ask("HEAD", "none"), 404).await;
    is_inert(ask("PATCH", "page"), 405).await;
    is_inert(ask("OPTIONS", "page"), 204).await;
    is_inert(ask("GET", "page").header("origin", "https://evil.example"), 403).await;
    is_inert(http.as_someone(None).request(Method::GET, "/v1/stream/page"), 401).await;
    is_inert(ask("GET", "__ds/jwks.json"), 200).await;
    is_inert(ask("GET", "__ds/subscriptions/none"), 404).await;
    let live = ask("GET", "page?offset=-1&live=sse").send().await.expect("an answer");
    assert_eq!(live.status(), 200);
    assert_eq!(live.headers()["content-security-policy"], "sandbox", "live");
    assert_eq!(live.headers()["x-content-type-options"], "nosniff", "live");
    is_inert(ask("DELETE", "page"), 204).await;
    is_inert(http.request(Method::GET, "/v1/nowhere"), 404).await;
}

/// The server's own page has its own rules, and goes on to work.
#[tokio::test(flavor = "multi_thread")]
async fn the_server_s_own_page_is_not_boxed_in() {
    let store = Store::sqlite();
    let server = Launch::serve(&store, KEY).start().await;
    let answer = server.http().get("/").await;
    let policy = answer.header("content-security-policy").expect("a policy");
    assert!(policy.contains("script-src") && !policy.contains("sandbox"), "{policy}");
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
}

async fn is_inert(request: RequestBuilder, status: u16) -> Answer {
    let what = format!("{request:?}");
    let answer = Answer::of(request).await;
    assert_eq!(answer.status, status, "{what}: {}", answer.text());
    assert_eq!(answer.header("content-security-policy"), Some("sandbox"), "{what}");
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{what}");
    answer
}
