//! Idle timeouts: how long a connection may do nothing, or next to nothing.
//!
//! HTTP/1.1: hyper has one timer for the wait for a request's head, and it begins when the last response
//! ends. A connection that rests may do so for long (`limits.idle_timeout_ms`); a head that has begun
//! is to be finished soon (`limits.header_timeout_ms`). [`HeadTimer`] makes two of the one: the sleeps
//! it gives to hyper are cut short when the first byte arrives.
//!
//! HTTP/2: hyper keeps a connection for as long as its pings are answered. [`Requests`] counts what is
//! under way, and since when nothing is.
//!
//! Either: one who asks for much and then takes nothing of it keeps it in memory. The line knows for how
//! long.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::Body;
use hyper::rt::{Sleep, Timer};

use crate::clock::clock_ms;
use crate::kept_body::keep_with;
use crate::line::Line;

/// Times the heads of HTTP/1.1 requests.
#[derive(Debug)]
pub struct HeadTimer {
    pub line: Arc<Line>,
    pub header_timeout: Duration,
}

impl Timer for HeadTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(Instant::now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        self.line.rest();
        Box::pin(HeadSleep {
            line: Arc::clone(&self.line),
            header_timeout: self.header_timeout,
            deadline,
            begun: false,
            sleep: None,
        })
    }
}

/// From the end of a response to the end of the next head.
#[derive(Debug)]
struct HeadSleep {
    line: Arc<Line>,
    header_timeout: Duration,
    deadline: Instant,
    /// The head has begun to arrive, and `deadline` is its own.
    begun: bool,
    /// Made when it is needed: most heads arrive before hyper waits for them.
    sleep: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl Future for HeadSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if !self.begun && self.line.has_stirred() {
            self.begun = true;
            self.deadline = self.deadline.min(Instant::now() + self.header_timeout);
            self.sleep = None;
        }
        let deadline = self.deadline.into();
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        sleep.as_mut().poll(cx)
    }
}

impl Sleep for HeadSleep {}

/// How long a connection may take.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// For the head of a request.
    pub header: Duration,
    /// Without a request, or without taking anything of an answer.
    pub idle: Duration,
}

/// The requests of one connection.
#[derive(Debug, Default)]
pub struct Requests {
    /// There has been one.
    any: AtomicBool,
    /// HTTP/2: answers that have not ended.
    open: AtomicUsize,
    /// HTTP/2: when the last of them ended, by the hub's clock.
    quiet_since_ms: AtomicU64,
    /// HTTP/1.1 needs no watching after the first head: hyper has its timer.
    is_http2: AtomicBool,
}

/// Why a connection is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overdue {
    /// A request's head was not finished in time.
    Header,
    /// There was no request for too long.
    Idle,
    /// Nothing of an answer was taken for too long.
    Stalled,
}

impl Overdue {
    /// By which it is counted.
    pub fn label(self) -> &'static str {
        match self {
            Overdue::Header => "header_timeout",
            Overdue::Idle => "idle_timeout",
            Overdue::Stalled => "stalled",
        }
    }
}

impl Requests {
    /// Notes an HTTP/1.1 request.
    pub fn note(&self) {
        self.any.store(true, Ordering::Relaxed);
    }

    /// Notes an HTTP/2 request, which is under way until what this returns is dropped.
    pub fn begin(requests: &Arc<Requests>) -> OpenRequest {
        requests.open.fetch_add(1, Ordering::AcqRel);
        requests.is_http2.store(true, Ordering::Relaxed);
        requests.note();
        OpenRequest(Arc::clone(requests))
    }

    /// Ends when the connection has done nothing for too long. The builder's own timeout begins only
    /// when it knows which version of HTTP the client speaks, and one that says nothing never tells.
    pub async fn overdue(&self, line: &Line, timeouts: Timeouts) -> Overdue {
        tokio::time::sleep(timeouts.header).await;
        if !self.any.load(Ordering::Relaxed) {
            return Overdue::Header;
        }
        loop {
            let (quiet, stalled) = (self.quiet(), line.stalled());
            if quiet >= timeouts.idle {
                return Overdue::Idle;
            }
            if stalled >= timeouts.idle {
                return Overdue::Stalled;
            }
            tokio::time::sleep(timeouts.idle - quiet.max(stalled)).await;
        }
    }

    /// Whether they come over HTTP/2.
    pub fn is_http2(&self) -> bool {
        self.is_http2.load(Ordering::Relaxed)
    }

    /// For how long there was no HTTP/2 request.
    fn quiet(&self) -> Duration {
        let watched = self.is_http2.load(Ordering::Relaxed);
        if !watched || self.open.load(Ordering::Acquire) > 0 {
            return Duration::ZERO;
        }
        let since_ms = self.quiet_since_ms.load(Ordering::Relaxed);
        Duration::from_millis(clock_ms().saturating_sub(since_ms))
    }
}

/// A request whose answer has not ended.
#[derive(Debug)]
pub struct OpenRequest(Arc<Requests>);

impl OpenRequest {
    /// Stays with the answer's body to its end.
    pub fn attend(self, body: Body) -> Body {
        keep_with(body, self)
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.quiet_since_ms.store(clock_ms(), Ordering::Relaxed);
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}
