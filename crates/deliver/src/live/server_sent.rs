//! `/v1/live/{sessionId}`: what a session follows, as one response that stays open. The hub writes it.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, Response};

use tidewire_store::Position;

use super::greeting::{self, Serving};
use crate::carrier::connection_id;
use crate::hub_body::written_by_hub;
use crate::node::Node;
use tidewire_access::auth::Identity;
use tidewire_access::auth::connection_permits::ConnectionPermit;
use tidewire_access::problem::Problem;
use tidewire_hub::directory::{NamedConnection, Registered};
use tidewire_hub::kinds::entities::kept::Entities;
use tidewire_hub::lookup::within_log;
use tidewire_hub::offset::{malformed_offset, parse_offset};
use tidewire_hub::{Command, ConnectionInfo, Presence, Transport};
use tidewire_wire::peer::Peer;

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
    let connection_info = ConnectionInfo::new(connection_id(), address, &request.headers);
    let connection_info = Arc::new(connection_info.of(identity.clone()));
    let origin_of_request = SseSession {
        node: Arc::clone(node),
        session,
        connection_info,
        identity: identity.clone(),
        place,
        cursor,
    };
    let enter = async move |transport| origin_of_request.enter(transport).await;
    written_by_hub(node, &request, identity, enter).await
}

/// Who follows what, from where.
struct SseSession {
    node: Arc<Node>,
    session: Arc<str>,
    connection_info: Arc<ConnectionInfo>,
    identity: Identity,
    place: Option<ConnectionPermit>,
    cursor: Option<Position>,
}

/// What a response holds for as long as it lasts.
type SseGuards = (Serving, Option<ConnectionPermit>, Registered);

impl SseSession {
    /// Enters the hub and takes up the session.
    async fn enter(self, transport: Transport) -> Result<(Presence, SseGuards), Problem> {
        let SseSession { node, session, connection_info, identity, place, cursor } = self;
        let shard = node.hub.shards.shard_of(identity.tenant(), &session).clone();
        let presence = shard.attach(transport, Arc::clone(&connection_info)).await?;
        let key = presence.key();
        let present = NamedConnection { shard: shard.clone(), key, identity: identity.clone() };
        let registered = Entities::enter(&node.hub, &connection_info.id, present);
        let hello = super::hello(&node, &connection_info.id, Some(&session));
        shard.ask(Command::Say { key, message: hello }).await;
        let serving = Serving::begin(&node, &shard, key, session, &identity, cursor).await?;
        Ok((presence, (serving, place, registered)))
    }
}
