//! A person at a terminal makes keys, hands them out, and takes them back.

use reqwest::Method;
use serde_json::{Value, json};
use tidewire_stories::{
    Answer, Ended, Http, Issuer, Launch, Server, Store, WebSocket, on_both_stores,
};

on_both_stores!(
    a_key_is_made_listed_rotated_and_revoked,
    serve_starts_without_the_admin_key_if_someone_has_a_good_key,
);

const KEY: &str = "story-1ac5e86d09f7b324";
const SECRET: &str = "a secret of HS256 that is longer than thirty-two bytes";

async fn start(store: &Store) -> Server {
    let launch = Launch::serve(store, KEY).set("TIDEWIRE_JWT_SECRET", SECRET);
    let server = launch.start().await;
    server.http().create("doc/1").await;
    server
}

/// Runs `tidewire` as someone types it, with the token in the environment.
async fn tidewire(http: &Http, token: &str, words: &[&str]) -> Ended {
    let launch = Launch::command(words[0]).with(words[1..].iter().copied());
    launch.set("TIDEWIRE_URL", http.base()).set("TIDEWIRE_TOKEN", token).run().await
}

/// Runs it as the administrator. It must succeed. Returns what it printed.
async fn done(http: &Http, words: &[&str]) -> String {
    let ended = tidewire(http, KEY, words).await;
    assert_eq!(ended.code, Some(0), "{words:?}: {}", ended.said);
    assert!(!ended.said.contains(KEY), "{words:?}: {}", ended.said);
    ended.printed
}

/// Runs it, and it must fail: with a sentence that says all of this, and nothing else.
async fn fails(http: &Http, token: &str, words: &[&str], says: &[&str]) {
    let ended = tidewire(http, token, words).await;
    assert_eq!(ended.code, Some(1), "{words:?}: {}", ended.said);
    assert_eq!(ended.printed, "", "{words:?}");
    assert!(ended.said.starts_with("tidewire: cannot "), "{words:?}: {}", ended.said);
    for part in says {
        assert!(ended.said.contains(part), "{words:?} says nothing of {part:?}: {}", ended.said);
    }
    assert!(!ended.said.contains("panicked"), "{words:?}: {}", ended.said);
    assert!(!ended.said.contains(token), "{words:?}: {}", ended.said);
}

/// The key in what a command printed: one line, and nothing besides.
fn key_in(printed: &str) -> &str {
    let key = printed.strip_suffix('\n').expect("a line");
    assert!(key.starts_with("tw_") && key.len() == 46, "{printed:?}");
    key
}

/// The rows of `keys list --json`.
async fn listed(http: &Http, all: bool) -> Vec<Value> {
    let words: &[&str] =
        if all { &["keys", "list", "--json", "--all"] } else { &["keys", "list", "--json"] };
    let printed = done(http, words).await;
    printed.lines().map(|line| serde_json::from_str(line).expect("a JSON object")).collect()
}

/// As the README has it.
async fn a_key_is_made_listed_rotated_and_revoked(store: Store) {
    let server = start(&store).await;
    let http = server.http();
    let create = ["keys", "create", "--name", "app"];
    let allows = ["--streams", "doc/*", "--can", "read,append", "--expires", "30d"];
    let printed = done(http, &[&create[..], &allows].concat()).await;
    let app = key_in(&printed);
    let holder = http.as_someone(Some(app));
    holder.append("doc/1", &json!("of the app")).await;
    assert_eq!(holder.get("/v1/stream/doc/1").await.json(), json!(["of the app"]));
    holder.get("/v1/stream/other").await.problem(403, "forbidden");
    let delete = holder.request(Method::DELETE, "/v1/stream/doc/1");
    Answer::of(delete).await.problem(403, "forbidden");

    let tables = ["--tables", "orders,customers", "--append-only-to", "doc/my-*"];
    let more = done(http, &[&create[..], &allows, &tables].concat()).await;
    assert_ne!(more, printed, "no two are the same");
    let known = listed(http, false).await;
    assert_eq!(known.len(), 2, "{known:?}");
    assert_eq!(known[0]["name"], "app");
    assert_eq!(known[0]["scopes"]["can"], json!(["read", "append"]));
    assert_eq!(known[1]["scopes"]["tables"], json!(["orders", "customers"]));
    assert_eq!(known[1]["scopes"]["append"], json!(["doc/my-*"]));
    let table = done(http, &["keys", "list"]).await;
    for part in ["app", "good", "doc/*", "EXPIRES"] {
        assert!(table.contains(part), "{part} in {table}");
    }
    assert!(!table.contains("tw_"), "keys are not shown again: {table}");

    let mut socket = WebSocket::connect(&holder, "/v1/ws").await;
    socket.hears("hello").await;
    socket.subscribe(&json!({ "query_id": "q", "stream": "doc/1" })).await;
    let id = known[0]["id"].to_string();
    let rotated = done(http, &["keys", "rotate", &id, "--overlap", "1h"]).await;
    let next = http.as_someone(Some(key_in(&rotated)));
    for holder in [&holder, &next] {
        assert_eq!(holder.get("/v1/stream/doc/1").await.status, 200, "both for a while");
    }
    done(http, &["keys", "revoke", &id]).await;
    let farewell = socket.closed().await;
    assert_eq!((farewell.code, &*farewell.reason), (1008, "key_revoked"));
    holder.get("/v1/stream/doc/1").await.problem(401, "key_revoked");
    assert_eq!(next.get("/v1/stream/doc/1").await.status, 200, "the next key");
    let all = listed(http, true).await;
    let revoked = all.iter().find(|key| key["id"] == known[0]["id"]).expect("it is kept");
    assert_eq!(revoked["is_active"], false, "{revoked}");
    assert!(!listed(http, false).await.contains(revoked), "not among the good ones");
    assert!(done(http, &["keys", "list", "--all"]).await.contains("revoked"));
    // Several at once, and one that ends at once.
    let ids = [&all[1]["id"], &all[2]["id"]].map(Value::to_string);
    done(http, &["keys", "rotate", &ids[1], "--overlap", "0s"]).await;
    next.get("/v1/stream/doc/1").await.problem(401, "credential_expired");
    done(http, &["keys", "revoke", &ids[0], &ids[1]]).await;
}

/// All the ways to say what a key allows.
#[tokio::test(flavor = "multi_thread")]
async fn scopes_can_be_given_as_flags_or_as_json() {
    let store = Store::sqlite();
    let server = start(&store).await;
    let http = server.http();
    for (flags, scopes) in [
        (&["--tables", "*"][..], json!({ "tables": ["*"] })),
        (&["--can", "observe"], json!({ "tables": [], "can": ["observe"] })),
        (
            &["--streams", "*", "--host", "acme"],
            json!({ "tables": [], "streams": ["*"], "host": "acme" }),
        ),
        (
            &["--tables", "t", "--columns", "t=a+b", "--rows", "t=a = 'x'"],
            json!({ "tables": ["t"], "columns": { "t": ["a", "b"] }, "rows": { "t": "a = 'x'" } }),
        ),
        (
            &["--scopes", r#"{"tables": [], "streams": ["a"], "hosts": [""]}"#],
            json!({ "tables": [], "streams": ["a"], "hosts": [""] }),
        ),
    ] {
        done(http, &[&["keys", "create", "--name", "k"], flags].concat()).await;
        let last = listed(http, false).await.pop().expect("the key");
        assert_eq!(last["scopes"], scopes, "{flags:?}");
    }
}

/// What went wrong, and what to do about it; never a stack of causes, nor half a key.
#[tokio::test(flavor = "multi_thread")]
async fn errors_are_readable() {
    let store = Store::sqlite();
    let server = start(&store).await;
    let http = server.http();
    let create = ["keys", "create", "--name", "k"];
    let with = |flags: &[&'static str]| [&create[..], flags].concat();
    fails(http, KEY, &with(&["--can", "everything"]), &["scopes", "everything"]).await;
    fails(http, KEY, &with(&["--scopes", r#"{"streams": []}"#]), &["tables"]).await;
    fails(http, KEY, &with(&["--scopes", r#"{"tables": [], "stream": []}"#]), &["stream"]).await;
    fails(http, KEY, &with(&["--streams", ""]), &["pattern"]).await;
    fails(http, KEY, &["keys", "create", "--name", ""], &["name"]).await;
    fails(http, KEY, &["keys", "revoke", "999"], &["999", "does not exist"]).await;
    fails(http, KEY, &["keys", "rotate", "999"], &["999", "does not exist"]).await;
    assert_eq!(listed(http, true).await, [Value::Null; 0], "none was made");

    let reader = http.make_key(&json!({ "tables": [], "streams": ["**"] })).await;
    for words in [
        &with(&[])[..],
        &["keys", "list"],
        &["keys", "revoke", "1"],
        &["keys", "rotate", "1"],
        &["control", "reload"],
        &["control", "end-user", "ada"],
    ] {
        fails(http, &reader.key, words, &["allow", "admin"]).await;
        fails(http, "not-the-key-of-anyone", words, &["unauthorized"]).await;
    }
    http.revoke_key(&reader).await;
    fails(http, &reader.key, &["keys", "list"], &["revoked"]).await;
    // Mistakes that need no server.
    for words in [
        &["keys", "create"][..],
        &["keys", "create", "--name", "k", "--expires", "30"],
        &["keys", "create", "--name", "k", "--scopes", "{}", "--tables", "t"],
        &["keys", "revoke"],
        &["keys", "revoke", "one"],
        &["control"],
        &["control", "end-user"],
        &["control", "explode"],
    ] {
        let ended = tidewire(http, KEY, words).await;
        assert_eq!(ended.code, Some(2), "{words:?}: {}", ended.said);
        assert_eq!(ended.printed, "", "{words:?}");
    }
    let base = format!("http://127.0.0.1:{}", tidewire_stories::port::free_port());
    let nobody = Launch::command("keys").with(["list", "--url", &base, "--token", KEY]).run().await;
    assert_eq!(nobody.code, Some(1), "{}", nobody.said);
    assert!(nobody.said.contains(&base) && nobody.said.contains("refused"), "{}", nobody.said);
}

/// `tidewire control`, with the server's address before or after what is to be said.
#[tokio::test(flavor = "multi_thread")]
async fn control_ends_what_it_names() {
    let store = Store::sqlite();
    let server = start(&store).await;
    let http = server.http();
    let claims = json!({ "sub": "ada", "tidewire": { "streams": ["doc/*"] } });
    let ada = http.as_someone(Some(&Issuer::hs256(SECRET).token(&claims)));
    let connect = async || {
        let mut socket = WebSocket::connect(&ada, "/v1/ws").await;
        let id = socket.hears("hello").await["connection_id"].clone();
        let created = socket.subscribe(&json!({ "query_id": "q", "stream": "doc/1" })).await;
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        (socket, text(&id), text(&created["live_id"]))
    };
    let (mut socket, _, live_id) = connect().await;
    done(http, &["control", "end-subscription", &live_id]).await;
    let ended = socket.hears("subscription_ended").await;
    assert_eq!(ended["reason"], "ended_by_operator");
    let (mut socket, id, _) = connect().await;
    done(http, &["control", "end-connection", &id]).await;
    assert_eq!(socket.closed().await.reason, "ended_by_operator");
    let (mut socket, ..) = connect().await;
    done(http, &["control", "empty-caches"]).await;
    done(http, &["control", "reload"]).await;
    done(http, &["control", "end-user", "ada"]).await;
    assert_eq!(socket.closed().await.reason, "ended_by_operator");
    for words in [
        ["reload", "--url", http.base(), "--token", KEY],
        ["--url", http.base(), "--token", KEY, "reload"],
    ] {
        let ended = Launch::command("control").with(words).run().await;
        assert_eq!(ended.code, Some(0), "{words:?}: {}", ended.said);
    }
}

/// I6: a server that lets nobody in is a mistake, and one that lets in the holders of its keys is not.
async fn serve_starts_without_the_admin_key_if_someone_has_a_good_key(store: Store) {
    // An empty variable counts as not set.
    let keyless = Launch::serve(&store, "");
    let refuses = async |when: &str| {
        let ended = keyless.run().await;
        assert_eq!(ended.code, Some(1), "{when}: {}", ended.said);
        assert!(ended.said.contains("TIDEWIRE_ADMIN_KEY"), "{when}: {}", ended.said);
    };
    refuses("nothing is there").await;
    let server = Launch::serve(&store, KEY).start().await;
    let short = server.http().make_key_for(&json!({ "tables": [] }), 1).await;
    server.stop().await;
    refuses("a key has expired").await;

    let server = Launch::serve(&store, KEY).start().await;
    let deputy = server.http().make_key(&json!({ "tables": [], "can": ["admin"] })).await;
    server.stop().await;
    let server = keyless.start().await;
    let http = server.http();
    assert_eq!(http.holder(&deputy).get("/v1/keys").await.status, 200, "the key that is good");
    http.holder(&short).get("/v1/keys").await.problem(401, "credential_expired");
    for token in [Some(KEY), Some(""), None] {
        let stranger = http.as_someone(token);
        stranger.get("/v1/keys").await.problem(401, "unauthorized");
    }
    // Its holder may lock everyone out, and the server goes on until it is stopped.
    http.holder(&deputy).revoke_key(&deputy).await;
    http.holder(&deputy).get("/v1/keys").await.problem(401, "key_revoked");
    assert_eq!(http.get("/healthz").await.status, 200);
    server.stop().await;
    refuses("the key was revoked").await;
    // Those who have tokens come in.
    let server = keyless.set("TIDEWIRE_JWT_SECRET", SECRET).start().await;
    let claims = json!({ "sub": "ada", "tidewire": { "can": ["admin"] } });
    let ada = server.http().as_someone(Some(&Issuer::hs256(SECRET).token(&claims)));
    assert_eq!(ada.get("/v1/keys").await.status, 200);
}
