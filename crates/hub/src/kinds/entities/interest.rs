//! One subscription to entities: its ids, and the changes that wait to be sent.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tidewire_store::{EntityChange, Epoch, Position, Reach};

use super::waiting::{self, EntityState, PendingChanges};
use crate::Hub;
use crate::tail::EntityNews;
use tidewire_access::auth::Identity;

/// The part of a subscription that only one to entities has.
#[derive(Debug)]
pub struct EntityFollow {
    pub code: Arc<str>,
    /// Each with the place after which it is yet to be told of what happens.
    pub ids: HashMap<Arc<str>, Position>,
    pub(super) waiting: PendingChanges,
    pub(super) identity: Identity,
    epoch: Epoch,
    /// Whether it may hear of what comes from a stream, of those it came from so far.
    sources: Vec<(Box<str>, bool)>,
    /// Requests that are not answered yet.
    pub(super) joining: Vec<PendingSubscribe>,
    /// It has its place among those who are told next, or in the outbox.
    pub(super) queued: bool,
    /// It has begun, and nothing of the past is yet to be told.
    pub live: bool,
}

/// A request that the store is asked about.
#[derive(Debug)]
pub(super) struct PendingSubscribe {
    pub(super) serial: u32,
    /// Everything after this will be told, of the ids that the request names.
    pub(super) after: Position,
    /// Whether the log is read for it: until that is done nothing is told, or the older would come
    /// after the newer.
    pub(super) reads: bool,
    /// All that it names.
    pub(super) ids: Vec<Arc<str>>,
    /// Those of them that were not subscribed to before.
    pub(super) fresh: Vec<Arc<str>>,
}

/// Whether a change concerns those with a reach: it is of a tenant of theirs, or of everything.
pub(super) fn concerns(reach: &Reach, change: &EntityChange) -> bool {
    change.id.is_none() || reach.covers(change.host_id.as_deref())
}

impl EntityFollow {
    pub fn new(code: &Arc<str>, identity: Identity, epoch: Epoch) -> EntityFollow {
        EntityFollow {
            code: Arc::clone(code),
            ids: HashMap::new(),
            waiting: PendingChanges::default(),
            identity,
            epoch,
            sources: Vec::new(),
            joining: Vec::new(),
            queued: false,
            live: false,
        }
    }

    /// Whether it is about entities of a code.
    pub(crate) fn is_of(&self, code: &str) -> bool {
        *self.code == *code
    }

    /// Whether its holder may be told of something.
    pub(super) fn may_hear(&mut self, hub: &Hub, news: &EntityNews) -> bool {
        if !concerns(self.identity.scopes().reach(), &news.change) {
            return false;
        }
        let known = self.sources.iter().find(|(stream, _)| *stream == news.stream);
        if let Some((_, allowed)) = known {
            return *allowed;
        }
        let allowed = hub.may_hear_from(&self.identity, &news.stream);
        self.sources.push((news.stream.clone(), allowed));
        allowed
    }

    /// Notes what became of an entity of its.
    pub(super) fn note(&mut self, told: EntityState, news: &EntityNews) {
        if let Some(up_to) = self.ids.get_mut(&told.id) {
            *up_to = told.position;
        }
        self.waiting.note(told, Some(news.created_at_ms));
    }

    /// Whether what waits is held back.
    pub(super) fn is_held(&self) -> bool {
        self.joining.iter().any(|joining| joining.reads)
    }

    /// Takes out a request that is answered.
    pub(super) fn answered(&mut self, serial: u32) -> Option<PendingSubscribe> {
        let place = self.joining.iter().position(|joining| joining.serial == serial)?;
        Some(self.joining.remove(place))
    }

    /// The ids that go with a request that failed: those that it brought, and nobody else names.
    pub(super) fn given_up(&mut self, failed: PendingSubscribe) -> Vec<Arc<str>> {
        let mut given_up = failed.fresh;
        for other in &mut self.joining {
            let named: HashSet<&Arc<str>> = other.ids.iter().collect();
            let (kept, rest): (Vec<_>, Vec<_>) =
                given_up.into_iter().partition(|id| named.contains(id));
            other.fresh.extend(kept);
            given_up = rest;
        }
        given_up
    }

    /// Takes out what waits, as messages; with how many changes they tell, and up to where.
    pub(super) fn take(
        &mut self,
        query_id: &str,
        sent: Position,
    ) -> (Vec<String>, Vec<EntityState>) {
        let changes = self.waiting.take();
        (waiting::messages(query_id, &self.code, &changes, sent, self.epoch), changes)
    }
}
