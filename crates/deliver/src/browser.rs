//! What concerns browsers: where a request says it comes from, whether that may be, and what every
//! answer carries for them.
//!
//! In `dev` the door is open to this machine alone: a page elsewhere that makes a browser call
//! `localhost` is stopped by its `Origin`, and one that points its own name at 127.0.0.1 by its
//! `Host`.

use std::net::IpAddr;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};
use axum::response::IntoResponse;

use crate::node::Node;
use crate::options::Access;
use crate::problem::Problem;
use crate::streams::{EXPOSED_HEADERS, REQUEST_HEADERS};

/// Where a request says it comes from.
#[derive(Debug)]
pub(crate) struct Visit {
    origin: Option<HeaderValue>,
    pub(crate) origin_allowed: bool,
}

const CORP: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

impl Visit {
    pub(crate) fn of(node: &Node, request: &Request) -> Visit {
        let origin = request.headers().get(header::ORIGIN).cloned();
        let origin_allowed = match &origin {
            Some(origin) => node.allows_origin(origin, named_host(request).as_deref()),
            None => !embedded_elsewhere(request.headers()),
        };
        Visit { origin, origin_allowed }
    }

    /// Dresses the answer for browsers: what every answer carries.
    pub(crate) fn dress(self, headers: &mut HeaderMap) {
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(CORP, HeaderValue::from_static("cross-origin"));
        headers.append(header::VARY, HeaderValue::from_static("origin"));
        if let Some(origin) = self.origin.filter(|_| self.origin_allowed) {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            // The origin is one of a list, never a star, so a cookie may come with it.
            headers
                .insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
            headers.insert(
                header::ACCESS_CONTROL_EXPOSE_HEADERS,
                HeaderValue::from_static(EXPOSED_HEADERS),
            );
        }
    }

    /// Whether a cookie that came along can be believed to be sent on purpose. Browsers say where a
    /// request that changes something comes from; one that does not say is none of theirs, or old.
    pub(crate) fn meant_its_cookie(&self, request: &Request) -> bool {
        let same_site = |value: &HeaderValue| {
            matches!(value.as_bytes(), b"same-origin" | b"same-site" | b"none")
        };
        match &self.origin {
            Some(_) => self.origin_allowed,
            None if is_safe(request.method()) => self.origin_allowed,
            None => request.headers().get("sec-fetch-site").is_some_and(same_site),
        }
    }
}

/// Whether a method changes nothing.
fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// The host that the client believes it talks to.
fn named_host(request: &Request) -> Option<String> {
    let authority = request.uri().authority().map(|authority| authority.as_str().to_owned());
    authority.or_else(|| {
        request.headers().get(header::HOST).map(|v| String::from_utf8_lossy(v.as_bytes()).into())
    })
}

/// Refuses a request to an open server under a name that is not this machine's.
pub(crate) fn check_host(request: &Request) -> Result<(), Problem> {
    if named_host(request).is_some_and(|host| !is_loopback(&host)) {
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            "host_not_allowed",
            "this server answers under loopback names only",
            "use http://localhost or http://127.0.0.1; tidewire serve is for other hosts",
        ));
    }
    Ok(())
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
    /// Whether pages of this origin may use the server: its own, those in the configuration and, in
    /// `dev`, those of this machine.
    fn allows_origin(&self, origin: &HeaderValue, own_host: Option<&str>) -> bool {
        let Ok(origin) = origin.to_str() else { return false };
        if origin == self.public_url
            || self.tunable().allowed_origins.iter().any(|allowed| allowed == origin)
        {
            return true;
        }
        let host = origin.split_once("://").map(|(_, host)| host);
        match self.options.access {
            Access::OpenOnLoopback => host.is_some_and(is_loopback),
            // A page that this very server sent. Nothing is allowed to it without a credential.
            Access::Guarded { .. } => host.is_some() && host == own_host,
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

    #[test]
    fn a_cookie_is_believed_only_where_a_page_that_may_sends_it() {
        let visit = |origin: Option<&'static str>, allowed| Visit {
            origin: origin.map(HeaderValue::from_static),
            origin_allowed: allowed,
        };
        let request = |method: Method, site: Option<&str>| {
            let mut request = Request::new(Body::empty());
            *request.method_mut() = method;
            if let Some(site) = site {
                let value = HeaderValue::from_str(site).expect("a value");
                request.headers_mut().insert("sec-fetch-site", value);
            }
            request
        };
        let get = request(Method::GET, None);
        assert!(visit(None, true).meant_its_cookie(&get));
        assert!(!visit(None, false).meant_its_cookie(&get), "embedded by another site");
        let bare = request(Method::POST, None);
        assert!(!visit(None, true).meant_its_cookie(&bare), "a form of who knows where");
        assert!(visit(Some("https://a"), true).meant_its_cookie(&bare));
        assert!(!visit(Some("https://evil"), false).meant_its_cookie(&bare));
        let own = request(Method::POST, Some("same-origin"));
        assert!(visit(None, true).meant_its_cookie(&own));
    }
}
