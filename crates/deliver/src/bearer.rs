//! Tokens as they stand in requests, and in cookies.

use axum::http::{HeaderMap, header};

use crate::access::options::{AuthOptions, SameSite};

/// The bearer token of a request.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The value of a cookie.
pub(crate) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let pairs = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = pairs.flat_map(|value| value.split(';'));
    pairs.find_map(|pair| pair.trim().split_once('=').filter(|(key, _)| *key == name)).map(|p| p.1)
}

/// The cookie that holds a token, for so many seconds; or takes it away.
pub(crate) fn cookie_of(options: &AuthOptions, token: &str, age_s: Option<u64>) -> String {
    let age = age_s.map(|seconds| format!("; Max-Age={seconds}")).unwrap_or_default();
    let same_site = match options.cookie_same_site {
        SameSite::Strict => "Strict",
        SameSite::Lax => "Lax",
        SameSite::None => "None",
    };
    let name = &options.cookie;
    format!("{name}={token}; Path=/v1; HttpOnly; Secure; SameSite={same_site}{age}")
}
