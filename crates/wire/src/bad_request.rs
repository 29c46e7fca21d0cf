//! Hyper's own answer to what it could not read as a request. It says nothing of what is wrong, so that whoever
//! serves may have something else written in its place.

use std::io::IoSlice;

/// What hyper's own answer begins with. Others of that status always have a body.
const OF_HYPER: &[u8] = b"HTTP/1.1 400 Bad Request\r\n";
const WITHOUT_BODY: &[u8] = b"content-length: 0\r\n";

/// Whether hyper writes that answer.
pub(super) fn is_of_hyper(bytes: &[u8]) -> bool {
    let is_bare = || bytes.windows(WITHOUT_BODY.len()).any(|part| part == WITHOUT_BODY);
    bytes.starts_with(OF_HYPER) && is_bare()
}

/// The same of pieces. Hyper writes a head in one.
pub(super) fn is_all_of_hyper(pieces: &[IoSlice<'_>]) -> bool {
    matches!(pieces, [head] if is_of_hyper(head))
}
