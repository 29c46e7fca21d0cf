//! Errors of reading a stream, as clients see them.

use axum::http::StatusCode;

use tidewire_store::Position;

use crate::Hub;
use tidewire_access::problem::Problem;

/// The header that says after which offset a stream has all of its events.
const EARLIEST_OFFSET: &str = "stream-earliest-offset";

pub fn not_found() -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "stream_not_found",
        "there is no stream of this name",
        "create it with PUT",
    )
}

pub fn gone() -> Problem {
    Problem::new(
        StatusCode::GONE,
        "stream_deleted",
        "the stream was deleted; its events are kept for its forks only",
        "read a fork of it, or use another stream",
    )
}

/// Events after a cursor are gone; those after `earliest` are there.
pub fn trimmed(hub: &Hub, earliest: Position) -> Problem {
    let earliest = hub.offset(earliest).to_string();
    Problem::new(
        StatusCode::GONE,
        "offset_trimmed",
        format!("events after this offset were removed; what is there comes after {earliest}"),
        "read the present state anew, then go on from the earliest offset, or from the tail \
         (offset=now)",
    )
    .with_header(EARLIEST_OFFSET, &earliest)
    .with_member("earliest_offset", earliest)
}
