//! This node among the others: its lease, who else lives, and where a session is best served.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::http::{Response, StatusCode, header};
use axum::response::IntoResponse;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use tidewire_store::{NodeReport, Position, SessionRules, StoreError};

use crate::node::Node;
use crate::query_string;
use tidewire_access::auth::Identity;
use tidewire_access::problem::Problem;
use tidewire_hub::rendezvous;

/// Rows that one sweep of sessions removes.
const SWEEP_ROWS_MAX: usize = 5_000;

/// Renews this node's lease.
pub(crate) async fn renew(node: &Node) -> Result<(), StoreError> {
    let lease_ms = u64::try_from(node.options.node.lease.as_millis()).unwrap_or(u64::MAX);
    let tip = node.store.tip().await?;
    node.store.renew_node(&report(node, tip), lease_ms).await
}

/// What this node says of itself.
fn report(node: &Node, tip: Position) -> NodeReport {
    let totals = node.hub.shards.totals();
    let position = node.hub.tail.position();
    NodeReport {
        id: node.hub.id.clone(),
        url: node.public_url.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        connections: totals.connections(),
        subscriptions: totals.subscriptions,
        position,
        lag: tip.number().saturating_sub(position.number()),
    }
}

/// Keeps the lease, and sweeps what nobody keeps any more, until the node stops.
pub(crate) async fn keep(node: Arc<Node>, stop: CancellationToken) {
    let mut round = tokio::time::interval(node.options.node.lease / 3);
    round.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut started_at_ms = None;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = round.tick() => {}
        }
        match renew_and_look(&node).await {
            Ok(started) if started_at_ms.is_some_and(|before| before != started) => {
                // The lease had run out, and with it this node's hold on its sessions.
                tracing::warn!("this node's lease had expired; it claims its sessions again");
                node.sessions.reconnect(&node.hub.id);
                node.hub.shards.restore_entities().await;
                node.hub.queries.registry.restore();
                started_at_ms = Some(started);
            }
            Ok(started) => started_at_ms = Some(started),
            Err(error) => {
                tracing::warn!(%error, "could not renew this node's lease; trying again");
            }
        }
        let ms =
            |duration: std::time::Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let rules = SessionRules {
            ttl_ms: node.sessions.ttl_ms(),
            stale_ms: ms(node.options.sessions.stale),
            rows_max: SWEEP_ROWS_MAX,
        };
        match node.store.sweep_sessions(rules).await {
            Ok(swept) => {
                node.metrics.sessions_expired.inc_by(swept.sessions as u64);
                if swept != tidewire_store::SweptSessions::default() {
                    tracing::debug!(?swept, "swept sessions");
                }
            }
            Err(error) => tracing::warn!(%error, "sessions could not be swept; trying again"),
        }
    }
}

/// Renews this node's lease, and returns since when it has held without a break.
async fn renew_and_look(node: &Node) -> Result<i64, StoreError> {
    renew(node).await?;
    let nodes = node.store.nodes().await?;
    let own = nodes.iter().find(|view| view.report.id == node.hub.id);
    Ok(own.map_or(0, |view| view.started_at_ms))
}

/// Says goodbye, so that nobody waits for the lease to end.
pub(crate) async fn leave(node: &Node) {
    if let Err(error) = node.store.remove_node(&node.hub.id, node.sessions.ttl_ms()).await {
        tracing::debug!(%error, "could not end the lease; it will expire");
    }
}

/// `GET /v1/nodes`.
pub(crate) async fn list(node: &Node) -> Result<Response<Body>, Problem> {
    let tip = node.store.tip().await?;
    let nodes = node.store.nodes().await?;
    // The others are known by their last renewal, this one by itself.
    let own = report(node, tip);
    let nodes = nodes.iter().map(|view| {
        let report = if view.report.id == node.hub.id { &own } else { &view.report };
        let started = jiff::Timestamp::from_millisecond(view.started_at_ms);
        json!({
            "node": report.id,
            "url": report.url,
            "version": report.version,
            "startedAt": started.map(|at| at.to_string()).unwrap_or_default(),
            "leaseMs": view.lease_ms,
            "connections": report.connections,
            "subscriptions": report.subscriptions,
            "position": node.hub.offset(report.position).to_string(),
            "lag": report.lag,
            "self": report.id == node.hub.id,
        })
    });
    let document = json!({ "nodes": nodes.collect::<serde_json::Value>() });
    Ok(([(header::CACHE_CONTROL, "no-store")], Json(document)).into_response())
}

/// `GET /v1/route?session=…`.
pub(crate) async fn route(
    node: &Node,
    query: &str,
    identity: &Identity,
) -> Result<Response<Body>, Problem> {
    let Some(session) = query_string::first(query, "session").filter(|id| !id.is_empty()) else {
        return Err(Problem::bad_request(
            "missing_session",
            "the query does not name a session",
            "ask for /v1/route?session= and a session's id",
        ));
    };
    node.sessions.verify(&session, identity)?;
    node.sessions.load(&session).await?;
    let nodes = node.store.nodes().await?;
    let names: Vec<&str> = nodes.iter().map(|view| view.report.id.as_str()).collect();
    let best =
        rendezvous::pick(&names, identity.tenant(), &session).map(|index| &nodes[index].report);
    let Some(best) = best else {
        return Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "no_nodes",
            "no node's lease holds",
            "try again in a moment",
        )
        .retry_after_s(1));
    };
    let document = json!({ "node": best.id, "url": best.url, "self": best.id == node.hub.id });
    Ok(([(header::CACHE_CONTROL, "no-store")], Json(document)).into_response())
}
