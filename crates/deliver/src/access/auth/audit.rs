//! What is written down about access: who came in, who was turned away and why, and what
//! administrators did. Events of the target `tidewire::audit`, which a filter can send elsewhere.
//!
//! No secret is ever among them: a credential is known by its number or its user's name.

use serde_json::value::RawValue;

use super::identity::Identity;
use super::permit::Act;
use crate::access::problem::Problem;
use crate::node::Node;

const TARGET: &str = "tidewire::audit";

/// A credential was found good, for the first time in a while.
pub(crate) fn came_in(node: &Node, identity: &Identity, kind: &'static str) {
    node.metrics.authenticated(kind);
    let who = identity.label();
    tracing::info!(target: TARGET, who, kind, host = identity.tenant(), "came in");
}

/// A request or a message was refused.
pub(crate) fn turned_away(node: &Node, who: Option<&Identity>, act: Act<'_>, problem: &Problem) {
    let reason = problem.code();
    node.metrics.denied(reason);
    if !node.rates.may_write(reason) {
        return;
    }
    let who = who.map_or_else(|| "unknown".to_owned(), Identity::label);
    let (act, on, note) = (act.name(), act.subject(), problem.note());
    tracing::info!(target: TARGET, who, act, on, reason, note, "turned away");
}

/// Bytes of users' SQL in one line.
const STATEMENTS_BYTES_MAX: usize = 8 << 10;

/// What users' SQL says, where the operator has asked for it (`sql.log_statements`).
pub(crate) fn statements<'a>(
    node: &Node,
    all: impl IntoIterator<Item = (&'a str, &'a [Box<RawValue>])>,
) -> Option<String> {
    if !node.options.sql.log_statements {
        return None;
    }
    let mut said = String::new();
    for (sql, params) in all {
        let params: Vec<&str> = params.iter().map(|value| value.get()).collect();
        said.push_str(if said.is_empty() { "" } else { "; " });
        said.push_str(sql);
        said.push_str(&if params.is_empty() {
            String::new()
        } else {
            format!(" [{}]", params.join(", "))
        });
        if said.len() > STATEMENTS_BYTES_MAX {
            let fits = (0..=STATEMENTS_BYTES_MAX).rev().find(|at| said.is_char_boundary(*at));
            said.truncate(fits.unwrap_or(0));
            said.push('…');
            break;
        }
    }
    Some(said)
}

/// Someone ran SQL. Its text is written down only if it is given: it may hold anything. Otherwise this is not of
/// the level of the others, because it is work, and there may be much of it.
pub(crate) fn ran_sql(identity: &Identity, statements: Option<&str>, failed: Option<&Problem>) {
    let (who, problem) = (identity.label(), failed.map(Problem::code));
    let host = identity.tenant();
    match statements {
        Some(sql) => tracing::info!(target: TARGET, who, host, problem, sql, "ran SQL"),
        None => tracing::debug!(target: TARGET, who, host, problem, "ran SQL"),
    }
}

/// An administrator did something.
pub(crate) fn administered(identity: &Identity, act: &'static str, on: &str) {
    tracing::info!(target: TARGET, who = identity.label(), act, on, "administered");
}

/// A credential's standing ended while someone was connected with it.
pub(crate) fn ended(identity: &Identity, reason: &'static str) {
    tracing::info!(target: TARGET, who = identity.label(), reason, "ended");
}
