//! Live connections: `/v1/ws` and `/v1/live/{sessionId}`.
//!
//! Here a client is let in and what it says is understood; what it gets is the hub's business.
//!
//! - [`websocket`]: a connection's incoming side; [`server_sent`]: a response that stays open
//! - [`message`]: what clients say; [`subscribe`]: what they want to follow, of every kind alike, and in [`streams`],
//!   [`entities`] and [`queries`] what is each kind's own; [`greeting`]: taking up a session's subscriptions

mod entities;
mod greeting;
pub(crate) mod message;
mod queries;
mod server_sent;
mod streams;
mod subscribe;
mod websocket;

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{Method, Response};

use crate::authenticate::Admission;
use crate::node::Node;
use crate::query_string;
use tidewire_access::problem::Problem;
use tidewire_hub::messages::{Hello, ServerMessage as _};
use tidewire_wire::websocket::handshake;

pub(crate) use greeting::follow;

/// `GET /v1/ws`, with or without a session.
pub(crate) fn multiplexed(
    node: &Arc<Node>,
    request: Request,
    admission: Admission,
) -> Result<Response<Body>, Problem> {
    if *request.method() != Method::GET {
        return Err(crate::document::method_not_allowed("GET"));
    }
    let query = request.uri().query().unwrap_or_default();
    let session = query_string::first(query, "session").map(Cow::into_owned);
    websocket::upgrade(node, request, admission, session)
}

/// `GET /v1/live/{sessionId}`, as SSE or, on upgrade, as a WebSocket.
pub(crate) async fn of_session(
    node: &Arc<Node>,
    session: String,
    request: Request,
    admission: Admission,
) -> Result<Response<Body>, Problem> {
    if *request.method() != Method::GET {
        return Err(crate::document::method_not_allowed("GET"));
    }
    if handshake::wanted(request.headers()) {
        return websocket::upgrade(node, request, admission, Some(session));
    }
    let identity = admission.identity()?;
    server_sent::respond(node, &session, request, &identity).await
}

/// Refuses new connections where there is no room for them.
fn make_room(node: &Node) -> Result<(), Problem> {
    if node.hub.draining.is_cancelled() {
        return Err(tidewire_store::StoreError::Closed.into());
    }
    node.access.memory.make_room()
}

/// The first message.
fn hello(node: &Node, connection_id: &str, session: Option<&str>) -> String {
    Hello { connection_id, node: &node.hub.id, session }.text()
}
