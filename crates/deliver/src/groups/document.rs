//! Groups as JSON, as clients receive them.

use axum::body::Body;
use axum::http::{Method, Response, StatusCode};
use serde_json::{Value, json};

use tidewire_store::Position;
use tidewire_store::groups::{GroupView, MemberView, PartitionView};

use super::dispatchers::GroupDispatchers;
use super::lag::Lag;
use super::{Answer, problem};
use crate::document::method_not_allowed;
use crate::document::uncached;
use tidewire_access::problem::Problem;
use tidewire_wire::clock::moment;

/// Where a partition stands, as an offset: everything up to it is consumed.
pub(super) fn consumed(dispatchers: &GroupDispatchers, next: Position) -> String {
    dispatchers.hub.offset(Position::new(next.number().saturating_sub(1))).to_string()
}

/// `GET /v1/groups`.
pub(super) async fn list(dispatchers: &GroupDispatchers, method: Method) -> Answer {
    if !matches!(method, Method::GET | Method::HEAD) {
        return Err(method_not_allowed("GET, HEAD"));
    }
    let views = dispatchers.store.list_groups().await?;
    let mut groups = Vec::with_capacity(views.len());
    for view in &views {
        let lag = dispatchers.lag_of(view).await?;
        let mut group = group(dispatchers, view, &lag);
        if let Some(members) = group.as_object_mut() {
            members.remove("partitions");
            members.remove("members");
        }
        groups.push(group);
    }
    Ok(uncached(StatusCode::OK, json!({ "groups": groups })))
}

/// A group with all that is known of it.
pub(super) async fn described(
    dispatchers: &GroupDispatchers,
    status: StatusCode,
    view: &GroupView,
) -> Result<Response<Body>, Problem> {
    let lag = dispatchers.measure_lag(view).await?;
    Ok(uncached(status, group(dispatchers, view, &lag)))
}

fn group(dispatchers: &GroupDispatchers, view: &GroupView, lag: &Lag) -> Value {
    let partitions = view.partitions.iter();
    let stopped = view.stopped.as_deref();
    json!({
        "group": view.group,
        "total_partitions": view.total,
        "wanted_partitions": view.wanted,
        "barrier": view.barrier.map(|barrier| consumed(dispatchers, barrier)),
        "tables": view.filter.tables,
        "streams": view.filter.streams,
        "max_attempts": view.max_attempts,
        "on_dead": view.on_dead.as_str(),
        "stopped": stopped.map(|code| json!({ "code": code, "text": problem::stop_text(code) })),
        "lost_to": (view.lost_to > Position::START).then(|| dispatchers.hub.offset(view.lost_to).to_string()),
        "created_at": moment(view.created_at_ms),
        "member_count": view.members.len(),
        "dead_letters": view.dead,
        "parked_letters": view.parked,
        "lag_events": lag.events(view),
        "lag_seconds": lag.seconds(view),
        "partitions": partitions.map(|at| partition(dispatchers, at, lag)).collect::<Vec<_>>(),
        "members": view.members.iter().map(member).collect::<Vec<_>>(),
    })
}

fn partition(dispatchers: &GroupDispatchers, view: &PartitionView, lag: &Lag) -> Value {
    let lag = lag.partition(view);
    let trouble = view.trouble.as_deref().map(problem::trouble_parts);
    json!({
        "partition": view.partition,
        "consumed": consumed(dispatchers, view.next),
        "lag_offsets": lag.offsets,
        "lag_events": lag.events,
        "lag_seconds": lag.seconds,
        "generation": view.generation,
        "member": view.member,
        "moved_at": view.moved_at_ms.map(moment),
        "lease_ms": view.lease_ms,
        "leased_to": view.lease_ms.and(view.leased_to).map(|to| consumed(dispatchers, to)),
        "retry_in_ms": view.retry_in_ms,
        "failing": view.failing,
        "parked_keys": view.parked,
        "redrive": view.redrive,
        "trouble": trouble.map(|(code, text)| json!({ "code": code, "text": text })),
    })
}

fn member(view: &MemberView) -> Value {
    let counts: Value = serde_json::from_str(view.report.counts.get()).unwrap_or_default();
    json!({
        "member": view.report.member,
        "kind": view.report.kind.as_str(),
        "pinned": view.report.pinned,
        "joined_at": moment(view.joined_at_ms),
        "lease_ms": view.lease_ms,
        "report": counts,
    })
}
