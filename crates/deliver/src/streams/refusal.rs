//! What the protocol's refusals are over HTTP.

use axum::http::StatusCode;

use tidewire_store::Refusal;

use super::headers;
use crate::node::Node;
use tidewire_access::problem::Problem;
use tidewire_hub::refusal::{gone, not_found};

/// The problem document of a refusal.
pub(crate) fn problem(node: &Node, refusal: Refusal) -> Problem {
    let conflict = StatusCode::CONFLICT;
    match refusal {
        Refusal::NotFound => not_found(),
        Refusal::Gone => gone(),
        Refusal::NameHeldByForks => Problem::new(
            conflict,
            "stream_name_held_by_forks",
            "a stream of this name was deleted, but forks of it still need its events",
            "delete the forks first, or use another name",
        ),
        Refusal::NameTaken => Problem::new(
            conflict,
            "stream_name_taken",
            "this name is not free",
            "choose another name",
        ),
        Refusal::ConfigurationDiffers { what } => Problem::new(
            conflict,
            "stream_exists",
            format!("a stream of this name exists with another {what}"),
            "create it with the same configuration, or use another name",
        ),
        Refusal::Closed { tail } => Problem::new(
            conflict,
            "stream_closed",
            "the stream is closed; nothing can be appended to it",
            "append to another stream",
        )
        .with_header(headers::CLOSED, "true")
        .with_header(headers::NEXT_OFFSET, node.hub.offset(tail)),
        Refusal::ContentTypeDiffers { expected } => Problem::new(
            conflict,
            "content_type_differs",
            format!("the stream holds {expected}"),
            "send the stream's own content type",
        ),
        Refusal::SeqNotRising { last } => Problem::new(
            conflict,
            "stream_seq_not_rising",
            format!("Stream-Seq must be greater than {last:?}, compared byte by byte"),
            "another writer is ahead: read what it wrote before writing again",
        ),
        Refusal::StaleEpoch { .. } | Refusal::EpochStartsAtZero | Refusal::SeqGap { .. } => {
            producer(&refusal)
        }
        Refusal::SourceNotFound
        | Refusal::SourceGone
        | Refusal::SourceContentTypeDiffers { .. }
        | Refusal::ForkBeyondTail { .. }
        | Refusal::SubOffsetTooLarge { .. }
        | Refusal::ForkTooDeep { .. } => fork(node, &refusal),
    }
}

fn producer(refusal: &Refusal) -> Problem {
    match refusal {
        Refusal::StaleEpoch { current } => Problem::new(
            StatusCode::FORBIDDEN,
            "stale_producer_epoch",
            format!("a newer incarnation of this producer is at epoch {current}"),
            "stop this producer, or start it with a higher epoch",
        )
        .with_header(headers::PRODUCER_EPOCH, current),
        Refusal::SeqGap { expected, received } => Problem::new(
            StatusCode::CONFLICT,
            "producer_seq_gap",
            format!("sequence number {expected} must come next, not {received}"),
            "send the missing appends first",
        )
        .with_header(headers::PRODUCER_EXPECTED_SEQ, expected)
        .with_header(headers::PRODUCER_RECEIVED_SEQ, received),
        _ => Problem::bad_request(
            "producer_epoch_starts_at_zero",
            "the first append of a new epoch must have sequence number 0",
            "restart the numbering at 0",
        ),
    }
}

fn fork(node: &Node, refusal: &Refusal) -> Problem {
    match refusal {
        Refusal::SourceNotFound => Problem::new(
            StatusCode::NOT_FOUND,
            "fork_source_not_found",
            "there is no stream to fork of that name",
            "Stream-Forked-From takes a stream's path, such as /v1/stream/doc/123",
        ),
        Refusal::SourceGone => Problem::new(
            StatusCode::CONFLICT,
            "fork_source_deleted",
            "the stream to fork was deleted",
            "fork one of its forks",
        ),
        Refusal::SourceContentTypeDiffers { expected } => Problem::new(
            StatusCode::CONFLICT,
            "content_type_differs",
            format!("the stream to fork holds {expected}"),
            "leave Content-Type out to take the source's",
        ),
        Refusal::ForkBeyondTail { tail } => Problem::bad_request(
            "fork_offset_beyond_tail",
            format!("the source ends at {}", node.hub.offset(*tail)),
            "fork at an offset the source has reached",
        ),
        Refusal::SubOffsetTooLarge { max } => Problem::bad_request(
            "fork_sub_offset_too_large",
            format!("the append after the fork's offset allows at most {max}"),
            "count bytes, or JSON messages, within that one append",
        ),
        _ => Problem::bad_request(
            "fork_too_deep",
            "the chain of forks is as long as allowed",
            "fork a stream nearer to the root",
        ),
    }
}
