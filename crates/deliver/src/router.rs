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

/// All routes of a node. A route gets in only through `through`, which puts it behind the door.
pub(crate) fn router(node: Arc<Node>) -> Router {
    let through = |entry: Entry, route: MethodRouter<Arc<Node>>| {
        route.layer(from_fn_with_state((Arc::clone(&node), entry), pass))
    };
    let keyed = |route| through(Entry::Keyed, route);
    let public = |route| through(Entry::Public, route);
    let own_token = |route| through(Entry::OwnToken, route);
    let subscription = "/v1/stream/__ds/subscriptions/{id}";
    Router::new()
        .route("/", public(get(page::index)))
        .route("/healthz", public(get(operations::healthz)))
        .route("/readyz", public(get(operations::readyz)))
        .route("/metrics", keyed(get(operations::metrics)))
        .route("/v1/stream/__ds/jwks.json", public(get(subscriptions::jwks)))
        .route(subscription, keyed(any(subscriptions::base)))
        .route(&format!("{subscription}/streams"), keyed(any(subscriptions::add_streams)))
        .route(&format!("{subscription}/streams/{{*path}}"), keyed(any(subscriptions::stream)))
        .route(&format!("{subscription}/claim"), keyed(any(subscriptions::claim)))
        .route(&format!("{subscription}/callback"), own_token(any(subscriptions::callback)))
        .route(&format!("{subscription}/ack"), own_token(any(subscriptions::ack)))
        .route(&format!("{subscription}/release"), own_token(any(subscriptions::release)))
        .route("/v1/stream/{*path}", keyed(any(streams::handle)))
        .fallback(not_found.layer(from_fn_with_state((Arc::clone(&node), Entry::Keyed), pass)))
        .layer(from_fn_with_state(Arc::clone(&node), metrics::observe))
        .with_state(node)
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
