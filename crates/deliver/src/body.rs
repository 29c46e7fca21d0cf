//! Reading a request's body, within the limits and from the node's budget.
//!
//! The body is read when it is known who sends it, with one exception ([`read_of_stranger`]); and what is
//! held of it counts until the request is answered.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::extract::Request;
use axum::http::{StatusCode, Version};
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, LengthLimitError, Limited};

use tidewire_access::AccessControl;
use tidewire_access::budget::{Account, MemoryLease, Purpose};
use tidewire_access::problem::Problem;

/// How much of a body that is too large, or for which there is no room, is read and thrown away, so that
/// the client gets to see the answer instead of a broken connection.
const DRAIN_FACTOR: usize = 4;

/// Bytes of a body that is read before it is known who sends it, because it says so itself. Browsers send
/// no more from a page that is being left.
pub(crate) const STRANGER_BYTES_MAX: usize = 64 << 10;

/// Bytes of a body that come with the head.
const BODY_IN_PASSING: u64 = 4 << 10;

/// A body, whose bytes count for as long as this is kept.
#[derive(Debug)]
pub(crate) struct Received {
    bytes: Bytes,
    _held: MemoryLease,
}

impl Deref for Received {
    type Target = Bytes;

    fn deref(&self) -> &Bytes {
        &self.bytes
    }
}

/// How a body is read.
struct BodyLimits {
    bytes_max: usize,
    too_large: fn(usize) -> Problem,
    timeout: Duration,
    /// Bytes of the request that are in memory besides its body, for as long as that takes to arrive.
    besides: usize,
    held: MemoryLease,
}

/// Reads a request's body, within the limits.
pub(crate) async fn read(request: Request, access: &AccessControl) -> Result<Received, Problem> {
    let limits = &access.options.limits;
    // The router notes whose it is. What it did not note is nobody's.
    let account = request.extensions().get::<Arc<Account>>().unwrap_or(access.budget.strangers());
    let terms = BodyLimits {
        bytes_max: limits.body_bytes_max,
        too_large: body_too_large,
        timeout: limits.body_timeout,
        besides: 0,
        held: access.budget.open(Purpose::Body, account),
    };
    terms.read(request.into_body(), access).await
}

/// Reads the body of a request of someone who has shown no credential and may do so in the body: less of
/// it, in as little time as headers have, and from the part of the budget that strangers share. Their
/// head counts too: an HTTP/2 connection brings hundreds of them, and no body need ever follow.
pub(crate) async fn read_of_stranger(
    request: Request,
    access: &AccessControl,
) -> Result<Received, Problem> {
    let limits = &access.options.limits;
    let terms = BodyLimits {
        bytes_max: STRANGER_BYTES_MAX.min(limits.body_bytes_max),
        too_large: strangers_body_too_large,
        timeout: limits.header_timeout.min(limits.body_timeout),
        besides: limits.header_bytes_max,
        held: access.budget.open(Purpose::Body, access.budget.strangers()),
    };
    terms.read(request.into_body(), access).await
}

impl BodyLimits {
    async fn read(self, body: Body, access: &AccessControl) -> Result<Received, Problem> {
        let timeout = self.timeout;
        match tokio::time::timeout(timeout, self.read_whole(body, access)).await {
            Ok(result) => result,
            Err(_) => Err(body_timeout(timeout)),
        }
    }

    async fn read_whole(mut self, body: Body, access: &AccessControl) -> Result<Received, Problem> {
        let BodyLimits { bytes_max, too_large, besides, .. } = self;
        access.hold(&mut self.held, besides)?;
        let mut limited = Limited::new(body, bytes_max.saturating_mul(DRAIN_FACTOR));
        let mut whole = BytesMut::new();
        let mut size = 0usize;
        let mut refused = None;
        while let Some(frame) = limited.frame().await {
            let frame = frame.map_err(|error| {
                if error.is::<LengthLimitError>() {
                    // The rest is not read, so nothing can follow on this connection.
                    too_large(bytes_max).with_header("connection", "close")
                } else {
                    broken_body()
                }
            })?;
            let Ok(data) = frame.into_data() else { continue };
            size = size.saturating_add(data.len());
            if refused.is_some() {
                continue;
            }
            if size > bytes_max {
                refused = Some(too_large(bytes_max));
            } else {
                // Copied, because the frame is a part of what was read from the socket: an event that is kept in
                // memory for its hundred bytes would keep all of that, and the next request would need another.
                whole.extend_from_slice(&data);
                refused = access.hold(&mut self.held, besides + whole.capacity()).err();
            }
            if refused.is_some() {
                whole = BytesMut::new();
                self.held.shrink_to(besides);
            }
        }
        match refused {
            Some(problem) => Err(problem),
            None => Ok(Received { bytes: whole.freeze(), _held: self.held }),
        }
    }
}

/// The answer to one who does not come in. What is left of the body is not read, so nothing can follow it
/// on this connection, unless it is so little that it is there already.
pub(crate) fn turned_away(problem: Problem, request: &Request) -> Problem {
    let is_short = request.body().size_hint().upper().is_some_and(|bytes| bytes <= BODY_IN_PASSING);
    match is_short || request.version() == Version::HTTP_2 {
        true => problem,
        false => problem.with_header("connection", "close"),
    }
}

fn broken_body() -> Problem {
    Problem::bad_request("broken_body", "the body did not arrive whole", "send it again")
}

fn body_too_large(bytes_max: usize) -> Problem {
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "body_too_large",
        format!("the body is larger than limits.body_bytes_max, which is {bytes_max} bytes"),
        "send several smaller appends",
    )
}

fn strangers_body_too_large(bytes_max: usize) -> Problem {
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "body_too_large",
        format!("a body that brings its token along has at most {bytes_max} bytes"),
        "send the token as Authorization: Bearer, or several smaller requests",
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
    use crate::testing::Bench;

    fn read(body: Body, bytes_max: usize) -> Result<Bytes, &'static str> {
        let bench = Bench::start();
        let access = &bench.node().access;
        let held = access.budget.open(Purpose::Body, &Arc::default());
        let timeout = Duration::from_secs(60);
        let terms = BodyLimits { bytes_max, too_large: body_too_large, timeout, besides: 0, held };
        let received = bench.wait(terms.read(body, access)).map_err(|problem| problem.code())?;
        Ok(received.bytes.clone())
    }

    /// Whoever keeps a small body does not keep the buffer that it was read into.
    #[test]
    fn a_body_takes_no_more_memory_than_its_size() {
        let mut buffer = BytesMut::with_capacity(64 << 10);
        buffer.extend_from_slice(&[b'x'; 100]);
        let body = read(Body::from(buffer.freeze()), 1_000).expect("a body");
        assert_eq!(*body, [b'x'; 100]);
        assert!(BytesMut::from(body).capacity() <= 1_000, "the whole buffer is held");
    }

    /// Heads of strangers whose bodies never come are bounded like their bodies.
    #[test]
    fn a_strangers_request_counts_before_its_body_comes() {
        let bench = Bench::start();
        let access = &bench.node().access;
        let silent = || {
            let body =
                Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
            read_of_stranger(Request::new(body), access)
        };
        let head = access.options.limits.header_bytes_max;
        let room = access.options.limits.inflight_bytes_max / 8 / head;
        bench.wait(async {
            let mut waiting: Vec<_> = (0..room).map(|_| Box::pin(silent())).collect();
            for one in &mut waiting {
                assert!(futures_util::poll!(one).is_pending(), "there is room for it");
            }
            let refused = silent().await.map(drop).map_err(|problem| problem.code());
            assert_eq!(refused, Err("inflight_bytes_exhausted"));
            drop(waiting.pop());
            assert!(futures_util::poll!(Box::pin(silent())).is_pending(), "one has left");
        });
    }

    #[test]
    fn a_body_that_is_too_large_is_refused_by_name() {
        assert_eq!(read(Body::from(vec![b'x'; 1_001]), 1_000), Err("body_too_large"));
        assert_eq!(read(Body::from(vec![b'x'; 10_000]), 1_000), Err("body_too_large"));
        assert!(read(Body::from(vec![b'x'; 1_000]), 1_000).is_ok());
    }
}
