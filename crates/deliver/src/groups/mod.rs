//! Consumer groups over HTTP. PROTOCOL.md, section 30, is the source.
//!
//! ```text
//!  claim ─▶ dispatcher (one a group) ─▶ find a batch ─▶ lease ─▶ token ─┐
//!  ack, nack, extend ◀─────────────── worker ◀───────────────────────┘
//! ```
//!
//! What is true about a group lies in the store; a node remembers only what saves looking twice. So
//! workers may claim from one node and acknowledge to another, and a node that dies takes nothing with
//! it but the claims that waited there. `dispatcher` hands out work, `find` looks for it, `work` ends it,
//! `administer` is for administrators, `upkeep` measures, and moves along what nobody works on.
//!
//! - `waiting_claim`: a claim that waits
//! - `claim`: `POST …/claim`
//! - `counters`: counters of groups on this node
//! - `document`: groups as JSON
//! - `event`: events as workers get them
//! - `lag`: how far groups are behind, counted in the log itself
//! - `letters`: routes for dead letters
//! - `metrics`: metrics of groups
//! - `offer`: handing out one partition
//! - `dispatchers`: this node's state of groups
//! - `problem`: what goes wrong with groups, as clients see it
//! - `redrive`: finds the letters of a lease on redriven letters
//! - `batch_permits`: room for batches
//! - `token`: tokens of leases
//! - `failures`: decides what follows from a failed run

mod administer;
mod batch_permits;
mod claim;
mod counters;
mod dispatcher;
mod dispatchers;
mod document;
mod event;
mod failures;
mod find;
mod lag;
mod letters;
mod metrics;
mod offer;
mod problem;
mod redrive;
mod token;
mod upkeep;
mod waiting_claim;
mod work;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{Method, Response};

use tidewire_store::groups::is_group_name;

use tidewire_access::auth::{Act, Identity};
use tidewire_access::problem::Problem;
use tidewire_hub::encode::decode_path;

pub(crate) use dispatchers::GroupDispatchers;
pub(crate) use metrics::write as write_metrics;
pub(crate) use upkeep::keep;

type Answer = Result<Response<Body>, Problem>;

/// What of the groups a request is about. Names are decoded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part {
    All,
    One(String, GroupAction),
}

/// What of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupAction {
    Itself,
    Change,
    Reset,
    Resume,
    Claim,
    Extend,
    Ack,
    Nack,
    Dead,
    Redrive,
    Drop,
}

impl Part {
    /// What a path means, after `/v1/groups/`.
    pub(crate) fn of(path: &str) -> Option<Part> {
        let (group, step) = path.split_once('/').unwrap_or((path, ""));
        let step = match step {
            "" if !path.ends_with('/') => GroupAction::Itself,
            "change" => GroupAction::Change,
            "reset" => GroupAction::Reset,
            "resume" => GroupAction::Resume,
            "claim" => GroupAction::Claim,
            "extend" => GroupAction::Extend,
            "ack" => GroupAction::Ack,
            "nack" => GroupAction::Nack,
            "dead" => GroupAction::Dead,
            "dead/redrive" => GroupAction::Redrive,
            "dead/drop" => GroupAction::Drop,
            _ => return None,
        };
        (!group.is_empty()).then(|| Part::One(decode_path(group), step))
    }

    /// What a request does.
    pub(crate) fn act(&self, method: &Method) -> Act<'_> {
        match self {
            Part::All => Act::Observe,
            Part::One(group, step) => match step {
                GroupAction::Itself if matches!(*method, Method::GET | Method::HEAD) => {
                    Act::Observe
                }
                GroupAction::Claim
                | GroupAction::Extend
                | GroupAction::Ack
                | GroupAction::Nack
                | GroupAction::Dead => Act::Consume(group),
                GroupAction::Itself
                | GroupAction::Change
                | GroupAction::Reset
                | GroupAction::Resume
                | GroupAction::Redrive
                | GroupAction::Drop => Act::Administer,
            },
        }
    }

    /// By which it is counted.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Part::All => "/v1/groups",
            Part::One(_, step) => match step {
                GroupAction::Itself => "/v1/groups/{group}",
                GroupAction::Change => "/v1/groups/{group}/change",
                GroupAction::Reset => "/v1/groups/{group}/reset",
                GroupAction::Resume => "/v1/groups/{group}/resume",
                GroupAction::Claim => "/v1/groups/{group}/claim",
                GroupAction::Extend => "/v1/groups/{group}/extend",
                GroupAction::Ack => "/v1/groups/{group}/ack",
                GroupAction::Nack => "/v1/groups/{group}/nack",
                GroupAction::Dead => "/v1/groups/{group}/dead",
                GroupAction::Redrive => "/v1/groups/{group}/dead/redrive",
                GroupAction::Drop => "/v1/groups/{group}/dead/drop",
            },
        }
    }
}

/// Answers a request. The caller was found to be allowed to do what [`Part::act`] says.
pub(crate) async fn handle(
    dispatchers: &Arc<GroupDispatchers>,
    part: Part,
    request: Request,
    identity: &Identity,
) -> Answer {
    let (group, step) = match part {
        Part::All => return document::list(dispatchers, request.method().clone()).await,
        Part::One(group, step) => (group, step),
    };
    if !is_group_name(&group) {
        return Err(problem::invalid(
            "a group's name has 1 to 255 bytes, no slash and no control characters".to_owned(),
        ));
    }
    match step {
        GroupAction::Itself => administer::itself(dispatchers, &group, request, identity).await,
        GroupAction::Change => administer::change(dispatchers, &group, request, identity).await,
        GroupAction::Reset => administer::reset(dispatchers, &group, request, identity).await,
        GroupAction::Resume => administer::resume(dispatchers, &group, request, identity).await,
        GroupAction::Claim => claim::handle(dispatchers, &group, request, identity).await,
        GroupAction::Extend => work::extend(dispatchers, &group, request).await,
        GroupAction::Ack => work::ack(dispatchers, &group, request, identity).await,
        GroupAction::Nack => work::nack(dispatchers, &group, request).await,
        GroupAction::Dead => letters::list(dispatchers, &group, request).await,
        GroupAction::Redrive => letters::redrive(dispatchers, &group, request, identity).await,
        GroupAction::Drop => letters::drop(dispatchers, &group, request, identity).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_parts() {
        let one = |name: &str, step| Some(Part::One(name.to_owned(), step));
        for (path, part) in [
            ("billing", one("billing", GroupAction::Itself)),
            ("a%20b/claim", one("a b", GroupAction::Claim)),
            ("g/dead", one("g", GroupAction::Dead)),
            ("g/dead/redrive", one("g", GroupAction::Redrive)),
            ("a%2Fb", one("a/b", GroupAction::Itself)),
            ("", None),
            ("/claim", None),
            ("g/", None),
            ("g/other", None),
            ("g/dead/other", None),
        ] {
            assert_eq!(Part::of(path), part, "{path}");
        }
    }

    #[test]
    fn looking_working_and_administering_are_apart() {
        let act = |path: &str, method: &Method| Part::of(path).expect(path).act(method).name();
        for (path, method, name) in [
            ("g", Method::GET, "observe"),
            ("g", Method::PUT, "administer"),
            ("g", Method::DELETE, "administer"),
            ("g/claim", Method::POST, "consume"),
            ("g/dead", Method::GET, "consume"),
            ("g/dead/drop", Method::POST, "administer"),
        ] {
            assert_eq!(act(path, &method), name, "{method} {path}");
        }
    }
}
