//! The door: who may come in, and what every answer carries for browsers.
//!
//! Every route belongs to one of three kinds ([`Entry`]); one that names none does not compile.
//! In `dev` the door is open to this machine alone: a page elsewhere that makes a browser call
//! `localhost` is stopped by its `Origin`, and one that points its own name at 127.0.0.1 by its
//! `Host`.

use std::net::IpAddr;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use subtle::ConstantTimeEq;

use tidewire_store::{Actor, Owner};

use crate::node::Node;
use crate::options::{Access, Limits};
use crate::problem::Problem;
use crate::streams::{EXPOSED_HEADERS, REQUEST_HEADERS};

/// What a route asks of those who use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Nothing: it tells only what anyone may know.
    Public,
    /// The server's own authentication.
    Keyed,
    /// A token that the route checks by itself, such as a webhook's callback token.
    OwnToken,
    /// The server's own authentication, which may come later: in a WebSocket's first message, or in
    /// the body. The route lets nobody in without it.
    Later,
}

/// What the door found out.
#[derive(Debug)]
pub(crate) enum Admission {
    Known(Identity),
    /// Only where it may come later: nobody yet, and what to say if that does not change.
    Stranger(Problem),
}

impl Admission {
    /// Who it is, if that is known.
    pub(crate) fn identity(self) -> Result<Identity, Problem> {
        match self {
            Admission::Known(identity) => Ok(identity),
            Admission::Stranger(problem) => Err(problem),
        }
    }
}

/// Who a request comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Identity {
    /// Someone on this machine, in `dev`.
    #[default]
    Anyone,
    /// The holder of the admin key.
    Admin,
}

impl Identity {
    /// The actor written into the log.
    pub(crate) fn actor(&self) -> Actor {
        Actor::default()
    }

    /// Whose the sessions are that it opens.
    pub(crate) fn owner(&self) -> Owner {
        let user_id = match self {
            Identity::Anyone => "anonymous",
            Identity::Admin => "admin",
        };
        Owner { user_id: user_id.to_owned(), host_id: None }
    }

    /// Distinguishes what one identity may see from what another may, in an ETag.
    pub(crate) fn tag(&self) -> &'static str {
        match self {
            Identity::Anyone => "",
            Identity::Admin => "-a",
        }
    }

    /// Sets how an answer may be cached: by anyone, or by the asker alone.
    pub(crate) fn cache(&self, headers: &mut HeaderMap, freshness: &str) {
        let audience = match self {
            Identity::Anyone => "public",
            Identity::Admin => "private",
        };
        if let Ok(value) = HeaderValue::from_str(&format!("{audience}, {freshness}")) {
            headers.insert(header::CACHE_CONTROL, value);
        }
        self.vary(headers);
    }

    /// Says that the answer depends on who asks.
    pub(crate) fn vary(&self, headers: &mut HeaderMap) {
        let varies = headers.get_all(header::VARY).iter().any(|value| value == "authorization");
        if *self == Identity::Admin && !varies {
            headers.append(header::VARY, HeaderValue::from_static("authorization"));
        }
    }
}

/// A request at the door: where it says it comes from, and whether that may be.
#[derive(Debug)]
pub(crate) struct Visit {
    origin: Option<HeaderValue>,
    origin_allowed: bool,
}

impl Visit {
    pub(crate) fn of(node: &Node, request: &Request) -> Visit {
        let origin = request.headers().get(header::ORIGIN).cloned();
        let origin_allowed = match &origin {
            Some(origin) => node.allows_origin(origin, named_host(request).as_deref()),
            None => !embedded_elsewhere(request.headers()),
        };
        Visit { origin, origin_allowed }
    }

    /// Decides who comes in.
    pub(crate) fn admit(
        &self,
        node: &Node,
        entry: Entry,
        request: &Request,
    ) -> Result<Admission, Problem> {
        admit(node, entry, request, self.origin_allowed)
    }

    /// Dresses the answer for browsers: what every answer carries.
    pub(crate) fn dress(self, headers: &mut HeaderMap) {
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(CORP, HeaderValue::from_static("cross-origin"));
        headers.append(header::VARY, HeaderValue::from_static("origin"));
        if let Some(origin) = self.origin.filter(|_| self.origin_allowed) {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(
                header::ACCESS_CONTROL_EXPOSE_HEADERS,
                HeaderValue::from_static(EXPOSED_HEADERS),
            );
        }
    }
}

const CORP: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

fn admit(
    node: &Node,
    entry: Entry,
    request: &Request,
    origin_allowed: bool,
) -> Result<Admission, Problem> {
    let query_bytes = request.uri().query().map_or(0, str::len);
    if query_bytes > node.options.limits.query_bytes_max {
        return Err(Problem::new(
            StatusCode::URI_TOO_LONG,
            "query_too_long",
            format!(
                "the query string has {query_bytes} bytes; limits.query_bytes_max is {}",
                node.options.limits.query_bytes_max
            ),
            "send a shorter one",
        ));
    }
    if !origin_allowed {
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            "origin_not_allowed",
            "pages of this origin may not use the server",
            "add the origin to allowed_origins in the server's configuration",
        ));
    }
    match &node.options.access {
        Access::OpenOnLoopback => {
            if named_host(request).is_some_and(|host| !is_loopback(&host)) {
                return Err(Problem::new(
                    StatusCode::FORBIDDEN,
                    "host_not_allowed",
                    "this server answers under loopback names only",
                    "use http://localhost or http://127.0.0.1; tidewire serve is for other hosts",
                ));
            }
            Ok(Admission::Known(Identity::Anyone))
        }
        Access::AdminKey(_) => match (entry, bearer(request.headers())) {
            (Entry::Public | Entry::OwnToken, _) => Ok(Admission::Known(Identity::Anyone)),
            (Entry::Keyed | Entry::Later, Some(token)) => {
                node.authenticate(token).map(Admission::Known)
            }
            (Entry::Keyed, None) => Err(unauthorized("the request has no bearer token")),
            (Entry::Later, None) => Ok(Admission::Stranger(unauthorized("there is no token"))),
        },
    }
}

pub(crate) fn unauthorized(detail: &str) -> Problem {
    Problem::new(
        StatusCode::UNAUTHORIZED,
        "unauthorized",
        detail,
        "send Authorization: Bearer with the key in TIDEWIRE_ADMIN_KEY",
    )
    .with_header("www-authenticate", "Bearer")
}

/// The bearer token of a request.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The host that the client believes it talks to.
fn named_host(request: &Request) -> Option<String> {
    let authority = request.uri().authority().map(|authority| authority.as_str().to_owned());
    authority.or_else(|| {
        request.headers().get(header::HOST).map(|v| String::from_utf8_lossy(v.as_bytes()).into())
    })
}

/// This server's address as the client knows it: the configured one, or the one it asked.
pub(crate) fn own_url(node: &Node, request: &Request) -> String {
    match (&node.options.public_url, named_host(request)) {
        (None, Some(host)) => format!("{}://{host}", node.options.scheme()),
        _ => node.public_url.clone(),
    }
}

/// Whether `host` or `host:port` is a name of this machine's loopback interface.
fn is_loopback(host: &str) -> bool {
    let bare = match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    bare.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

impl Node {
    /// Who presents this token.
    pub(crate) fn authenticate(&self, token: &str) -> Result<Identity, Problem> {
        match &self.options.access {
            Access::OpenOnLoopback => Ok(Identity::Anyone),
            Access::AdminKey(key) if bool::from(token.as_bytes().ct_eq(key.as_bytes())) => {
                Ok(Identity::Admin)
            }
            Access::AdminKey(_) => Err(unauthorized("the token is not valid")),
        }
    }

    /// Whether pages of this origin may use the server: its own, those in the configuration and, in
    /// `dev`, those of this machine.
    fn allows_origin(&self, origin: &HeaderValue, own_host: Option<&str>) -> bool {
        let Ok(origin) = origin.to_str() else { return false };
        if origin == self.public_url || self.options.allowed_origins.iter().any(|o| o == origin) {
            return true;
        }
        let host = origin.split_once("://").map(|(_, host)| host);
        match self.options.access {
            Access::OpenOnLoopback => host.is_some_and(is_loopback),
            // A page that this very server sent. Nothing is allowed to it without the key.
            Access::AdminKey(_) => host.is_some() && host == own_host,
        }
    }
}

/// Whether a page of another site embeds the request's URL, as an image or a script. Browsers send
/// no `Origin` then, but they do say this. Following a link is fine: that page sees nothing of it.
fn embedded_elsewhere(headers: &HeaderMap) -> bool {
    let is = |name: &str, value: &[u8]| headers.get(name).is_some_and(|v| v.as_bytes() == value);
    is("sec-fetch-site", b"cross-site") && !is("sec-fetch-mode", b"navigate")
}

/// The answer to a browser's question whether it may ask. Whether the asking page is one that may
/// is said by the presence of `Access-Control-Allow-Origin`.
pub(crate) fn preflight() -> Response<Body> {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    headers.insert(
        header::ACCESS_CONTROL_ALLOW_METHODS,
        HeaderValue::from_static("GET, POST, PUT, DELETE, HEAD, OPTIONS"),
    );
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(REQUEST_HEADERS));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

/// How much of a body that is too large is read and thrown away, so that the client gets to see
/// the answer instead of a broken connection.
const DRAIN_FACTOR: usize = 4;

/// Reads a request's body, within the limits.
pub(crate) async fn body(request: Request, limits: &Limits) -> Result<Bytes, Problem> {
    let read = read_body(request.into_body(), limits.body_bytes_max);
    match tokio::time::timeout(limits.body_timeout, read).await {
        Ok(result) => result,
        Err(_) => Err(body_timeout(limits.body_timeout)),
    }
}

async fn read_body(body: Body, bytes_max: usize) -> Result<Bytes, Problem> {
    let mut limited = Limited::new(body, bytes_max.saturating_mul(DRAIN_FACTOR));
    let mut whole = bytes::BytesMut::new();
    let mut size = 0usize;
    while let Some(frame) = limited.frame().await {
        let frame = frame.map_err(|error| {
            if error.is::<LengthLimitError>() {
                // The rest is not read, so nothing can follow on this connection.
                body_too_large(bytes_max).with_header("connection", "close")
            } else {
                Problem::bad_request(
                    "broken_body",
                    "the body did not arrive whole",
                    "send it again",
                )
            }
        })?;
        if let Ok(data) = frame.into_data() {
            size = size.saturating_add(data.len());
            if size > bytes_max {
                whole = bytes::BytesMut::new();
            } else if whole.is_empty() {
                // The usual body is one frame, which is kept without copying.
                whole = bytes::BytesMut::from(data);
            } else {
                whole.extend_from_slice(&data);
            }
        }
    }
    if size > bytes_max { Err(body_too_large(bytes_max)) } else { Ok(whole.freeze()) }
}

fn body_too_large(bytes_max: usize) -> Problem {
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "body_too_large",
        format!("the body is larger than limits.body_bytes_max, which is {bytes_max} bytes"),
        "send several smaller appends",
    )
}

fn body_timeout(after: Duration) -> Problem {
    Problem::new(
        StatusCode::REQUEST_TIMEOUT,
        "body_timeout",
        format!("the body did not arrive within {} s (limits.body_timeout_ms)", after.as_secs()),
        "send it faster, or in smaller pieces",
    )
    .with_header("connection", "close")
    .retry_after_s(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_loopback() {
        for host in
            ["localhost", "localhost:4437", "127.0.0.1:80", "127.9.9.9", "[::1]:4437", "[::1]"]
        {
            assert!(is_loopback(host), "{host}");
        }
        for host in
            ["example.com", "localhost.example.com:80", "10.0.0.1", "0.0.0.0:4437", "", "[::2]:1"]
        {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
