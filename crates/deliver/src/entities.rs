//! `/v1/entities/stats`: how many subscriptions there are, to what.

use axum::body::Body;
use axum::http::{Response, StatusCode};
use serde_json::{Value, json};

use crate::document::uncached;
use crate::node::Node;
use crate::query_string;
use tidewire_access::problem::Problem;

/// `GET /v1/entities/stats`, of all users or, with `user_id`, of one.
pub(crate) async fn stats(node: &Node, query: &str) -> Result<Response<Body>, Problem> {
    let user_id = query_string::first(query, "user_id");
    let counts = node.store.entity_counts(user_id.as_deref()).await?;
    let counts = counts.into_iter().map(|count| {
        json!({
            "entityCode": count.code,
            "subscriptions": count.subscriptions,
            "entities": count.entities,
            "users": count.users,
        })
    });
    let mut document = json!({ "entities": counts.collect::<Value>() });
    if let Some(user_id) = user_id {
        document["user_id"] = user_id.into();
    }
    Ok(uncached(StatusCode::OK, document))
}
