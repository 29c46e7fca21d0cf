//! Tokens of end users, as an application makes them that shares a secret with the server.

use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// A token signed by HS256.
pub fn hs256(secret: &str, claims: &Value) -> String {
    let message = message("HS256", claims);
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let signature = hmac::sign(&key, message.as_bytes());
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
}

/// A token that nobody signed.
pub fn unsigned(claims: &Value) -> String {
    format!("{}.", message("none", claims))
}

fn message(algorithm: &str, claims: &Value) -> String {
    let header = json!({ "alg": algorithm, "typ": "JWT" });
    let [header, claims] = [&header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
    format!("{header}.{claims}")
}

/// A time so many seconds from now, as `exp` has it.
pub fn seconds_from_now(seconds: i64) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    i64::try_from(now.as_secs()).expect("a clock before the end of time") + seconds
}
