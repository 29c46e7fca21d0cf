//! What those who run the server ask: is it alive, can it serve, how is it doing.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use serde_json::json;

use crate::node::Node;
use crate::problem::Problem;

/// How long the store may take to say where its tip is before the node counts as not ready.
const READY_TIMEOUT: Duration = Duration::from_secs(2);

/// The process runs.
pub(crate) fn healthz(node: &Node) -> Response<Body> {
    let document = Json(json!({ "status": "alive", "store": node.store.backend() }));
    ([(header::CACHE_CONTROL, "no-store")], document).into_response()
}

/// The node can serve: its store answers, and it is not going away.
pub(crate) async fn readyz(node: &Node) -> Result<Response<Body>, Problem> {
    let not_ready = |why: &str| {
        Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "not_ready",
            why,
            "wait, or send requests to another node",
        )
        .retry_after_s(1)
    };
    if node.draining.is_cancelled() {
        return Err(not_ready("the server is shutting down"));
    }
    match tokio::time::timeout(READY_TIMEOUT, node.store.tip()).await {
        Ok(Ok(tip)) => {
            let tip = node.offset(tip).to_string();
            let store = node.store.backend();
            let document = Json(json!({ "status": "ready", "store": store, "tip": tip }));
            Ok(([(header::CACHE_CONTROL, "no-store")], document).into_response())
        }
        Ok(Err(error)) => {
            tracing::warn!(%error, "not ready");
            Err(not_ready("the store does not answer"))
        }
        Err(_) => Err(not_ready("the store takes too long to answer")),
    }
}

/// Prometheus' text format.
pub(crate) fn metrics(node: &Node) -> Response<Body> {
    let mut response = Response::new(Body::from(node.metrics.render(node)));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8"),
    );
    response
}
