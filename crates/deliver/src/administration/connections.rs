//! `/v1/connections`: who is connected to this node, for those who run it.

use axum::extract::Request;
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{Answer, invalid};
use crate::document::{only, uncached};
use crate::node::Node;
use crate::query_string;
use tidewire_access::auth::{Identity, Who};
use tidewire_access::problem::Problem;
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
    let listed = node.hub.connections(&wanted).await;
    let connections: Vec<Value> = listed.summaries.iter().map(|p| shown(node, p)).collect();
    let document = json!({
        "node": node.hub.id,
        "total": listed.total,
        "connections": connections,
    });
    Ok(uncached(StatusCode::OK, document))
}

fn wanted(query: &str) -> Result<ConnectionFilter, Problem> {
    let mut wanted = ConnectionFilter { limit: LIMIT, ..ConnectionFilter::default() };
    let number = |name: &str, text: &str| {
        text.parse::<u32>().map_err(|_| invalid(format!("{name} is a whole number, not {text:?}")))
    };
    for (name, value) in query_string::pairs(query) {
        match &*name {
            "connection_id" => wanted.connection_id = Some(value.into_owned()),
            "user_id" => wanted.user_id = Some(value.into_owned()),
            "key_id" => wanted.key_id = Some(number(&name, &value)?.into()),
            "limit" => {
                let limit = usize::try_from(number(&name, &value)?).unwrap_or(usize::MAX);
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

fn shown(node: &Node, summary: &ConnectionSummary) -> Value {
    let connection_info = &summary.connection_info;
    let identity = connection_info.identity();
    let (key, user) = match identity.map(Identity::who) {
        Some(Who::Key(id)) => (Some(*id), None),
        Some(Who::User { name, .. }) => (None, Some(&**name)),
        Some(Who::Anyone | Who::Admin) | None => (None, None),
    };
    json!({
        "connectionId": *connection_info.id,
        "node": node.hub.id,
        "apiKeyId": key,
        "userId": user,
        "hostId": identity.and_then(|identity| identity.scopes().host()),
        "who": identity.map(Identity::label),
        "isAuthenticated": identity.is_some(),
        "connectedAt": moment(connection_info.connected_at_ms),
        "lastHeartbeatAt": summary.heard_at_ms.map(moment),
        "subscribedTables": summary.tables,
        "subscriptions": summary.subscriptions,
        "queuedEvents": summary.queued_events,
        "queuedBytes": summary.queued_bytes,
        "metadata": {
            "userAgent": connection_info.user_agent,
            "address": connection_info.address,
            "transport": summary.transport,
            "hasSession": summary.has_session,
        },
    })
}
