//! What clients say of entities: `SUBSCRIBE` and `UNSUBSCRIBE`, and subscriptions by `entity_code`.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use tidewire_store::{ENTITY_CODE_BYTES_MAX, ENTITY_ID_BYTES_MAX, is_entity_code, is_entity_id};

use super::message::{self, Refused, read, start_from};
use super::subscribe::SubscribeContext;
use crate::node::Node;
use tidewire_access::problem::Problem;
use tidewire_hub::kinds::entities::own_name;
use tidewire_hub::min_offset::{MinOffset, MinOffsetJson};
use tidewire_hub::{Command, EntityCommand, EntityRequest, KindCommand, StartFrom};

/// Entities that a client wants to be told of.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EntitySubscribe {
    pub(crate) query_id: Arc<str>,
    code: Arc<str>,
    ids: Vec<Arc<str>>,
    start: StartFrom,
    min_offset: MinOffset,
    /// Whether they come to those that the subscription has.
    adds: bool,
}

/// Entities that a client does not want to be told of any more.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EntityUnsubscribe {
    code: Arc<str>,
    ids: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Envelope {
    payload: Payload,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Payload {
    entity_code: String,
    entity_ids: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct EntitySubscribeJson {
    query_id: String,
    entity_code: String,
    #[serde(default)]
    entity_ids: Vec<String>,
    offset: Option<String>,
    #[serde(flatten)]
    min_offset: MinOffsetJson,
}

/// Reads one of a `subscribe`.
pub(super) fn wanted(node: &Node, raw: &RawValue) -> Result<EntitySubscribe, Refused> {
    let document: EntitySubscribeJson = serde_json::from_str(raw.get())
        .map_err(|error| Refused { query_id: None, problem: message::malformed(&error) })?;
    message::check_query_id(&document.query_id)?;
    let refused = |problem| Refused { query_id: Some(document.query_id.clone()), problem };
    let start = document.offset.as_deref().map(|text| start_from(node, text)).transpose();
    Ok(EntitySubscribe {
        query_id: document.query_id.as_str().into(),
        code: code(&document.entity_code).map_err(refused)?,
        ids: ids(document.entity_ids).map_err(refused)?,
        start: start.map_err(refused)?.unwrap_or(StartFrom::Now),
        min_offset: document.min_offset.read(&node.hub).map_err(refused)?,
        adds: false,
    })
}

/// Reads a `SUBSCRIBE`.
pub(super) fn subscribe(text: &[u8]) -> Result<Result<EntitySubscribe, Refused>, Problem> {
    let Envelope { payload: Payload { entity_code, entity_ids } } = read(text)?;
    let code = code(&entity_code)?;
    let query_id = own_name(&code);
    let refused = |problem| Refused { query_id: Some(query_id.to_string()), problem };
    Ok(ids(entity_ids.unwrap_or_default()).map_err(refused).map(|ids| EntitySubscribe {
        query_id,
        code,
        ids,
        start: StartFrom::Now,
        min_offset: MinOffset::default(),
        adds: true,
    }))
}

/// Reads an `UNSUBSCRIBE`. No ids are all of them.
pub(super) fn unsubscribe(text: &[u8]) -> Result<EntityUnsubscribe, Problem> {
    let Envelope { payload: Payload { entity_code, entity_ids } } = read(text)?;
    let ids = entity_ids.filter(|ids| !ids.is_empty());
    Ok(EntityUnsubscribe { code: code(&entity_code)?, ids })
}

fn code(text: &str) -> Result<Arc<str>, Problem> {
    if !is_entity_code(text) || text.chars().any(char::is_control) {
        return Err(invalid(format!(
            "an entity's code has 1 to {ENTITY_CODE_BYTES_MAX} bytes and no control characters"
        )));
    }
    Ok(text.into())
}

/// Each once.
fn ids(mut ids: Vec<String>) -> Result<Vec<Arc<str>>, Problem> {
    if ids.is_empty() {
        return Err(invalid("the message names no entities".to_owned()));
    }
    if !ids.iter().all(|id| is_entity_id(id)) {
        return Err(invalid(format!(
            "an entity's id has 1 to {ENTITY_ID_BYTES_MAX} bytes and no zero byte"
        )));
    }
    ids.sort_unstable();
    ids.dedup();
    Ok(ids.into_iter().map(Arc::from).collect())
}

fn invalid(detail: String) -> Problem {
    Problem::bad_request(
        "invalid_entities",
        detail,
        "name a code, such as project, and the ids as an array of strings",
    )
}

impl EntitySubscribe {
    /// What the hub is asked for, if they may be told of.
    pub(super) async fn request(
        self,
        context: &SubscribeContext<'_>,
    ) -> Result<EntityRequest, Problem> {
        let EntitySubscribe { query_id, code, ids, start, min_offset, adds } = self;
        context.node.hub.permit_entity(context.identity, &code).await?;
        let identity = context.identity.clone();
        Ok(EntityRequest { query_id, code, ids, start, min_offset, identity, adds, kept: false })
    }
}

impl SubscribeContext<'_> {
    /// Asks to be told of entities no longer.
    pub(super) async fn leave_entities(&self, farewell: EntityUnsubscribe) {
        let EntityUnsubscribe { code, ids } = farewell;
        let command = Box::new(EntityCommand::Unsubscribe { code, ids });
        let command = KindCommand::Entities { key: self.key, command };
        self.shard.ask(Command::OfKind(command)).await;
    }
}
