//! The answer to what cannot be read as an HTTP request: an address with a `>` in it, as someone types it who looks
//! for `total>100`.

use std::sync::LazyLock;

const DOCUMENT: &str = r#"{"type": "urn:tidewire:problem:malformed_request", "title": "Malformed request", "status": 400, "code": "malformed_request", "detail": "this cannot be read as an HTTP request", "hint": "write what is no letter or digit in an address as its code: %3C for <, %3E for >, %20 for a space; curl does so with -G --data-urlencode 'where=total > 100'", "temporary": false}"#;

static ANSWER: LazyLock<Vec<u8>> = LazyLock::new(|| {
    format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/problem+json; charset=utf-8\r\ncache-control: \
         no-store\r\ncontent-security-policy: sandbox\r\nx-content-type-options: nosniff\r\nconnection: \
         close\r\ncontent-length: {}\r\n\r\n{DOCUMENT}",
        DOCUMENT.len()
    )
    .into_bytes()
});

/// All of it, as it goes to the socket.
pub(crate) fn answer() -> &'static [u8] {
    &ANSWER
}
