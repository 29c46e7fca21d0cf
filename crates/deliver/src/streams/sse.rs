//! `live=sse`: a stream as Server-Sent Events.
//!
//! Every `data` event is followed by a `control` event that says where the reader now is. A frame
//! is the two together, so that a reader never holds data without its offset. Readers that are up
//! to date share one frame; the socket's pace is each reader's own, because nothing is produced for
//! a reader before its socket takes it.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Response;
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::stream;
use rand::Rng;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::WaitForCancellationFutureOwned;

use tidewire_store::{Event, Lifetime, Page, Position, StreamState};

use super::live::{Found, Next, first_page, next, seat};
use super::name::StreamName;
use super::read::{From, beyond_tip};
use super::{cursor, encode, headers, lookup};
use crate::auth::Identity;
use crate::node::{Node, now_ms};
use crate::problem::Problem;
use crate::tail::Attendance;

/// A comment sent when nothing else was for so long, so that proxies keep the connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// When the server goes away, readers come back after this plus as much again at random.
const RECONNECT_BASE_MS: u64 = 500;

pub(super) async fn stream(
    node: &Arc<Node>,
    name: &StreamName,
    from: From,
    client_cursor: Option<String>,
    identity: &Identity,
) -> Result<Response<Body>, Problem> {
    let seat = seat(node)?;
    let attendance = node.tail.attend(name.as_str());
    let changes = attendance.changes();
    let (page, after) = first_page(node, name, &identity.reach(), from).await?;
    beyond_tip(node, after, &page)?;
    lookup::renew(node, &page.view.state).await;
    let base64 = !encode::is_text(&page.view.state.content_type);
    let reader = Reader {
        node: Arc::clone(node),
        state: page.view.state.clone(),
        position: after,
        offset: after,
        first: Some(Box::new(page)),
        client_cursor,
        ends_at: Instant::now() + node.options.streams.sse_duration,
        last_frame: Instant::now(),
        timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
        draining: Box::pin(node.draining.clone().cancelled_owned()),
        attendance,
        changes,
        base64,
        done: false,
        identity: identity.clone(),
        _seat: seat,
    };
    let frames = stream::unfold(reader, |mut reader| async move {
        let frame = reader.frame().await?;
        Some((Ok::<Bytes, std::convert::Infallible>(frame), reader))
    });
    let mut response = Response::new(Body::from_stream(frames));
    let headers = response.headers_mut();
    encode::insert(headers, "content-type", "text/event-stream");
    identity.vary(headers);
    encode::insert(headers, "cache-control", "no-cache");
    encode::insert(headers, "x-accel-buffering", "no");
    if base64 {
        encode::insert(headers, headers::SSE_DATA_ENCODING, "base64");
    }
    Ok(response)
}

struct Reader {
    node: Arc<Node>,
    state: StreamState,
    attendance: Attendance,
    changes: watch::Receiver<u64>,
    /// Everything up to here has been sent or is known not to exist. `offset <= position`.
    position: Position,
    /// The last offset told to the client.
    offset: Position,
    first: Option<Box<Page>>,
    client_cursor: Option<String>,
    base64: bool,
    ends_at: Instant,
    last_frame: Instant,
    /// Set for the next thing that time brings, and left alone when a frame comes first: setting a
    /// timer anew for each frame would cost more than the frame.
    timer: Pin<Box<Sleep>>,
    draining: Pin<Box<WaitForCancellationFutureOwned>>,
    done: bool,
    identity: Identity,
    _seat: OwnedSemaphorePermit,
}

impl Reader {
    /// The next frame, when there is one. `None` ends the response.
    async fn frame(&mut self) -> Option<Bytes> {
        let frame = self.next_frame().await;
        self.last_frame = Instant::now();
        frame
    }

    async fn next_frame(&mut self) -> Option<Bytes> {
        if self.done {
            return None;
        }
        if let Some(page) = self.first.take() {
            return Some(self.page_frame(&page));
        }
        loop {
            // One who is behind never waits, so it is asked here as well.
            if self.identity.standing().ended().is_some() {
                return Some(self.turned_out());
            }
            self.changes.borrow_and_update();
            match next(&self.node, &self.attendance, &self.identity.reach(), self.position).await {
                Ok(Next::Page(found, reached)) => {
                    self.position = reached;
                    return Some(self.found_frame(found));
                }
                Ok(Next::Nothing(reached)) => {
                    self.position = reached;
                    if let Some(frame) = self.wait().await {
                        return Some(frame);
                    }
                }
                Ok(Next::Closed) => return Some(self.closing_frame()),
                Ok(Next::Ended) => return None,
                Err(problem) => {
                    // The client comes back with its offset and is told properly.
                    tracing::debug!(code = problem.code(), stream = self.state.name, "sse ended");
                    return None;
                }
            }
        }
    }

    /// Waits for a change. Returns a frame if something else is to be sent first.
    async fn wait(&mut self) -> Option<Bytes> {
        let renewal = match self.state.lifetime {
            // Being connected is reading: a stream with readers does not expire under them.
            Lifetime::Sliding { ttl_s } => Duration::from_secs(ttl_s) / 3,
            _ => Duration::MAX,
        };
        let pause = KEEP_ALIVE.min(renewal.max(Duration::from_millis(100)));
        tokio::select! {
            _ = self.changes.changed() => None,
            _ = self.identity.standing().over() => Some(self.turned_out()),
            () = &mut self.draining => {
                self.done = true;
                let wait_ms = RECONNECT_BASE_MS + rand::rng().random_range(0..=RECONNECT_BASE_MS);
                Some(Bytes::from(format!("retry: {wait_ms}\n: the server is going away\n\n")))
            }
            () = &mut self.timer => {
                let now = Instant::now();
                if now >= self.ends_at {
                    self.done = true;
                    return Some(Bytes::from_static(b": come back with your offset\n\n"));
                }
                let due = self.last_frame + pause;
                self.timer.as_mut().reset(if due > now { due } else { now + pause }.min(self.ends_at));
                if due > now {
                    return None;
                }
                lookup::renew(&self.node, &self.state).await;
                Some(Bytes::from_static(b":\n\n"))
            }
        }
    }

    /// The last to a client whose credential has ended. It comes back and is told properly.
    fn turned_out(&mut self) -> Bytes {
        self.done = true;
        Bytes::from_static(b": the credential holds no longer\n\n")
    }

    fn found_frame(&mut self, found: Found) -> Bytes {
        let (chunk, events) = match found {
            Found::Stored(page) => return self.page_frame(&page),
            Found::Events(events) => (None, events),
            Found::Shared(chunk) => (Some(chunk), Vec::new()),
        };
        let events = chunk.as_ref().map_or(&events, |chunk| &chunk.events);
        let offset = events.last().map_or(self.offset, |event| event.position);
        self.offset = offset;
        if self.attendance.closed() {
            // A close may have come after these events; if no more follow them, this is the end.
            let (rest, _) = self.attendance.look(self.position);
            let closed = matches!(rest, crate::tail::Look::Closed);
            self.done = closed;
            return self.encode(events, offset, true, closed);
        }
        match &chunk {
            // Those whose cursor is ahead of the clock need one of their own.
            Some(chunk) if !self.cursor_is_ahead() => {
                let shared = &chunk.sse;
                shared.get_or_init(|| self.encode(events, offset, true, false)).clone()
            }
            _ => self.encode(events, offset, true, false),
        }
    }

    fn page_frame(&mut self, page: &Page) -> Bytes {
        let offset = page.next(self.offset);
        self.offset = offset;
        self.position = self.position.max(page.scanned_to).max(offset);
        let up_to_date = page.up_to_date();
        let closed = up_to_date && page.view.state.closed.is_some();
        self.done = closed;
        self.encode(&page.events, offset, up_to_date, closed)
    }

    fn closing_frame(&mut self) -> Bytes {
        self.done = true;
        self.encode(&[], self.offset, true, true)
    }

    fn cursor_is_ahead(&self) -> bool {
        let client = self.client_cursor.as_deref().and_then(|text| text.parse::<u64>().ok());
        client.is_some_and(|theirs| theirs >= cursor::interval(now_ms()))
    }

    fn encode(&self, events: &[Event], offset: Position, up_to_date: bool, closed: bool) -> Bytes {
        let size: usize = events.iter().map(|event| event.payload.len() + 8).sum();
        let mut frame = BytesMut::with_capacity(size * if self.base64 { 2 } else { 1 } + 192);
        if !events.is_empty() {
            frame.put_slice(b"event: data\n");
            self.put_data(&mut frame, events);
        }
        frame.put_slice(b"event: control\ndata:{\"streamNextOffset\":\"");
        frame.put_slice(self.node.offset(offset).to_string().as_bytes());
        frame.put_u8(b'"');
        if closed {
            frame.put_slice(b",\"streamClosed\":true");
        } else {
            let cursor = cursor::next(self.client_cursor.as_deref(), now_ms(), &mut rand::rng());
            frame.put_slice(format!(",\"streamCursor\":\"{cursor}\"").as_bytes());
            if up_to_date {
                frame.put_slice(b",\"upToDate\":true");
            }
        }
        frame.put_slice(b"}\n\n");
        frame.freeze()
    }

    /// Writes the `data` lines of one event. Line breaks inside the data must each start a new
    /// `data:` line, or the text after them would be read as fields of the event.
    fn put_data(&self, frame: &mut BytesMut, events: &[Event]) {
        let body = encode::body(self.state.is_json(), events);
        if self.base64 {
            frame.put_slice(b"data:");
            frame.put_slice(encode::base64(&body).as_bytes());
            frame.put_slice(b"\n\n");
            return;
        }
        let mut rest: &[u8] = &body;
        loop {
            frame.put_slice(b"data:");
            if rest.first() == Some(&b' ') {
                // The reader takes one space away.
                frame.put_u8(b' ');
            }
            let Some(at) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                frame.put_slice(rest);
                frame.put_slice(b"\n\n");
                return;
            };
            frame.put_slice(&rest[..at]);
            frame.put_u8(b'\n');
            let crlf = rest[at] == b'\r' && rest.get(at + 1) == Some(&b'\n');
            rest = &rest[at + if crlf { 2 } else { 1 }..];
        }
    }
}
