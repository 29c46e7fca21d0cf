//! What clients say over a live connection, checked. PROTOCOL.md, section 22, is the source.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use tidewire_store::{Position, TABLE_PREFIX};

use super::entities::{self, EntityFarewell, EntityWish};
use super::queries::{self, QueryWish};
use crate::access::problem::Problem;
use crate::access::stream_name::{StreamName, relative_name};
use crate::document::fault;
use crate::hub::StartFrom;
use crate::hub::ack::{Ack, Acked};
use crate::hub::horizon::{Horizon, HorizonDocument};
use crate::hub::offset::parse_offset;
use crate::node::Node;
use crate::streams::where_without_table;

/// Bytes of a subscription's name.
const QUERY_ID_BYTES_MAX: usize = 256;

/// A client's message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Auth {
        token: String,
    },
    Subscribe {
        streams: Vec<Result<Wish, Refused>>,
        entities: Vec<Result<EntityWish, Refused>>,
        queries: Vec<Result<QueryWish, Refused>>,
    },
    Unsubscribe(Vec<String>),
    SubscribeEntities(Result<EntityWish, Refused>),
    UnsubscribeEntities(EntityFarewell),
    Ack(Vec<Ack>),
    Ping,
}

/// A subscription that a client wants.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) query_id: Arc<str>,
    pub(crate) stream: Arc<str>,
    /// If it is to a table: what is wanted of its rows.
    pub(crate) table: Option<Rows>,
    /// Where to begin, if the client says so.
    pub(crate) start: Option<StartFrom>,
    /// How far the log must have come before.
    pub(crate) horizon: Horizon,
}

/// Which rows of a table are wanted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    /// A condition; all if there is none.
    pub(crate) filter: Option<String>,
}

/// A subscription that cannot be.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) query_id: Option<String>,
    pub(crate) problem: Problem,
}

impl PartialEq for Refused {
    fn eq(&self, other: &Refused) -> bool {
        self.query_id == other.query_id && self.problem.code() == other.problem.code()
    }
}

impl Eq for Refused {}

#[derive(Deserialize)]
struct AckDocument {
    query_id: Option<String>,
    #[serde(rename = "streamId")]
    stream_id: Option<String>,
    #[serde(rename = "lastOffset")]
    last_offset: String,
}

#[derive(Deserialize)]
struct WishDocument {
    query_id: String,
    stream: Option<String>,
    table: Option<String>,
    #[serde(rename = "where")]
    filter: Option<String>,
    offset: Option<String>,
    #[serde(flatten)]
    horizon: HorizonDocument,
}

/// Reads a message.
pub(crate) fn parse(node: &Node, text: &[u8]) -> Result<Message, Problem> {
    #[derive(Deserialize)]
    struct Kind {
        #[serde(rename = "type")]
        kind: String,
    }
    #[derive(Deserialize)]
    struct Auth {
        token: String,
    }
    #[derive(Deserialize)]
    struct Subscribe<'a> {
        #[serde(borrow)]
        subscriptions: Vec<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Unsubscribe {
        query_ids: Vec<String>,
    }
    #[derive(Deserialize)]
    struct Acks {
        offsets: Vec<AckDocument>,
    }
    let Kind { kind } = read(text)?;
    Ok(match kind.as_str() {
        "auth" => Message::Auth { token: read::<Auth>(text)?.token },
        "subscribe" => {
            let Subscribe { subscriptions } = read(text)?;
            let (queries, others): (Vec<_>, Vec<_>) =
                subscriptions.into_iter().partition(|raw| queries::is_meant(raw));
            let (entities, streams): (Vec<_>, Vec<_>) =
                others.into_iter().partition(|raw| entities::is_meant(raw));
            Message::Subscribe {
                streams: streams.into_iter().map(|raw| wish(node, raw)).collect(),
                entities: entities.into_iter().map(|raw| entities::wish(node, raw)).collect(),
                queries: queries.into_iter().map(|raw| queries::wish(node, raw)).collect(),
            }
        }
        "SUBSCRIBE" => Message::SubscribeEntities(entities::subscribe(text)?),
        "UNSUBSCRIBE" => Message::UnsubscribeEntities(entities::unsubscribe(text)?),
        "unsubscribe" => Message::Unsubscribe(read::<Unsubscribe>(text)?.query_ids),
        "ack" => {
            let Acks { offsets } = read(text)?;
            let acks = offsets.into_iter().map(|ack| acked(node, ack));
            Message::Ack(acks.collect::<Result<_, _>>()?)
        }
        "ping" => Message::Ping,
        _ => {
            return Err(Problem::bad_request(
                "unknown_message",
                format!("there is no message of type {kind:?}"),
                "a client's messages are auth, subscribe, unsubscribe, SUBSCRIBE, UNSUBSCRIBE, ack and \
                 ping",
            ));
        }
    })
}

pub(super) fn read<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, Problem> {
    serde_json::from_slice(text).map_err(|error| malformed(&error))
}

pub(super) fn malformed(error: &serde_json::Error) -> Problem {
    Problem::bad_request(
        "malformed_message",
        format!("the message is not right: {}", fault(error)),
        "send a JSON object with a type, as PROTOCOL.md describes it",
    )
}

fn wish(node: &Node, raw: &RawValue) -> Result<Wish, Refused> {
    let anonymous = |problem| Refused { query_id: None, problem };
    let document: WishDocument =
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
    Ok(Wish {
        query_id: document.query_id.as_str().into(),
        stream: name.as_str().into(),
        table,
        start: start.map_err(refused)?,
        horizon: document.horizon.read(&node.hub).map_err(refused)?,
    })
}

/// Refuses a name that is none.
pub(super) fn check_query_id(query_id: &str) -> Result<(), Refused> {
    let too_long = query_id.len() > QUERY_ID_BYTES_MAX;
    if query_id.is_empty() || too_long || query_id.chars().any(char::is_control) {
        let problem = Problem::bad_request(
            "invalid_query_id",
            format!("a query_id has 1 to {QUERY_ID_BYTES_MAX} bytes and no control characters"),
            "give each subscription a short name of its own",
        );
        return Err(Refused { query_id: None, problem });
    }
    Ok(())
}

/// Where to begin: an offset, `-1` or `now`.
pub(crate) fn start_from(node: &Node, text: &str) -> Result<StartFrom, Problem> {
    Ok(match text {
        "-1" => StartFrom::After(Position::START),
        "now" => StartFrom::Now,
        text => StartFrom::After(parse_offset(text, node.store.epoch())?),
    })
}

fn unsupported() -> Problem {
    Problem::bad_request(
        "unsupported_subscription",
        "the subscription does not say what one thing it is to follow",
        "name a stream, a table, sql, or an entity_code with entity_ids",
    )
}

fn acked(node: &Node, ack: AckDocument) -> Result<Ack, Problem> {
    let offset = parse_offset(&ack.last_offset, node.store.epoch())?;
    let of = match (ack.query_id, ack.stream_id) {
        (Some(query_id), _) => Acked::Query(query_id),
        (None, Some(stream)) => Acked::Stream(relative_name(&stream).to_owned()),
        (None, None) => Acked::Everything,
    };
    Ok(Ack { of, offset })
}
