//! The page at `/`: says that the server is alive, and lets a person create, append to and follow a
//! stream.

use axum::body::Body;
use axum::http::{HeaderValue, Response, header};

const INDEX: &str = include_str!("page.html");

/// Only the page's own script and style run, it talks to this server alone, and nobody frames it.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
    connect-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

pub(crate) fn index() -> Response<Body> {
    let mut response = Response::new(Body::from(INDEX));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response
}
