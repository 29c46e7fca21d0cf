//! The WebSocket handshake: from a request to `101 Switching Protocols`.

use aws_lc_rs::digest;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use base64::Engine as _;

/// Appended to a client's key before it is hashed (RFC 6455, section 1.3).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const EXTENSION: &str = "permessage-deflate";
const AGREED: &str = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";

/// What was agreed on.
#[derive(Debug)]
pub struct Agreement {
    accept: String,
    /// Messages may be compressed, in both directions.
    pub deflate: bool,
}

/// Why there is no WebSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoHandshake {
    /// The request does not ask for one.
    NotAsked,
    /// It asks for one of another version.
    Version,
    /// Its key is none.
    Key,
}

/// The version that there is (RFC 6455).
pub const VERSION: &str = "13";

/// Whether a request asks for a WebSocket.
pub fn wanted(headers: &HeaderMap) -> bool {
    has_token(headers, header::UPGRADE, "websocket")
}

/// Checks a request for a WebSocket.
pub fn agree(headers: &HeaderMap) -> Result<Agreement, NoHandshake> {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    if !wanted(headers) || !has_token(headers, header::CONNECTION, "upgrade") {
        return Err(NoHandshake::NotAsked);
    }
    if text(header::SEC_WEBSOCKET_VERSION) != Some(VERSION) {
        return Err(NoHandshake::Version);
    }
    let key = text(header::SEC_WEBSOCKET_KEY).unwrap_or_default();
    let decoded = base64::engine::general_purpose::STANDARD.decode(key);
    if decoded.is_ok_and(|nonce| nonce.len() == 16) {
        Ok(Agreement { accept: accept_of(key), deflate: offers_deflate(headers) })
    } else {
        Err(NoHandshake::Key)
    }
}

impl Agreement {
    /// The answer that ends HTTP on this connection.
    pub fn response(&self) -> Response<Body> {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        if let Ok(accept) = HeaderValue::from_str(&self.accept) {
            headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
        }
        if self.deflate {
            let agreed = HeaderValue::from_static(AGREED);
            headers.insert(header::SEC_WEBSOCKET_EXTENSIONS, agreed);
        }
        response
    }
}

fn accept_of(key: &str) -> String {
    let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{GUID}").as_bytes());
    base64::engine::general_purpose::STANDARD.encode(hash)
}

fn has_token(headers: &HeaderMap, name: header::HeaderName, token: &str) -> bool {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case(token))
}

/// Whether one of the client's offers can be taken. Without context takeover a window of any size
/// that the *client* uses is fine; a smaller one for the server would need frames of its own.
fn offers_deflate(headers: &HeaderMap) -> bool {
    let offers = headers.get_all(header::SEC_WEBSOCKET_EXTENSIONS);
    let offers = offers.into_iter().filter_map(|value| value.to_str().ok());
    offers.flat_map(|value| value.split(',')).any(|offer| {
        let mut parts = offer.split(';').map(str::trim);
        parts.next() == Some(EXTENSION)
            && parts.all(|parameter| {
                let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
                match name.trim() {
                    "server_no_context_takeover" | "client_no_context_takeover" => true,
                    "client_max_window_bits" => true,
                    "server_max_window_bits" => value.trim().trim_matches('"') == "15",
                    _ => false,
                }
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(extensions: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("upgrade", "WebSocket"),
            ("connection", "keep-alive, Upgrade"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("sec-websocket-extensions", extensions),
        ] {
            headers.insert(name, HeaderValue::from_str(value).expect("plain"));
        }
        headers
    }

    #[test]
    fn the_key_of_the_rfc_is_answered_as_there() {
        let agreement = agree(&headers("")).expect("agreed");
        assert_eq!(agreement.accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert!(!agreement.deflate);
    }

    #[test]
    fn compression_is_agreed_when_an_offer_can_be_kept() {
        for (offer, deflate) in [
            ("permessage-deflate; client_max_window_bits", true),
            ("permessage-deflate", true),
            ("permessage-deflate; server_max_window_bits=10", false),
            ("permessage-deflate; server_max_window_bits=10, permessage-deflate", true),
            ("x-webkit-deflate-frame", false),
            ("permessage-deflate; something_else", false),
        ] {
            assert_eq!(agree(&headers(offer)).expect("agreed").deflate, deflate, "{offer}");
        }
    }

    #[test]
    fn what_is_no_handshake_is_refused() {
        for (name, value, why) in [
            ("upgrade", "h2c", NoHandshake::NotAsked),
            ("connection", "keep-alive", NoHandshake::NotAsked),
            ("sec-websocket-version", "8", NoHandshake::Version),
            ("sec-websocket-key", "short", NoHandshake::Key),
        ] {
            let mut headers = headers("");
            headers.insert(name, HeaderValue::from_static(value));
            assert_eq!(agree(&headers).expect_err("refused"), why);
        }
    }
}
