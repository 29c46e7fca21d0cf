//! What those who run the server ask: is it alive, can it serve, how is it doing.

use std::time::Instant;

use axum::Json;
use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use serde_json::json;

use crate::node::Node;
use crate::scrape;
use tidewire_access::budget::PrepaidBody;
use tidewire_access::problem::Problem;

/// The process runs.
pub(crate) fn healthz(node: &Node) -> Response<Body> {
    let document = Json(json!({ "status": "alive", "store": node.store.backend() }));
    ([(header::CACHE_CONTROL, "no-store")], document).into_response()
}

/// The node can serve: its store answered a moment ago, and it is not going away. No call of this asks the
/// store, because anyone may make as many as they like.
pub(crate) fn readyz(node: &Node) -> Result<Response<Body>, Problem> {
    let not_ready = |why: &str| {
        Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "not_ready",
            why,
            "wait, or send requests to another node",
        )
        .retry_after_s(1)
    };
    if node.hub.draining.is_cancelled() {
        return Err(not_ready("the server is shutting down"));
    }
    let tip = node.readiness.tip(Instant::now()).map_err(not_ready)?;
    // The node may have seen more of the log since.
    let tip = node.hub.offset(tip.max(node.hub.tail.position())).to_string();
    let mut document = json!({ "status": "ready", "store": node.store.backend(), "tip": tip });
    // Tables may come later, so that this is no reason not to be ready.
    let lost = node.hub.rules.without_table();
    if !lost.is_empty() {
        document["rules_without_table"] = lost.iter().map(|name| &**name).collect();
    }
    Ok(([(header::CACHE_CONTROL, "no-store")], Json(document)).into_response())
}

/// Prometheus' text format.
pub(crate) fn metrics(node: &Node) -> Response<Body> {
    let mut response = Response::new(Body::from(scrape::render(node)));
    // Where there is no room, those who run the server are to see that.
    response.extensions_mut().insert(PrepaidBody);
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8"),
    );
    response
}

#[cfg(test)]
mod tests {
    use tidewire_store::memory::MemoryStore;

    use super::*;
    use tidewire_access::options::{Access, Options};

    /// Anyone may ask, so asking costs the database nothing: not even one that is gone is noticed by it. (The
    /// node itself looks now and then; here nothing of it runs.)
    #[tokio::test]
    async fn whether_it_is_ready_is_told_without_the_store() {
        let options = Options::new(Access::OpenOnLoopback);
        let node =
            Node::assemble(options, MemoryStore::fresh(), "http://localhost".to_owned(), 1).await;
        let (node, _unstarted) = node.expect("a node");
        node.store.close().await;
        assert!(node.store.tip().await.is_err(), "the store is gone");
        let answer = readyz(&node).expect("ready, as far as is known");
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(healthz(&node).status(), StatusCode::OK);
        node.hub.draining.cancel();
        assert_eq!(readyz(&node).expect_err("it goes away").code(), "not_ready");
    }
}
