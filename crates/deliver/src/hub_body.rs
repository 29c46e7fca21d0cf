//! Responses that stay open and that the hub writes.
//!
//! Over HTTP/1.1 the hub writes the body's chunks straight to the socket (`line`); over HTTP/2, where
//! a response shares its connection, they go through hyper.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Response, Version, header};
use bytes::Bytes;
use futures_util::stream;
use tokio::sync::{mpsc, oneshot};

use crate::carrier::Carrier;
use crate::node::Node;
use tidewire_access::auth::Identity;
use tidewire_access::problem::Problem;
use tidewire_hub::{Presence, ServerSent, Socket, Transport};
use tidewire_wire::clock::clock_ms;
use tidewire_wire::line::TakenOverBody;

/// Pieces that wait between the hub and hyper: what waits longer stays in the hub.
const BODY_PIECES: usize = 8;

/// What ends a chunked body.
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// How long a client whose response has ended may take to hang up.
const FAREWELL: Duration = Duration::from_secs(2);

/// A response that the hub writes, for as long as the caller's credential holds. `enter` is told where
/// to, and what it returns is kept for as long as the response lasts.
pub(crate) async fn written_by_hub<Kept, Entering>(
    node: &Arc<Node>,
    request: &Parts,
    identity: &Identity,
    enter: impl FnOnce(Transport) -> Entering + Send + 'static,
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
            Body::from_stream(TakenOverBody::new(line, body))
        }
        None => {
            let (body, pieces) = mpsc::channel(BODY_PIECES);
            let present = enter(Transport::ServerSent(ServerSent { body })).await?;
            let state = (pieces, present, identity, false);
            let pieces =
                stream::unfold(state, async |(mut pieces, present, identity, mut left)| {
                    let piece = tokio::select! {
                        piece = pieces.recv() => piece?,
                        ended = identity.validity().over(), if !left => {
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
    enter: impl FnOnce(Transport) -> Entering,
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
    let entering = Box::pin(enter(Transport::Chunks(Arc::clone(&socket))));
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
        over = identity.validity().over() => {
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
