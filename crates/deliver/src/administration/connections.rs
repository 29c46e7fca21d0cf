//! `/v1/connections`: who is connected to this node, for those who run it.

use axum::extract::Request;
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{Answer, invalid};
use crate::document::{only, uncached};
use crate::node::Node;
use tidewire_access::auth::{Identity, Who};
use tidewire_access::problem::Problem;
use tidewire_hub::encode::decode_path;
use tidewire_hub::{ConnectionFilter, ConnectionSummary};
use tidewire_wire::clock::moment;

/// Connections in one answer, where the caller does not say how many.
const LIMIT: usize = 100;
/// And at most.
const LIMIT_MAX: usize = 1_000;

/// Lists them. The caller was found to be an administrator.
pub(crate) async fn handle(node: &Node, request: Request) -> Answer {
    only(&request, &[Method::GET])?;
    let wanted = wanted(request.uri().query().unwrap_or_default())?;
    let gathering = node.hub.connections(&wanted).await;
    let connections: Vec<Value> = gathering.portraits.iter().map(|p| shown(node, p)).collect();
    let document = json!({
        "node": node.hub.id,
        "total": gathering.total,
        "connections": connections,
    });
    Ok(uncached(StatusCode::OK, document))
}

fn wanted(query: &str) -> Result<ConnectionFilter, Problem> {
    let mut wanted = ConnectionFilter { limit: LIMIT, ..ConnectionFilter::default() };
    let number = |name: &str, text: &str| {
        text.parse::<u32>().map_err(|_| invalid(format!("{name} is a whole number, not {text:?}")))
    };
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        let value = decode_path(value);
        match name {
            "connection_id" => wanted.connection_id = Some(value),
            "user_id" => wanted.user_id = Some(value),
            "key_id" => wanted.key_id = Some(number(name, &value)?.into()),
            "limit" => {
                let limit = usize::try_from(number(name, &value)?).unwrap_or(usize::MAX);
                if limit > LIMIT_MAX {
                    return Err(invalid(format!("limit is at most {LIMIT_MAX}")));
                }
                wanted.limit = limit;
            }
            // As in every query: what another version knows is no mistake.
            _ => {}
        }
    }
    Ok(wanted)
}

fn shown(node: &Node, portrait: &ConnectionSummary) -> Value {
    let facts = &portrait.facts;
    let identity = facts.identity();
    let (key, user) = match identity.map(Identity::who) {
        Some(Who::Key(id)) => (Some(*id), None),
        Some(Who::User { name, .. }) => (None, Some(&**name)),
        Some(Who::Anyone | Who::Admin) | None => (None, None),
    };
    json!({
        "connectionId": *facts.id,
        "node": node.hub.id,
        "apiKeyId": key,
        "userId": user,
        "hostId": identity.and_then(|identity| identity.scopes().host()),
        "who": identity.map(Identity::label),
        "isAuthenticated": identity.is_some(),
        "connectedAt": moment(facts.connected_at_ms),
        "lastHeartbeatAt": portrait.heard_at_ms.map(moment),
        "subscribedTables": portrait.tables,
        "subscriptions": portrait.subscriptions,
        "queuedEvents": portrait.queued_events,
        "queuedBytes": portrait.queued_bytes,
        "metadata": {
            "userAgent": facts.user_agent,
            "address": facts.address,
            "transport": portrait.transport,
            "hasSession": portrait.has_session,
        },
    })
}
