//! Sessions over HTTP: `/v1/sessions`, `/v1/subscriptions`, `/v1/heartbeat`, `/v1/session-offsets/{id}`.
//! PROTOCOL.md, section 20, is the source.
//!
//! - [`watch`]: changes that other requests and nodes made

mod watch;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{Method, Response, StatusCode};
use axum::response::IntoResponse;
use serde::Deserialize;
use serde_json::json;

use tidewire_store::SessionChange;

use crate::authenticate::{Admission, address};
use crate::body;
use crate::document::{only, parse, uncached};
use crate::live::message::start_from;
use crate::node::Node;
use tidewire_access::auth::{Act, Identity};
use tidewire_access::problem::Problem;
use tidewire_access::stream_name::{StreamName, relative_name};
use tidewire_hub::min_offset::MinOffsetJson;
use tidewire_hub::offset::parse_offset;

use crate::sessions::{Following, subscribe};

pub(crate) use watch::watch;

/// Pointers in one heartbeat.
const OFFSETS_MAX: usize = 10_000;

type Answer = Result<Response<Body>, Problem>;

/// `POST /v1/sessions`.
pub(crate) async fn open(node: &Node, request: Request, identity: &Identity) -> Answer {
    only(&request, &[Method::POST])?;
    let session = node.sessions.mint(identity)?;
    let (owner, ttl_ms) = (identity.owner(), node.sessions.ttl_ms());
    let open = SessionChange::Open { session: session.clone(), owner, ttl_ms };
    node.sessions.change(open).await?;
    node.metrics.sessions_opened.inc();
    let document = json!({ "sessionId": session, "expiresInMs": ttl_ms });
    Ok(uncached(StatusCode::CREATED, document))
}

/// `POST` and `DELETE /v1/subscriptions`.
pub(crate) async fn subscriptions(node: &Node, request: Request, identity: &Identity) -> Answer {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct SessionSubscriptionsJson {
        session_id: String,
        stream_id: String,
        offset: Option<String>,
        #[serde(flatten)]
        min_offset: MinOffsetJson,
    }
    only(&request, &[Method::POST, Method::DELETE])?;
    let ends = *request.method() == Method::DELETE;
    let document: SessionSubscriptionsJson =
        parse(&body::read(request, &node.access).await?, invalid)?;
    node.sessions.verify(&document.session_id, identity)?;
    let stream = StreamName::parse(relative_name(&document.stream_id), &node.options.limits)?;
    let (session, stream) = (document.session_id, stream.into_string());
    if ends {
        node.sessions.change(SessionChange::Unsubscribe { session, stream }).await?;
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    identity.may(Act::Read(&stream))?;
    // What of it is seen is decided when a connection follows it; here, whether anything is.
    node.hub.view(identity, &stream, None).await?;
    document.min_offset.read(&node.hub)?.reached(&node.hub).await?;
    let start = document.offset.as_deref().map(|text| start_from(node, text)).transpose()?;
    let following = Following {
        session: &session,
        reach: &node.hub.reach(identity, &stream),
        stream: &stream,
        query_id: &stream,
        start,
    };
    let made = subscribe(&node.sessions, &node.hub, following).await?;
    let document = json!({
        "sessionId": session,
        "streamId": stream,
        "subscriptionEpoch": made.epoch,
        "lastOffset": node.hub.offset(made.pointer).to_string(),
    });
    Ok(uncached(StatusCode::OK, document))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Heartbeat {
    session_id: String,
    #[serde(default)]
    offsets: Vec<Pointer>,
    token: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pointer {
    stream_id: String,
    last_offset: String,
    subscription_epoch: Option<u64>,
}

/// `POST /v1/heartbeat`. Its token may stand in the body, because a page that is being left can
/// send nothing else; such a body is small.
pub(crate) async fn heartbeat(node: &Node, request: Request, admission: Admission) -> Answer {
    only(&request, &[Method::POST])?;
    let address = address(&request);
    let body = match &admission {
        Admission::Known(_) => body::read(request, &node.access).await?,
        Admission::Stranger(_) => body::read_of_stranger(request, &node.access).await?,
    };
    let heartbeat: Heartbeat = parse(&body, invalid)?;
    let identity = match (&heartbeat.token, admission) {
        (Some(token), Admission::Stranger(_)) => node.authenticate(token, address).await?,
        (_, admission) => admission.identity()?,
    };
    node.sessions.verify(&heartbeat.session_id, &identity)?;
    if heartbeat.offsets.len() > OFFSETS_MAX {
        return Err(invalid(format!("a heartbeat has at most {OFFSETS_MAX} offsets")));
    }
    let session = heartbeat.session_id.clone();
    let acks = acknowledgements(node, heartbeat).await?;
    let ttl_ms = node.sessions.ttl_ms();
    let alive = SessionChange::Heartbeat { session: session.clone(), ttl_ms };
    node.sessions.change_all(acks.into_iter().chain([alive])).await?;
    let document = json!({ "sessionId": session, "expiresInMs": ttl_ms });
    Ok(uncached(StatusCode::OK, document))
}

/// What a heartbeat acknowledges, of what the session follows.
async fn acknowledgements(
    node: &Node,
    heartbeat: Heartbeat,
) -> Result<Vec<SessionChange>, Problem> {
    if heartbeat.offsets.is_empty() {
        return Ok(Vec::new());
    }
    let session = node.sessions.load(&heartbeat.session_id).await?;
    let tip = node.store.tip().await?;
    let mut acks = Vec::with_capacity(heartbeat.offsets.len());
    for pointer in heartbeat.offsets {
        let position = parse_offset(&pointer.last_offset, node.store.epoch())?;
        let stream = relative_name(&pointer.stream_id);
        let followed = session.subscriptions.iter().find(|s| s.stream == stream);
        let Some(followed) = followed.filter(|_| position <= tip) else { continue };
        acks.push(SessionChange::Acknowledge {
            session: session.id.clone(),
            stream: stream.to_owned(),
            epoch: pointer.subscription_epoch.unwrap_or(followed.epoch),
            position,
        });
    }
    Ok(acks)
}

/// `GET /v1/session-offsets/{sessionId}`.
pub(crate) async fn offsets(
    node: &Arc<Node>,
    session: &str,
    request: Request,
    identity: &Identity,
) -> Answer {
    only(&request, &[Method::GET])?;
    node.sessions.verify(session, identity)?;
    let session = node.sessions.load(session).await?;
    let offsets = session.subscriptions.iter().map(|subscription| {
        json!({
            "streamId": subscription.stream,
            "lastOffset": node.hub.offset(subscription.pointer).to_string(),
            "subscriptionEpoch": subscription.epoch,
        })
    });
    Ok(uncached(StatusCode::OK, offsets.collect()))
}

fn invalid(detail: String) -> Problem {
    Problem::bad_request(
        "invalid_session_request",
        detail,
        "see the section on sessions of PROTOCOL.md for the request's shape",
    )
}
