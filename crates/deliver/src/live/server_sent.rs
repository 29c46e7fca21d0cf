//! A session's subscriptions as server-sent events.
//!
//! Over HTTP/1.1 the hub writes the body's chunks straight to the socket (`line`); over HTTP/2, where
//! a response shares its connection, they go through hyper.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, Response, Version, header};
use bytes::Bytes;
use futures_util::{Stream, stream};
use tokio::sync::{mpsc, oneshot};

use tidewire_store::{Position, StoreError};

use super::greeting::{self, Serving};
use crate::auth::places::Place;
use crate::auth::{Ended, Identity};
use crate::connection::Carrier;
use crate::hub::{Command, Handle, Key, Outlet, ServerSent, Socket, clock_ms};
use crate::line::Line;
use crate::node::Node;
use crate::problem::Problem;
use crate::streams::{malformed_offset, parse_offset, within_log};

/// Pieces that wait between the hub and hyper: what waits longer stays in the hub.
const BODY_PIECES: usize = 8;

/// Who follows what, from where.
struct Visit {
    node: Arc<Node>,
    session: Arc<str>,
    identity: Identity,
    place: Option<Place>,
    cursor: Option<Position>,
}

/// The response, which stays open.
pub(super) async fn respond(
    node: &Arc<Node>,
    session: &str,
    mut request: Request,
    identity: &Identity,
) -> Result<Response<Body>, Problem> {
    super::make_room(node)?;
    let place = node.place(identity)?;
    let session = greeting::check(node, session, identity).await?;
    let cursor = match request.headers().get("last-event-id").map(HeaderValue::to_str) {
        None | Some(Ok("")) => None,
        Some(Ok(text)) => {
            let cursor = parse_offset(text, node.store.epoch())?;
            within_log(node, cursor).await?;
            Some(cursor)
        }
        Some(Err(_)) => return Err(malformed_offset()),
    };
    if cursor.is_some() {
        node.metrics.reconnects.inc();
    }
    let visit =
        Visit { node: Arc::clone(node), session, identity: identity.clone(), place, cursor };
    let carrier = request.extensions_mut().remove::<Carrier>();
    let body = match carrier.filter(|_| request.version() == Version::HTTP_11) {
        Some(Carrier { line, .. }) => visit.straight(line),
        None => visit.by_way_of_hyper().await?,
    };
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    identity.vary(headers);
    Ok(response)
}

impl Visit {
    /// Enters the hub and takes up the session.
    async fn enter(&self, outlet: Outlet) -> Result<(Seat, Serving), Problem> {
        let Visit { node, session, identity, cursor, .. } = self;
        let id = super::connection_id();
        let shard = node.hub.shard_of(identity.tenant(), session).clone();
        let (reply, attached) = oneshot::channel();
        shard.ask(Command::Attach { outlet, id: Arc::clone(&id), reply }).await;
        let key = attached.await.map_err(|_| StoreError::Closed)?;
        let seat = Seat { shard: shard.clone(), key, left: AtomicBool::new(false) };
        let hello = super::hello(node, &id, Some(session));
        shard.ask(Command::Say { key, message: hello }).await;
        let serving =
            Serving::begin(node, &shard, key, Arc::clone(session), identity, *cursor).await?;
        Ok((seat, serving))
    }

    async fn by_way_of_hyper(self) -> Result<Body, Problem> {
        let (body, pieces) = mpsc::channel(BODY_PIECES);
        let (seat, serving) = self.enter(Outlet::ServerSent(ServerSent { body })).await?;
        let state = (pieces, seat, (serving, self.place), self.identity);
        let pieces = stream::unfold(state, |(mut pieces, seat, serving, identity)| async {
            let piece = tokio::select! {
                piece = pieces.recv() => piece?,
                ended = identity.standing().over(), if !seat.left.load(Ordering::Acquire) => {
                    seat.leave(ended).await;
                    pieces.recv().await?
                }
            };
            let state = (pieces, seat, serving, identity);
            Some((Ok::<Bytes, std::convert::Infallible>(piece), state))
        });
        Ok(Body::from_stream(pieces))
    }

    /// A body that hyper gets nothing of but its end.
    fn straight(self, line: Arc<Line>) -> Body {
        let (ended, end) = oneshot::channel();
        let tasks = self.node.hub.tasks.clone();
        tasks.spawn(self.write_straight(Arc::clone(&line), ended));
        Body::from_stream(Elsewhere { line, end })
    }

    async fn write_straight(self, line: Arc<Line>, mut ended: oneshot::Sender<()>) {
        tokio::select! {
            () = line.cleared() => {}
            () = ended.closed() => return,
        }
        let socket = Arc::new(Socket::new(line, clock_ms()));
        let entered = tokio::select! {
            entered = self.enter(Outlet::Chunks(Arc::clone(&socket))) => entered,
            () = ended.closed() => return,
        };
        let (seat, _serving) = match entered {
            Ok(present) => present,
            Err(problem) => {
                // The client finds out when it comes back.
                tracing::debug!(code = problem.code(), "a live response ended before it began");
                return;
            }
        };
        tokio::select! {
            () = socket.released.notified() => {}
            () = ended.closed() => {}
            over = self.identity.standing().over() => {
                seat.leave(over).await;
                tokio::select! {
                    () = socket.released.notified() => {}
                    () = ended.closed() => {}
                }
            }
        }
        if socket.finished.load(Ordering::Acquire) {
            let _ = ended.send(());
        }
    }
}

/// A body whose bytes are written elsewhere. It ends when all of them are, and breaks off if they
/// cannot be: then the last chunk may be a part of one.
struct Elsewhere {
    line: Arc<Line>,
    end: oneshot::Receiver<()>,
}

impl Stream for Elsewhere {
    type Item = Result<Bytes, &'static str>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.line.asked();
        match Pin::new(&mut self.end).poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(())) => Poll::Ready(None),
            Poll::Ready(Err(_)) => Poll::Ready(Some(Err("the client could not be written to"))),
        }
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        self.line.give_back();
    }
}

/// A place in the hub, given up when the response ends, however that comes about.
#[derive(Debug)]
struct Seat {
    shard: Handle,
    key: Key,
    /// Was asked to leave.
    left: AtomicBool,
}

impl Seat {
    /// Ends all that is followed, with the reason, and then the response.
    async fn leave(&self, ended: Ended) {
        self.left.store(true, Ordering::Release);
        let (key, reason) = (self.key, ended.reason());
        self.shard.ask(Command::Expire { key, reason }).await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.shard.detach(self.key);
    }
}
