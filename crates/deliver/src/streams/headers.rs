//! The protocol's headers: their names, and reading them strictly.

use axum::http::HeaderMap;

use tidewire_store::{Lifetime, ProducerStamp};

use crate::access::problem::Problem;

pub(crate) const NEXT_OFFSET: &str = "stream-next-offset";
pub(crate) const UP_TO_DATE: &str = "stream-up-to-date";
pub(crate) const CLOSED: &str = "stream-closed";
pub(crate) const CURSOR: &str = "stream-cursor";
pub(crate) const TTL: &str = "stream-ttl";
pub(crate) const EXPIRES_AT: &str = "stream-expires-at";
pub(crate) const SEQ: &str = "stream-seq";
pub(crate) const FORKED_FROM: &str = "stream-forked-from";
pub(crate) const FORK_OFFSET: &str = "stream-fork-offset";
pub(crate) const FORK_SUB_OFFSET: &str = "stream-fork-sub-offset";
pub(crate) const SSE_DATA_ENCODING: &str = "stream-sse-data-encoding";
pub(crate) const PRODUCER_ID: &str = "producer-id";
pub(crate) const PRODUCER_EPOCH: &str = "producer-epoch";
pub(crate) const PRODUCER_SEQ: &str = "producer-seq";
pub(crate) const PRODUCER_EXPECTED_SEQ: &str = "producer-expected-seq";
pub(crate) const PRODUCER_RECEIVED_SEQ: &str = "producer-received-seq";

/// The largest integer that JavaScript keeps exactly, which bounds producers' numbers.
const SAFE_INTEGER_MAX: u64 = (1 << 53) - 1;

/// Bytes of a producer's id or of `Stream-Seq`.
const TOKEN_BYTES_MAX: usize = 256;

/// A header's text, if it is there.
pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Problem> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    value.to_str().map(Some).map_err(|_| {
        Problem::bad_request(
            "invalid_header",
            format!("the header {name} is not plain text"),
            "use printable ASCII characters",
        )
    })
}

/// Whether a request closes the stream. Anything but `true` does not.
pub(crate) fn closes(headers: &HeaderMap) -> bool {
    headers.get(CLOSED).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"true"))
}

/// A strict non-negative decimal: no sign, no leading zeros, no fraction.
pub(crate) fn integer(name: &'static str, text: &str) -> Result<u64, Problem> {
    let strict = text.bytes().all(|byte| byte.is_ascii_digit())
        && !text.is_empty()
        && (text == "0" || !text.starts_with('0'));
    text.parse::<u64>().ok().filter(|number| strict && *number <= SAFE_INTEGER_MAX).ok_or_else(
        || {
            Problem::bad_request(
                "invalid_header",
                format!("{name} is not a whole number from 0 to 2^53-1"),
                "write it in decimal digits, without a sign or leading zeros",
            )
        },
    )
}

/// How long a stream is to live, if the request says so.
pub(crate) fn lifetime(headers: &HeaderMap) -> Result<Option<Lifetime>, Problem> {
    match (text(headers, TTL)?, text(headers, EXPIRES_AT)?) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(Problem::bad_request(
            "two_lifetimes",
            "the request has both Stream-TTL and Stream-Expires-At",
            "send one of them",
        )),
        (Some(ttl), None) => {
            integer("Stream-TTL", ttl).map(|ttl_s| Some(Lifetime::Sliding { ttl_s }))
        }
        (None, Some(at)) => at
            .parse::<jiff::Timestamp>()
            .map(|at| Some(Lifetime::Until { at_ms: at.as_millisecond() }))
            .map_err(|_| {
                Problem::bad_request(
                    "invalid_expires_at",
                    "Stream-Expires-At is not an RFC 3339 time",
                    "write it like 2030-01-31T12:00:00Z",
                )
            }),
    }
}

/// The idempotent producer's stamp: all three headers or none.
pub(crate) fn producer(headers: &HeaderMap) -> Result<Option<ProducerStamp>, Problem> {
    let id = text(headers, PRODUCER_ID)?;
    let epoch = text(headers, PRODUCER_EPOCH)?;
    let seq = text(headers, PRODUCER_SEQ)?;
    match (id, epoch, seq) {
        (None, None, None) => Ok(None),
        (Some(id), Some(epoch), Some(seq)) => {
            if id.is_empty() || id.len() > TOKEN_BYTES_MAX {
                return Err(Problem::bad_request(
                    "invalid_producer_id",
                    format!("Producer-Id must have 1 to {TOKEN_BYTES_MAX} bytes"),
                    "give each producer a short name of its own",
                ));
            }
            Ok(Some(ProducerStamp {
                id: id.to_owned(),
                epoch: digits("Producer-Epoch", epoch)?,
                seq: digits("Producer-Seq", seq)?,
            }))
        }
        _ => Err(Problem::bad_request(
            "incomplete_producer",
            "Producer-Id, Producer-Epoch and Producer-Seq go together",
            "send all three, or none",
        )),
    }
}

/// Producers' numbers may have leading zeros.
fn digits(name: &'static str, text: &str) -> Result<u64, Problem> {
    let trimmed = text.trim_start_matches('0');
    integer(name, if trimmed.is_empty() && !text.is_empty() { "0" } else { trimmed })
}

/// `Stream-Seq`, compared bytewise by the store.
pub(crate) fn seq(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    match text(headers, SEQ)? {
        Some(seq) if seq.len() > TOKEN_BYTES_MAX => Err(Problem::bad_request(
            "invalid_header",
            format!("Stream-Seq has more than {TOKEN_BYTES_MAX} bytes"),
            "use a shorter, rising text",
        )),
        seq => Ok(seq.map(ToOwned::to_owned)),
    }
}
