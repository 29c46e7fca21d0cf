//! What clients say of live queries: subscriptions by `sql`.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use serde::Deserialize;
use serde_json::value::RawValue;

use tidewire_store::{Offset, Position};

use super::entities::Asker;
use super::message::{self, Refused};
use crate::access::auth::Ability;
use crate::access::problem::Problem;
use crate::hub::horizon::{Horizon, HorizonDocument};
use crate::hub::kinds::query::engine::{QuerySeats, for_those_without_sql};
use crate::hub::offset::malformed_offset;
use crate::hub::{Command, QueryDeed, QueryRequest};
use crate::node::Node;

/// Queries of one message that are looked at together.
const TOGETHER: usize = 16;

/// How long this node may take to see what a client has from another one.
const OTHER_NODE_WAIT: Duration = Duration::from_secs(1);

/// A query that a client wants to follow.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct QueryWish {
    query_id: Arc<str>,
    sql: String,
    /// What stands for its parameters, as JSON.
    params: Vec<String>,
    /// What the client has already.
    resume: Resume,
    etag: Option<String>,
    horizon: Horizon,
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
struct Document {
    query_id: String,
    sql: String,
    #[serde(default)]
    params: Vec<Box<RawValue>>,
    offset: Option<String>,
    etag: Option<String>,
    #[serde(flatten)]
    horizon: HorizonDocument,
}

/// Whether a subscription is by SQL.
pub(super) fn is_meant(raw: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(borrow)]
        sql: Option<&'a RawValue>,
    }
    serde_json::from_str::<Kind<'_>>(raw.get()).is_ok_and(|kind| kind.sql.is_some())
}

/// Reads one of a `subscribe`.
pub(super) fn wish(node: &Node, raw: &RawValue) -> Result<QueryWish, Refused> {
    let document: Document = serde_json::from_str(raw.get()).map_err(|error| {
        // Whatever else is wrong, its name may be right.
        let named = serde_json::from_str::<serde_json::Value>(raw.get()).ok();
        let query_id = named.and_then(|named| Some(named.get("query_id")?.as_str()?.to_owned()));
        Refused { query_id, problem: message::malformed(&error) }
    })?;
    message::check_query_id(&document.query_id)?;
    let refused = |problem| Refused { query_id: Some(document.query_id.clone()), problem };
    let resume = resume(node, document.offset.as_deref()).map_err(refused)?;
    Ok(QueryWish {
        query_id: document.query_id.as_str().into(),
        sql: document.sql,
        params: document.params.iter().map(|param| param.get().to_owned()).collect(),
        resume,
        etag: document.etag,
        horizon: document.horizon.read(&node.hub).map_err(refused)?,
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

impl Asker<'_> {
    /// Asks for the queries that a client wants. Each is answered for itself.
    pub(super) async fn follow_queries(&self, wishes: Vec<Result<QueryWish, Refused>>) {
        let mut asked = stream::iter(wishes.into_iter().map(|wish| async move {
            match wish {
                Ok(wish) => {
                    let query_id = wish.query_id.to_string();
                    self.request(wish).await.map_err(|problem| (Some(query_id), problem))
                }
                Err(Refused { query_id, problem }) => Err((query_id, problem)),
            }
        }))
        .buffered(TOGETHER);
        while let Some(asked) = asked.next().await {
            let command = match asked {
                Ok(request) => {
                    let deed = QueryDeed::Subscribe(request);
                    Command::Queries { key: self.key, deed: Box::new(deed) }
                }
                Err((query_id, problem)) => {
                    let message = problem.message(query_id.as_deref());
                    Command::Say { key: self.key, message }
                }
            };
            self.shard.ask(command).await;
        }
    }

    async fn request(&self, wish: QueryWish) -> Result<QueryRequest, Problem> {
        let QueryWish { query_id, sql, params, resume, etag, horizon } = wish;
        let seat = self.node.hub.query_seat(self.identity)?;
        horizon.reached(&self.node.hub).await?;
        // They were JSON when they came.
        let params: Vec<_> =
            params.into_iter().filter_map(|p| RawValue::from_string(p).ok()).collect();
        let compiled = self.node.hub.compile(self.identity, &sql, &params).await;
        let compiled =
            compiled.map_err(|problem| match self.identity.scopes().can(Ability::Sql) {
                true => problem,
                false => for_those_without_sql(problem),
            })?;
        let patterns = self.node.hub.pattern_seats(self.identity, &compiled)?;
        if let Resume::After(position) = resume {
            // Another node may have seen more. An offset that nobody gave is not waited for longer.
            let seen = self.node.hub.tail.reached(position);
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
