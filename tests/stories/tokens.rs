//! End users come with tokens that someone else has signed.

use std::path::PathBuf;

use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tidewire_stories::issuer::{in_seconds, key_set};
use tidewire_stories::presence::QUIET;
use tidewire_stories::{
    Answer, Http, Issuer, Launch, Presence, Server, Store, WebSocket, eventually,
};

const KEY: &str = "story-7be09a41c25d83f6";
const SECRET: &str = "a secret of HS256 that is longer than thirty-two bytes";

/// A server that takes tokens, with a stream of its owner's. Refusals are not counted: the stories
/// ask again until something changes.
async fn start(store: &Store, settings: &[(&str, &str)]) -> Server {
    let launch = Launch::serve(store, KEY).set("TIDEWIRE_RATES_FAILURES_PER_SECOND", "0");
    let set = |launch: Launch, (name, value): &(&str, &str)| launch.set(name, value);
    let server = settings.iter().fold(launch, set).start().await;
    server.http().create("doc/1").await;
    server.http().append("doc/1", &json!("for those who may")).await;
    server
}

/// The claims of someone who reads all documents.
fn reader() -> Value {
    json!({ "sub": "ada", "tidewire": { "streams": ["doc/*"] } })
}

/// What a read with this token is answered.
async fn read(http: &Http, token: &str) -> Answer {
    http.as_someone(Some(token)).get("/v1/stream/doc/1").await
}

/// Checks that a token is refused, for this reason.
async fn refused(http: &Http, token: &str, reason: &str) {
    let problem = read(http, token).await.problem(401, "unauthorized");
    assert_eq!(problem["reason"], reason, "{token}: {problem}");
}

/// A key set in a file, which the issuer changes as it likes.
struct KeySet {
    folder: TempDir,
}

impl KeySet {
    fn of<'a>(issuers: impl IntoIterator<Item = &'a Issuer>) -> KeySet {
        let set = KeySet { folder: tempfile::tempdir().expect("a temporary folder") };
        set.becomes(&key_set(issuers));
        set
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("jwks.json")
    }

    fn setting(&self) -> String {
        self.path().to_string_lossy().into_owned()
    }

    /// In one step, as a careful issuer does it.
    fn becomes(&self, text: &str) {
        let draft = self.folder.path().join("draft");
        std::fs::write(&draft, text).expect("a file is written");
        std::fs::rename(&draft, self.path()).expect("a file is put in place");
    }
}

/// I6: a token opens what its claims say, whichever way it is presented; and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_the_shared_secret_opens_what_its_claims_say() {
    let store = Store::sqlite();
    let server = start(&store, &[("TIDEWIRE_JWT_SECRET", SECRET)]).await;
    let http = server.http();
    let issuer = Issuer::hs256(SECRET);
    let token = issuer.token(&reader());
    let ada = http.as_someone(Some(&token));
    assert_eq!(read(http, &token).await.json(), json!(["for those who may"]));
    ada.get("/v1/stream/other").await.problem(403, "forbidden");
    let append = ada.json(Method::POST, "/v1/stream/doc/1", &json!("mine")).await;
    append.problem(403, "forbidden");
    ada.get("/v1/keys").await.problem(403, "forbidden");
    ada.get("/metrics").await.problem(403, "forbidden");

    let mut browser = WebSocket::connect(&http.as_someone(None), "/v1/ws").await;
    browser.say(&json!({ "type": "auth", "token": token })).await;
    browser.hears("hello").await;
    browser.subscribe(&json!({ "query_id": "q", "stream": "doc/1", "offset": "-1" })).await;
    assert_eq!(browser.hears("event").await["payload"], "for those who may");
    let wanted = json!([{ "query_id": "r", "stream": "other" }]);
    browser.say(&json!({ "type": "subscribe", "subscriptions": wanted })).await;
    assert_eq!(browser.hears("error").await["code"], "forbidden");

    let writer = json!({ "sub": "bob", "tidewire": { "streams": ["doc/*"], "can": ["append"] } });
    let bob = http.as_someone(Some(&issuer.token(&writer)));
    bob.append("doc/1", &json!("of bob")).await;
    bob.get("/v1/stream/doc/1").await.problem(403, "forbidden");
    assert_eq!(browser.hears("event").await["payload"], "of bob");
}

/// What a token allows that does not say so is the operator's to say, with the user's own name and
/// claims in it, and nothing if the operator says nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_without_scopes_has_those_of_the_configuration() {
    let store = Store::sqlite();
    let scopes =
        r#"{"streams": ["user/{user_id}/**", "team/{team}/*"], "can": ["read", "append"]}"#;
    let settings = [("TIDEWIRE_JWT_SECRET", SECRET), ("TIDEWIRE_JWT_SCOPES", scopes)];
    let server = start(&store, &settings).await;
    let issuer = Issuer::hs256(SECRET);
    let user = |claims: Value| server.http().as_someone(Some(&issuer.token(&claims)));

    let ada = user(json!({ "sub": "ada", "team": "red" }));
    for stream in ["user/ada/notes", "user/ada/a/b", "team/red/plan"] {
        ada.create(stream).await;
        ada.append(stream, &json!(1)).await;
    }
    for stream in ["user/bob/notes", "team/blue/plan", "doc/1", "user/{user_id}/x"] {
        ada.get(&format!("/v1/stream/{stream}")).await.problem(403, "forbidden");
    }
    // One without a team has no team's streams, whatever they are called.
    let bob = user(json!({ "sub": "bob" }));
    bob.create("user/bob/notes").await;
    for stream in ["team/red/plan", "team/{team}/plan", "team//plan", "user/ada/notes"] {
        bob.get(&format!("/v1/stream/{stream}")).await.problem(403, "forbidden");
    }
    // A name is a name: what would be a pattern, or another's folder, is nothing.
    for sub in ["*", "**", "ada/notes", "..", "a*", "{team}"] {
        let odd = user(json!({ "sub": sub, "team": "ada" }));
        for stream in ["user/ada/notes", "user/ada/a/b", "user/bob/notes"] {
            odd.get(&format!("/v1/stream/{stream}")).await.problem(403, "forbidden");
        }
    }
    // Its own scopes are instead of those, not besides.
    let own = user(json!({ "sub": "ada", "tidewire": { "streams": ["doc/*"] } }));
    assert_eq!(own.get("/v1/stream/doc/1").await.status, 200);
    own.get("/v1/stream/user/ada/notes").await.problem(403, "forbidden");
}

/// I6: who is allowed nothing can do nothing, though it is known who they are.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_without_scopes_can_do_nothing_by_itself() {
    let store = Store::sqlite();
    let server = start(&store, &[("TIDEWIRE_JWT_SECRET", SECRET)]).await;
    let issuer = Issuer::hs256(SECRET);
    for claims in [
        json!({ "sub": "ada" }),
        json!({ "sub": "ada", "tidewire": null }),
        json!({ "sub": "ada", "tidewire": {} }),
        json!({ "sub": "ada", "scope": "admin", "scopes": { "can": ["admin"] } }),
    ] {
        let ada = server.http().as_someone(Some(&issuer.token(&claims)));
        let path = "/v1/stream/doc/1";
        for method in [Method::GET, Method::PUT, Method::POST, Method::DELETE] {
            let request = ada.request(method, path).header("content-type", "application/json");
            Answer::of(request.body("1")).await.problem(403, "forbidden");
        }
        let mut socket = WebSocket::connect(&ada, "/v1/ws").await;
        socket.hears("hello").await;
        let wanted = json!([{ "query_id": "q", "stream": "doc/1" }]);
        socket.say(&json!({ "type": "subscribe", "subscriptions": wanted })).await;
        assert_eq!(socket.hears("error").await["code"], "forbidden", "{claims}");
    }
    // Scopes that are not understood are not passed over.
    for scopes in [json!([]), json!("all"), json!({ "can": ["everything"] }), json!({ "x": 1 })] {
        let claims = json!({ "sub": "ada", "tidewire": scopes });
        read(server.http(), &issuer.token(&claims)).await.problem(401, "unauthorized");
    }
}

/// I6: a token that was made for someone else's service, by someone else, or for another time, is
/// of no use here.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_another_issuer_audience_or_time_is_refused() {
    let store = Store::sqlite();
    let settings = [
        ("TIDEWIRE_JWT_SECRET", SECRET),
        ("TIDEWIRE_JWT_ISSUER", "https://login.example"),
        ("TIDEWIRE_JWT_AUDIENCE", "tidewire,live"),
        ("TIDEWIRE_JWT_SKEW_MS", "5000"),
    ];
    let server = start(&store, &settings).await;
    let http = server.http();
    let issuer = Issuer::hs256(SECRET);
    let with = |changes: Value| {
        let mut claims = reader();
        claims["iss"] = json!("https://login.example");
        claims["aud"] = json!("tidewire");
        for (name, value) in changes.as_object().expect("an object") {
            claims[name] = value.clone();
        }
        issuer.token(&claims)
    };
    for good in [json!({}), json!({ "aud": ["other", "live"] }), json!({ "nbf": in_seconds(-1) })] {
        assert_eq!(read(http, &with(good.clone())).await.status, 200, "{good}");
    }
    for (changes, reason) in [
        (json!({ "iss": "https://login.example/" }), "token_issuer_wrong"),
        (json!({ "iss": null }), "token_issuer_wrong"),
        (json!({ "iss": ["https://login.example"] }), "token_issuer_wrong"),
        (json!({ "aud": "other" }), "token_audience_wrong"),
        (json!({ "aud": [] }), "token_audience_wrong"),
        (json!({ "aud": null }), "token_audience_wrong"),
        (json!({ "nbf": in_seconds(600) }), "token_not_yet_valid"),
        (json!({ "iat": in_seconds(600) }), "token_not_yet_valid"),
        (json!({ "sub": "" }), "token_claim_refused"),
        (json!({ "sub": 7 }), "token_claim_refused"),
        (json!({ "exp": "tomorrow" }), "token_claim_refused"),
        (json!({ "host_id": 7 }), "token_claim_refused"),
    ] {
        refused(http, &with(changes), reason).await;
    }
    let late = with(json!({ "exp": in_seconds(-60) }));
    read(http, &late).await.problem(401, "credential_expired");
    let eternal = issuer.token_of(&issuer.header(), &json!({ "sub": "ada" }));
    refused(http, &eternal, "token_claim_refused").await;
}

/// I6: forged tokens, over whichever way they come.
#[tokio::test(flavor = "multi_thread")]
async fn forged_tokens_are_refused() {
    let store = Store::sqlite();
    let published = [Issuer::rs256("r"), Issuer::es256("e"), Issuer::eddsa("d")];
    let set = KeySet::of(&published);
    let jwks = set.setting();
    // Once with a secret besides the public keys, once without.
    for secret in [SECRET, ""] {
        let settings = [("TIDEWIRE_JWT_SECRET", secret), ("TIDEWIRE_JWT_JWKS", &jwks)];
        let store = if secret.is_empty() { &Store::sqlite() } else { &store };
        let server = start(store, &settings).await;
        let http = server.http();
        for issuer in &published {
            assert_eq!(read(http, &issuer.token(&reader())).await.status, 200, "{issuer:?}");
        }
        let mut claims = reader();
        claims["exp"] = in_seconds(600);
        let mut forged = Vec::new();
        for none in ["none", "None", "NONE", "nOnE", ""] {
            let signed = published[1].token_of(&json!({ "alg": none, "kid": "e" }), &claims);
            let (unsigned, _) = signed.rsplit_once('.').expect("three parts");
            forged.extend([format!("{unsigned}."), signed.clone()]);
        }
        for issuer in &published {
            // Signed with what anyone can read.
            for public in issuer.public_bytes() {
                let mut header = issuer.header();
                header["alg"] = json!("HS256");
                forged.push(Issuer::hs256(&public).token_of(&header, &claims));
                forged.push(Issuer::hs256(&public).token(&claims));
            }
            // Signed by someone else under a name that is known.
            for stranger in [Issuer::rs256("r"), Issuer::es256("e"), Issuer::eddsa("d")] {
                forged.push(stranger.token(&claims));
                forged.push(stranger.token_of(&issuer.header(), &claims));
                let mut header = issuer.header();
                header["jwk"] = stranger.jwk();
                forged.push(stranger.token_of(&header, &claims));
            }
            // Truly signed, and then changed.
            let token = issuer.token(&reader());
            let other = issuer.token(&json!({ "sub": "eve", "tidewire": { "can": ["admin"] } }));
            let parts: Vec<&str> = token.split('.').collect();
            let others: Vec<&str> = other.split('.').collect();
            forged.push(format!("{}.{}.{}", parts[0], others[1], parts[2]));
            forged.push(format!("{}.{}.", parts[0], parts[1]));
            forged.push(format!("{}.{}", parts[0], parts[1]));
        }
        forged.push(
            Issuer::hs256("another secret that is longer than thirty-two bytes").token(&claims),
        );
        for token in &forged {
            let answer = read(http, token).await;
            answer.problem(401, "unauthorized");
            let cookie = http.as_someone(None).request(Method::GET, "/v1/stream/doc/1");
            let cookie = cookie.header("cookie", format!("tidewire={token}"));
            Answer::of(cookie).await.problem(401, "unauthorized");
        }
        for token in forged.iter().step_by(5) {
            let mut socket = WebSocket::connect(&http.as_someone(None), "/v1/ws").await;
            socket.say(&json!({ "type": "auth", "token": token })).await;
            let farewell = socket.closed().await;
            assert_eq!(farewell.code, 1008, "{farewell:?}");
            assert_eq!(farewell.messages[0]["code"], "unauthorized", "{farewell:?}");
        }
    }
}

/// The issuer changes its keys while the server runs: new ones are taken, old ones are not any
/// more, and a file that is of no use changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_set_is_rotated_while_the_server_runs() {
    let store = Store::sqlite();
    let first = Issuer::es256("first");
    let set = KeySet::of([&first]);
    let server = start(&store, &[("TIDEWIRE_JWT_JWKS", &set.setting())]).await;
    let http = server.http();
    let remembered = first.token(&reader());
    assert_eq!(read(http, &remembered).await.status, 200, "the first key");

    let next = [Issuer::rs256("next"), Issuer::eddsa("next too")];
    refused(http, &next[0].token(&reader()), "token_key_unknown").await;
    set.becomes(&key_set(next.iter().chain([&first])));
    for issuer in &next {
        eventually("the new key is taken", async || {
            (read(http, &issuer.token(&reader())).await.status == 200).then_some(())
        })
        .await;
    }
    assert_eq!(read(http, &first.token(&reader())).await.status, 200, "still in the set");

    set.becomes("{\"keys\": [");
    let last = Issuer::es256("last");
    refused(http, &last.token(&reader()), "token_key_unknown").await;
    assert_eq!(read(http, &next[0].token(&reader())).await.status, 200, "as it was");

    set.becomes(&key_set([&last]));
    eventually("the last key is taken", async || {
        (read(http, &last.token(&reader())).await.status == 200).then_some(())
    })
    .await;
    for issuer in next.iter().chain([&first]) {
        refused(http, &issuer.token(&reader()), "token_key_unknown").await;
    }
    // What was found good is believed for a while, unless the operator says not to.
    let order = json!({ "act": "empty_caches" });
    assert_eq!(http.json(Method::POST, "/v1/control", &order).await.status, 202);
    eventually("the token of a key that is gone is refused", async || {
        let answer = read(http, &remembered).await;
        let refused = (answer.status == 401).then(|| answer.problem(401, "unauthorized"))?;
        assert_eq!(refused["reason"], "token_key_unknown", "{refused}");
        Some(())
    })
    .await;
}

/// A token's end is the end of all that is connected with it, also where the same token was
/// verified again in the meantime.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_expires_ends_what_is_connected_with_it() {
    for remembered_ms in ["300000", "0"] {
        let store = Store::sqlite();
        let settings = [
            ("TIDEWIRE_JWT_SECRET", SECRET),
            ("TIDEWIRE_JWT_SKEW_MS", "0"),
            ("TIDEWIRE_AUTH_KEY_CACHE_MS", remembered_ms),
            ("TIDEWIRE_STREAMS_LONG_POLL_MS", "40000"),
        ];
        let server = start(&store, &settings).await;
        let http = server.http();
        for stream in QUIET {
            http.create(stream).await;
        }
        let issuer = Issuer::hs256(SECRET);
        let claims = |seconds| {
            let scopes = json!({ "streams": ["**"] });
            json!({ "sub": "ada", "exp": in_seconds(seconds), "tidewire": scopes })
        };
        let (short, long) = (issuer.token(&claims(10)), issuer.token(&claims(3_600)));
        let presence = Presence::open(http, &http.as_someone(Some(&short))).await;
        // Of the same user, with another token.
        let other = Presence::open(http, &http.as_someone(Some(&long))).await;
        assert_eq!(read(http, &short).await.status, 200, "it is good still");
        presence.ends("credential_expired").await;
        read(http, &short).await.problem(401, "credential_expired");
        assert_eq!(read(http, &long).await.status, 200, "the other token");
        let order = json!({ "act": "end_user", "user": "ada" });
        assert_eq!(http.json(Method::POST, "/v1/control", &order).await.status, 202);
        other.ends("ended_by_operator").await;
    }
}
