//! Those who try: every kind of credential, by the columns of the matrix.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::Method;
use serde_json::{Value, json};
use tidewire_stories::{Http, Issuer, Launch, Server, Store, eventually, issuer, worker};

const ADMIN_KEY: &str = "story-0b7e92c5d83f41a6";
const JWT_SECRET: &str = "story-6d1f0c8be2a97365-0b7e92c5d83f41a6";

/// A server, and everyone who tries to get at it.
pub(crate) struct Callers {
    server: Server,
    all: Vec<Caller>,
    secrets: Vec<String>,
}

/// Someone with one credential.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// The column of the matrix.
    pub(crate) column: &'static str,
    /// Which of the column's credentials it is.
    pub(crate) name: String,
    pub(crate) token: Option<String>,
    /// Whether it is let in at all.
    pub(crate) known: bool,
}

impl Callers {
    pub(crate) async fn start(store: &Store) -> Callers {
        let server = Launch::serve(store, ADMIN_KEY)
            .set("TIDEWIRE_JWT_SECRET", JWT_SECRET)
            // Hundreds of wrong credentials come from one address here.
            .set("TIDEWIRE_RATES_FAILURES_PER_SECOND", "0")
            .start()
            .await;
        let all = [bad(server.http()).await, good(server.http()).await].concat();
        let tokens = all.iter().filter_map(|caller: &Caller| caller.token.clone());
        // What is as short as a word may well be in a text.
        let tokens = tokens.filter(|token| token.len() > 10);
        let secrets = tokens.chain([JWT_SECRET.to_owned()]).collect();
        Callers { server, all, secrets }
    }

    /// Those of a column.
    pub(crate) fn of<'a>(&'a self, column: &'a str) -> impl Iterator<Item = &'a Caller> {
        self.all.iter().filter(move |caller| caller.column == column)
    }

    pub(crate) fn admin(&self) -> &Http {
        self.server.http()
    }

    /// The one who owns what is tried.
    pub(crate) fn owner(&self) -> Http {
        let writer = self.of("writer").next().expect("a writer");
        self.http(writer)
    }

    pub(crate) fn http(&self, caller: &Caller) -> Http {
        self.server.http().as_someone(caller.token.as_deref())
    }

    /// What must never be told to anyone.
    pub(crate) fn secrets(&self) -> &[String] {
        &self.secrets
    }
}

/// What the owner may do. Those whose credential is over could do it once.
fn owners_scopes() -> Value {
    json!({ "tables": [], "streams": ["doc/**"], "can": ["read", "append", "delete"], "host": "acme" })
}

async fn good(http: &Http) -> Vec<Caller> {
    let all = ["read", "append", "delete"];
    let columns = [
        ("foreign", json!({ "tables": ["*"], "streams": ["**"], "can": all, "host": "globex" })),
        ("elsewhere", json!({ "tables": [], "streams": ["other/**"], "can": all, "host": "acme" })),
        ("reader", json!({ "tables": [], "streams": ["doc/**"], "can": ["read"], "host": "acme" })),
        ("writer", owners_scopes()),
        (
            "service",
            json!({ "tables": ["*"], "streams": ["doc/**"], "can": ["read", "append", "delete", "sql"] }),
        ),
        ("observer", json!({ "tables": [], "can": ["observe"] })),
        ("worker", json!({ "tables": [], "groups": ["jobs-*"], "can": ["consume"] })),
    ];
    let mut callers = Vec::new();
    for (column, scopes) in columns {
        let (_, key) = key(http, &scopes, None).await;
        callers.push(Caller::new(column, "a key", &key).known());
        let of_user = match column {
            "foreign" => Some("user"),
            "elsewhere" | "reader" => Some(column),
            _ => None,
        };
        if let Some(of_user) = of_user {
            let token = Issuer::hs256(JWT_SECRET).token(&claims(column, &scopes, 3_600));
            callers.push(Caller::new(of_user, "a user's token", &token).known());
        }
    }
    callers.push(Caller::new("admin", "the admin key", ADMIN_KEY).known());
    let (_, key) = key(http, &json!({ "tables": [], "can": ["admin"] }), None).await;
    callers.push(Caller::new("admin", "an administrator's key", &key).known());
    callers
}

async fn bad(http: &Http) -> Vec<Caller> {
    let nobodys = URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>());
    let right = claims("mallory", &json!({ "tables": [], "can": ["admin"] }), 3_600);
    let (_, cut) = key(http, &owners_scopes(), None).await;
    let (id, revoked) = key(http, &owners_scopes(), None).await;
    let answer = http.json(Method::DELETE, &format!("/v1/keys/{id}"), &Value::Null).await;
    assert_eq!(answer.status, 204, "revoke a key: {}", answer.text());
    let (_, expired) = key(http, &owners_scopes(), Some(1)).await;
    for (key, code) in [(&revoked, "key_revoked"), (&expired, "credential_expired")] {
        let holder = http.as_someone(Some(key));
        eventually(&format!("a key is answered {code}"), async || {
            let answer = holder.get("/v1/stream/doc/any").await;
            (answer.json()["code"] == code).then_some(())
        })
        .await;
    }
    let past = Issuer::hs256(JWT_SECRET).token(&claims("paul", &owners_scopes(), -3_600));
    let mut callers = vec![
        Caller { token: None, ..Caller::new("none", "nothing", "") },
        // It has the token of whatever wake there is to be reported on.
        Caller { token: None, ..Caller::new("wake", "its worker", "") },
        Caller::new("none", "the word Bearer", ""),
        Caller::new("revoked", "a key", &revoked),
        Caller::new("expired", "a key", &expired),
        Caller::new("expired", "a user's token", &past),
    ];
    let other_secret = JWT_SECRET.replace('0', "1");
    callers.extend(
        [
            ("a word", "wrong".to_owned()),
            ("a key that nobody made", format!("tw_{nobodys}")),
            ("a ticket that nobody made", format!("twt_{nobodys}")),
            ("the admin key, cut", ADMIN_KEY[..ADMIN_KEY.len() - 1].to_owned()),
            ("the admin key, and more", format!("{ADMIN_KEY}0")),
            ("a good key, cut", cut[..cut.len() - 1].to_owned()),
            ("a token signed by someone else", Issuer::hs256(&other_secret).token(&right)),
            ("a token that nobody signed", issuer::unsigned(&right)),
            ("the token of another subscription's wake", worker::wake_token(http).await),
        ]
        .map(|(name, token)| Caller::new("wrong", name, &token)),
    );
    callers
}

/// What a user's token says.
fn claims(user: &str, scopes: &Value, seconds: i64) -> Value {
    let mut scopes = scopes.clone();
    let host = scopes.as_object_mut().expect("an object").remove("host");
    let mut claims = json!({
        "sub": user, "exp": issuer::in_seconds(seconds), "tidewire": scopes,
    });
    if let Some(host) = host {
        claims["host_id"] = host;
    }
    claims
}

/// Makes a key, and returns its number too.
async fn key(http: &Http, scopes: &Value, expires_in_ms: Option<u64>) -> (u64, String) {
    let body = json!({ "name": "a caller", "scopes": scopes, "expires_in_ms": expires_in_ms });
    let made = http.json(Method::POST, "/v1/keys", &body).await;
    assert_eq!(made.status, 201, "{body}: {}", made.text());
    let made = made.json();
    let key = made["key"].as_str().expect("a key").to_owned();
    (made["id"].as_u64().expect("a number"), key)
}

impl Caller {
    fn new(column: &'static str, name: &str, token: &str) -> Caller {
        Caller { column, name: name.to_owned(), token: Some(token.to_owned()), known: false }
    }

    fn known(self) -> Caller {
        Caller { known: true, ..self }
    }
}
