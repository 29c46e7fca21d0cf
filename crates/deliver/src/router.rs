//! Every route, which door it is behind, what it does, and who answers it.
//!
//! One `match` instead of a table of boxed services: a route cannot be added without saying whom it
//! lets in ([`Route::entry`]) and what it does, for which the caller needs a permit
//! ([`Route::act`]); and an append passes through nothing it does not need.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{Method, Response, StatusCode};
use axum::response::IntoResponse;

use crate::authenticate::{self, Admission, CredentialLookup, Entry};
use crate::body::turned_away;
use crate::document::method_not_allowed;
use crate::node::Node;
use crate::origin::{self, RequestOrigin};
use crate::streams;
use crate::{
    administration, entities, groups, index_page, live, nodes, operations, session_requests, sql,
    subscriptions,
};
use tidewire_access::auth::{Act, audit};
use tidewire_access::problem::Problem;
use tidewire_hub::encode::decode_path;

/// Where a request goes. Names and ids are decoded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Page,
    Healthz,
    Readyz,
    Metrics,
    Stream(String),
    Jwks,
    Subscription(String, subscriptions::Part),
    Sessions,
    SessionSubscriptions,
    Heartbeat,
    SessionOffsets(String),
    Live(String),
    WebSocket,
    Nodes,
    Connections,
    BestNode,
    Keys(administration::keys::Part),
    Tickets,
    Cookie,
    Control,
    Sql,
    Watch,
    Capture,
    Doctor,
    EntityStats,
    Groups(groups::Part),
    Unknown,
}

impl Route {
    /// The route of a URL's path.
    pub(crate) fn of(path: &str) -> Route {
        match path {
            "/" => Route::Page,
            "/healthz" => Route::Healthz,
            "/readyz" => Route::Readyz,
            "/metrics" => Route::Metrics,
            "/v1/sessions" => Route::Sessions,
            "/v1/subscriptions" => Route::SessionSubscriptions,
            "/v1/heartbeat" => Route::Heartbeat,
            "/v1/ws" => Route::WebSocket,
            "/v1/nodes" => Route::Nodes,
            "/v1/connections" => Route::Connections,
            "/v1/route" => Route::BestNode,
            "/v1/keys" => Route::Keys(administration::keys::Part::All),
            "/v1/tickets" => Route::Tickets,
            "/v1/cookie" => Route::Cookie,
            "/v1/control" => Route::Control,
            "/v1/sql" => Route::Sql,
            "/v1/watch" => Route::Watch,
            "/v1/capture" => Route::Capture,
            "/v1/doctor" => Route::Doctor,
            "/v1/entities/stats" => Route::EntityStats,
            "/v1/groups" => Route::Groups(groups::Part::All),
            _ => Route::of_names(path),
        }
    }

    /// Routes with a name in them.
    fn of_names(path: &str) -> Route {
        let segment = |prefix| {
            path.strip_prefix(prefix).filter(|rest: &&str| !rest.is_empty() && !rest.contains('/'))
        };
        if let Some(session) = segment("/v1/live/") {
            return Route::Live(decode_path(session));
        }
        if let Some(session) = segment("/v1/session-offsets/") {
            return Route::SessionOffsets(decode_path(session));
        }
        if let Some(key) = path.strip_prefix("/v1/keys/") {
            return Route::of_key(key);
        }
        if let Some(group) = path.strip_prefix("/v1/groups/") {
            return groups::Part::of(group).map_or(Route::Unknown, Route::Groups);
        }
        match path.strip_prefix("/v1/stream/") {
            None | Some("") => Route::Unknown,
            Some(name) => match name.strip_prefix("__ds/") {
                None => Route::Stream(decode_path(name)),
                Some(reserved) => Route::of_reserved(reserved),
            },
        }
    }

    fn of_key(path: &str) -> Route {
        use administration::keys::Part;
        match path.split_once('/') {
            None if !path.is_empty() => Route::Keys(Part::One(path.to_owned())),
            Some((id, "rotate")) if !id.is_empty() => Route::Keys(Part::Rotation(id.to_owned())),
            _ => Route::Unknown,
        }
    }

    fn of_reserved(path: &str) -> Route {
        use subscriptions::Part;
        if path == "jwks.json" {
            return Route::Jwks;
        }
        let Some(rest) = path.strip_prefix("subscriptions/") else { return Route::Unknown };
        let (id, part) = rest.split_once('/').map_or((rest, None), |(id, part)| (id, Some(part)));
        let part = match part {
            None => Part::Itself,
            Some("streams") => Part::Streams,
            Some("claim") => Part::Claim,
            Some("callback") => Part::Callback,
            Some("ack") => Part::Ack,
            Some("release") => Part::Release,
            Some(other) => match other.strip_prefix("streams/") {
                Some(stream) => Part::Stream(decode_path(stream)),
                None => return Route::Unknown,
            },
        };
        if id.is_empty() { Route::Unknown } else { Route::Subscription(decode_path(id), part) }
    }

    /// What the route asks of those who use it.
    pub(crate) fn entry(&self) -> Entry {
        match self {
            Route::Page | Route::Healthz | Route::Readyz | Route::Jwks => Entry::Public,
            Route::Subscription(
                _,
                subscriptions::Part::Callback
                | subscriptions::Part::Ack
                | subscriptions::Part::Release,
            ) => Entry::OwnToken,
            Route::WebSocket | Route::Live(_) | Route::Heartbeat => Entry::Later,
            Route::Metrics
            | Route::Stream(_)
            | Route::Subscription(..)
            | Route::Sessions
            | Route::SessionSubscriptions
            | Route::SessionOffsets(_)
            | Route::Nodes
            | Route::Connections
            | Route::BestNode
            | Route::Keys(_)
            | Route::Tickets
            | Route::Cookie
            | Route::Control
            | Route::Sql
            | Route::Watch
            | Route::Capture
            | Route::Doctor
            | Route::EntityStats
            | Route::Groups(_)
            | Route::Unknown => Entry::Keyed,
        }
    }

    /// What a request of this route does. The caller must be allowed to.
    pub(crate) fn act(&self, method: &Method) -> Act<'_> {
        match self {
            Route::Page | Route::Healthz | Route::Readyz | Route::Jwks => Act::Nothing,
            Route::Stream(name) => match *method {
                Method::PUT | Method::POST => Act::Append(name),
                Method::DELETE => Act::Delete(name),
                _ => Act::Read(name),
            },
            // The streams that a message, a session or a body names are asked about one by one.
            Route::WebSocket | Route::Live(_) | Route::SessionSubscriptions => Act::AsksItself,
            Route::Subscription(..) => Act::AsksItself,
            // What belongs to the caller: a session's signature says whose it is.
            Route::Sessions
            | Route::Heartbeat
            | Route::SessionOffsets(_)
            | Route::BestNode
            | Route::Tickets
            | Route::Cookie => Act::AsksItself,
            Route::Metrics | Route::Nodes | Route::EntityStats => Act::Observe,
            Route::Sql => Act::Sql,
            Route::Groups(part) => part.act(method),
            Route::Keys(_)
            | Route::Connections
            | Route::Control
            | Route::Watch
            | Route::Capture
            | Route::Doctor => Act::Administer,
            Route::Unknown => Act::Nothing,
        }
    }

    /// By which it is counted.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Route::Page => "/",
            Route::Healthz => "/healthz",
            Route::Readyz => "/readyz",
            Route::Metrics => "/metrics",
            Route::Stream(_) => "/v1/stream/{path}",
            Route::Jwks => "/v1/stream/__ds/jwks.json",
            Route::Subscription(..) => "/v1/stream/__ds/subscriptions/{id}",
            Route::Sessions => "/v1/sessions",
            Route::SessionSubscriptions => "/v1/subscriptions",
            Route::Heartbeat => "/v1/heartbeat",
            Route::SessionOffsets(_) => "/v1/session-offsets/{id}",
            Route::Live(_) => "/v1/live/{id}",
            Route::WebSocket => "/v1/ws",
            Route::Nodes => "/v1/nodes",
            Route::Connections => "/v1/connections",
            Route::BestNode => "/v1/route",
            Route::Keys(administration::keys::Part::All) => "/v1/keys",
            Route::Keys(_) => "/v1/keys/{id}",
            Route::Tickets => "/v1/tickets",
            Route::Cookie => "/v1/cookie",
            Route::Control => "/v1/control",
            Route::Sql => "/v1/sql",
            Route::Watch => "/v1/watch",
            Route::Capture => "/v1/capture",
            Route::Doctor => "/v1/doctor",
            Route::EntityStats => "/v1/entities/stats",
            Route::Groups(part) => part.label(),
            Route::Unknown => "none",
        }
    }

    async fn answer(
        self,
        node: &Arc<Node>,
        request: Request,
        admission: Admission,
    ) -> Result<Response<Body>, Problem> {
        match self {
            Route::Stream(name) => {
                streams::handle(node, &name, request, &admission.identity()?).await
            }
            // Boxed, so that what is rare does not make every connection larger.
            other => Box::pin(other.answer_rarely(node, request, admission)).await,
        }
    }

    /// All but streams.
    async fn answer_rarely(
        self,
        node: &Arc<Node>,
        request: Request,
        admission: Admission,
    ) -> Result<Response<Body>, Problem> {
        match self {
            Route::Subscription(id, part) => {
                let identity = admission.identity()?;
                subscriptions::handle(node, &id, part, request, &identity).await
            }
            Route::Keys(part) => {
                let identity = admission.identity()?;
                administration::keys::handle(node, part, request, &identity).await
            }
            Route::Control => {
                administration::control::handle(node, request, &admission.identity()?).await
            }
            Route::Sql => sql::handle(node, request, &admission.identity()?).await,
            Route::Groups(part) => {
                groups::handle(&node.groups, part, request, &admission.identity()?).await
            }
            Route::Watch => {
                administration::watches::handle(node, request, &admission.identity()?).await
            }
            Route::Capture => {
                administration::capture::handle(node, request, &admission.identity()?).await
            }
            Route::Doctor => administration::doctor::handle(node, request).await,
            Route::Tickets => {
                administration::credentials::tickets(node, request, &admission.identity()?).await
            }
            Route::Cookie => {
                administration::credentials::cookie(node, &request, &admission.identity()?)
            }
            Route::WebSocket => live::multiplexed(node, request, admission),
            Route::Live(session) => live::of_session(node, session, request, admission).await,
            Route::Heartbeat => session_requests::heartbeat(node, request, admission).await,
            Route::Sessions => session_requests::open(node, request, &admission.identity()?).await,
            Route::SessionSubscriptions => {
                session_requests::subscriptions(node, request, &admission.identity()?).await
            }
            Route::SessionOffsets(session) => {
                let identity = admission.identity()?;
                session_requests::offsets(node, &session, request, &identity).await
            }
            _ if !matches!(*request.method(), Method::GET | Method::HEAD) => Err(only_get()),
            Route::Page => Ok(index_page::index()),
            Route::Healthz => Ok(operations::healthz(node)),
            Route::Readyz => operations::readyz(node),
            Route::Metrics => Ok(operations::metrics(node)),
            Route::Jwks => Ok(subscriptions::jwks(node)),
            Route::Nodes => nodes::list(node).await,
            Route::Connections => administration::connections::handle(node, request).await,
            Route::EntityStats => {
                let query = request.uri().query().unwrap_or_default().to_owned();
                entities::stats(node, &query).await
            }
            Route::BestNode => {
                let query = request.uri().query().unwrap_or_default().to_owned();
                nodes::route(node, &query, &admission.identity()?).await
            }
            Route::Stream(_) | Route::Unknown => Err(not_found()),
        }
    }
}

/// Whether a request may become a live connection.
pub(crate) fn is_live<T>(request: &Request<T>) -> bool {
    let path = request.uri().path();
    path == "/v1/ws"
        || path.starts_with("/v1/live/")
        || (path.starts_with("/v1/stream/") && request.uri().query().is_some_and(streams::follows))
}

/// Answers a request: finds its route, asks at the door, and counts what came of it.
pub(crate) async fn respond(node: Arc<Node>, mut request: Request) -> Response<Body> {
    let started = Instant::now();
    let route = Route::of(request.uri().path());
    let (label, method) = (route.label(), request.method().clone());
    let origin_of_request = RequestOrigin::of(&node, &request);
    let is_page = route == Route::Page;
    let answer = match origin::check_one_host(&request) {
        Ok(()) if method == Method::OPTIONS => Ok(origin::preflight()),
        Ok(()) => {
            let lookup = authenticate::lookup(&node, route.entry(), &request, &origin_of_request);
            match permit(&node, route.act(&method), lookup).await {
                Ok(admission) => {
                    // Nothing of the body is read before this.
                    let account = Arc::clone(admission.account(&node));
                    request.extensions_mut().insert(Arc::clone(&account));
                    let answer = route.answer(&node, request, admission).await;
                    answer.and_then(|answer| node.access.hold_answer(answer, &account, &method))
                }
                Err(problem) => Err(turned_away(problem, &request)),
            }
        }
        Err(problem) => Err(problem),
    };
    let mut response = answer.unwrap_or_else(IntoResponse::into_response);
    if !is_page {
        origin::make_inert(response.headers_mut());
    }
    origin_of_request.dress(response.headers_mut());
    node.metrics.answered(label, &method, response.status(), started.elapsed());
    response
}

/// Finds out who asks, and whether they may.
async fn permit(
    node: &Node,
    act: Act<'_>,
    lookup: Result<CredentialLookup<'_>, Problem>,
) -> Result<Admission, Problem> {
    let admission = match lookup {
        Ok(lookup) => lookup.admit(node).await,
        Err(problem) => Err(problem),
    };
    let admission =
        admission.inspect_err(|problem| audit::turned_away(&node.access, None, act, problem))?;
    if let Admission::Known(identity) = &admission {
        let allowed = identity.may(act);
        allowed.inspect_err(|problem| {
            audit::turned_away(&node.access, Some(identity), act, problem)
        })?;
    }
    Ok(admission)
}

fn only_get() -> Problem {
    method_not_allowed("GET, HEAD")
}

/// Does not repeat the path: people put sessions' ids and tickets there.
fn not_found() -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "no_such_route",
        "there is nothing at this path",
        "streams are at /v1/stream/{path}",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subscriptions::Part;

    #[test]
    fn a_request_is_live_when_its_decoded_query_says_so() {
        let live = |uri: &str| is_live(&Request::get(uri).body(()).expect("a request"));
        for uri in
            ["/v1/ws", "/v1/live/s", "/v1/stream/a?live=sse", "/v1/stream/a?offset=-1&l%69ve=s%73e"]
        {
            assert!(live(uri), "{uri}");
        }
        for uri in [
            "/v1/stream/a",
            "/v1/stream/a?live=long-poll",
            "/v1/stream/a?live=sse&live=true",
            "/v1/nodes?live=sse",
        ] {
            assert!(!live(uri), "{uri}");
        }
    }

    #[test]
    fn what_is_reserved_is_never_a_stream() {
        let subscription = |part| Route::Subscription("a b".to_owned(), part);
        for (path, route) in [
            ("/v1/stream/doc/1%2F2", Route::Stream("doc/1/2".to_owned())),
            ("/v1/stream/", Route::Unknown),
            ("/v1/stream", Route::Unknown),
            ("/v1/stream/__ds/jwks.json", Route::Jwks),
            ("/v1/stream/__ds/else", Route::Unknown),
            ("/v1/stream/__ds/subscriptions/", Route::Unknown),
            ("/v1/stream/__ds/subscriptions/a%20b", subscription(Part::Itself)),
            ("/v1/stream/__ds/subscriptions/a%20b/claim", subscription(Part::Claim)),
            ("/v1/stream/__ds/subscriptions/a%20b/other", Route::Unknown),
            (
                "/v1/stream/__ds/subscriptions/a%20b/streams/m%2Fb",
                subscription(Part::Stream("m/b".to_owned())),
            ),
        ] {
            assert_eq!(Route::of(path), route, "{path}");
        }
    }

    #[test]
    fn only_what_anyone_may_know_is_public() {
        for path in [
            "/metrics",
            "/v1/stream/x",
            "/v1/stream/__ds/subscriptions/x",
            "/v1/sessions",
            "/v1/subscriptions",
            "/v1/session-offsets/x",
            "/v1/nodes",
            "/v1/route",
            "/v1/keys",
            "/v1/keys/1/rotate",
            "/v1/tickets",
            "/v1/cookie",
            "/v1/control",
            "/v1/sql",
            "/v1/watch",
            "/v1/capture",
            "/v1/doctor",
            "/v1/entities/stats",
            "/v1/groups",
            "/v1/groups/g",
            "/v1/groups/g/claim",
            "/v1/groups/g/dead/drop",
            "/v1/else",
        ] {
            assert_eq!(Route::of(path).entry(), Entry::Keyed, "{path}");
        }
    }
}
