//! PUT: create a stream, or a fork of one.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, Response, StatusCode, header};
use axum::response::IntoResponse;
use bytes::Bytes;

use tidewire_store::{Answer, Command, Create, ForkFrom, Reach, Refusal};

use super::headers;
use super::refusal;
use crate::body;
use crate::node::Node;
use crate::origin::own_url;
use tidewire_access::auth::{Act, Identity};
use tidewire_access::problem::Problem;
use tidewire_access::stream_name::{StreamName, is_of_entities, relative_name};
use tidewire_hub::offset::parse_offset;
use tidewire_hub::{encode, lookup};

pub(super) async fn create(
    node: &Node,
    name: StreamName,
    request: Request,
    identity: &Identity,
) -> Result<Response<Body>, Problem> {
    name.writable()?;
    let fork = fork_from(node, request.headers())?;
    if let Some(fork) = &fork {
        identity.may(Act::Read(&fork.source))?;
        node.hub.sees_all(identity, &fork.source).await?;
        lookup::may_fork(&node.hub, &fork.source, &node.hub.reach(identity, &fork.source)).await?;
        if is_of_entities(&fork.source) && identity.reach() != Reach::All {
            return Err(refusal::problem(node, Refusal::SourceNotFound));
        }
    }
    let content_type = content_type(request.headers())?;
    let lifetime = headers::lifetime(request.headers())?;
    let closed = headers::closes(request.headers());
    let base_url = own_url(node, &request);
    let bytes = body::read(request, &node.access).await?;
    let messages =
        first_messages(node, identity, content_type.as_deref(), fork.as_ref(), bytes.clone())
            .await?;
    let create = Create {
        stream: name.as_str().to_owned(),
        content_type,
        lifetime,
        messages,
        closed,
        fork,
        actor: identity.actor(),
    };
    match node.store.submit(Command::Create(Box::new(create))).await? {
        Answer::Created { new, state, tail } => {
            let status = if new { StatusCode::CREATED } else { StatusCode::OK };
            let mut response = status.into_response();
            let answer = response.headers_mut();
            encode::insert(answer, header::CONTENT_TYPE.as_str(), &state.content_type);
            encode::insert(answer, headers::NEXT_OFFSET, &node.hub.offset(tail).to_string());
            if new {
                let location = format!("{base_url}/v1/stream/{}", encode::path(name.as_str()));
                encode::insert(answer, header::LOCATION.as_str(), &location);
            }
            if state.closed.is_some() {
                encode::insert(answer, headers::CLOSED, "true");
            }
            Ok(response)
        }
        Answer::Refused(refusal) => Err(refusal::problem(node, refusal)),
        _ => Ok(StatusCode::OK.into_response()),
    }
}

/// The first content. A fork without a content type of its own has its source's, so that decides
/// whether the body is JSON.
async fn first_messages(
    node: &Node,
    identity: &Identity,
    content_type: Option<&str>,
    fork: Option<&ForkFrom>,
    bytes: Bytes,
) -> Result<Vec<Bytes>, Problem> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let inherited = match (content_type, fork) {
        (None, Some(fork)) => {
            lookup::content_type(&node.hub, &fork.source, &node.hub.reach(identity, &fork.source))
                .await?
        }
        _ => None,
    };
    let limits = &node.options.limits;
    encode::messages(content_type.or(inherited.as_deref()).unwrap_or_default(), bytes, limits)
}

fn content_type(request: &HeaderMap) -> Result<Option<String>, Problem> {
    let given = headers::text(request, header::CONTENT_TYPE.as_str())?.map(str::trim);
    match given {
        None | Some("") => Ok(None),
        Some(text) if encode::is_media_type(text) => Ok(Some(text.to_owned())),
        Some(_) => Err(encode::invalid_content_type()),
    }
}

fn fork_from(node: &Node, request: &HeaderMap) -> Result<Option<ForkFrom>, Problem> {
    let source = headers::text(request, headers::FORKED_FROM)?;
    let offset = headers::text(request, headers::FORK_OFFSET)?;
    let sub_offset = headers::text(request, headers::FORK_SUB_OFFSET)?;
    let Some(source) = source else {
        if offset.is_some() || sub_offset.is_some() {
            return Err(Problem::bad_request(
                "fork_without_source",
                "Stream-Fork-Offset and Stream-Fork-Sub-Offset go with Stream-Forked-From",
                "name the stream to fork in Stream-Forked-From",
            ));
        }
        return Ok(None);
    };
    let source =
        StreamName::parse(&encode::decode_path(relative_name(source)), &node.options.limits)?;
    let offset = match offset {
        None => None,
        // An offset of another log cannot be one that the source has reached.
        Some(text) => match parse_offset(text, node.store.epoch()) {
            Ok(position) => Some(position),
            Err(problem) if problem.code() == "malformed_offset" => return Err(problem),
            Err(_) => Some(tidewire_store::Position::new(u64::MAX)),
        },
    };
    let sub_offset = match sub_offset {
        None => 0,
        Some(text) => headers::integer("Stream-Fork-Sub-Offset", text)?,
    };
    Ok(Some(ForkFrom { source: source.into_string(), offset, sub_offset }))
}
