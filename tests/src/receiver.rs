//! The far end of a webhook: takes wakes, checks their signatures, and says that it is done.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::http::Http;

/// A wake as it arrived.
#[derive(Debug, Clone)]
pub struct Wake {
    signature: String,
    body: String,
}

/// A receiver at work. Unreachable when dropped.
#[derive(Debug)]
pub struct Receiver {
    wakes: Wakes,
    _server: JoinSet<()>,
}

type Wakes = Arc<Mutex<Vec<Wake>>>;

impl Receiver {
    /// Listens at this port, for `POST /hook`.
    pub async fn start(port: u16) -> Receiver {
        let wakes = Wakes::default();
        let router = Router::new().route("/hook", post(take)).with_state(Arc::clone(&wakes));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
        let listener = listener.unwrap_or_else(|error| panic!("cannot listen at {port}: {error}"));
        let mut server = JoinSet::new();
        server.spawn(async move {
            axum::serve(listener, router).await.expect("a listener that works");
        });
        Receiver { wakes, _server: server }
    }

    /// The wakes that have arrived.
    pub fn wakes(&self) -> Vec<Wake> {
        self.wakes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn take(State(wakes): State<Wakes>, headers: HeaderMap, body: String) -> &'static str {
    let signature = headers.get("webhook-signature").and_then(|value| value.to_str().ok());
    let signature = signature.unwrap_or_default().to_owned();
    let mut wakes = wakes.lock().unwrap_or_else(PoisonError::into_inner);
    wakes.push(Wake { signature, body });
    r#"{"done": true}"#
}

impl Wake {
    /// What it says.
    pub fn document(&self) -> Value {
        serde_json::from_str(&self.body).expect("a wake is JSON")
    }

    /// Checks the signature `t=…,kid=…,ed25519=…` over `t.body` against the server's published keys.
    pub async fn is_signed_by(&self, http: &Http) {
        let part = |name: &str| {
            let mut parts = self.signature.split(',').filter_map(|part| part.split_once('='));
            let found = parts.find(|(key, _)| *key == name).map(|(_, value)| value);
            found.unwrap_or_else(|| panic!("no {name} in Webhook-Signature: {}", self.signature))
        };
        let bytes = |text: &str| URL_SAFE_NO_PAD.decode(text).expect("unpadded base64url");
        let jwks = http.get("/v1/stream/__ds/jwks.json").await.json();
        let keys = jwks["keys"].as_array().expect("a key set").iter();
        let key = keys.clone().find(|key| key["kid"] == part("kid"));
        let key = key.unwrap_or_else(|| panic!("the signing key is not published: {jwks}"));
        let key = UnparsedPublicKey::new(&ED25519, bytes(key["x"].as_str().expect("a key")));
        let signed = format!("{}.{}", part("t"), self.body);
        let verified = key.verify(signed.as_bytes(), &bytes(part("ed25519")));
        assert!(verified.is_ok(), "the signature does not fit: {self:?}");
    }
}
