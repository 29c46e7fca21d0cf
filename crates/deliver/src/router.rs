//! Every route, and which door it is behind.

use std::sync::Arc;

use axum::Router;
use axum::handler::Handler;
use axum::http::{StatusCode, Uri};
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, any, get};

use crate::door::{Entry, pass};
use crate::node::Node;
use crate::problem::Problem;
use crate::{metrics, operations, page, streams, subscriptions};

const PAGE: &str = "/";
const HEALTHZ: &str = "/healthz";
const READYZ: &str = "/readyz";
const METRICS: &str = "/metrics";
const STREAM: &str = "/v1/stream/{*path}";
const JWKS: &str = "/v1/stream/__ds/jwks.json";
const SUBSCRIPTION: &str = "/v1/stream/__ds/subscriptions/{id}";
const SUBSCRIPTION_STREAMS: &str = "/v1/stream/__ds/subscriptions/{id}/streams";
const SUBSCRIPTION_STREAM: &str = "/v1/stream/__ds/subscriptions/{id}/streams/{*path}";
const CLAIM: &str = "/v1/stream/__ds/subscriptions/{id}/claim";
const CALLBACK: &str = "/v1/stream/__ds/subscriptions/{id}/callback";
const ACK: &str = "/v1/stream/__ds/subscriptions/{id}/ack";
const RELEASE: &str = "/v1/stream/__ds/subscriptions/{id}/release";

/// All of them, the busiest first: what requests are counted by.
pub(crate) const ROUTES: &[&str] = &[
    STREAM,
    PAGE,
    HEALTHZ,
    READYZ,
    METRICS,
    JWKS,
    SUBSCRIPTION,
    SUBSCRIPTION_STREAMS,
    SUBSCRIPTION_STREAM,
    CLAIM,
    CALLBACK,
    ACK,
    RELEASE,
];

/// All routes of a node. A route gets in only through `through`, which puts it behind the door.
pub(crate) fn router(node: Arc<Node>) -> Router {
    let through = |entry: Entry, route: MethodRouter<Arc<Node>>| {
        route.layer(from_fn_with_state((Arc::clone(&node), entry), pass))
    };
    let keyed = |route| through(Entry::Keyed, route);
    let public = |route| through(Entry::Public, route);
    let own_token = |route| through(Entry::OwnToken, route);
    Router::new()
        .route(PAGE, public(get(page::index).fallback(only_get)))
        .route(HEALTHZ, public(get(operations::healthz).fallback(only_get)))
        .route(READYZ, public(get(operations::readyz).fallback(only_get)))
        .route(METRICS, keyed(get(operations::metrics).fallback(only_get)))
        .route(JWKS, public(get(subscriptions::jwks).fallback(only_get)))
        .route(SUBSCRIPTION, keyed(any(subscriptions::base)))
        .route(SUBSCRIPTION_STREAMS, keyed(any(subscriptions::add_streams)))
        .route(SUBSCRIPTION_STREAM, keyed(any(subscriptions::stream)))
        .route(CLAIM, keyed(any(subscriptions::claim)))
        .route(CALLBACK, own_token(any(subscriptions::callback)))
        .route(ACK, own_token(any(subscriptions::ack)))
        .route(RELEASE, own_token(any(subscriptions::release)))
        .route(STREAM, keyed(any(streams::handle)))
        .fallback(not_found.layer(from_fn_with_state((Arc::clone(&node), Entry::Keyed), pass)))
        .layer(from_fn_with_state(Arc::clone(&node), metrics::observe))
        .with_state(node)
}

async fn only_get() -> impl IntoResponse {
    std::future::ready(()).await;
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "this route knows GET",
        "use GET",
    )
    .with_header("allow", "GET, HEAD")
}

async fn not_found(uri: Uri) -> impl IntoResponse {
    std::future::ready(()).await;
    Problem::new(
        StatusCode::NOT_FOUND,
        "no_such_route",
        format!("there is nothing at {}", uri.path()),
        "streams are at /v1/stream/{path}",
    )
}
