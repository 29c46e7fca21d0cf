//! Streams over HTTP: the Durable Streams protocol at `/v1/stream/{path}`.
//!
//! - `append`: POST: appends, and closing
//! - `create`: PUT: creating and forking
//! - `headers`: the protocol's headers
//! - `live`: waiting for a stream to grow, and the long-poll that does just that
//! - `read`: GET and HEAD: catch-up
//! - `refusal`: what the protocol's refusals are over HTTP
//! - `sse`: letting a reader in by `live=sse`

mod append;
mod create;
mod headers;
mod live;
mod read;
mod refusal;
mod sse;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{Method, Response, StatusCode};
use axum::response::IntoResponse;

use tidewire_store::{Answer, Command};

use crate::node::Node;
use tidewire_access::auth::Identity;
use tidewire_access::problem::Problem;
use tidewire_access::stream_name::StreamName;

pub(crate) use read::{follows, where_without_table};

/// All methods of a stream's URL. Appending is what happens most, so all else is boxed to keep what
/// a connection holds small.
pub(crate) async fn handle(
    node: &Arc<Node>,
    name: &str,
    request: Request,
    identity: &Identity,
) -> Result<Response<Body>, Problem> {
    let name = StreamName::parse(name, &node.options.limits)?;
    match *request.method() {
        Method::POST => append::append(node, name, request, identity).await,
        Method::PUT => Box::pin(create::create(node, name, request, identity)).await,
        Method::GET => Box::pin(read::get(node, name, &request.into_parts().0, identity)).await,
        Method::HEAD => Box::pin(read::head(node, name, identity)).await,
        Method::DELETE => Box::pin(delete(node, name, identity)).await,
        _ => Err(method_not_allowed()),
    }
}

async fn delete(
    node: &Node,
    name: StreamName,
    identity: &Identity,
) -> Result<Response<Body>, Problem> {
    name.writable()?;
    let command = Command::Delete { stream: name.into_string(), actor: identity.actor() };
    match node.store.submit(command).await? {
        Answer::Refused(refusal) => Err(refusal::problem(node, refusal)),
        _ => Ok(StatusCode::NO_CONTENT.into_response()),
    }
}

fn method_not_allowed() -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "a stream knows PUT, POST, GET, HEAD and DELETE",
        "PUT creates a stream, POST appends to it, GET reads it, DELETE removes it",
    )
    .with_header("allow", "PUT, POST, GET, HEAD, DELETE, OPTIONS")
}
