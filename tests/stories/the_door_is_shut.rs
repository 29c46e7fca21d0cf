//! A server that would be open to everyone does not start, and one that asks for no key is for this
//! machine alone. (Who may do what where a key is asked for: `access_matrix`.)

use reqwest::Method;
use tidewire_stories::{Answer, Http, Launch, Store};

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
