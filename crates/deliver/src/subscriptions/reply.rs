//! The store's replies over HTTP. Errors carry the protocol's own `error` object inside the
//! problem document, so that clients of either kind find what they look for.

use axum::Json;
use axum::body::Body;
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use serde_json::json;

use tidewire_store::subscription::Reply;

use super::document;
use crate::node::Node;
use tidewire_access::problem::Problem;

/// A problem with the protocol's code.
pub(super) fn error(
    status: StatusCode,
    code: &'static str,
    detail: impl Into<String>,
    hint: &'static str,
) -> Problem {
    let detail = detail.into();
    Problem::new(status, code, detail.clone(), hint)
        .with_member("error", json!({ "code": code, "message": detail }))
}

/// The answer for a reply.
pub(super) fn respond(node: &Node, reply: Reply) -> Result<Response<Body>, Problem> {
    let conflict = StatusCode::CONFLICT;
    match reply {
        Reply::Subscription { new, subscription } => {
            let status = if new { StatusCode::CREATED } else { StatusCode::OK };
            Ok((status, Json(document::subscription(node, &subscription))).into_response())
        }
        Reply::Done { next_wake } => {
            Ok(Json(json!({ "ok": true, "next_wake": next_wake })).into_response())
        }
        Reply::Claimed(subscription) => {
            let wake_id = subscription.wake.as_ref().map(|wake| wake.id.clone());
            Ok(Json(json!({
                "wake_id": wake_id,
                "generation": subscription.generation,
                "token": node.signer.token(&subscription.id, subscription.generation),
                "streams": document::links(node, &subscription, true),
                "lease_ttl_ms": subscription.config.lease_ttl_ms,
            }))
            .into_response())
        }
        Reply::Deliver(_) => Ok(StatusCode::NO_CONTENT.into_response()),
        Reply::NotFound => Err(error(
            StatusCode::NOT_FOUND,
            "SUBSCRIPTION_NOT_FOUND",
            "there is no subscription of this id",
            "create it with PUT",
        )),
        Reply::Exists => Err(error(
            conflict,
            "SUBSCRIPTION_ALREADY_EXISTS",
            "a subscription of this id exists with another configuration",
            "delete it first, or use another id",
        )),
        Reply::NotPullWake => Err(error(
            StatusCode::BAD_REQUEST,
            "INVALID_REQUEST",
            "the subscription is woken by a webhook, not claimed",
            "create a subscription of type pull-wake",
        )),
        Reply::AlreadyClaimed { holder, generation } => Err(Problem::new(
            conflict,
            "ALREADY_CLAIMED",
            format!("{holder:?} has the work"),
            "wait until it is done or its lease ends",
        )
        .with_member(
            "error",
            json!({
                "code": "ALREADY_CLAIMED",
                "message": "the work is claimed",
                "current_holder": holder,
                "generation": generation,
            }),
        )),
        Reply::NoPendingWork => Err(error(
            conflict,
            "NO_PENDING_WORK",
            "there is nothing to claim",
            "wait for the next event in the wake stream",
        )),
        Reply::Fenced => Err(error(
            conflict,
            "FENCED",
            "the wake is not the present one",
            "stop working on it: it was finished, or its lease ended and others have it",
        )),
        Reply::InvalidAck { reason } => Err(error(
            conflict,
            "INVALID_OFFSET",
            reason,
            "acknowledge offsets between acked_offset and tail_offset of the wake's streams",
        )),
    }
}
