//! Every credential there is, used rightly and wrongly, by people who look everywhere afterwards.
//!
//! I6, and SECURITY.md: logs, errors, metrics and what the commands print have no credential in them,
//! at any level of detail.

use reqwest::Method;
use serde_json::{Value, json};
use tidewire_stories::websocket::{TEXT, frame};
use tidewire_stories::{
    Answer, Http, Issuer, Launch, Raw, Secrets, Server, ServerSent, Store, Tab, WebSocket,
    eventually, issuer, on_both_stores, worker,
};

on_both_stores!(
    no_credential_is_in_what_a_run_writes,
    no_credential_is_in_what_a_run_writes_as_json
);

const ADMIN_KEY: &str = "story-9c41d7b3865f0a2e";
const JWT_SECRET: &str = "story-5f0a2e9c41d7b386-c41d7b3865f0a2e9";
const PASSWORD: &str = "story-d7b3865f0a2e9c41";

async fn no_credential_is_in_what_a_run_writes(store: Store) {
    Box::pin(look_everywhere(store, "text")).await;
}

async fn no_credential_is_in_what_a_run_writes_as_json(store: Store) {
    Box::pin(look_everywhere(store, "json")).await;
}

async fn look_everywhere(store: Store, format: &str) {
    let store = with_password(store);
    let launch = Launch::serve(&store, ADMIN_KEY)
        .set("TIDEWIRE_JWT_SECRET", JWT_SECRET)
        .set("TIDEWIRE_LOG", "trace")
        .set("TIDEWIRE_TELEMETRY_FORMAT", format)
        .set("TIDEWIRE_RATES_FAILURES_PER_SECOND", "0");
    let server = launch.start().await;
    let mut secrets = Secrets::default();
    for (name, secret) in [
        ("the admin key", ADMIN_KEY),
        ("the secret of tokens", JWT_SECRET),
        ("the database's password", PASSWORD),
    ] {
        secrets.text(name, secret);
    }
    let content = "story-content-that-is-nobodys-business";
    secrets.text("a stream's content", content);
    server.http().create("doc/1").await;
    server.http().append("doc/1", &json!(content)).await;

    let mut told = Vec::new();
    told.extend(commands_are_run(&server, &mut secrets).await);
    keys_come_and_go(server.http(), &mut secrets).await;
    tokens_and_tickets_are_used(server.http(), &mut secrets).await;
    sessions_are_lived(server.http(), &mut secrets).await;
    secrets.text("the token of a wake", &worker::wake_token(server.http()).await);
    for (name, bytes) in store.signing_keys().await {
        secrets.bytes(&format!("the signing key {name}"), &bytes);
    }
    let presented: Vec<(String, String)> =
        secrets.texts().map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
    for (name, secret) in presented {
        let refusals = misuse(server.http(), &secret).await;
        told.extend(refusals.into_iter().map(|said| (format!("what {name} was answered"), said)));
    }
    told.push(("/metrics".to_owned(), server.http().get("/metrics").await.text()));
    told.push(("/v1/keys".to_owned(), server.http().get("/v1/keys").await.text()));
    let said = server.stop().await.said;
    assert!(said.contains("tidewire_deliver"), "it says nothing about what it does: {said}");
    told.push(("what the server wrote".to_owned(), said));

    for (what, text) in &told {
        secrets.are_not_in(what, text);
    }
}

/// A server that does not start says why, and not what it was given.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_start_says_no_secret() {
    let mut secrets = Secrets::default();
    let short = "story-2e9c";
    for secret in [ADMIN_KEY, JWT_SECRET, PASSWORD, short] {
        secrets.text("a setting", secret);
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("tidewire.toml");
    let text = format!("admin_key = \"{ADMIN_KEY}\"\n[jwt]\nsecret = \"{JWT_SECRET}\"\n");
    std::fs::write(&file, text).expect("a file");
    let file = file.to_string_lossy().into_owned();
    let unreachable = format!("postgres://someone:{PASSWORD}@127.0.0.1:1/x");
    let not_a_port = format!("postgres://someone:{PASSWORD}@127.0.0.1:none/x");
    let not_a_url = format!("host=127.0.0.1 password={PASSWORD}");
    for (name, value) in [
        ("TIDEWIRE_CONFIG", file.as_str()),
        ("TIDEWIRE_DATABASE", &unreachable),
        ("TIDEWIRE_DATABASE", &not_a_port),
        ("TIDEWIRE_DATABASE", &not_a_url),
        ("TIDEWIRE_JWT_SECRET", short),
        ("TIDEWIRE_JWT_SECRETS", JWT_SECRET),
        ("TIDEWIRE_ADMIN_KEY", short),
        ("TIDEWIRE_ADMIN_KEY", &format!("{ADMIN_KEY} {ADMIN_KEY}")),
    ] {
        let launch = Launch::command("serve")
            .with(["--listen", "127.0.0.1:0"])
            .set("TIDEWIRE_ADMIN_KEY", ADMIN_KEY)
            .set("TIDEWIRE_DATABASE_WAIT_MS", "0")
            .set("TIDEWIRE_LOG", "trace")
            .set(name, value);
        let ended = launch.run().await;
        assert_eq!(ended.code, Some(1), "{name}: {}", ended.said);
        secrets.are_not_in(&format!("what is said of {name}"), &ended.said);
    }
}

/// The same database with a password, which the tests' cluster does not look at.
fn with_password(store: Store) -> Store {
    match store {
        Store::Postgres { url } => {
            let mut url = reqwest::Url::parse(&url).expect("a URL");
            url.set_password(Some(PASSWORD)).expect("a user to have it");
            Store::postgres_at(url.to_string())
        }
        sqlite @ Store::Sqlite { .. } => sqlite,
    }
}

/// Makes, rotates, lists and revokes keys from the command line, and has commands fail. Returns what
/// they printed: a key is there once, and only where it was made.
async fn commands_are_run(server: &Server, secrets: &mut Secrets) -> Vec<(String, String)> {
    let command = |words: &'static str, token: &str| {
        Launch::command(words.split(' ').next().expect("a word"))
            .with(words.split(' ').skip(1))
            .set("TIDEWIRE_URL", server.http().base())
            .set("TIDEWIRE_TOKEN", token)
            .set("TIDEWIRE_LOG", "trace")
    };
    let mut told = Vec::new();
    for (name, words) in [
        ("a key of the command line", "keys create --name cli --streams doc/** --can read,append"),
        ("a rotated key of the command line", "keys rotate 1"),
    ] {
        let ended = command(words, ADMIN_KEY).run().await;
        // Alone on the standard output: what is said besides may come in between.
        let (key, printed) = (ended.printed.trim().to_owned(), ended.said);
        assert!(key.starts_with("tw_"), "{words}: {printed}");
        assert_eq!(printed.matches(key.trim_start_matches("tw_")).count(), 1, "{printed}");
        secrets.text(name, &key);
        told.push((format!("{words}, but for the key"), printed.replace(&key, "")));
    }
    for (words, token) in [
        ("keys list --json --all", ADMIN_KEY),
        ("keys list --all", ADMIN_KEY),
        ("keys list", PASSWORD),
        ("keys revoke 1", ADMIN_KEY),
        ("keys create --name again --scopes wrong", ADMIN_KEY),
        ("nodes", ADMIN_KEY),
        ("publish doc/1 more", JWT_SECRET),
    ] {
        let printed = command(words, token).run().await.said;
        assert_eq!(printed.contains("cli"), words.ends_with("--all"), "{words}: {printed}");
        told.push((words.to_owned(), printed));
    }
    let config = Launch::command("config")
        .set("TIDEWIRE_ADMIN_KEY", ADMIN_KEY)
        .set("TIDEWIRE_JWT_SECRET", JWT_SECRET)
        .set("TIDEWIRE_DATABASE", &format!("postgres://someone:{PASSWORD}@127.0.0.1/x"));
    let printed = config.run().await.said;
    assert!(printed.contains("postgres://someone:***@"), "{printed}");
    told.push(("config".to_owned(), printed));
    told
}

async fn made(http: &Http, path: &str, body: &Value, member: &str) -> String {
    let answer = http.json(Method::POST, path, body).await;
    assert_eq!(answer.status, 201, "{path}: {}", answer.text());
    answer.json()[member].as_str().expect("a secret").to_owned()
}

fn scopes() -> Value {
    json!({ "tables": [], "streams": ["doc/**"], "can": ["read", "append"] })
}

async fn keys_come_and_go(http: &Http, secrets: &mut Secrets) {
    let new = json!({ "name": "a", "scopes": scopes() });
    let brief = json!({ "name": "b", "scopes": scopes(), "expires_in_ms": 1 });
    let (good, revoked, expired) = (
        made(http, "/v1/keys", &new, "key").await,
        made(http, "/v1/keys", &new, "key").await,
        made(http, "/v1/keys", &brief, "key").await,
    );
    let keys = http.get("/v1/keys").await.json();
    let ids = keys["keys"].as_array().expect("keys").iter().filter(|key| key["name"] == "a");
    let ids: Vec<String> = ids.map(|key| key["id"].to_string()).collect();
    let rotated = made(http, &format!("/v1/keys/{}/rotate", ids[0]), &json!({}), "key").await;
    for key in [&good, &revoked, &rotated] {
        let answer = http.as_someone(Some(key)).get("/v1/stream/doc/1").await;
        assert_eq!(answer.status, 200, "a good key: {}", answer.text());
    }
    // Someone stays connected with the key that is revoked.
    let mut live = WebSocket::connect(&http.as_someone(Some(&revoked)), "/v1/ws").await;
    live.hears("hello").await;
    let answer = http.json(Method::DELETE, &format!("/v1/keys/{}", ids[1]), &json!({})).await;
    assert_eq!(answer.status, 204, "revoke: {}", answer.text());
    live.closed().await;
    let holder = http.as_someone(Some(&expired));
    eventually("the key expires", async || {
        (holder.get("/v1/stream/doc/1").await.json()["code"] == "credential_expired").then_some(())
    })
    .await;
    for (name, key) in [
        ("a good key", good),
        ("a revoked key", revoked),
        ("an expired key", expired),
        ("a key that took another's place", rotated),
    ] {
        secrets.text(name, &key);
    }
}

async fn tokens_and_tickets_are_used(http: &Http, secrets: &mut Secrets) {
    let claims = |seconds, scopes: &Value| json!({ "sub": "ada", "exp": issuer::in_seconds(seconds), "tidewire": scopes });
    let good = Issuer::hs256(JWT_SECRET).token(&claims(3_600, &scopes()));
    let user = http.as_someone(Some(&good));
    let spent = made(&user, "/v1/tickets", &json!({}), "ticket").await;
    let fresh = made(http, "/v1/tickets", &json!({}), "ticket").await;
    let path = format!("/v1/stream/doc/1?offset=-1&ticket={spent}");
    assert_eq!(http.as_someone(None).get(&path).await.status, 200, "a ticket's first use");
    http.as_someone(None).get(&path).await.problem(401, "unauthorized");
    let answer = user.json(Method::POST, "/v1/cookie", &json!({})).await;
    assert_eq!(answer.status, 204, "a cookie: {}", answer.text());
    let browser = http.as_someone(None).request(Method::GET, "/v1/stream/doc/1");
    let answer = Answer::of(browser.header("cookie", format!("tidewire={good}"))).await;
    assert_eq!(answer.status, 200, "with a cookie: {}", answer.text());
    secrets.text("a user's token", &good);
    secrets.text("a ticket that was used", &spent);
    secrets.text("a ticket that was not used", &fresh);
    for (name, code, secret, claims) in [
        ("a user's expired token", "credential_expired", JWT_SECRET, claims(-3_600, &scopes())),
        (
            "a token with scopes that are none",
            "unauthorized",
            JWT_SECRET,
            claims(3_600, &json!({ "can": ["fly"] })),
        ),
        ("a token that someone else signed", "unauthorized", PASSWORD, claims(3_600, &scopes())),
    ] {
        let token = Issuer::hs256(secret).token(&claims);
        let answer = http.as_someone(Some(&token)).get("/v1/stream/doc/1").await;
        answer.problem(401, code);
        secrets.text(name, &token);
    }
}

async fn sessions_are_lived(http: &Http, secrets: &mut Secrets) {
    let tab = Tab::open(http).await;
    let tail = http.tail("doc/1").await;
    tab.subscribe_at("doc/1", "-1").await;
    tab.heartbeat(&json!([{ "streamId": "doc/1", "lastOffset": tail }])).await;
    let mut live = ServerSent::open(http, &tab.session, None).await;
    live.hears("subscription_created").await;
    let mut socket = WebSocket::connect(&http.as_someone(None), &tab.socket()).await;
    socket.say(&json!({ "type": "auth", "token": ADMIN_KEY })).await;
    socket.hears("hello").await;
    let answer = http.get(&format!("/v1/route?session={}", tab.session)).await;
    assert_eq!(answer.status, 200, "the best node: {}", answer.text());
    tab.unsubscribe("doc/1").await;
    secrets.text("a session's id", &tab.session);
}

/// Presents a secret wherever it could end up by mistake, and returns what was said to that.
async fn misuse(http: &Http, secret: &str) -> Vec<String> {
    let stranger = http.as_someone(None);
    let quoted = json!(secret).to_string();
    let get = |http: &Http, path: &str| http.request(Method::GET, path);
    let post = |path: &str, body: &str| {
        let request = http.request(Method::POST, path).header("content-type", "application/json");
        request.body(body.to_owned())
    };
    let with = |name: &str, value: String| get(&stranger, "/v1/nodes").header(name, value);
    let mut requests = vec![
        with("authorization", format!("Basic {secret}")),
        with("authorization", secret.to_owned()),
        with("authorization", format!("Bearer {secret} {secret}")),
        with("authorization", format!("Bearer {secret}0")),
        with("cookie", format!("tidewire={secret}0; other={secret}")),
        with("cookie", format!("tidewire={secret}")).header("origin", "https://evil.example"),
        get(&stranger, &format!("/v1/nodes?ticket={secret}0")),
        get(&stranger, &format!("/v1/nodes?token={secret}")),
        get(http, &format!("/v1/stream/doc/1?offset={secret}")),
        get(http, "/v1/live/none").header("last-event-id", secret),
        post("/v1/stream/doc/1", "[1]").header("producer-id", "p").header("producer-epoch", secret),
        post("/v1/stream/doc/1", secret),
        post("/v1/heartbeat", &format!(r#"{{"sessionId": "none", "token": {quoted}}}"#)),
        post("/v1/heartbeat", &format!(r#"{{"sessionId": {quoted}, "token": 1}}"#)),
        post("/v1/heartbeat", &format!(r#"{{"sessionId": {quoted}"#)),
        http.request(Method::PUT, "/v1/stream/__ds/subscriptions/s").body(quoted.clone()),
    ];
    for path in ["keys", "control", "subscriptions", "heartbeat"] {
        requests.push(post(&format!("/v1/{path}"), &quoted));
    }
    for path in ["session-offsets/", "live/", "keys/", "tickets/", "sessions/", "route?session="] {
        requests.push(get(http, &format!("/v1/{path}{secret}0")));
    }
    let mut said = Vec::new();
    for request in requests {
        let answer = Answer::of(request).await;
        if answer.status >= 400 {
            said.push(format!("{:?}\n{}", answer.headers, answer.text()));
        }
    }
    said.push(bytes_no_client_would_send(http.port(), secret).await);
    said.push(messages(http, secret, &quoted).await);
    said
}

async fn bytes_no_client_would_send(port: u16, secret: &str) -> String {
    let mut said = String::new();
    for head in [
        format!("GET /v1/nodes HTTP/1.1\r\nhost: x\r\nauthorization Bearer {secret}\r\n\r\n"),
        format!("GET /v1/nodes HTTP/1.1\r\nhost: x\r\nauthorization: Bearer \0{secret}\r\n\r\n"),
        format!("GET /v1/nodes?ticket={secret} HTTP/9.9\r\nhost: x\r\n\r\n"),
        format!("{secret}\r\n\r\n"),
    ] {
        let mut client = Raw::connect(port).await;
        client.send(head).await;
        said.push_str(&client.hung_up("a request that is none").await);
    }
    said
}

async fn messages(http: &Http, secret: &str, quoted: &str) -> String {
    let mut said = String::new();
    let mut client = WebSocket::connect(http, "/v1/ws").await;
    client.hears("hello").await;
    for message in [
        secret.to_owned(),
        quoted.to_owned(),
        format!(r#"{{"type": "auth", "token": [{quoted}]}}"#),
        format!(r#"{{"type": "auth", "token": {quoted}"#),
        format!(r#"{{"type": "subscribe", "subscriptions": {quoted}}}"#),
        format!(r#"{{"type": "ack", "offsets": [{{"lastOffset": {quoted}}}]}}"#),
    ] {
        client.send(frame(TEXT, message.as_bytes())).await;
        said.push_str(&client.hears("error").await.to_string());
    }
    let mut stranger = WebSocket::connect(&http.as_someone(None), "/v1/ws").await;
    stranger.say(&json!({ "type": "auth", "token": format!("{secret}0") })).await;
    said.push_str(&format!("{:?}", stranger.closed().await));
    said
}
