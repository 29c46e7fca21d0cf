//! `/v1/tickets` and `/v1/cookie`: the caller's own credential, in a form that a browser can use
//! where it can set no header.

use std::time::Instant;

use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::IntoResponse;
use serde_json::json;

use super::Answer;
use crate::bearer::{bearer, cookie_of};
use crate::document::{only, uncached};
use crate::node::Node;
use tidewire_access::auth::{Identity, ticket};
use tidewire_access::problem::Problem;

/// `POST /v1/tickets`.
pub(crate) async fn tickets(node: &Node, request: Request, identity: &Identity) -> Answer {
    only(&request, &[Method::POST])?;
    let (ticket, ttl) = ticket::issue(&node.access, identity).await?;
    let expires_in_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
    let document = json!({ "ticket": ticket, "expiresInMs": expires_in_ms });
    Ok(uncached(StatusCode::CREATED, document))
}

/// `POST /v1/cookie` keeps the bearer token that it comes with in a cookie, which a page cannot read
/// and its browser sends along; `DELETE /v1/cookie` takes it away.
pub(crate) fn cookie(node: &Node, request: &Request, identity: &Identity) -> Answer {
    only(request, &[Method::POST, Method::DELETE])?;
    let (token, age_s) = if *request.method() == Method::DELETE {
        ("", Some(0))
    } else {
        let token = bearer(request.headers()).filter(|token| is_cookie_value(token));
        let left = identity.validity().remaining(Instant::now());
        (token.ok_or_else(no_token)?, left.map(|left| left.as_secs()))
    };
    let cookie = cookie_of(&node.options.auth, token, age_s);
    let mut value = HeaderValue::from_str(&cookie).map_err(|_| no_token())?;
    value.set_sensitive(true);
    let mut response = StatusCode::NO_CONTENT.into_response();
    response.headers_mut().insert(header::SET_COOKIE, value);
    Ok(response)
}

/// Whether a token can stand in a cookie as it is. Keys and JSON Web Tokens can.
fn is_cookie_value(token: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b',' | b';' | b'\\');
    !token.is_empty() && token.bytes().all(plain)
}

fn no_token() -> Problem {
    Problem::bad_request(
        "no_bearer_token",
        "a cookie is made of the bearer token that the request comes with",
        "send Authorization: Bearer with a key or a token",
    )
}
