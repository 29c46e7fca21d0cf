//! The answer to what hyper could not read as a request: an address with a `>` in it, as someone types
//! it who looks for `total>100`. Hyper answers that by itself, and says nothing of what is wrong.

use std::io::IoSlice;
use std::sync::LazyLock;

/// What hyper's own answer begins with. Ours of that status always have a body.
const OF_HYPER: &[u8] = b"HTTP/1.1 400 Bad Request\r\n";
const WITHOUT_BODY: &[u8] = b"content-length: 0\r\n";

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

/// What to write in the place of something that hyper writes, if that is its answer to what it could not read.
pub(super) fn instead_of(bytes: &[u8]) -> Option<&'static [u8]> {
    let is_bare = || bytes.windows(WITHOUT_BODY.len()).any(|part| part == WITHOUT_BODY);
    (bytes.starts_with(OF_HYPER) && is_bare()).then(|| ANSWER.as_slice())
}

/// The same of pieces. Hyper writes a head in one.
pub(super) fn instead_of_all(pieces: &[IoSlice<'_>]) -> Option<&'static [u8]> {
    match pieces {
        [head] => instead_of(head),
        _ => None,
    }
}
