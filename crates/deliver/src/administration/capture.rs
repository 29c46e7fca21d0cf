//! `/v1/capture`: how changes of rows come into the log, and switching that.

use axum::extract::Request;
use axum::http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use tidewire_store::{CaptureMode, CaptureView, RepairView};

use super::{Answer, invalid};
use crate::body;
use crate::document::{only, parse, uncached};
use crate::node::Node;
use crate::sql_problem::sql_problem;
use tidewire_access::auth::{Identity, audit};

/// Says how it is, or switches. The caller was found to be an administrator.
pub(crate) async fn handle(node: &Node, request: Request, identity: &Identity) -> Answer {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct CaptureSwitchJson {
        mode: String,
    }
    only(&request, &[Method::GET, Method::POST])?;
    if *request.method() == Method::GET {
        return Ok(uncached(StatusCode::OK, shown(&node.store.capture().await?)));
    }
    let bytes = body::read(request, &node.access).await?;
    let CaptureSwitchJson { mode } = parse(&bytes, invalid)?;
    let wanted = CaptureMode::parse(&mode).filter(|mode| *mode != CaptureMode::Embedded);
    let wanted = wanted.ok_or_else(|| invalid("mode is \"wal\" or \"outbox\"".to_owned()))?;
    let view = node.store.switch_capture(wanted).await.map_err(sql_problem)?;
    audit::administered(identity, "switch capture", wanted.as_str());
    Ok(uncached(StatusCode::OK, shown(&view)))
}

fn shown(view: &CaptureView) -> Value {
    // Until someone has decided, nothing is captured, and what is in the database is only where it begins.
    let mode = if view.decided { view.mode.as_str() } else { "undecided" };
    json!({
        "mode": mode,
        "reason": view.reason,
        "advice": view.advice,
        "leader": view.leader,
        "waiting": view.waiting,
        "waiting_ms": view.waiting_ms,
        "failed": view.failed,
        "dead": view.dead,
        "retained_wal_bytes": view.retained_wal_bytes,
        "repairs": view.repairs.iter().map(repair).collect::<Value>(),
    })
}

fn repair(repair: &RepairView) -> Value {
    let at = jiff::Timestamp::from_millisecond(repair.at_ms).map(|at| at.to_string());
    json!({ "table": repair.table, "why": repair.why, "at": at.ok(), "events": repair.events })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_nobody_has_chosen_is_not_named() {
        let view = CaptureView {
            mode: CaptureMode::Outbox,
            decided: false,
            reason: "no node has decided yet".to_owned(),
            advice: Vec::new(),
            leader: None,
            waiting: 0,
            waiting_ms: 0,
            failed: 0,
            dead: 0,
            retained_wal_bytes: None,
            repairs: Vec::new(),
        };
        assert_eq!(shown(&view)["mode"], "undecided");
        assert_eq!(shown(&CaptureView { decided: true, ..view })["mode"], "outbox");
    }
}
