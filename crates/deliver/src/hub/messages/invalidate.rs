//! Entities that changed.

use serde::Serialize;

use tidewire_store::Offset;

use super::shown;

/// Entities of one code that changed.
#[derive(Debug, Serialize)]
pub(crate) struct Invalidate<'a> {
    pub(crate) query_id: &'a str,
    pub(crate) payload: InvalidatedEntities<'a>,
    #[serde(serialize_with = "shown")]
    pub(crate) offset: Offset,
}

/// What changed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InvalidatedEntities<'a> {
    pub(crate) entity_code: &'a str,
    pub(crate) changes: Vec<InvalidatedEntity<'a>>,
}

/// The last that became of an entity.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InvalidatedEntity<'a> {
    pub(crate) entity_id: &'a str,
    pub(crate) action: &'static str,
}
