//! Subscriptions over HTTP: `__ds/subscriptions/:id`, webhooks and pull-wakes.
//!
//! Routes are here; what they ask and answer is in `document`, who does the work behind them in
//! `dispatch`, and how webhooks are signed, sent and kept away from private networks in `signer`,
//! `webhook`, `target` and `special`.
//!
//! - `reply`: the store's replies over HTTP

mod dispatch;
mod document;
mod reply;
mod special;
mod target;
mod webhook;

use axum::Json;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, Method, Response, StatusCode, header};
use axum::response::IntoResponse;

use tidewire_store::subscription::{Config, Fence, Kind, Op, Reply, Subscription};

use crate::access::auth::{Act, Identity};
use crate::access::problem::Problem;
use crate::access::stream_name::{StreamName, relative_name};
use crate::bearer::bearer;
use crate::body::{self, turned_away};
use crate::document::method_not_allowed;
use crate::node::Node;

pub(crate) use dispatch::Dispatcher;

/// Bytes of a subscription's id.
const ID_BYTES_MAX: usize = 256;

/// What of a subscription a request is about.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Itself,
    Streams,
    Stream(String),
    Claim,
    Callback,
    Ack,
    Release,
}

type Answer = Result<Response<Body>, Problem>;

/// The public half of the key that signs webhooks.
pub(crate) fn jwks(node: &Node) -> Response<Body> {
    let mut response = Response::new(Body::from(node.signer.jwks().to_string()));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/jwk-set+json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=300"));
    response
}

/// All routes of one subscription.
pub(crate) async fn handle(
    node: &Node,
    id: &str,
    part: Part,
    request: Request,
    identity: &Identity,
) -> Answer {
    check_id(id)?;
    let allowed = match part {
        Part::Itself => return itself(node, id, request, identity).await,
        Part::Stream(_) => Method::DELETE,
        _ => Method::POST,
    };
    if *request.method() != allowed {
        return Err(method_not_allowed(if allowed == Method::POST { "POST" } else { "DELETE" }));
    }
    match part {
        Part::Itself => Err(method_not_allowed("PUT, GET, DELETE")),
        Part::Streams => {
            let streams = document::streams(node, &body::read(request, &node.access).await?)?;
            for stream in &streams {
                identity.may(Act::Follow(stream))?;
            }
            no_content(node, change(node, id, identity, Op::AddStreams(streams)).await?)
        }
        Part::Stream(path) => {
            let name = StreamName::parse(relative_name(&path), &node.options.limits)?.into_string();
            no_content(node, change(node, id, identity, Op::RemoveStream(name)).await?)
        }
        Part::Claim => {
            let worker = document::worker(&body::read(request, &node.access).await?)?;
            reply::respond(node, change(node, id, identity, Op::Claim { worker }).await?)
        }
        // Those who have the token of a wake were let in by whoever gave it to them.
        Part::Callback | Part::Ack => {
            let (fence, ack) = progress(node, id, request).await?;
            let op = Op::Ack { fence, acks: ack.acks, done: ack.done };
            reply::respond(node, node.store.change_subscription(id, op).await?)
        }
        Part::Release => {
            let (fence, _) = progress(node, id, request).await?;
            no_content(node, node.store.change_subscription(id, Op::Release { fence }).await?)
        }
    }
}

/// Whether someone may follow all that a subscription does, and write where it says that there is
/// something.
fn may_follow(identity: &Identity, config: &Config) -> Result<(), Problem> {
    let mut streams = config.streams.iter().chain(&config.pattern);
    streams.try_for_each(|stream| identity.may(Act::Follow(stream)))?;
    match &config.kind {
        Kind::PullWake { wake_stream } => identity.may(Act::Append(wake_stream)),
        Kind::Webhook { .. } => Ok(()),
    }
}

/// Whether a subscription is one that the caller could have made, with all that was added to it since.
fn is_usable(identity: &Identity, subscription: &Subscription) -> bool {
    let mut added = subscription.links.iter().filter(|(_, link)| link.explicit);
    identity.may(Act::Administer).is_ok()
        || (may_follow(identity, &subscription.config).is_ok()
            && added.all(|(stream, _)| identity.may(Act::Follow(stream)).is_ok()))
}

/// Whether a subscription, if there is one, is for the caller to use.
async fn may_use(node: &Node, id: &str, identity: &Identity) -> Result<bool, Problem> {
    let found = node.store.subscription(id).await?;
    Ok(found.is_none_or(|found| is_usable(identity, &found)))
}

/// Changes a subscription, if the caller may use it. To others it is not there: so what is wrong with
/// the request itself is said before.
async fn change(node: &Node, id: &str, identity: &Identity, op: Op) -> Result<Reply, Problem> {
    if !may_use(node, id, identity).await? {
        return Ok(Reply::NotFound);
    }
    Ok(node.store.change_subscription(id, op).await?)
}

/// Create, look at, or remove a subscription.
async fn itself(node: &Node, id: &str, request: Request, identity: &Identity) -> Answer {
    match *request.method() {
        Method::PUT => {
            let config = document::config(node, &body::read(request, &node.access).await?)?;
            may_follow(identity, &config)?;
            // Of one that the caller may not use, no more is told than that its name is taken.
            let reply = match may_use(node, id, identity).await? {
                true => node.store.change_subscription(id, Op::Create(config)).await?,
                false => Reply::Exists,
            };
            reply::respond(node, reply)
        }
        Method::GET => match node.store.subscription(id).await? {
            Some(subscription) if is_usable(identity, &subscription) => {
                Ok(Json(document::subscription(node, &subscription)).into_response())
            }
            _ => reply::respond(node, Reply::NotFound),
        },
        Method::DELETE => {
            // Removing what is not there leaves the same state as removing what is.
            change(node, id, identity, Op::Delete).await?;
            Ok(StatusCode::NO_CONTENT.into_response())
        }
        _ => Err(method_not_allowed("PUT, GET, DELETE")),
    }
}

/// What a worker or a webhook's receiver says about a wake, and its proof that it may.
async fn progress(
    node: &Node,
    id: &str,
    request: Request,
) -> Result<(Fence, document::Ack), Problem> {
    let token_generation = token(node, id, &request)?;
    let ack = document::ack(node, &body::read(request, &node.access).await?)?;
    let wake_id = ack.wake_id.clone();
    Ok((Fence { token_generation, generation: ack.generation, wake_id }, ack))
}

/// The generation that the request's token was made for.
fn token(node: &Node, id: &str, request: &Request) -> Result<u64, Problem> {
    let token = bearer(request.headers());
    token.and_then(|token| node.signer.verify_token(id, token)).ok_or_else(|| {
        let problem = reply::error(
            StatusCode::UNAUTHORIZED,
            "TOKEN_INVALID",
            "the request has no token that was given for this subscription",
            "send the token of the wake or claim as Authorization: Bearer",
        );
        turned_away(problem.with_header("www-authenticate", "Bearer"), request)
    })
}

fn no_content(node: &Node, reply: Reply) -> Answer {
    match reply {
        Reply::Done { .. } => Ok(StatusCode::NO_CONTENT.into_response()),
        other => reply::respond(node, other),
    }
}

fn check_id(id: &str) -> Result<(), Problem> {
    if id.is_empty() || id.len() > ID_BYTES_MAX || id.chars().any(char::is_control) {
        return Err(document::invalid(format!(
            "a subscription's id has 1 to {ID_BYTES_MAX} bytes and no control characters"
        )));
    }
    Ok(())
}
