//! A browser's `EventSource` can set no header: it comes with a ticket in its URL, or with a cookie.

use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};
use tidewire_stories::issuer::in_seconds;
use tidewire_stories::wait::within_patience;
use tidewire_stories::{
    Answer, Http, Issuer, Launch, Nodes, Raw, Server, Store, Tab, WebSocket, on_both_stores,
};

on_both_stores!(
    a_ticket_lets_in_on_any_node_once,
    a_ticket_that_many_try_at_once_lets_one_in,
    a_ticket_is_of_no_use_after_its_time,
    a_ticket_stands_and_falls_with_its_key,
    a_ticket_opens_what_its_holder_may_open_and_no_more,
);

const KEY: &str = "story-c83e5a0f7d24b961";
const SECRET: &str = "a secret of HS256 that is longer than thirty-two bytes";
const APP: &str = "https://app.example";
const EVIL: &str = "https://evil.example";

/// Someone who reads and writes documents.
fn scopes() -> Value {
    json!({ "tables": [], "streams": ["doc/*"], "can": ["read", "append"] })
}

async fn fill(admin: &Http) {
    admin.create("doc/1").await;
    admin.append("doc/1", &json!("for those who may")).await;
}

/// A ticket for someone, and how long it is good.
async fn ticket(http: &Http) -> (String, Duration) {
    let answer = Answer::of(http.request(Method::POST, "/v1/tickets")).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let made = answer.json();
    let ms = made["expiresInMs"].as_u64().expect("milliseconds");
    (made["ticket"].as_str().expect("a ticket").to_owned(), Duration::from_millis(ms))
}

/// What an `EventSource` of a page asks: a URL, and nothing else.
fn event_source(http: &Http, ticket: &str) -> RequestBuilder {
    let path = format!("/v1/stream/doc/1?offset=-1&live=sse&ticket={ticket}");
    http.as_someone(None).request(Method::GET, &path)
}

/// Opens it, and reads the first it is given.
async fn opened(request: RequestBuilder) -> Response {
    let mut response = request.send().await.expect("an answer");
    assert_eq!(response.status(), 200, "with a ticket that is good");
    let first = within_patience("the first event", response.chunk()).await;
    let first = first.expect("a response").expect("an event");
    let first = String::from_utf8_lossy(&first);
    assert!(first.contains("for those who may"), "{first}");
    response
}

/// Waits until a response has ended, as it should.
async fn ended(mut response: Response) {
    let rest = async { while response.chunk().await.expect("a whole end").is_some() {} };
    within_patience("the response ends", rest).await;
}

/// I6: whoever finds the URL in a log is too late, at every node.
async fn a_ticket_lets_in_on_any_node_once(store: Store) {
    let nodes = Nodes::of(&store, &[]).await;
    let admin = nodes.http(0);
    fill(admin).await;
    let last = nodes.http(nodes.https().len() - 1);
    let holder = admin.holder(&admin.make_key(&scopes()).await);
    let (good, _) = ticket(&holder).await;
    assert!(good.starts_with("twt_"), "{good}");
    let _open = opened(event_source(last, &good)).await;
    for http in nodes.https() {
        Answer::of(event_source(http, &good)).await.problem(401, "unauthorized");
    }
    // A session is its owner's, also by a ticket.
    let tab = Tab::open(&holder).await;
    let live = |ticket: &str| {
        let path = format!("/v1/live/{}?ticket={ticket}", tab.session);
        last.as_someone(None).request(Method::GET, &path)
    };
    let response = live(&ticket(&holder).await.0).send().await.expect("an answer");
    assert_eq!(response.status(), 200, "the session's owner");
    let stranger = admin.holder(&admin.make_key(&scopes()).await);
    let answer = Answer::of(live(&ticket(&stranger).await.0)).await;
    answer.problem(404, "session_not_found");
    // So does a WebSocket come in.
    let path = format!("/v1/ws?ticket={}", ticket(&holder).await.0);
    let mut socket = WebSocket::connect(&last.as_someone(None), &path).await;
    socket.hears("hello").await;
    socket.subscribe(&json!({ "query_id": "q", "stream": "doc/1", "offset": "-1" })).await;
    assert_eq!(socket.hears("event").await["payload"], "for those who may");
}

/// I6: once is once, however close together they come and wherever.
async fn a_ticket_that_many_try_at_once_lets_one_in(store: Store) {
    let nodes = Nodes::of(&store, &[("TIDEWIRE_RATES_FAILURES_PER_SECOND", "0")]).await;
    let admin = nodes.http(0);
    fill(admin).await;
    for _ in 0..5 {
        let (good, _) = ticket(admin).await;
        let mut trying = tokio::task::JoinSet::new();
        for http in nodes.https().iter().cycle().take(12) {
            let path = format!("/v1/stream/doc/1?ticket={good}");
            let request = http.as_someone(None).request(Method::GET, &path);
            trying.spawn(async move {
                let answer = Answer::of(request).await;
                if answer.status != 200 {
                    answer.problem(401, "unauthorized");
                }
                answer.status
            });
        }
        let mut statuses = trying.join_all().await;
        statuses.sort_unstable();
        assert_eq!(statuses[0], 200, "{statuses:?}");
        assert!(statuses[1..].iter().all(|status| *status == 401), "{statuses:?}");
    }
}

/// The time is what the answer said.
async fn a_ticket_is_of_no_use_after_its_time(store: Store) {
    let nodes = Nodes::of(&store, &[("TIDEWIRE_AUTH_TICKET_TTL_MS", "100")]).await;
    let admin = nodes.http(0);
    fill(admin).await;
    let (late, good_for) = ticket(admin).await;
    assert_eq!(good_for, Duration::from_millis(100));
    // Not to wait for something, but for this time to be over.
    tokio::time::sleep(good_for).await;
    for http in nodes.https() {
        Answer::of(event_source(http, &late)).await.problem(401, "unauthorized");
    }
}

/// I6: a ticket is no way around a revocation, before it is used or after.
async fn a_ticket_stands_and_falls_with_its_key(store: Store) {
    let nodes = Nodes::of(&store, &[("TIDEWIRE_STREAMS_SSE_MS", "300000")]).await;
    let admin = nodes.http(0);
    fill(admin).await;
    let last = nodes.http(nodes.https().len() - 1);
    let key = admin.make_key(&scopes()).await;
    let other = admin.holder(&admin.make_key(&scopes()).await);
    let (used, _) = ticket(&admin.holder(&key)).await;
    let (unused, _) = ticket(&admin.holder(&key)).await;
    let (others, _) = ticket(&other).await;
    let open = opened(event_source(last, &used)).await;
    admin.revoke_key(&key).await;
    ended(open).await;
    Answer::of(event_source(last, &unused)).await.problem(401, "key_revoked");
    let refused = Answer::of(admin.holder(&key).request(Method::POST, "/v1/tickets")).await;
    refused.problem(401, "key_revoked");
    opened(event_source(last, &others)).await;
}

/// I6: a ticket is no more than who asked for it, and works in a URL that is fetched, nowhere else.
async fn a_ticket_opens_what_its_holder_may_open_and_no_more(store: Store) {
    let launch = Launch::serve(&store, KEY).set("TIDEWIRE_JWT_SECRET", SECRET);
    let server = launch.start().await;
    let admin = server.http();
    fill(admin).await;
    admin.create("other").await;
    let nobody = admin.as_someone(None);
    let claims = json!({ "sub": "ada", "tidewire": { "streams": ["doc/*"], "can": ["read"] } });
    let ada = admin.as_someone(Some(&Issuer::hs256(SECRET).token(&claims)));
    let reader = admin.holder(&admin.make_key(&scopes()).await);
    for holder in [&ada, &reader] {
        for path in ["/v1/stream/other", "/v1/keys", "/metrics", "/v1/nodes"] {
            let path = format!("{path}?ticket={}", ticket(holder).await.0);
            nobody.get(&path).await.problem(403, "forbidden");
        }
        let (good, _) = ticket(holder).await;
        let path = format!("/v1/stream/doc/1?ticket={good}");
        for method in [Method::POST, Method::PUT, Method::DELETE] {
            let answer = nobody.json(method, &path, &json!(1)).await;
            answer.problem(401, "unauthorized");
        }
        for (header, value) in
            [("authorization", format!("Bearer {good}")), ("cookie", good.clone())]
        {
            let request = nobody.request(Method::GET, "/v1/stream/doc/1").header(header, value);
            Answer::of(request).await.problem(401, "unauthorized");
        }
        // None of this was a use of it.
        let answer = nobody.get(&path).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    for forged in ["", "twt_", "twt_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "tw_x", "%00"] {
        Answer::of(event_source(admin, forged)).await.problem(401, "unauthorized");
    }
    let unknown = Answer::of(nobody.request(Method::POST, "/v1/tickets")).await;
    unknown.problem(401, "unauthorized");
}

/// I6: what came in by a ticket ends when the token does that asked for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_of_a_token_ends_with_the_token() {
    let store = Store::sqlite();
    let launch = Launch::serve(&store, KEY)
        .set("TIDEWIRE_JWT_SECRET", SECRET)
        .set("TIDEWIRE_JWT_SKEW_MS", "0")
        .set("TIDEWIRE_STREAMS_SSE_MS", "300000");
    let server = launch.start().await;
    fill(server.http()).await;
    let claims = json!({
        "sub": "ada", "exp": in_seconds(8), "tidewire": { "streams": ["doc/*"] },
    });
    let ada = server.http().as_someone(Some(&Issuer::hs256(SECRET).token(&claims)));
    let (used, _) = ticket(&ada).await;
    let (unused, _) = ticket(&ada).await;
    ended(opened(event_source(server.http(), &used)).await).await;
    let answer = Answer::of(event_source(server.http(), &unused)).await;
    answer.problem(401, "credential_expired");
}

/// A server that pages of one origin may use.
async fn for_pages(store: &Store, settings: &[(&str, &str)]) -> Server {
    let launch = Launch::serve(store, KEY).set("TIDEWIRE_ALLOWED_ORIGINS", APP);
    let set = |launch: Launch, (name, value): &(&str, &str)| launch.set(name, value);
    let server = settings.iter().fold(launch, set).start().await;
    fill(server.http()).await;
    server
}

/// The attributes of the cookie in an answer, after its name and value.
fn cookie(answer: &Answer) -> (String, Vec<String>) {
    assert_eq!(answer.status, 204, "{}", answer.text());
    let cookie = answer.header("set-cookie").expect("a cookie");
    let mut parts = cookie.split("; ").map(ToOwned::to_owned);
    let pair = parts.next().expect("a name and a value");
    let mut attributes: Vec<String> = parts.collect();
    attributes.sort();
    (pair, attributes)
}

/// What no script can read, no other site's page sends, and no wire without encryption carries.
#[tokio::test(flavor = "multi_thread")]
async fn a_cookie_is_made_of_the_bearer_token_and_cleared() {
    let store = Store::sqlite();
    let server = for_pages(&store, &[]).await;
    let admin = server.http();
    let key = admin.make_key(&scopes()).await;
    let set = |http: &Http| http.request(Method::POST, "/v1/cookie").header("origin", APP);
    let (pair, attributes) = cookie(&Answer::of(set(&admin.holder(&key))).await);
    assert_eq!(pair, format!("tidewire={}", key.key));
    assert_eq!(attributes, ["HttpOnly", "Path=/v1", "SameSite=Strict", "Secure"]);
    // One that ends takes its cookie with it.
    let short = admin.make_key_for(&scopes(), 3_600_000).await;
    let (_, attributes) = cookie(&Answer::of(set(&admin.holder(&short))).await);
    let age = attributes.iter().find_map(|part| part.strip_prefix("Max-Age="));
    let age: u64 = age.and_then(|age| age.parse().ok()).expect("an age in seconds");
    assert!((3_500..=3_600).contains(&age), "{age}");

    let with_cookie = |method| {
        let request = admin.as_someone(None).request(method, "/v1/cookie");
        request.header("origin", APP).header("cookie", &pair)
    };
    Answer::of(with_cookie(Method::POST)).await.problem(400, "no_bearer_token");
    let (cleared, attributes) = cookie(&Answer::of(with_cookie(Method::DELETE)).await);
    assert_eq!(cleared, "tidewire=", "nothing is left in it");
    assert!(attributes.contains(&"Max-Age=0".to_owned()), "{attributes:?}");
    for attribute in ["HttpOnly", "Path=/v1", "SameSite=Strict", "Secure"] {
        assert!(attributes.contains(&attribute.to_owned()), "{attributes:?}");
    }
    Answer::of(set(&admin.as_someone(None))).await.problem(401, "unauthorized");
    Answer::of(set(&admin.as_someone(Some("wrong")))).await.problem(401, "unauthorized");

    // One whose key was revoked is taken away by whatever answers it: its page cannot.
    admin.revoke_key(&key).await;
    let refused = Answer::of(with_cookie(Method::DELETE)).await;
    refused.problem(401, "key_revoked");
    let cleared = refused.header("set-cookie").expect("a cookie");
    assert!(cleared.starts_with("tidewire=;") && cleared.contains("Max-Age=0"), "{cleared}");
}

/// The operator says what it is called, and which sites' pages it goes with.
#[tokio::test(flavor = "multi_thread")]
async fn a_cookie_is_called_as_the_configuration_says() {
    for (same_site, attribute) in [("lax", "SameSite=Lax"), ("none", "SameSite=None")] {
        let store = Store::sqlite();
        let settings =
            [("TIDEWIRE_AUTH_COOKIE", "crumb"), ("TIDEWIRE_AUTH_COOKIE_SAME_SITE", same_site)];
        let server = for_pages(&store, &settings).await;
        let answer = Answer::of(server.http().request(Method::POST, "/v1/cookie")).await;
        let (pair, attributes) = cookie(&answer);
        assert_eq!(pair, format!("crumb={KEY}"));
        assert!(attributes.contains(&attribute.to_owned()), "{attributes:?}");
        let nobody = server.http().as_someone(None);
        for (cookie, status) in [(pair, 200), (format!("tidewire={KEY}"), 401)] {
            let request = nobody.request(Method::GET, "/v1/stream/doc/1").header("cookie", &cookie);
            assert_eq!(Answer::of(request).await.status, status, "{cookie}");
        }
    }
}

type Headers<'a> = &'a [(&'a str, &'a str)];

/// I6: the browser sends the cookie along with whatever asks; it counts only where the page that
/// asks is one that may.
#[tokio::test(flavor = "multi_thread")]
async fn a_cookie_counts_only_for_pages_that_may_use_it() {
    let store = Store::sqlite();
    let server = for_pages(&store, &[]).await;
    let admin = server.http();
    let key = admin.make_key(&scopes()).await;
    let own = admin.base().to_owned();
    let cases: [(Method, Headers<'_>, u16); 17] = [
        (Method::GET, &[], 200),
        (Method::GET, &[("origin", APP)], 200),
        (Method::GET, &[("origin", &own)], 200),
        (Method::GET, &[("origin", EVIL)], 403),
        (Method::GET, &[("origin", "null")], 403),
        (Method::GET, &[("sec-fetch-site", "cross-site")], 403),
        (Method::GET, &[("sec-fetch-site", "same-origin")], 200),
        (Method::POST, &[("origin", APP)], 204),
        (Method::POST, &[("origin", &own)], 204),
        (Method::POST, &[("origin", EVIL)], 403),
        (Method::POST, &[("origin", "null")], 403),
        (Method::POST, &[("origin", "https://app.example.evil.example")], 403),
        (Method::POST, &[], 401),
        (Method::POST, &[("sec-fetch-site", "same-origin")], 204),
        (Method::POST, &[("sec-fetch-site", "same-site")], 204),
        (Method::POST, &[("sec-fetch-site", "cross-site")], 403),
        // A form of another site that is sent as a navigation.
        (Method::POST, &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")], 401),
    ];
    let nobody = admin.as_someone(None);
    let send = async |method: &Method, headers: &[(&str, &str)], cookie: &str| {
        let mut request = nobody.request(method.clone(), "/v1/stream/doc/1");
        request = request.header("cookie", format!("theme=dark; {cookie}; lang=en"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if *method == Method::POST {
            request = request.header("content-type", "application/json").body("[1]");
        }
        Answer::of(request).await
    };
    let good = format!("tidewire={}", key.key);
    for (method, headers, status) in &cases {
        let answer = send(method, headers, &good).await;
        assert_eq!(answer.status, *status, "{method} {headers:?}: {}", answer.text());
        match status {
            403 => _ = answer.problem(403, "origin_not_allowed"),
            401 => _ = answer.problem(401, "unauthorized"),
            _ => {}
        }
    }
    // The header is stronger, whatever the cookie holds.
    let holder = admin.as_someone(Some("wrong"));
    let request = holder.request(Method::GET, "/v1/stream/doc/1").header("cookie", &good);
    Answer::of(request).await.problem(401, "unauthorized");
    admin.revoke_key(&key).await;
    send(&Method::GET, &[], &good).await.problem(401, "key_revoked");
}

/// I6: a WebSocket asks nobody before it connects, so the server looks where it comes from.
#[tokio::test(flavor = "multi_thread")]
async fn a_websocket_with_a_cookie_is_for_pages_that_may_use_it() {
    let store = Store::sqlite();
    let server = for_pages(&store, &[]).await;
    let nobody = server.http().as_someone(None);
    let crumb = format!("tidewire={KEY}");
    let headers = [("cookie", crumb.as_str()), ("origin", APP)];
    let mut page = WebSocket::connect_with(&nobody, "/v1/ws", &headers).await;
    page.hears("hello").await;
    page.subscribe(&json!({ "query_id": "q", "stream": "doc/1", "offset": "-1" })).await;
    assert_eq!(page.hears("event").await["payload"], "for those who may");
    let mut evil = Raw::connect(server.http().port()).await;
    evil.send(format!(
        "GET /v1/ws HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         origin: {EVIL}\r\ncookie: {crumb}\r\n\r\n"
    ))
    .await;
    let answer = evil.hears("origin_not_allowed").await;
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
}

/// I6: to pages of other origins the browser gives nothing of an answer.
#[tokio::test(flavor = "multi_thread")]
async fn only_allowed_origins_are_named_to_browsers() {
    let store = Store::sqlite();
    let server = for_pages(&store, &[]).await;
    let ask = async |method: Method, origin: &str| {
        let request = server.http().request(method, "/v1/stream/doc/1").header("origin", origin);
        Answer::of(request.header("access-control-request-method", "POST")).await
    };
    for method in [Method::OPTIONS, Method::GET] {
        let answer = ask(method.clone(), APP).await;
        assert!(matches!(answer.status, 200 | 204), "{method}: {}", answer.status);
        assert_eq!(answer.header("access-control-allow-origin"), Some(APP), "{method}");
        assert_eq!(answer.header("access-control-allow-credentials"), Some("true"), "{method}");
        for origin in [EVIL, "null", "https://app.example:444", "http://app.example"] {
            let answer = ask(method.clone(), origin).await;
            assert_eq!(answer.header("access-control-allow-origin"), None, "{method} {origin}");
            let credentials = answer.header("access-control-allow-credentials");
            assert_eq!(credentials, None, "{method} {origin}");
        }
    }
    let preflight = ask(Method::OPTIONS, APP).await;
    let allowed = preflight.header("access-control-allow-headers").expect("headers");
    assert!(allowed.contains("authorization") && allowed.contains("content-type"), "{allowed}");
    assert_eq!(preflight.header("vary"), Some("origin"));
}
