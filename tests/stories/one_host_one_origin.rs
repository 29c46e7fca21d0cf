//! Requests that name no host, or two; and pages of an origin that is almost the server's own.

use reqwest::Method;
use tidewire_stories::{Answer, Authority, Files, Http, Launch, Raw, Store};

const KEY: &str = "correct-horse-battery";

/// A request names one host, exactly: nobody between the client and the server reads it otherwise.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_names_one_host() {
    let store = Store::sqlite();
    let launch = Launch::serve(&store, KEY);
    let server = launch.start().await;
    let ask = async |request: &str| {
        let mut client = Raw::connect(launch.port()).await;
        client.send(format!("{request}connection: close\r\n\r\n")).await;
        client.hung_up(request).await
    };
    for request in [
        "GET /healthz HTTP/1.1\r\n",
        "GET / HTTP/1.1\r\n",
        "GET /v1/stream/s HTTP/1.1\r\n",
        "OPTIONS /v1/stream/s HTTP/1.1\r\n",
        "GET /healthz HTTP/1.1\r\nhost: a.example\r\nhost: a.example\r\n",
        "GET /healthz HTTP/1.1\r\nhost: a.example\r\nhost: b.example\r\n",
        "GET /healthz HTTP/1.0\r\nhost: a.example\r\nhost: b.example\r\n",
        "GET /healthz HTTP/1.1\r\nhost: a.example, b.example\r\n",
        "GET /healthz HTTP/1.1\r\nhost: a.example/b\r\n",
        "GET /healthz HTTP/1.1\r\nhost: u@a.example\r\n",
        "GET /healthz HTTP/1.1\r\nhost:\r\n",
        "GET /healthz HTTP/1.1\r\nhost: a:99999999\r\n",
        "GET /healthz HTTP/1.1\r\nhost: [zz]\r\n",
        "GET http://a.example/healthz HTTP/1.1\r\n",
        "GET http://a.example/healthz HTTP/1.1\r\nhost: b.example\r\n",
        "GET http://a.example:81/healthz HTTP/1.1\r\nhost: a.example\r\n",
    ] {
        let answer = ask(request).await;
        assert!(
            answer.starts_with("HTTP/1.1 400 ") || answer.starts_with("HTTP/1.0 400 "),
            "{request}: {answer}"
        );
        assert!(answer.contains("\"bad_host\""), "{request}: {answer}");
    }
    for request in [
        "GET /healthz HTTP/1.0\r\n",
        "GET /healthz HTTP/1.1\r\nhost: a.example:4437\r\n",
        "GET http://a.example/healthz HTTP/1.1\r\nhost: A.example:80\r\n",
    ] {
        let answer = ask(request).await;
        assert!(answer.contains(" 200 OK\r\n"), "{request}: {answer}");
    }
    drop(server);
}

/// A request under a name, of a page of this origin; whether it is served.
async fn serves(http: &Http, origin: &str, forwarded: Option<&str>) -> bool {
    let request = http.request(Method::GET, "/v1/nodes").header("host", "live.example.org");
    let request = match forwarded {
        Some(proto) => request.header("x-forwarded-proto", proto),
        None => request,
    };
    let answer = Answer::of(request.header("origin", origin)).await;
    match answer.status {
        200 => {
            assert_eq!(answer.header("access-control-allow-origin"), Some(origin));
            true
        }
        _ => {
            answer.problem(403, "origin_not_allowed");
            assert_eq!(answer.header("access-control-allow-origin"), None);
            false
        }
    }
}

const SAFE: &str = "https://live.example.org";
const PLAIN: &str = "http://live.example.org";

/// A page that came over plain HTTP, which anyone on the way may have written, is not the server's own where
/// that speaks TLS.
#[tokio::test(flavor = "multi_thread")]
async fn the_server_s_own_origin_has_its_scheme() {
    let store = Store::sqlite();
    let server = Launch::serve(&store, KEY).start().await;
    assert!(serves(server.http(), PLAIN, None).await);
    assert!(!serves(server.http(), SAFE, None).await);
    assert!(!serves(server.http(), SAFE, Some("https")).await, "nobody named a proxy");
    assert!(serves(server.http(), PLAIN, Some("https")).await, "nobody named a proxy");
    server.stop().await;

    let authority = Authority::new();
    let files = Files::new(&authority.issue());
    let server = Launch::serve(&store, KEY).secured(&files, &authority).start().await;
    assert!(serves(server.http(), SAFE, None).await);
    assert!(!serves(server.http(), PLAIN, None).await, "over TLS");
}

/// Behind a proxy that speaks TLS the server is told so: by the proxy, or by its own address.
#[tokio::test(flavor = "multi_thread")]
async fn behind_a_proxy_the_origin_is_the_client_s() {
    let store = Store::sqlite();
    let launch = Launch::serve(&store, KEY).set("TIDEWIRE_TRUSTED_PROXIES", "127.0.0.1");
    let server = launch.start().await;
    assert!(serves(server.http(), SAFE, Some("https")).await);
    assert!(!serves(server.http(), PLAIN, Some("https")).await);
    assert!(serves(server.http(), PLAIN, Some("http")).await);
    assert!(!serves(server.http(), SAFE, Some("http")).await);
    server.stop().await;

    let server = Launch::serve(&store, KEY).set("TIDEWIRE_PUBLIC_URL", SAFE).start().await;
    assert!(serves(server.http(), SAFE, None).await);
    assert!(!serves(server.http(), PLAIN, None).await, "the public address is https");
    server.stop().await;

    let server = Launch::serve(&store, KEY).set("TIDEWIRE_ALLOWED_ORIGINS", SAFE).start().await;
    assert!(serves(server.http(), SAFE, None).await);
    assert!(serves(server.http(), PLAIN, None).await, "its own, as far as it knows");
    assert!(!serves(server.http(), "https://app.example.org", None).await);
}
