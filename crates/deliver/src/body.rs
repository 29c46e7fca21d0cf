//! Reading a request's body, within the limits.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::options::Limits;
use crate::problem::Problem;

/// How much of a body that is too large is read and thrown away, so that the client gets to see
/// the answer instead of a broken connection.
const DRAIN_FACTOR: usize = 4;

/// Reads a request's body, within the limits.
pub(crate) async fn read(request: Request, limits: &Limits) -> Result<Bytes, Problem> {
    let whole = read_body(request.into_body(), limits.body_bytes_max);
    match tokio::time::timeout(limits.body_timeout, whole).await {
        Ok(result) => result,
        Err(_) => Err(body_timeout(limits.body_timeout)),
    }
}

async fn read_body(body: Body, bytes_max: usize) -> Result<Bytes, Problem> {
    let mut limited = Limited::new(body, bytes_max.saturating_mul(DRAIN_FACTOR));
    let mut whole = BytesMut::new();
    let mut size = 0usize;
    while let Some(frame) = limited.frame().await {
        let frame = frame.map_err(|error| {
            if error.is::<LengthLimitError>() {
                // The rest is not read, so nothing can follow on this connection.
                body_too_large(bytes_max).with_header("connection", "close")
            } else {
                Problem::bad_request(
                    "broken_body",
                    "the body did not arrive whole",
                    "send it again",
                )
            }
        })?;
        if let Ok(data) = frame.into_data() {
            size = size.saturating_add(data.len());
            if size > bytes_max {
                whole = BytesMut::new();
            } else {
                // Copied, because the frame is a part of what was read from the socket: an event that is kept in
                // memory for its hundred bytes would keep all of that, and the next request would need another.
                whole.extend_from_slice(&data);
            }
        }
    }
    if size > bytes_max { Err(body_too_large(bytes_max)) } else { Ok(whole.freeze()) }
}

fn body_too_large(bytes_max: usize) -> Problem {
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "body_too_large",
        format!("the body is larger than limits.body_bytes_max, which is {bytes_max} bytes"),
        "send several smaller appends",
    )
}

fn body_timeout(after: Duration) -> Problem {
    Problem::new(
        StatusCode::REQUEST_TIMEOUT,
        "body_timeout",
        format!("the body did not arrive within {} s (limits.body_timeout_ms)", after.as_secs()),
        "send it faster, or in smaller pieces",
    )
    .with_header("connection", "close")
    .retry_after_s(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever keeps a small body does not keep the buffer that it was read into.
    #[tokio::test]
    async fn a_body_takes_no_more_memory_than_its_size() {
        let mut buffer = BytesMut::with_capacity(64 << 10);
        buffer.extend_from_slice(&[b'x'; 100]);
        let body = read_body(Body::from(buffer.freeze()), 1_000).await;
        let body = body.unwrap_or_else(|problem| panic!("{problem:?}"));
        assert_eq!(*body, [b'x'; 100]);
        assert!(BytesMut::from(body).capacity() <= 1_000, "the whole buffer is held");
    }
}
