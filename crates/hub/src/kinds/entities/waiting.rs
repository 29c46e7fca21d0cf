//! What a subscription to entities is yet to be told: of each entity the last that became of it, so
//! that it is never more than what is subscribed to, however slow the client is.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::BytesMut;

use tidewire_store::{EntityAction, Epoch, Position};

use crate::frames;
use crate::frames::Dialect;
use crate::messages::{Invalidate, InvalidatedEntities, InvalidatedEntity, ServerMessage as _};
use tidewire_wire::websocket::deflate::Deflater;

/// Changes in one message. A client reads a message as a whole, and thousands would make it stop
/// and others wait.
const CHANGES_MAX: usize = 1_000;

/// What became of an entity, and where in the log it says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityState {
    pub id: Arc<str>,
    pub position: Position,
    pub action: EntityAction,
}

/// Changes that wait for one subscription.
#[derive(Debug, Default)]
pub(super) struct PendingChanges {
    changes: HashMap<Arc<str>, (Position, EntityAction)>,
    /// When the first of them that happened while it was live was appended, by the store's clock.
    created_at_ms: Option<i64>,
}

impl PendingChanges {
    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// When the first of what waits was appended, but for what was read from the past.
    pub(super) fn created_at_ms(&self) -> Option<i64> {
        self.created_at_ms
    }

    /// Notes a change. A later one of the same entity takes its place, in whatever order they come.
    pub(super) fn note(&mut self, told: EntityState, created_at_ms: Option<i64>) {
        self.created_at_ms = self.created_at_ms.or(created_at_ms);
        let EntityState { id, position, action } = told;
        let known = self.changes.entry(id).or_insert((position, action));
        if position > known.0 {
            *known = (position, action);
        }
    }

    /// An entity is not subscribed to any more.
    pub(super) fn forget(&mut self, id: &str) {
        self.changes.remove(id);
    }

    /// Takes out all that waits, in the log's order.
    pub(super) fn take(&mut self) -> Vec<EntityState> {
        self.created_at_ms = None;
        let changes = std::mem::take(&mut self.changes);
        let mut changes: Vec<EntityState> = changes
            .into_iter()
            .map(|(id, (position, action))| EntityState { id, position, action })
            .collect();
        // Those of a truncated table share a position, and should not change places for nothing.
        changes.sort_by(|a, b| (a.position, &a.id).cmp(&(b.position, &b.id)));
        changes
    }
}

/// Changes as messages, to a client that has everything up to `before`. Each says up to where it has
/// everything then: so those with one position, which are a truncated table's, are all told before a
/// message says that position.
pub(super) fn messages(
    query_id: &str,
    code: &str,
    changes: &[EntityState],
    mut before: Position,
    epoch: Epoch,
) -> Vec<String> {
    let mut messages = Vec::new();
    let mut parts = changes.chunks(CHANGES_MAX).peekable();
    while let Some(part) = parts.next() {
        let last = part.last().map_or(before, |told| told.position);
        let next = parts.peek().and_then(|next| next.first()).map(|told| told.position);
        let complete = if next == Some(last) {
            let earlier = part.iter().rev().map(|told| told.position).find(|at| *at < last);
            earlier.unwrap_or(before)
        } else {
            last
        };
        before = complete;
        let change = |told| {
            let EntityState { id, action, .. }: &EntityState = told;
            InvalidatedEntity { entity_id: id, action: action.as_str() }
        };
        let changes = part.iter().map(change).collect();
        let message = Invalidate {
            query_id,
            payload: InvalidatedEntities { entity_code: code, changes },
            offset: complete.in_epoch(epoch),
        };
        messages.push(message.text());
    }
    messages
}

/// Messages as bytes for the wire. They do not move the cursor of an SSE client: subscriptions to
/// entities end with their connection.
pub(super) fn encode(
    messages: &[String],
    dialect: Dialect,
    deflater: &mut Option<Deflater>,
) -> BytesMut {
    let mut bytes = BytesMut::new();
    for message in messages {
        frames::put(&mut bytes, dialect, message.as_bytes(), None, deflater);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn told(id: &str, position: u64, action: EntityAction) -> EntityState {
        EntityState { id: id.into(), position: Position::new(position), action }
    }

    #[test]
    fn the_last_of_an_entity_is_told_in_whatever_order_it_comes() {
        let mut waiting = PendingChanges::default();
        waiting.note(told("7", 3, EntityAction::Delete), Some(30));
        waiting.note(told("8", 2, EntityAction::Create), None);
        waiting.note(told("7", 1, EntityAction::Update), Some(10));
        let expected = [told("8", 2, EntityAction::Create), told("7", 3, EntityAction::Delete)];
        assert_eq!(waiting.take(), expected);
        assert!(waiting.is_empty());
    }

    proptest! {
        /// Whoever has got some of the messages and comes back with the last one's offset is told of
        /// everything it has not got.
        #[test]
        fn an_offset_covers_nothing_that_was_not_sent(
            gaps in proptest::collection::vec(0u64..2, 1..3_000),
        ) {
            let mut position = 1;
            let changes: Vec<EntityState> = gaps.iter().enumerate().map(|(id, gap)| {
                position += gap;
                told(&id.to_string(), position, EntityAction::Update)
            }).collect();
            let messages = messages("q", "project", &changes, Position::START, Epoch::FIRST);
            let mut sent = 0;
            for message in &messages {
                let message: Value = serde_json::from_str(message).expect("JSON");
                sent += message["payload"]["changes"].as_array().expect("changes").len();
                let offset = message["offset"].as_str().expect("an offset");
                let covered: u64 = offset[5..].parse().expect("a number");
                prop_assert!(changes[sent..].iter().all(|told| told.position.number() > covered));
            }
            prop_assert_eq!(sent, changes.len());
            let last: Value = serde_json::from_str(messages.last().expect("one")).expect("JSON");
            prop_assert_eq!(&last["offset"], &format!("0001_{position:016}"));
        }
    }
}
