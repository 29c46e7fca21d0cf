//! Streams over HTTP: the Durable Streams protocol at `/v1/stream/{path}`.

mod append;
mod create;
mod cursor;
mod encode;
mod headers;
mod live;
mod lookup;
mod name;
mod pages;
mod read;
mod refusal;
mod sse;
mod views;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{Method, Response, StatusCode};
use axum::response::IntoResponse;

use tidewire_store::{Answer, Command};

use crate::auth::Identity;
use crate::node::Node;
use crate::problem::Problem;

pub(crate) use encode::{base64, decode_path, is_text, path as encode_path, put_json_string};
pub(crate) use headers::{EXPOSED_HEADERS, REQUEST_HEADERS, malformed_offset, parse_offset};
pub(crate) use live::seat;
pub(crate) use lookup::{find as find_page, not_lost, renew, view};
pub(crate) use name::{StreamName, is_of_entities, relative_name};
pub(crate) use pages::Pages;
pub(crate) use read::{beyond_tip, where_without_table, within_log};
pub(crate) use refusal::not_found;
pub(crate) use sse::{Extent, Frame, Voice};
pub(crate) use views::Views;

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
