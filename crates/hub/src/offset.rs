//! Offsets as clients send them.

use axum::http::StatusCode;

use tidewire_store::offset::ForeignEpoch;
use tidewire_store::{Epoch, Offset, Position};

use tidewire_access::problem::Problem;

/// An offset of this log. One of another epoch is gone, not malformed.
pub fn parse_offset(text: &str, epoch: Epoch) -> Result<Position, Problem> {
    let offset: Offset = text.parse().map_err(|_| malformed_offset())?;
    offset.position_in(epoch).map_err(|ForeignEpoch| {
        Problem::new(
            StatusCode::GONE,
            "offset_of_another_epoch",
            "the offset belongs to another history of the log, which was replaced",
            "read from the start (offset=-1), or from the tail (offset=now)",
        )
    })
}

pub fn malformed_offset() -> Problem {
    Problem::bad_request(
        "malformed_offset",
        "the offset is not one that this server gave",
        "use -1 for the start, now for the tail, or a Stream-Next-Offset as it was given",
    )
}
