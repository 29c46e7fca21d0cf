//! What concerns browsers: where a request says it comes from, whether that may be, and what every
//! answer carries for them.
//!
//! In `dev` the door is open to this machine alone: a page elsewhere that makes a browser call
//! `localhost` is stopped by its `Origin`, and one that points its own name at 127.0.0.1 by its
//! `Host`.

use std::net::{IpAddr, Ipv6Addr};

use axum::body::Body;
use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{
    HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Version, header,
};
use axum::response::IntoResponse;

use crate::node::Node;
use tidewire_access::options::Access;
use tidewire_access::problem::Problem;
use tidewire_wire::peer::Peer;

/// What a page's script may read from an answer.
const EXPOSED_HEADERS: &str = "stream-next-offset, stream-earliest-offset, stream-cursor, \
    stream-up-to-date, stream-closed, stream-ttl, stream-expires-at, stream-sse-data-encoding, producer-epoch, \
    producer-seq, producer-expected-seq, producer-received-seq, etag, content-type, location, \
    retry-after, vary";

/// What a page's script may send.
const REQUEST_HEADERS: &str = "content-type, authorization, if-none-match, \
    last-event-id, stream-seq, stream-ttl, stream-expires-at, stream-closed, producer-id, \
    producer-epoch, producer-seq, stream-forked-from, stream-fork-offset, stream-fork-sub-offset, \
    traceparent";

/// Where a request says it comes from.
#[derive(Debug)]
pub(crate) struct RequestOrigin {
    origin: Option<HeaderValue>,
    pub(crate) origin_allowed: bool,
}

/// Characters of an origin in the log, at most: longer than a host's name can be.
const ORIGIN_SHOWN_MAX: usize = 300;

const CORP: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

impl RequestOrigin {
    pub(crate) fn of(node: &Node, request: &Request) -> RequestOrigin {
        let origin = request.headers().get(header::ORIGIN).cloned();
        let origin_allowed = match &origin {
            Some(origin) => node.allows_origin(origin, own_origin(node, request).as_deref()),
            None => !embedded_elsewhere(request.headers()),
        };
        RequestOrigin { origin, origin_allowed }
    }

    /// Where the page is that was turned away, for the log. What a client writes there is cut off and escaped.
    pub(crate) fn whence(&self) -> String {
        let Some(origin) = &self.origin else {
            return "a page of another site, which embeds this address".to_owned();
        };
        let origin = String::from_utf8_lossy(origin.as_bytes());
        let shown: String = origin.chars().take(ORIGIN_SHOWN_MAX).collect();
        format!("the origin {shown} is not among allowed_origins")
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

/// The origin of pages that this server sends, as the client that asks knows it.
fn own_origin(node: &Node, request: &Request) -> Option<String> {
    let host = named_host(request)?;
    // Whoever reaches the server under its public name does so by the scheme of that, though a proxy that
    // nobody named may have taken the TLS off.
    let public = node.options.public_url.as_ref().and_then(|_| normal(origin_of(&node.public_url)));
    if let Some((scheme, public_host)) = public.as_deref().and_then(|url| url.split_once("://"))
        && same_host(scheme, public_host, &host)
    {
        return public;
    }
    let is_secure = request.extensions().get::<Peer>().map(|peer| peer.is_secure);
    let scheme = match is_secure.unwrap_or(node.tls.is_some()) {
        true => "https",
        false => "http",
    };
    normal(&format!("{scheme}://{host}"))
}

/// A URL without its path.
fn origin_of(url: &str) -> &str {
    let host_at = url.find("://").map_or(0, |at| at + 3);
    url[host_at..].find('/').map_or(url, |path_at| &url[..host_at + path_at])
}

fn same_host(scheme: &str, one: &str, other: &str) -> bool {
    let with_scheme = |host: &str| normal(&format!("{scheme}://{host}"));
    with_scheme(one).is_some_and(|one| with_scheme(other) == Some(one))
}

/// An origin of the web as browsers write it: in small letters, and without the port that its scheme has
/// anyway. None if it is none.
fn normal(origin: &str) -> Option<String> {
    let (scheme, host) = origin.split_once("://")?;
    let (scheme, host) = (scheme.to_ascii_lowercase(), host.to_ascii_lowercase());
    let port = match scheme.as_str() {
        "http" => ":80",
        "https" => ":443",
        _ => return None,
    };
    let host = host.strip_suffix(port).unwrap_or(&host);
    is_authority(host).then(|| format!("{scheme}://{host}"))
}

/// Whether a text is a host, and perhaps a port, and nothing else.
fn is_authority(text: &str) -> bool {
    let Ok(parsed) = text.parse::<Authority>() else { return false };
    let host = parsed.host();
    let is_host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').is_some_and(|v6| v6.parse::<Ipv6Addr>().is_ok()),
        None => !host.is_empty(),
    };
    // What the parser leaves out of the host: nothing, or a port. It takes any digits for one.
    is_host && text.strip_prefix(host).is_some_and(|rest| rest.is_empty() || is_port(rest))
}

/// Whether a text is a colon and the number of a port.
fn is_port(text: &str) -> bool {
    let Some(digits) = text.strip_prefix(':') else { return false };
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    is_plain && digits.parse::<u16>().is_ok()
}

/// Refuses a request that does not name one host, exactly: two who read it differently, a proxy and the
/// server say, could be made to disagree about whom it is for.
pub(crate) fn check_one_host(request: &Request) -> Result<(), Problem> {
    let mut named = request.headers().get_all(header::HOST).iter();
    let (first, second) = (named.next(), named.next());
    let in_target = request.uri().authority();
    let why = match (first, second, in_target) {
        (_, _, Some(target)) if !is_authority(target.as_str()) => {
            "the request's target names no host"
        }
        (_, Some(_), _) => "the request has more than one Host header",
        (None, None, _) if request.version() == Version::HTTP_11 => {
            "the request has no Host header"
        }
        (None, None, _) => return Ok(()),
        (Some(host), None, in_target) => match (host.to_str(), in_target) {
            (Ok(host), _) if !is_authority(host) => "the Host header names no host",
            (Err(_), _) => "the Host header names no host",
            (Ok(host), Some(target)) if !same_host("http", target.as_str(), host) => {
                "the Host header names another host than the request's target"
            }
            (Ok(_), _) => return Ok(()),
        },
    };
    let problem = Problem::bad_request(
        "bad_host",
        why,
        "send one Host header, with the host that the request is for",
    );
    // What else is in the connection may be meant for someone else.
    Err(problem.with_header("connection", "close"))
}

/// Takes from an answer what a browser could do with it as a page of this server: whatever someone has put
/// into a stream, as whatever it calls itself, is no page that runs, asks or stores anything here.
pub(crate) fn make_inert(headers: &mut HeaderMap) {
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
}

/// Refuses a request to an open server under a name that is not this machine's.
pub(crate) fn check_host(request: &Request) -> Result<(), Problem> {
    let Some(host) = named_host(request).filter(|host| !is_loopback(host)) else { return Ok(()) };
    let problem = Problem::new(
        StatusCode::FORBIDDEN,
        "host_not_allowed",
        "this server answers under loopback names only",
        "use http://localhost or http://127.0.0.1; tidewire serve is for other hosts",
    );
    let shown: String = host.chars().take(ORIGIN_SHOWN_MAX).collect();
    Err(problem.with_note(format!("the host was {shown:?}")))
}

/// This server's address as the client knows it: the configured one, or the one it asked.
pub(crate) fn own_url(node: &Node, request: &Request) -> String {
    match &node.options.public_url {
        None => own_origin(node, request).unwrap_or_else(|| node.public_url.clone()),
        Some(_) => node.public_url.clone(),
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
    fn allows_origin(&self, origin: &HeaderValue, own: Option<&str>) -> bool {
        let Ok(origin) = origin.to_str() else { return false };
        // Those of programs that are no browsers (tauri://localhost) are compared as they are.
        if self.access.tunable().allowed_origins.iter().any(|allowed| allowed == origin) {
            return true;
        }
        let Some(origin) = normal(origin) else { return false };
        let is = |other: &str| normal(other).is_some_and(|other| other == origin);
        if is(origin_of(&self.public_url))
            || self.access.tunable().allowed_origins.iter().any(|other| is(other))
        {
            return true;
        }
        match self.options.access {
            Access::OpenOnLoopback => {
                origin.split_once("://").is_some_and(|(_, host)| is_loopback(host))
            }
            // A page that this very server sent. Nothing is allowed to it without a credential.
            Access::Guarded { .. } => own == Some(origin.as_str()),
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
    fn an_origin_is_its_scheme_host_and_port() {
        for (origin, same) in [
            ("https://a.example", "https://a.example:443"),
            ("http://a.example:80", "HTTP://A.example"),
            ("http://[::1]:4437", "http://[::1]:4437"),
        ] {
            assert_eq!(normal(origin).expect(origin), normal(same).expect(same));
        }
        for (origin, other) in [
            ("https://a.example", "http://a.example"),
            ("https://a.example", "https://a.example:80"),
            ("http://a.example", "http://a.example:443"),
            ("https://a.example", "https://b.example"),
        ] {
            assert_ne!(normal(origin).expect(origin), normal(other).expect(other));
        }
        for text in ["null", "", "a.example", "ftp://a", "http://", "https://a/b", "https://u@a"] {
            assert_eq!(normal(text), None, "{text}");
        }
    }

    #[test]
    fn a_request_names_one_host() {
        let check = |version: Version, target: &str, hosts: &[&[u8]]| {
            let mut request = Request::new(Body::empty());
            *request.version_mut() = version;
            *request.uri_mut() = target.parse().expect("a target");
            for host in hosts {
                let host = HeaderValue::from_bytes(host).expect("a value");
                request.headers_mut().append(header::HOST, host);
            }
            check_one_host(&request).map_err(|problem| problem.code())
        };
        let (old, usual, two) = (Version::HTTP_10, Version::HTTP_11, Version::HTTP_2);
        for (version, target, hosts) in [
            (usual, "/", &[b"a.example".as_slice()] as &[&[u8]]),
            (usual, "/", &[b"A.example:4437"]),
            (usual, "/", &[b"[::1]:4437"]),
            (usual, "/", &[b"a.example:65535"]),
            (usual, "http://a.example/", &[b"A.example"]),
            (usual, "http://a.example:80/", &[b"a.example"]),
            (old, "/", &[]),
            (two, "http://a.example/", &[]),
            (two, "http://a.example/", &[b"a.example"]),
        ] {
            assert_eq!(check(version, target, hosts), Ok(()), "{version:?} {target} {hosts:?}");
        }
        for (version, target, hosts) in [
            (usual, "/", &[] as &[&[u8]]),
            (usual, "http://a.example/", &[]),
            (usual, "/", &[b"a.example", b"a.example"]),
            (usual, "/", &[b"a.example", b"b.example"]),
            (usual, "/", &[b""]),
            (usual, "/", &[b"a b"]),
            (usual, "/", &[b"a.example/x"]),
            (usual, "/", &[b"u@a.example"]),
            (usual, "/", &[b"a.example:99999999"]),
            (usual, "/", &[b"a.example:65536"]),
            (usual, "/", &[b"a.example:0"]),
            (usual, "/", &[b"a.example:080"]),
            (usual, "/", &[b"a.example:"]),
            (usual, "/", &[b"a.example:80:80"]),
            (usual, "/", &[b"a.example:8x"]),
            (usual, "/", &[b"[::1]:99999999"]),
            (usual, "/", &[b"[::1]x"]),
            (usual, "/", &[b"[zz]"]),
            (usual, "/", &[b"::1"]),
            (usual, "/", &[b":80"]),
            (two, "http://a.example:99999999/", &[]),
            (usual, "http://a.example:99999999/", &[b"a.example:99999999"]),
            (usual, "/", &[b"a.example, b.example"]),
            (usual, "/", &[b"\xff"]),
            (usual, "http://a.example/", &[b"b.example"]),
            (usual, "http://a.example:81/", &[b"a.example"]),
            (old, "/", &[b"a.example", b"b.example"]),
            (two, "http://a.example/", &[b"b.example"]),
        ] {
            let refused = check(version, target, hosts);
            assert_eq!(refused, Err("bad_host"), "{version:?} {target} {hosts:?}");
        }
    }

    #[test]
    fn a_cookie_is_believed_only_where_a_page_that_may_sends_it() {
        let origin_of_request = |origin: Option<&'static str>, allowed| RequestOrigin {
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
        assert!(origin_of_request(None, true).meant_its_cookie(&get));
        assert!(!origin_of_request(None, false).meant_its_cookie(&get), "embedded by another site");
        let bare = request(Method::POST, None);
        assert!(
            !origin_of_request(None, true).meant_its_cookie(&bare),
            "a form of who knows where"
        );
        assert!(origin_of_request(Some("https://a"), true).meant_its_cookie(&bare));
        assert!(!origin_of_request(Some("https://evil"), false).meant_its_cookie(&bare));
        let own = request(Method::POST, Some("same-origin"));
        assert!(origin_of_request(None, true).meant_its_cookie(&own));
    }
}
