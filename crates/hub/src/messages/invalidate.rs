//! Entities that changed.

use serde::Serialize;

use tidewire_store::Offset;

use super::shown;

/// Entities of one code that changed.
#[derive(Debug, Serialize)]
pub struct Invalidate<'a> {
    pub query_id: &'a str,
    pub payload: InvalidatedEntities<'a>,
    #[serde(serialize_with = "shown")]
    pub offset: Offset,
}

/// What changed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InvalidatedEntities<'a> {
    pub entity_code: &'a str,
    pub changes: Vec<InvalidatedEntity<'a>>,
}

/// The last that became of an entity.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InvalidatedEntity<'a> {
    pub entity_id: &'a str,
    pub action: &'static str,
}
