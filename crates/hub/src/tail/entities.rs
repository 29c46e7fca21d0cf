//! Changes of entities, for the shards that have followers of them.

use std::collections::HashMap;
use std::sync::Arc;

use tidewire_store::{EntityChange, Position, TailEvent};

use super::{Shared, Tail};

/// What became of an entity, as an event's header has it.
#[derive(Debug)]
pub struct EntityNews {
    pub position: Position,
    pub created_at_ms: i64,
    /// Where it comes from: a table's stream, or the code's own.
    pub stream: Box<str>,
    pub change: EntityChange,
}

/// The codes that someone attends, and how many do.
#[derive(Debug, Default)]
pub(super) struct Codes(HashMap<Arc<str>, usize>);

impl Codes {
    /// What an event says of an entity, if anyone wants to know.
    pub(super) fn news(&self, event: &TailEvent) -> Option<EntityNews> {
        let change = event.entity.as_ref().filter(|change| self.0.contains_key(&*change.code))?;
        Some(EntityNews {
            position: event.position,
            created_at_ms: event.created_at_ms,
            stream: event.stream.as_str().into(),
            change: change.clone(),
        })
    }
}

impl Tail {
    /// Begins to wait for what becomes of entities of a code.
    pub(crate) fn attend_code(&self, code: &Arc<str>) -> CodeGuard {
        let mut topics = self.shared.topics();
        *topics.codes.0.entry(Arc::clone(code)).or_default() += 1;
        let since = topics.position;
        CodeGuard { code: Arc::clone(code), shared: Arc::clone(&self.shared), since }
    }
}

/// A shard's interest in a code. Dropping it ends it.
#[derive(Debug)]
pub struct CodeGuard {
    code: Arc<str>,
    shared: Arc<Shared>,
    /// What happens after this is in the batches.
    since: Position,
}

impl CodeGuard {
    pub fn since(&self) -> Position {
        self.since
    }
}

impl Drop for CodeGuard {
    fn drop(&mut self) {
        let codes = &mut self.shared.topics().codes.0;
        if let Some(count) = codes.get_mut(&self.code) {
            *count -= 1;
            if *count == 0 {
                codes.remove(&self.code);
            }
        }
    }
}
