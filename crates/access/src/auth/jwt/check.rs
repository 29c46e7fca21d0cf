//! Verifies one token, without clock or I/O.
//!
//! The order matters: nothing of the claims is read before the signature holds, and no signature is
//! computed before the key has agreed to the algorithm.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::Algorithm;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use super::claims::{self, Claims};
use super::keys::{Key, KeySet};
use super::refusal::Refusal;
use crate::options::JwtOptions;

/// Bytes of a token: as much as usual servers accept in one header.
pub(super) const TOKEN_BYTES_MAX: usize = 8 << 10;

/// What tokens are verified with.
#[derive(Debug)]
pub(super) struct Keys<'a> {
    pub(super) secret: Option<&'a Key>,
    pub(super) published: Published<'a>,
}

/// The issuer's key set.
#[derive(Debug, Clone, Copy)]
pub(super) enum Published<'a> {
    /// None is configured.
    Nowhere,
    /// One is, but it could not be loaded yet.
    Awaited,
    Known(&'a KeySet),
}

impl<'a> Published<'a> {
    /// A configured key set, as far as it is known.
    pub(super) fn of(known: Option<&'a KeySet>) -> Published<'a> {
        known.map_or(Published::Awaited, Published::Known)
    }
}

/// The parts of a token's header that are looked at.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    /// Whether there is a `crit`, whatever it says: it names extensions that must be understood,
    /// and none is.
    #[serde(default, deserialize_with = "present")]
    crit: bool,
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(deserializer).map(|_| true)
}

/// Decides about a token at a time, in seconds since the Unix epoch.
pub(super) fn check(
    token: &str,
    keys: &Keys<'_>,
    options: &JwtOptions,
    now_s: i64,
) -> Result<Claims, Refusal> {
    if token.len() > TOKEN_BYTES_MAX {
        return Err(Refusal::TooLong);
    }
    let (message, signature) = token.rsplit_once('.').ok_or(Refusal::Malformed)?;
    let (header, payload) = message.split_once('.').ok_or(Refusal::Malformed)?;
    let header: Header =
        serde_json::from_slice(&decode(header)?).map_err(|_| Refusal::Malformed)?;
    if header.crit {
        return Err(Refusal::Malformed);
    }
    // A third dot, which can be in the payload's part alone, is no character of base64.
    let (payload, signature) = (decode(payload)?, decode(signature)?);
    choose(&header, keys)?.verify(message.as_bytes(), signature)?;
    let claims = serde_json::from_slice(&payload).map_err(|_| Refusal::Malformed)?;
    claims::check(claims, options, now_s)
}

/// Base64 without padding and without stray bits in the last character, so that every part has one
/// spelling.
fn decode(part: &str) -> Result<Vec<u8>, Refusal> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| Refusal::Malformed)
}

/// The key that a token asks for, if that key is for the token's algorithm.
fn choose<'a>(header: &Header, keys: &Keys<'a>) -> Result<&'a Key, Refusal> {
    let algorithm = match header.alg.as_str() {
        "HS256" => return keys.secret.ok_or(Refusal::AlgorithmRefused),
        "RS256" => Algorithm::RS256,
        "ES256" => Algorithm::ES256,
        "EdDSA" => Algorithm::EdDSA,
        _ => return Err(Refusal::AlgorithmRefused),
    };
    match keys.published {
        Published::Nowhere => Err(Refusal::AlgorithmRefused),
        Published::Awaited => Err(Refusal::KeysUnavailable),
        Published::Known(set) => set.choose(header.kid.as_deref(), algorithm),
    }
}
