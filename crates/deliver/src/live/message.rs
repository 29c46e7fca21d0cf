//! What clients say over a live connection, checked. PROTOCOL.md, section 22, is the source.

use serde::Deserialize;
use serde_json::value::RawValue;

use tidewire_store::Position;

use super::entities::{self, EntitySubscribe, EntityUnsubscribe};
use super::subscribe::WantedSubscription;
use crate::document::fault;
use crate::node::Node;
use tidewire_access::problem::Problem;
use tidewire_access::stream_name::relative_name;
use tidewire_hub::StartFrom;
use tidewire_hub::ack::{Ack, Acked};
use tidewire_hub::offset::parse_offset;

/// Bytes of a subscription's name.
const QUERY_ID_BYTES_MAX: usize = 256;

/// A client's message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Auth { token: String },
    Subscribe(Vec<Result<WantedSubscription, Refused>>),
    Unsubscribe(Vec<String>),
    SubscribeEntities(Result<EntitySubscribe, Refused>),
    UnsubscribeEntities(EntityUnsubscribe),
    Ack(Vec<Ack>),
    Ping,
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
struct AckedOffsetJson {
    query_id: Option<String>,
    #[serde(rename = "streamId")]
    stream_id: Option<String>,
    #[serde(rename = "lastOffset")]
    last_offset: String,
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
        offsets: Vec<AckedOffsetJson>,
    }
    let Kind { kind } = read(text)?;
    Ok(match kind.as_str() {
        "auth" => Message::Auth { token: read::<Auth>(text)?.token },
        "subscribe" => {
            let Subscribe { subscriptions } = read(text)?;
            Message::Subscribe(
                subscriptions.into_iter().map(|raw| WantedSubscription::read(node, raw)).collect(),
            )
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

fn acked(node: &Node, ack: AckedOffsetJson) -> Result<Ack, Problem> {
    let offset = parse_offset(&ack.last_offset, node.store.epoch())?;
    let of = match (ack.query_id, ack.stream_id) {
        (Some(query_id), _) => Acked::Query(query_id),
        (None, Some(stream)) => Acked::Stream(relative_name(&stream).to_owned()),
        (None, None) => Acked::Everything,
    };
    Ok(Ack { of, offset })
}
