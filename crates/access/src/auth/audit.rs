//! What is written down about access: who came in, who was turned away and why, and what
//! administrators did. Events of the target `tidewire::audit`, which a filter can send elsewhere.
//!
//! No secret is ever among them: a credential is known by its number or its user's name.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use serde_json::value::RawValue;

use super::identity::Identity;
use super::permit::Act;
use crate::AccessControl;
use crate::problem::Problem;

const TARGET: &str = "tidewire::audit";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    kind: &'static str,
}

/// How often someone came in or was turned away.
#[derive(Debug, Default)]
pub struct Counts {
    denials: Family<ReasonLabels, Counter>,
    authentications: Family<KindLabels, Counter>,
}

impl Counts {
    /// Has a scraper get them.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "authentications",
            "Credentials found good, for the first time in a while",
            self.authentications.clone(),
        );
        let help = "Requests and messages that were refused";
        registry.register("denials", help, self.denials.clone());
    }

    fn denied(&self, reason: &'static str) {
        self.denials.get_or_create(&ReasonLabels { reason }).inc();
    }

    fn authenticated(&self, kind: &'static str) {
        self.authentications.get_or_create(&KindLabels { kind }).inc();
    }
}

/// A credential was found good, for the first time in a while.
pub fn came_in(access: &AccessControl, identity: &Identity, kind: &'static str) {
    access.counts.authenticated(kind);
    let who = identity.label();
    tracing::info!(target: TARGET, who, kind, host = identity.tenant(), "came in");
}

/// A request or a message was refused.
pub fn turned_away(
    access: &AccessControl,
    who: Option<&Identity>,
    act: Act<'_>,
    problem: &Problem,
) {
    let reason = problem.code();
    access.counts.denied(reason);
    if !access.rates.may_write(reason) {
        return;
    }
    let who = who.map_or_else(|| "unknown".to_owned(), Identity::label);
    let (act, on, note) = (act.name(), act.subject(), problem.note());
    tracing::info!(target: TARGET, who, act, on, reason, note, "turned away");
}

/// Bytes of users' SQL in one line.
const STATEMENTS_BYTES_MAX: usize = 8 << 10;

/// What users' SQL says, where the operator has asked for it (`sql.log_statements`).
pub fn statements<'a>(
    access: &AccessControl,
    all: impl IntoIterator<Item = (&'a str, &'a [Box<RawValue>])>,
) -> Option<String> {
    if !access.options.sql.log_statements {
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
pub fn ran_sql(identity: &Identity, statements: Option<&str>, failed: Option<&Problem>) {
    let (who, problem) = (identity.label(), failed.map(Problem::code));
    let host = identity.tenant();
    match statements {
        Some(sql) => tracing::info!(target: TARGET, who, host, problem, sql, "ran SQL"),
        None => tracing::debug!(target: TARGET, who, host, problem, "ran SQL"),
    }
}

/// An administrator did something.
pub fn administered(identity: &Identity, act: &'static str, on: &str) {
    tracing::info!(target: TARGET, who = identity.label(), act, on, "administered");
}

/// A credential's standing ended while someone was connected with it.
pub fn ended(identity: &Identity, reason: &'static str) {
    tracing::info!(target: TARGET, who = identity.label(), reason, "ended");
}
