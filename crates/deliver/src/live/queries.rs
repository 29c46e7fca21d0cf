//! What clients say of live queries: subscriptions by `sql`.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use tidewire_store::{Offset, Position};

use super::message::{self, Refused};
use super::subscribe::SubscribeContext;
use crate::node::Node;
use tidewire_access::auth::Ability;
use tidewire_access::problem::Problem;
use tidewire_hub::QueryRequest;
use tidewire_hub::kinds::query::engine::{QuerySeats, for_those_without_sql};
use tidewire_hub::min_offset::{MinOffset, MinOffsetJson};
use tidewire_hub::offset::malformed_offset;

/// How long this node may take to see what a client has from another one.
const OTHER_NODE_WAIT: Duration = Duration::from_secs(1);

/// A query that a client wants to follow.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct QuerySubscribe {
    pub(super) query_id: Arc<str>,
    sql: String,
    /// What stands for its parameters, as JSON.
    params: Vec<String>,
    /// What the client has already.
    resume: Resume,
    etag: Option<String>,
    min_offset: MinOffset,
}

/// From where a client goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resume {
    /// It has nothing.
    Nothing,
    After(Position),
    /// It has something of another time of the log.
    Lost,
}

#[derive(Deserialize)]
struct QuerySubscribeJson {
    query_id: String,
    sql: String,
    #[serde(default)]
    params: Vec<Box<RawValue>>,
    offset: Option<String>,
    etag: Option<String>,
    #[serde(flatten)]
    min_offset: MinOffsetJson,
}

/// Reads one of a `subscribe`.
pub(super) fn wanted(node: &Node, raw: &RawValue) -> Result<QuerySubscribe, Refused> {
    let document: QuerySubscribeJson = serde_json::from_str(raw.get()).map_err(|error| {
        // Whatever else is wrong, its name may be right.
        let named = serde_json::from_str::<serde_json::Value>(raw.get()).ok();
        let query_id = named.and_then(|named| Some(named.get("query_id")?.as_str()?.to_owned()));
        Refused { query_id, problem: message::malformed(&error) }
    })?;
    message::check_query_id(&document.query_id)?;
    let refused = |problem| Refused { query_id: Some(document.query_id.clone()), problem };
    let resume = resume(node, document.offset.as_deref()).map_err(refused)?;
    Ok(QuerySubscribe {
        query_id: document.query_id.as_str().into(),
        sql: document.sql,
        params: document.params.iter().map(|param| param.get().to_owned()).collect(),
        resume,
        etag: document.etag,
        min_offset: document.min_offset.read(&node.hub).map_err(refused)?,
    })
}

/// An offset of another time of the log is no mistake of the client's: it gets all rows.
fn resume(node: &Node, offset: Option<&str>) -> Result<Resume, Problem> {
    Ok(match offset {
        None | Some("-1" | "now") => Resume::Nothing,
        Some(text) => {
            let offset: Offset = text.parse().map_err(|_| malformed_offset())?;
            match offset.position_in(node.store.epoch()) {
                Ok(position) => Resume::After(position),
                Err(_) => Resume::Lost,
            }
        }
    })
}

impl QuerySubscribe {
    /// What the hub is asked for, if whoever asks may read all of it.
    pub(super) async fn request(
        self,
        context: &SubscribeContext<'_>,
    ) -> Result<QueryRequest, Problem> {
        let QuerySubscribe { query_id, sql, params, resume, etag, min_offset } = self;
        let &SubscribeContext { node, identity, .. } = context;
        let seat = node.hub.query_seat(identity)?;
        min_offset.reached(&node.hub).await?;
        // They were JSON when they came.
        let params: Vec<_> =
            params.into_iter().filter_map(|p| RawValue::from_string(p).ok()).collect();
        let compiled = node.hub.compile(identity, &sql, &params).await;
        let compiled = compiled.map_err(|problem| match identity.scopes().can(Ability::Sql) {
            true => problem,
            false => for_those_without_sql(problem),
        })?;
        let patterns = node.hub.pattern_seats(identity, &compiled)?;
        if let Resume::After(position) = resume {
            // Another node may have seen more. An offset that nobody gave is not waited for longer.
            let seen = node.hub.tail.reached(position);
            let _ = tokio::time::timeout(OTHER_NODE_WAIT, seen).await;
        }
        let is_the_same = etag.is_none_or(|etag| etag == compiled.etag);
        let from = match resume {
            Resume::After(position) if is_the_same => Some(position),
            _ => None,
        };
        Ok(QueryRequest {
            query_id,
            sql: sql.into(),
            compiled: Arc::new(compiled),
            resume: from,
            has_rows: resume != Resume::Nothing,
            seats: QuerySeats::new(seat, patterns),
        })
    }
}
