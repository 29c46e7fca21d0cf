//! JSON documents of requests and answers.

use axum::Json;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{Method, Response, StatusCode, header};
use axum::response::IntoResponse;
use serde::Deserialize;
use serde_json::Value;

use crate::problem::Problem;
use crate::router::method_not_allowed;

/// An answer that is true now and for its asker only.
pub(crate) fn uncached(status: StatusCode, document: Value) -> Response<Body> {
    (status, [(header::CACHE_CONTROL, "no-store")], Json(document)).into_response()
}

/// Refuses methods that a route does not know.
pub(crate) fn only(request: &Request, methods: &[Method]) -> Result<(), Problem> {
    if methods.contains(request.method()) {
        return Ok(());
    }
    Err(method_not_allowed(match methods {
        [Method::GET] => "GET",
        [Method::POST] => "POST",
        [Method::DELETE] => "DELETE",
        [Method::GET, Method::POST] => "GET, POST",
        _ => "POST, DELETE",
    }))
}

/// Reads a body. Nothing is an object without members.
pub(crate) fn parse<'a, T: Deserialize<'a>>(
    body: &'a [u8],
    invalid: impl Fn(String) -> Problem,
) -> Result<T, Problem> {
    let body: &[u8] = if body.is_empty() { b"{}" } else { body };
    serde_json::from_slice(body).map_err(|error| invalid(format!("the body is not right: {error}")))
}
