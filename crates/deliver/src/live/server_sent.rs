//! `/v1/live/{sessionId}`: what a session follows, as one response that stays open. The hub writes it.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, Response};

use tidewire_store::Position;

use super::greeting::{self, Serving};
use crate::access::auth::Identity;
use crate::access::auth::places::Place;
use crate::access::problem::Problem;
use crate::carrier::connection_id;
use crate::hub::directory::{Present, Registered};
use crate::hub::kinds::entities::kept::Entities;
use crate::hub::lookup::within_log;
use crate::hub::offset::{malformed_offset, parse_offset};
use crate::hub::{Command, Facts, Outlet, Presence};
use crate::hub_body::written_by_hub;
use crate::node::Node;
use crate::wire::peer::Peer;

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
    let facts = Facts::new(connection_id(), address, &request.headers);
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
