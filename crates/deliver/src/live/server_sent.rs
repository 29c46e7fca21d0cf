//! Responses that stay open and that the hub writes; a session's subscriptions are one.
//!
//! Over HTTP/1.1 the hub writes the body's chunks straight to the socket (`line`); over HTTP/2, where
//! a response shares its connection, they go through hyper.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Response, Version, header};
use bytes::Bytes;
use futures_util::stream;
use tokio::sync::{mpsc, oneshot};

use tidewire_store::Position;

use super::greeting::{self, Serving};
use crate::access::auth::Identity;
use crate::access::auth::places::Place;
use crate::access::problem::Problem;
use crate::connection::Carrier;
use crate::hub::directory::{Present, Registered};
use crate::hub::kinds::entities::kept::Entities;
use crate::hub::lookup::within_log;
use crate::hub::offset::{malformed_offset, parse_offset};
use crate::hub::{Command, Facts, Outlet, Presence, ServerSent, Socket};
use crate::node::Node;
use crate::wire::clock::clock_ms;
use crate::wire::line::Elsewhere;
use crate::wire::peer::Peer;

/// Pieces that wait between the hub and hyper: what waits longer stays in the hub.
const BODY_PIECES: usize = 8;

/// What ends a chunked body.
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// How long a client whose response has ended may take to hang up.
const FAREWELL: Duration = Duration::from_secs(2);

/// The response to a session's client.
pub(super) async fn respond(
    node: &Arc<Node>,
    session: &str,
    request: Request,
    identity: &Identity,
) -> Result<Response<Body>, Problem> {
    super::make_room(node)?;
    let place = node.access.place(identity)?;
    let session = greeting::check(node, session, identity).await?;
    let cursor = match request.headers().get("last-event-id").map(HeaderValue::to_str) {
        None | Some(Ok("")) => None,
        Some(Ok(text)) => {
            let cursor = parse_offset(text, node.store.epoch())?;
            within_log(&node.hub, cursor).await?;
            Some(cursor)
        }
        Some(Err(_)) => return Err(malformed_offset()),
    };
    if cursor.is_some() {
        node.metrics.reconnects.inc();
    }
    let (request, _) = request.into_parts();
    let address = Peer::address(&request.extensions);
    let facts = Facts::new(super::connection_id(), address, &request.headers);
    let facts = Arc::new(facts.of(identity.clone()));
    let visit =
        Visit { node: Arc::clone(node), session, facts, identity: identity.clone(), place, cursor };
    let enter = async move |outlet| visit.enter(outlet).await;
    written_by_hub(node, &request, identity, enter).await
}

/// Who follows what, from where.
struct Visit {
    node: Arc<Node>,
    session: Arc<str>,
    facts: Arc<Facts>,
    identity: Identity,
    place: Option<Place>,
    cursor: Option<Position>,
}

/// What a response holds for as long as it lasts.
type Held = (Serving, Option<Place>, Registered);

impl Visit {
    /// Enters the hub and takes up the session.
    async fn enter(self, outlet: Outlet) -> Result<(Presence, Held), Problem> {
        let Visit { node, session, facts, identity, place, cursor } = self;
        let shard = node.hub.shards.shard_of(identity.tenant(), &session).clone();
        let presence = shard.attach(outlet, Arc::clone(&facts)).await?;
        let key = presence.key();
        let present = Present { shard: shard.clone(), key, identity: identity.clone() };
        let registered = Entities::enter(&node.hub, &facts.id, present);
        let hello = super::hello(&node, &facts.id, Some(&session));
        shard.ask(Command::Say { key, message: hello }).await;
        let serving = Serving::begin(&node, &shard, key, session, &identity, cursor).await?;
        Ok((presence, (serving, place, registered)))
    }
}

/// A response that the hub writes, for as long as the caller's credential holds. `enter` is told where
/// to, and what it returns is kept for as long as the response lasts.
pub(crate) async fn written_by_hub<Kept, Entering>(
    node: &Arc<Node>,
    request: &Parts,
    identity: &Identity,
    enter: impl FnOnce(Outlet) -> Entering + Send + 'static,
) -> Result<Response<Body>, Problem>
where
    Kept: Send + 'static,
    Entering: Future<Output = Result<(Presence, Kept), Problem>> + Send + 'static,
{
    let carrier = request.extensions.get::<Carrier>();
    let carrier = carrier.filter(|_| request.version == Version::HTTP_11);
    let mut response = Response::new(Body::empty());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    identity.vary(headers);
    let identity = identity.clone();
    *response.body_mut() = match carrier {
        Some(carrier) => {
            // Hyper gets nothing of this body.
            let (gone, body) = oneshot::channel();
            let line = Arc::clone(&carrier.line);
            let writing = write_straight(Arc::clone(node), carrier.clone(), identity, enter, gone);
            node.hub.tasks.spawn(writing);
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            Body::from_stream(Elsewhere::new(line, body))
        }
        None => {
            let (body, pieces) = mpsc::channel(BODY_PIECES);
            let present = enter(Outlet::ServerSent(ServerSent { body })).await?;
            let state = (pieces, present, identity, false);
            let pieces =
                stream::unfold(state, async |(mut pieces, present, identity, mut left)| {
                    let piece = tokio::select! {
                        piece = pieces.recv() => piece?,
                        ended = identity.standing().over(), if !left => {
                            left = true;
                            present.0.leave(ended).await;
                            pieces.recv().await?
                        }
                    };
                    let state = (pieces, present, identity, left);
                    Some((Ok::<Bytes, std::convert::Infallible>(piece), state))
                });
            Body::from_stream(pieces)
        }
    };
    Ok(response)
}

/// Has the hub write a body, once hyper has written the head, and then has hyper let go of the socket.
async fn write_straight<Kept, Entering>(
    node: Arc<Node>,
    carrier: Carrier,
    identity: Identity,
    enter: impl FnOnce(Outlet) -> Entering,
    mut body: oneshot::Sender<()>,
) where
    Entering: Future<Output = Result<(Presence, Kept), Problem>>,
{
    let line = &carrier.line;
    tokio::select! {
        cleared = line.cleared() => if !cleared {
            node.metrics.cut("response_head");
            tracing::debug!("a live response's head was not written in time: the connection ends");
            return;
        },
        () = body.closed() => return,
    }
    drop(node);
    let socket = Arc::new(Socket::new(Arc::clone(line), clock_ms()));
    // Boxed, so that what it takes to enter is not kept for as long as the response lasts.
    let entering = Box::pin(enter(Outlet::Chunks(Arc::clone(&socket))));
    let entered = tokio::select! {
        entered = entering => entered,
        () = body.closed() => return,
    };
    let (presence, _kept) = match entered {
        Ok(present) => present,
        Err(problem) => {
            // The client finds out when it comes back.
            tracing::debug!(code = problem.code(), "a live response ended before it began");
            return;
        }
    };
    if !line.take() {
        return;
    }
    tokio::select! {
        () = socket.released.notified() => {}
        () = line.hung_up() => return,
        over = identity.standing().over() => {
            presence.leave(over).await;
            tokio::select! {
                () = socket.released.notified() => {}
                () = line.hung_up() => return,
            }
        }
    }
    if socket.finished.load(Ordering::Acquire) && line.finish(LAST_CHUNK).await.is_ok() {
        // A socket that is closed with something unread in it would take back what was sent last.
        let _ = tokio::time::timeout(FAREWELL, line.hung_up()).await;
    }
}
