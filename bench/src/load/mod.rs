//! The load generator: raw TCP, keep-alive, requests encoded beforehand.
//!
//! `client` is the blocking client for everything that is not measured closely; `producers`,
//! `fan_out` and `crowd` are single-threaded epoll loops, because every cycle they spend is a cycle
//! the server does not get.
//!
//! - `response`: the least HTTP/1.1 response parsing that measures correctly
//! - `socket`: a non-blocking socket with one request in flight
//! - `websocket`: the least of RFC 6455 that measures correctly

pub(crate) mod client;
pub(crate) mod crowd;
pub(crate) mod fan_out;
pub(crate) mod producers;
pub(crate) mod response;
pub(crate) mod socket;
pub(crate) mod websocket;

use std::time::Duration;

/// How long one measurement warms up and then counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) warm_up: Duration,
    pub(crate) measure: Duration,
}

/// The path of a stream, as every server under test spells it.
pub(crate) fn stream_path(stream: &str) -> String {
    format!("/v1/stream/{stream}")
}

/// One request, ready to be written as it is.
pub(crate) fn encode(method: &str, path: &str, content_type: Option<&str>, body: &[u8]) -> Vec<u8> {
    let mut request = format!("{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n");
    if let Some(content_type) = content_type {
        request.push_str(&format!("content-type: {content_type}\r\n"));
    }
    if method != "GET" {
        request.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    request.push_str("\r\n");
    let mut bytes = request.into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// A JSON object of exactly `bytes` bytes whose text ends in `last`.
pub(crate) fn json_message(bytes: usize, last: char) -> String {
    let frame = r#"{"text":""}"#.len() + 1;
    format!(r#"{{"text":"{}{last}"}}"#, "x".repeat(bytes.saturating_sub(frame)))
}
