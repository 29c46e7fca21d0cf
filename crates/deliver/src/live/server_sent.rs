//! A session's subscriptions as server-sent events.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Response, header};
use bytes::Bytes;
use futures_util::stream;
use tokio::sync::{mpsc, oneshot};

use super::greeting::{self, Serving};
use crate::door::Identity;
use crate::hub::{Command, Handle, Key, Outlet, ServerSent};
use crate::node::Node;
use crate::problem::Problem;
use crate::streams::parse_offset;

/// Pieces that wait between the hub and the response: what waits longer stays in the hub.
const BODY_PIECES: usize = 8;

/// The response, which stays open.
pub(super) async fn respond(
    node: &Arc<Node>,
    session: &str,
    headers: &HeaderMap,
    identity: &Identity,
) -> Result<Response<Body>, Problem> {
    super::make_room(node)?;
    let session = greeting::check(node, session, identity).await?;
    let cursor = match headers.get("last-event-id").map(HeaderValue::to_str) {
        None | Some(Ok("")) => None,
        Some(Ok(text)) => Some(parse_offset(text, node.store.epoch())?),
        Some(Err(_)) => return Err(crate::streams::malformed_offset()),
    };
    if cursor.is_some() {
        node.metrics.reconnects.inc();
    }
    let id = super::connection_id();
    let shard = node.hub.shard_of(&super::tenant(identity), &session).clone();
    let (body, pieces) = mpsc::channel(BODY_PIECES);
    let (reply, attached) = oneshot::channel();
    let outlet = Outlet::ServerSent(ServerSent { body });
    shard.ask(Command::Attach { outlet, id: Arc::clone(&id), reply }).await;
    let key = attached.await.map_err(|_| tidewire_store::StoreError::Closed)?;
    let seat = Seat { shard: shard.clone(), key };
    shard.ask(Command::Say { key, message: super::hello(node, &id, Some(&session)) }).await;
    let serving = Serving::begin(node, &shard, key, session, cursor).await?;
    let pieces = stream::unfold((pieces, seat, serving), |(mut pieces, seat, serving)| async {
        let piece = pieces.recv().await?;
        Some((Ok::<Bytes, std::convert::Infallible>(piece), (pieces, seat, serving)))
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    identity.vary(headers);
    Ok(response)
}

/// A place in the hub, given up when the response ends, however that comes about.
#[derive(Debug)]
struct Seat {
    shard: Handle,
    key: Key,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.shard.detach(self.key);
    }
}
