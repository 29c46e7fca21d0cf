//! `/v1/entities/stats`: how many subscriptions there are, to what.

use axum::body::Body;
use axum::http::{Response, StatusCode};
use serde_json::{Value, json};

use crate::document::uncached;
use crate::node::Node;
use tidewire_access::problem::Problem;
use tidewire_hub::encode::decode_path;

/// `GET /v1/entities/stats`, of all users or, with `user_id`, of one.
pub(crate) async fn stats(node: &Node, query: &str) -> Result<Response<Body>, Problem> {
    let user_id = query.split('&').find_map(|pair| pair.strip_prefix("user_id="));
    let user_id = user_id.map(|text| decode_path(&text.replace('+', " ")));
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
