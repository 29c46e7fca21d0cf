//! `POST /v1/control`: an administrator's command to all nodes.

use axum::extract::Request;
use axum::http::{Method, StatusCode};
use serde_json::json;

use super::{Answer, invalid};
use crate::body;
use crate::control::ControlCommand;
use crate::document::{only, parse, uncached};
use crate::node::Node;
use tidewire_access::auth::{Identity, audit};

/// Sends an order to all nodes, this one included.
pub(crate) async fn handle(node: &Node, request: Request, identity: &Identity) -> Answer {
    only(&request, &[Method::POST])?;
    let bytes = body::read(request, &node.access).await?;
    let order: ControlCommand = parse(&bytes, invalid)?;
    crate::control::send(node, &order).await?;
    audit::administered(identity, order.name(), &order.subject());
    Ok(uncached(StatusCode::ACCEPTED, json!({ "sent": order.name() })))
}
