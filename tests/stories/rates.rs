//! Someone asks too often, or fails too often, or stays too many times; and the operator changes
//! his mind about what that is.

use std::path::PathBuf;
use std::time::Duration;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tempfile::TempDir;
use tidewire_stories::{
    Answer, Http, Launch, Metrics, Nodes, Server, ServerSent, Store, Tab, WebSocket, eventually,
};

const KEY: &str = "story-95f0d7b3e6a1c428";

/// More requests than any of the rates below lets pass at once, also on a slow machine.
const MANY: usize = 10_000;

fn reader() -> Value {
    json!({ "tables": [], "streams": ["**"] })
}

/// A server behind a proxy on this machine, so that requests can come from anywhere.
async fn start(store: &Store, settings: &[(&str, &str)]) -> Server {
    let launch = Launch::serve(store, KEY).set("TIDEWIRE_TRUSTED_PROXIES", "127.0.0.1");
    let set = |launch: Launch, (name, value): &(&str, &str)| launch.set(name, value);
    let server = settings.iter().fold(launch, set).start().await;
    let create = server.http().request(Method::PUT, "/v1/stream/doc");
    let created = Answer::of(from(create, "192.0.2.1")).await;
    assert_eq!(created.status, 201, "{}", created.text());
    server
}

/// A request that someone at this address made.
fn from(request: RequestBuilder, address: &str) -> RequestBuilder {
    request.header("x-forwarded-for", address)
}

async fn read(http: &Http, address: &str) -> Answer {
    Answer::of(from(http.request(Method::GET, "/v1/stream/doc"), address)).await
}

/// Asks until it is told to wait. Returns how many passed, and what it was told.
async fn exhaust(mut ask: impl AsyncFnMut() -> Answer) -> (usize, Answer) {
    for passed in 0..MANY {
        let answer = ask().await;
        if answer.status == 429 {
            return (passed, answer);
        }
    }
    panic!("{MANY} requests passed");
}

/// Checks that an answer says which limit it is and how long to wait, and waits.
async fn wait_as_told(answer: &Answer, limit: &str) {
    let problem = answer.problem(429, "rate_limited");
    assert_eq!(problem["limit"], limit, "{problem}");
    assert_eq!(problem["temporary"], true, "{problem}");
    let seconds = answer.header("retry-after").and_then(|seconds| seconds.parse().ok());
    let seconds: u64 = seconds.expect("Retry-After in seconds");
    assert!((1..=5).contains(&seconds), "{seconds}");
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// I9: one who asks too often waits, wherever they ask from, and nobody else does.
#[tokio::test(flavor = "multi_thread")]
async fn an_identity_that_asks_too_often_waits() {
    let store = Store::sqlite();
    let settings =
        [("TIDEWIRE_RATES_IDENTITY_PER_SECOND", "1"), ("TIDEWIRE_RATES_IDENTITY_BURST", "20")];
    let server = start(&store, &settings).await;
    let admin = server.http();
    let hasty = admin.holder(&admin.make_key(&reader()).await);
    let other = admin.holder(&admin.make_key(&reader()).await);
    let mut turn = 0;
    let (passed, told) = exhaust(async || {
        turn += 1;
        read(&hasty, &format!("192.0.2.{}", turn % 200)).await
    })
    .await;
    assert!(passed >= 20, "only {passed} passed at once");
    assert_eq!(read(&other, "192.0.2.1").await.status, 200, "another key from there");
    assert_eq!(hasty.get("/healthz").await.status, 200, "what is public");
    wait_as_told(&told, "rates.identity_per_second").await;
    assert_eq!(read(&hasty, "192.0.2.1").await.status, 200, "after the wait");
    let denied = Metrics::read(admin).await.get("denials_total{reason=\"rate_limited\"}");
    assert!(denied >= 1.0, "{denied}");
}

/// I9: an address from which too many ask waits, whoever they are, and no other address does.
#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_asks_too_often_waits() {
    let store = Store::sqlite();
    let settings =
        [("TIDEWIRE_RATES_ADDRESS_PER_SECOND", "1"), ("TIDEWIRE_RATES_ADDRESS_BURST", "10")];
    let server = start(&store, &settings).await;
    let admin = server.http();
    for (address, same, other) in [
        ("198.51.100.7", "198.51.100.7", "198.51.100.8"),
        // Who has one address of IPv6 has all of its network.
        ("2001:db8::1", "2001:db8::ffff:2", "2001:db8:0:1::1"),
    ] {
        let nobody = admin.as_someone(None);
        let (passed, told) = exhaust(async || read(&nobody, address).await).await;
        assert!(passed >= 10, "only {passed} passed at once");
        // A few may have passed since, but there is no second burst.
        let (more, _) = exhaust(async || read(admin, same).await).await;
        assert!(more < 10, "{more} more from {same}");
        assert_eq!(read(admin, other).await.status, 200, "from {other}");
        wait_as_told(&told, "rates.address_per_second").await;
        assert_eq!(read(admin, same).await.status, 200, "after the wait");
    }
    // What a client says about itself is not believed, only what its proxy adds.
    let (_, told) = exhaust(async || read(admin, "192.0.2.77, 198.51.100.9").await).await;
    assert_eq!(read(admin, "192.0.2.77").await.status, 200, "whom it named");
    wait_as_told(&told, "rates.address_per_second").await;
}

/// I6: nobody guesses at leisure. Where too many credentials were no good, even a good one waits;
/// elsewhere, and for who is connected already, nothing changes.
#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_fails_too_often_waits() {
    let store = Store::sqlite();
    let settings =
        [("TIDEWIRE_RATES_FAILURES_PER_SECOND", "1"), ("TIDEWIRE_RATES_FAILURES_BURST", "5")];
    let server = start(&store, &settings).await;
    let admin = server.http();
    let (bad, elsewhere) = ("203.0.113.5", "203.0.113.6");
    let headers = [("x-forwarded-for", bad)];
    let mut connected = WebSocket::connect_with(admin, "/v1/ws", &headers).await;
    connected.hears("hello").await;
    // Without a credential nothing is guessed.
    let nobody = admin.as_someone(None);
    for _ in 0..20 {
        read(&nobody, bad).await.problem(401, "unauthorized");
    }
    let guesses = [
        ("a key", admin.as_someone(Some("tw_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"))),
        ("anything", admin.as_someone(Some("let-me-in-please"))),
    ];
    for (what, guess) in &guesses {
        let (failed, told) = exhaust(async || {
            let answer = read(guess, bad).await;
            match answer.status {
                429 => answer.problem(429, "rate_limited"),
                _ => answer.problem(401, "unauthorized"),
            };
            answer
        })
        .await;
        assert!(failed >= 1, "{what}: none was looked at");
        let good = eventually("a good one waits, too", async || {
            read(guess, bad).await;
            let answer = read(admin, bad).await;
            (answer.status != 200).then_some(answer)
        })
        .await;
        let good = good.problem(429, "rate_limited");
        assert_eq!(good["limit"], "rates.failures_per_second", "{good}");
        assert_eq!(read(admin, elsewhere).await.status, 200, "{what}: from elsewhere");
        eventually("so does a browser's", async || {
            read(guess, bad).await;
            let mut browser = WebSocket::connect_with(&nobody, "/v1/ws", &headers).await;
            browser.say(&json!({ "type": "auth", "token": KEY })).await;
            let told = browser.next().await;
            (told["code"] == "rate_limited").then_some(())
        })
        .await;
        wait_as_told(&told, "rates.failures_per_second").await;
        eventually("the good one passes again", async || {
            (read(admin, bad).await.status == 200).then_some(())
        })
        .await;
    }
    let ticket = "/v1/stream/doc?ticket=twt_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let guess = || Answer::of(from(nobody.request(Method::GET, ticket), bad));
    let (_, told) = exhaust(async || guess().await).await;
    assert_eq!(told.json()["limit"], "rates.failures_per_second");
    connected.subscribe(&json!({ "query_id": "q", "stream": "doc" })).await;

    let metrics = from(admin.request(Method::GET, "/metrics"), elsewhere);
    let metrics = Answer::of(metrics).await.text();
    for reason in ["unauthorized", "rate_limited"] {
        let sample = format!("tidewire_denials_total{{reason=\"{reason}\"}} ");
        let count = metrics.lines().find_map(|line| line.strip_prefix(&sample));
        let count: u64 = count.and_then(|count| count.parse().ok()).expect("a count");
        assert!(count >= 3, "{reason}: {count}");
    }
}

/// I9: one identity has so many live connections and no more, of whatever kind; one that ends makes
/// room.
#[tokio::test(flavor = "multi_thread")]
async fn an_identity_has_so_many_live_connections_and_no_more() {
    let store = Store::sqlite();
    let server = start(&store, &[("TIDEWIRE_LIVE_CONNECTIONS_PER_IDENTITY_MAX", "2")]).await;
    let admin = server.http();
    let holder = admin.holder(&admin.make_key(&reader()).await);
    let other = admin.holder(&admin.make_key(&reader()).await);
    let tab = Tab::open(&holder).await;
    let mut socket = WebSocket::connect(&holder, "/v1/ws").await;
    socket.hears("hello").await;
    let page = ServerSent::open(&holder, &tab.session, None).await;

    let refused = holder.get(&format!("/v1/live/{}", tab.session)).await;
    let problem = refused.problem(429, "too_many_connections");
    assert_eq!(problem["temporary"], true, "{problem}");
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    let mut third = WebSocket::connect(&holder, "/v1/ws").await;
    let farewell = third.closed().await;
    assert_eq!(farewell.code, 1013, "try again later: {farewell:?}");
    assert_eq!(farewell.messages[0]["code"], "too_many_connections", "{farewell:?}");
    // Others, and what is no live connection, are not concerned.
    let mut of_other = WebSocket::connect(&other, "/v1/ws").await;
    of_other.hears("hello").await;
    assert_eq!(holder.get("/v1/stream/doc").await.status, 200);
    socket.say(&json!({ "type": "ping" })).await;
    socket.hears("pong").await;

    drop(page);
    let free = async || {
        let mut next = WebSocket::connect(&holder, "/v1/ws").await;
        (next.next().await["type"] == "hello").then_some(next)
    };
    let _next = eventually("the place of one that has gone is free", free).await;
    drop(socket);
    eventually("so is another's", free).await;
}

/// A configuration file that the operator edits.
struct File {
    folder: TempDir,
}

impl File {
    fn of(text: &str) -> File {
        let file = File { folder: tempfile::tempdir().expect("a temporary folder") };
        file.becomes(text);
        file
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("tidewire.toml")
    }

    fn becomes(&self, text: &str) {
        std::fs::write(self.path(), text).expect("a file is written");
    }
}

const OLD: &str = "https://old.example";
const NEW: &str = "https://new.example";

/// A file that allows one origin, and the admin so many requests a second.
fn allowing(origin: &str, per_second: u32) -> String {
    format!(
        "allowed_origins = [\"{origin}\"]\n[rates]\nidentity_per_second = {per_second}\n\
         identity_burst = 3\n"
    )
}

/// Whether pages of an origin may use a server; so may they be told to ask less often.
async fn serves(http: &Http, origin: &str) -> bool {
    let request = http.request(Method::GET, "/v1/nodes").header("origin", origin);
    let answer = Answer::of(request).await;
    assert!(matches!(answer.status, 200 | 403 | 429), "{}", answer.text());
    answer.status != 403
}

async fn asks_for_patience(http: &Http) {
    exhaust(async || http.get("/v1/nodes").await).await;
}

/// A broken file is no reason to fall back to something, or to stop.
const BROKEN: [&str; 4] = [
    "allowed_origins = [",
    "allowed_origins = [\"no-origin\"]\n",
    "[rates]\nidentity_per_second = -1\n",
    "[rates]\nidentity_per_minute = 5\n",
];

/// SIGHUP takes over what changed in the file, and a file that is wrong changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn sighup_takes_over_rates_and_origins() {
    let store = Store::sqlite();
    let file = File::of(&allowing(OLD, 0));
    let path = file.path().to_string_lossy().into_owned();
    let mut server = Launch::serve(&store, KEY).with(["--config", &path]).start().await;
    let http = server.http().clone();
    assert!(serves(&http, OLD).await && !serves(&http, NEW).await, "as it started");

    file.becomes(&allowing(NEW, 1));
    server.process().signal("HUP");
    eventually("the new origin is served", async || serves(&http, NEW).await.then_some(())).await;
    assert!(!serves(&http, OLD).await, "the old one is not any more");
    asks_for_patience(&http).await;

    for (round, broken) in BROKEN.iter().enumerate() {
        file.becomes(broken);
        server.process().signal("HUP");
        eventually("the server says that the file is wrong", async || {
            let said = server.process().said();
            (said.matches("the configuration is wrong").count() > round).then_some(())
        })
        .await;
        assert!(serves(&http, NEW).await && !serves(&http, OLD).await, "after {broken:?}");
        asks_for_patience(&http).await;
    }

    file.becomes(&allowing(OLD, 0));
    server.process().signal("HUP");
    eventually("the old origin is served again", async || serves(&http, OLD).await.then_some(()))
        .await;
    for _ in 0..20 {
        assert_eq!(http.get("/v1/nodes").await.status, 200, "no rate any more");
    }
}

/// `tidewire control reload` is obeyed by every node of the database.
#[tokio::test(flavor = "multi_thread")]
async fn control_reload_takes_over_rates_and_origins_on_every_node() {
    let file = File::of(&allowing(OLD, 0));
    let path = file.path().to_string_lossy().into_owned();
    let store = Store::postgres().await;
    let nodes = Nodes::of(&store, &[("TIDEWIRE_CONFIG", &path)]).await;
    let reload = async || {
        let ended = nodes.command(0, "control").with(["reload"]).run().await;
        assert_eq!(ended.code, Some(0), "{}", ended.said);
    };
    file.becomes(&allowing(NEW, 1));
    reload().await;
    for http in nodes.https() {
        eventually("the new origin is served", async || serves(http, NEW).await.then_some(()))
            .await;
        assert!(!serves(http, OLD).await, "the old one is not any more");
        asks_for_patience(http).await;
    }
    file.becomes(BROKEN[0]);
    eventually("the order is taken", async || {
        let ended = nodes.command(0, "control").with(["reload"]).run().await;
        (ended.code == Some(0)).then_some(())
    })
    .await;
    // What comes after it is obeyed after it.
    file.becomes(&allowing(OLD, 0));
    eventually("a good file is taken over by every node", async || {
        nodes.command(0, "control").with(["reload"]).run().await;
        for http in nodes.https() {
            if !serves(http, OLD).await {
                return None;
            }
        }
        Some(())
    })
    .await;
}
