//! What clients say of streams and of tables' rows.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use tidewire_store::TABLE_PREFIX;

use super::message::{Refused, check_query_id, malformed, start_from};
use super::subscribe::SubscribeContext;
use crate::node::Node;
use crate::sessions::{Following, subscribe};
use crate::streams::where_without_table;
use tidewire_access::problem::Problem;
use tidewire_access::stream_name::{StreamName, relative_name};
use tidewire_hub::min_offset::{MinOffset, MinOffsetJson};
use tidewire_hub::{SessionLink, StartFrom, StreamRequest, ViewMode};

/// A stream that a client wants to follow, or a table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StreamSubscribe {
    pub(crate) query_id: Arc<str>,
    pub(crate) stream: Arc<str>,
    /// If it is to a table: what is wanted of its rows.
    pub(crate) table: Option<Rows>,
    /// Where to begin, if the client says so.
    pub(crate) start: Option<StartFrom>,
    /// How far the log must have come before.
    pub(crate) min_offset: MinOffset,
}

/// Which rows of a table are wanted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    /// A condition; all if there is none.
    pub(crate) filter: Option<String>,
}

#[derive(Deserialize)]
struct StreamSubscribeJson {
    query_id: String,
    stream: Option<String>,
    table: Option<String>,
    #[serde(rename = "where")]
    filter: Option<String>,
    offset: Option<String>,
    #[serde(flatten)]
    min_offset: MinOffsetJson,
}

/// Reads one of a `subscribe`.
pub(super) fn wanted(node: &Node, raw: &RawValue) -> Result<StreamSubscribe, Refused> {
    let anonymous = |problem| Refused { query_id: None, problem };
    let document: StreamSubscribeJson =
        serde_json::from_str(raw.get()).map_err(|error| anonymous(malformed(&error)))?;
    let refused = |problem| Refused { query_id: Some(document.query_id.clone()), problem };
    check_query_id(&document.query_id)?;
    let (stream, table) = match (&document.stream, &document.table) {
        (Some(stream), None) if document.filter.is_none() => (relative_name(stream).into(), None),
        (Some(_), None) => return Err(refused(where_without_table())),
        (None, Some(table)) => {
            let rows = Rows { filter: document.filter.clone() };
            (Cow::from(format!("{TABLE_PREFIX}{table}")), Some(rows))
        }
        _ => return Err(refused(unsupported())),
    };
    let name = StreamName::parse(&stream, &node.options.limits).map_err(refused)?;
    let start = document.offset.as_deref().map(|text| start_from(node, text)).transpose();
    Ok(StreamSubscribe {
        query_id: document.query_id.as_str().into(),
        stream: name.as_str().into(),
        table,
        start: start.map_err(refused)?,
        min_offset: document.min_offset.read(&node.hub).map_err(refused)?,
    })
}

fn unsupported() -> Problem {
    Problem::bad_request(
        "unsupported_subscription",
        "the subscription does not say what one thing it is to follow",
        "name a stream, a table, sql, or an entity_code with entity_ids",
    )
}

impl StreamSubscribe {
    /// What the hub is asked for. A session's subscription is made in the store first.
    pub(super) async fn request(
        self,
        context: &SubscribeContext<'_>,
    ) -> Result<StreamRequest, Problem> {
        let StreamSubscribe { query_id, stream, table, start, min_offset } = self;
        let &SubscribeContext { node, identity, session, .. } = context;
        let reach = node.hub.reach(identity, &stream);
        let filter = table.as_ref().and_then(|rows| rows.filter.as_deref());
        let view = node.hub.view(identity, &stream, filter).await?;
        let patterns = match filter {
            Some(_) => node.hub.filter_seat(identity, view.as_ref()).await?,
            None => None,
        };
        let mode = ViewMode { to_table: table.is_some(), view };
        // A session keeps what it follows by the stream's name alone, so a table's rows are the
        // connection's own.
        let (start, link) = match session.filter(|_| !mode.to_table) {
            None => (start.unwrap_or(StartFrom::Now), None),
            Some(session) => {
                let (reach, stream, query_id) = (&reach, &*stream, &*query_id);
                let made = subscribe(
                    &node.sessions,
                    &node.hub,
                    Following { session, reach, stream, query_id, start },
                )
                .await?;
                let went_live = made.live_since.is_some();
                let link = SessionLink { epoch: made.epoch, went_live };
                (StartFrom::After(made.pointer), Some(link))
            }
        };
        Ok(StreamRequest { query_id, stream, reach, start, min_offset, link, mode, patterns })
    }
}
