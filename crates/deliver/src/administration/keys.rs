//! `/v1/keys`: making, listing, revoking and rotating API keys.

use std::time::Duration;

use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::IntoResponse;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use tidewire_store::{KeyView, NewKey, StoreError};

use super::{Answer, invalid};
use crate::body;
use crate::document::{only, parse, uncached};
use crate::node::Node;
use tidewire_access::auth::key;
use tidewire_access::auth::key::NewApiKey;
use tidewire_access::auth::scopes::{Scopes, is_no_rule};
use tidewire_access::auth::{Identity, audit};
use tidewire_access::problem::Problem;

/// How long a rotated key goes on unless something else is said.
const OVERLAP: Duration = Duration::from_secs(24 * 3600);

/// What of the keys a request is about.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part {
    All,
    One(String),
    Rotation(String),
}

/// All routes of keys. The caller was found to be an administrator.
pub(crate) async fn handle(
    node: &Node,
    part: Part,
    request: Request,
    identity: &Identity,
) -> Answer {
    match part {
        Part::All => {
            only(&request, &[Method::GET, Method::POST])?;
            if *request.method() == Method::GET {
                return list(node).await;
            }
            create(node, request, identity).await
        }
        Part::One(id) => {
            only(&request, &[Method::DELETE])?;
            revoke(node, number(&id)?, identity).await
        }
        Part::Rotation(id) => {
            only(&request, &[Method::POST])?;
            rotate(node, number(&id)?, request, identity).await
        }
    }
}

async fn list(node: &Node) -> Answer {
    let keys = node.store.keys().await?;
    let keys: Value = keys.iter().map(shown).collect();
    Ok(uncached(StatusCode::OK, json!({ "keys": keys })))
}

async fn create(node: &Node, request: Request, identity: &Identity) -> Answer {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct CreateKeyJson<'a> {
        name: String,
        #[serde(borrow)]
        scopes: &'a RawValue,
        expires_in_ms: Option<u64>,
    }
    let bytes = body::read(request, &node.access).await?;
    let CreateKeyJson { name, scopes, expires_in_ms } = parse(&bytes, invalid)?;
    let notes = wrong_in(node, scopes.get()).await?;
    let NewApiKey { key, hash } = fresh()?;
    let new = NewKey { name, hash, scopes: scopes.get().to_owned(), expires_in_ms };
    let view = node.store.create_key(new).await?;
    audit::administered(identity, "create key", &view.id.to_string());
    // Its rules are looked at, so that the log says what is wrong with them before it is used.
    node.access.names.doubt();
    let mut document = with_key(&view, &key);
    if !notes.is_empty() {
        document["notes"] = notes.into();
    }
    Ok(uncached(StatusCode::CREATED, document))
}

/// What is wrong with scopes: those that are none are refused. A rule for a table that is not watched, or not as
/// the rule says, is worth a note, because the table may come later.
async fn wrong_in(node: &Node, scopes: &str) -> Result<Vec<String>, Problem> {
    let scopes = Scopes::parse(scopes, &(), &node.access.names).map_err(wrong_scopes)?;
    if scopes.rules().next().is_none() {
        return Ok(Vec::new());
    }
    node.access.names.look(&node.store, Duration::ZERO).await?;
    for (table, rule) in scopes.rules() {
        let rule = rule.filter(|rule| !is_no_rule(rule));
        if let Some(refusal) = rule.and_then(|rule| node.hub.unreadable_rule(table, rule)) {
            let what = format!("rows of {:?}: {}", table.text, refusal.message);
            return Err(wrong_scopes(what));
        }
    }
    Ok(node.hub.wrong_in_scopes("this key", &scopes).await)
}

async fn revoke(node: &Node, id: i64, identity: &Identity) -> Answer {
    if !node.store.revoke_key(id).await? {
        return Err(no_such_key());
    }
    // All nodes are told, this one too; but whoever has the answer can count on it here at once.
    node.access.credentials.changed(id);
    audit::administered(identity, "revoke key", &id.to_string());
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn rotate(node: &Node, id: i64, request: Request, identity: &Identity) -> Answer {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct RotateKeyJson {
        overlap_ms: Option<u64>,
        expires_in_ms: Option<u64>,
    }
    let bytes = body::read(request, &node.access).await?;
    let RotateKeyJson { overlap_ms, expires_in_ms } = parse(&bytes, invalid)?;
    let overlap_ms = overlap_ms.map_or(OVERLAP, Duration::from_millis).as_millis();
    let overlap_ms = u64::try_from(overlap_ms).unwrap_or(u64::MAX);
    let NewApiKey { key, hash } = fresh()?;
    let rotated = node.store.rotate_key(id, &hash, overlap_ms, expires_in_ms).await?;
    let Some(view) = rotated else {
        return Err(no_such_key());
    };
    node.access.credentials.changed(id);
    audit::administered(identity, "rotate key", &id.to_string());
    Ok(uncached(StatusCode::CREATED, with_key(&view, &key)))
}

/// A key as administrators see it: never the key itself, nor its hash.
fn shown(view: &KeyView) -> Value {
    let time = |ms: i64| jiff::Timestamp::from_millisecond(ms).map(|at| at.to_string()).ok();
    json!({
        "id": view.id,
        "name": view.name,
        "scopes": serde_json::from_str::<Value>(&view.scopes).unwrap_or_default(),
        "created_at": time(view.created_at_ms),
        "last_used_at": view.last_used_at_ms.and_then(time),
        "expires_at": view.expires_at_ms.and_then(time),
        "is_active": view.is_active,
        "is_valid": view.is_valid(),
    })
}

/// The one time that a key is shown.
fn with_key(view: &KeyView, key: &str) -> Value {
    let mut document = shown(view);
    document["key"] = key.into();
    document
}

fn fresh() -> Result<NewApiKey, Problem> {
    let missing = || Problem::from(StoreError::Unavailable("no randomness".to_owned()));
    key::generate().ok_or_else(missing)
}

fn number(id: &str) -> Result<i64, Problem> {
    id.parse().map_err(|_| no_such_key())
}

fn wrong_scopes(detail: String) -> Problem {
    Problem::bad_request(
        "invalid_scopes",
        detail,
        "scopes are an object with tables, and perhaps streams, append, columns, rows, groups, can, \
         host and hosts; PROTOCOL.md describes them",
    )
}

fn no_such_key() -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "key_not_found",
        "the key does not exist, or is expired or revoked",
        "GET /v1/keys lists them, with their numbers",
    )
}
