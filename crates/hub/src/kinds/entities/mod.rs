//! Subscriptions to entities: a client learns that an entity changed, not what changed in it.
//!
//! ```text
//!   batch ──► index ──► rounds, in slices ──► what waits for a subscription ──► INVALIDATE, when the socket
//!             (code, id)                      (of each id the last change)                       takes it
//! ```
//!
//! A subscription to entities is one among a connection's others, with a name and a place of its own.
//! What it has besides is its [`interest`]. A change costs a look into the [`index`], and an entry for
//! each subscription that it reaches, made when that has its turn ([`news`]); what waits is bounded by what is
//! subscribed to ([`waiting`]), so there are no gaps.
//!
//! Everything about a connection's subscriptions is decided by its shard, in order, and so is what the
//! store is told of them; what needs the store's answer is done in [`begin`] and comes back.
//! [`recheck`] compares with the store where SQL has changed what a connection subscribes to.
//!
//! - `kept`: what the store is told of this node's subscriptions; `ledger`: how often it was, of each connection
//! - `updates`: from news of entities to the outboxes of those who subscribe to them

mod begin;
mod index;
mod interest;
pub mod kept;
mod ledger;
mod news;
mod recheck;
#[cfg(test)]
mod simulation;
mod updates;
mod waiting;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use axum::http::StatusCode;

use crate::messages::AsMessage as _;
use tidewire_store::{
    ENTITY_PREFIX, ENTITY_USER_BYTES_MAX, EntityEdit, EntitySubscription, Position,
};

use crate::admit::Admission;
use crate::audience::Follower;
use crate::connection::{Connection, Key, StartFrom, Subscription};
use crate::fan_out::PendingAction;
use crate::flush::WriteBudget;
use crate::kinds::entities::kept::EntitiesByCode;
use crate::kinds::{About, Detach, Kind, KindRequest, Lost, SameName, Subject, Written};
use crate::min_offset::MinOffset;
use crate::outbox::{QueuedItem, Slot};
use crate::shard::Shard;
use crate::stats::set;
use crate::tail::CodeGuard;
use tidewire_access::auth::Identity;
use tidewire_access::options::{LiveOptions, Options};
use tidewire_access::problem::Problem;

use index::Index;
use interest::PendingSubscribe;
use ledger::Ledgers;

pub use interest::EntityFollow;
pub use news::ChangesOfEntities;
pub use waiting::EntityState;

/// What a shard is asked about a connection's entities, besides beginning.
#[derive(Debug)]
pub enum EntityCommand {
    /// It does not want to be told of these any more, or of none of this code. Of those that
    /// `SUBSCRIBE` named.
    Unsubscribe { code: Arc<str>, ids: Option<Vec<String>> },
    /// A request has all that it needs of the store: what became of its entities since its offset.
    Begun { slot: Slot, joining: u32, outcome: Result<Vec<EntityState>, Problem> },
    /// SQL has changed what it subscribes to.
    Review { identity: Identity },
    /// What the store has of it, after as many edits, and the codes of that it may not be told of.
    Reviewed {
        identity: Identity,
        edits: u64,
        kept: EntitiesByCode,
        refused: Vec<(String, Problem)>,
    },
}

/// Entities that a client wants to be told of. It may be.
#[derive(Debug)]
pub struct EntityRequest {
    pub query_id: Arc<str>,
    pub code: Arc<str>,
    pub ids: Vec<Arc<str>>,
    pub start: StartFrom,
    pub min_offset: MinOffset,
    pub identity: Identity,
    /// Whether they come to those that the subscription has.
    pub adds: bool,
    /// Whether the store has them already.
    pub kept: bool,
}

/// What a shard knows of entities.
#[derive(Debug, Default)]
pub struct ShardEntities {
    index: Index<Follower>,
    /// Keep the codes' changes coming.
    attendances: HashMap<Arc<str>, CodeGuard>,
    ledgers: Ledgers,
}

/// The name of the subscription that `SUBSCRIBE` makes, and of the stream behind a code.
pub fn own_name(code: &str) -> Arc<str> {
    format!("{ENTITY_PREFIX}{code}").into()
}

impl Shard {
    pub(crate) fn obey_entities(&mut self, key: Key, command: EntityCommand) {
        match command {
            EntityCommand::Unsubscribe { code, ids } => self.unsubscribe_entities(key, &code, ids),
            EntityCommand::Begun { slot, joining, outcome } => {
                self.begun(key, slot, joining, outcome)
            }
            EntityCommand::Review { identity } => self.review(key, identity),
            EntityCommand::Reviewed { identity, edits, kept, refused } => {
                self.reviewed(key, identity, edits, kept, &refused);
            }
        }
        set(&self.stats.entities, self.rosters.entities.index.size());
    }

    /// Begins to tell a connection of entities, or adds some to what it is told of.
    pub(super) fn follow_entities(
        &mut self,
        key: Key,
        request: EntityRequest,
        admission: Admission,
    ) {
        let slot = match admission {
            Admission::Adds(slot) => slot,
            Admission::Begins { renewed } => {
                let Some(slot) = self.add_interest(key, &request, renewed) else { return };
                slot
            }
        };
        let Some(connection) = self.connection(key) else { return };
        let fresh = not_among(connection.interest(slot), &request.ids);
        let fresh: Vec<Arc<str>> = fresh.into_iter().cloned().collect();
        self.join_entities(Follower { key, slot }, request, fresh);
        set(&self.stats.entities, self.rosters.entities.index.size());
    }

    /// Makes a subscription that has no entities yet.
    fn add_interest(&mut self, key: Key, request: &EntityRequest, renewed: bool) -> Option<Slot> {
        let epoch = self.hub.store.epoch();
        let interest = EntityFollow::new(&request.code, request.identity.clone(), epoch);
        let kind = Kind::Entities(Box::new(interest));
        self.add(key, (Arc::clone(&request.query_id), None), kind, renewed)
    }

    /// Has a subscription told of entities from here on, and asks the store for the rest.
    fn join_entities(&mut self, follower: Follower, request: EntityRequest, fresh: Vec<Arc<str>>) {
        let Follower { key, slot } = follower;
        let EntityRequest { code, ids, start, min_offset, identity, kept, .. } = request;
        let ShardEntities { index, attendances, .. } = &mut self.rosters.entities;
        let tail = &self.hub.tail;
        let topic_guard = attendances.entry(Arc::clone(&code));
        let topic_guard = topic_guard.or_insert_with(|| tail.attend_code(&code));
        let (after, reads) = match start {
            StartFrom::After(after) => (after, true),
            StartFrom::Now => (tail.position().max(topic_guard.since()), false),
        };
        let fresh: Vec<Arc<str>> =
            fresh.iter().map(|id| index.enter(&code, id, follower)).collect();
        let Some(connection) = self.connections.get_mut(key.index) else { return };
        connection.next_replay += 1;
        let serial = connection.next_replay;
        let connection_id = connection.connection_info.id.to_string();
        let Some(subscription) = connection.subscription(slot) else { return };
        if !subscription.announced && subscription.sent < after {
            subscription.sent = after;
        }
        let Some(interest) = subscription.kind.entities_mut() else { return };
        interest.ids.extend(fresh.iter().map(|id| (Arc::clone(id), after)));
        interest.joining.push(PendingSubscribe { serial, after, reads, ids: ids.clone(), fresh });
        self.rosters.entities.ledgers.edit(key);
        let past = reads.then(|| begin::EntityBacklog {
            code: Arc::clone(&code),
            ids: ids.clone(),
            after,
            identity: identity.clone(),
        });
        let subscription =
            || EntityEdit::Subscribe(self.kept(&identity, connection_id, &code, &ids));
        let committed = (!kept).then(|| self.hub.entities.ask(subscription()));
        let (hub, shard) = (Arc::clone(&self.hub), self.handle.clone());
        let target = begin::Target { key, slot, joining: serial };
        self.hub.tasks.spawn(begin::run(hub, shard, target, committed, min_offset, past));
    }

    /// Subscriptions as the store keeps them.
    fn kept<'a>(
        &self,
        identity: &Identity,
        connection_id: String,
        code: &str,
        ids: impl IntoIterator<Item = &'a Arc<str>>,
    ) -> EntitySubscription {
        let actor = identity.actor();
        let mut user_id = actor.user_id.unwrap_or_default();
        // A name that is too long to be kept must not stand in the way of others.
        while user_id.len() > ENTITY_USER_BYTES_MAX {
            user_id.pop();
        }
        EntitySubscription {
            user_id,
            host_id: actor.host_id,
            connection_id,
            node_id: self.hub.id.clone(),
            code: code.to_owned(),
            ids: ids.into_iter().map(ToString::to_string).collect(),
        }
    }

    fn unsubscribe_entities(&mut self, key: Key, code: &str, ids: Option<Vec<String>>) {
        let name = own_name(code);
        let Some(connection) = self.connection(key) else { return };
        let found = connection.find(&name).filter(|slot| connection.interest(*slot).is_some());
        let Some(slot) = found else {
            let message = crate::subscribe::unknown_subscription().message(Some(&name));
            return self.say(key, &message);
        };
        match ids {
            None => self.end(key, slot, "unsubscribed"),
            Some(ids) => {
                let ids: Vec<Arc<str>> = ids.into_iter().map(Arc::from).collect();
                self.give_up(Follower { key, slot }, &ids, true);
                self.end_if_empty(key, slot);
            }
        }
    }

    /// Ends a subscription that has nothing more to tell.
    fn end_if_empty(&mut self, key: Key, slot: Slot) {
        let Some(connection) = self.connection(key) else { return };
        if connection.interest(slot).is_some_and(|interest| interest.ids.is_empty()) {
            self.end(key, slot, "unsubscribed");
        }
    }

    /// Has a subscription told of some entities no longer. The store is told so unless it knows.
    fn give_up(&mut self, follower: Follower, ids: &[Arc<str>], tell_store: bool) {
        let Follower { key, slot } = follower;
        let Some(connection) = self.connections.get_mut(key.index) else { return };
        if connection.serial != key.serial {
            return;
        }
        let interest = connection.subscription(slot).and_then(|s| s.kind.entities_mut());
        let Some(interest) = interest else { return };
        let code = Arc::clone(&interest.code);
        let mut gone = Vec::new();
        for id in ids.iter().filter(|id| interest.ids.remove(*id).is_some()) {
            interest.waiting.forget(id);
            self.rosters.entities.index.leave(&code, id, follower);
            gone.push(id.to_string());
        }
        self.rosters.entities.prune(&code);
        // Another subscription of the connection may name the same.
        gone.retain(|id| !connection.names(&code, id));
        if tell_store && !gone.is_empty() {
            self.rosters.entities.ledgers.edit(key);
            let connection_id = connection.connection_info.id.to_string();
            let (code, ids) = (code.to_string(), Some(gone));
            self.hub.entities.note(EntityEdit::Unsubscribe { connection_id, code, ids });
        }
    }

    /// A subscription is gone; its connection is there still, and the store is told.
    fn leave_entities(&mut self, follower: Follower, interest: &EntityFollow) {
        let Some(connection) = self.connection(follower.key) else { return };
        let gone = interest.ids.keys().filter(|id| !connection.names(&interest.code, id));
        let gone: Vec<String> = gone.map(ToString::to_string).collect();
        if !gone.is_empty() {
            let connection_id = connection.connection_info.id.to_string();
            self.rosters.entities.ledgers.edit(follower.key);
            let (code, ids) = (interest.code.to_string(), Some(gone));
            self.hub.entities.note(EntityEdit::Unsubscribe { connection_id, code, ids });
        }
    }

    /// A connection is gone, and the store is told so in one word.
    pub(crate) fn forget_entities(&mut self, key: Key, connection: &Connection) {
        if self.rosters.entities.ledgers.close(key) {
            let connection_id = connection.connection_info.id.to_string();
            self.hub.entities.note(EntityEdit::Disconnect { connection_id });
        }
    }

    /// Says again what all connections subscribe to: this node was taken for dead, and others may have
    /// removed it.
    pub(crate) fn restore_entities(&mut self) {
        for (_, connection) in &self.connections {
            for (_, subscription) in connection.slots() {
                let Some(interest) = subscription.kind.entities() else { continue };
                let EntityFollow { identity, code, ids, .. } = interest;
                let kept = self.kept(
                    identity,
                    connection.connection_info.id.to_string(),
                    code,
                    ids.keys(),
                );
                self.hub.entities.note(EntityEdit::Subscribe(kept));
            }
        }
    }
}

impl KindRequest for EntityRequest {
    fn query_id(&self) -> &Arc<str> {
        &self.query_id
    }

    fn adds_to(&self, subscription: &Subscription) -> bool {
        self.adds && subscription.kind.entities().is_some_and(|i| i.is_of(&self.code))
    }

    fn fits(
        &self,
        connection: &Connection,
        beside: SameName,
        options: &Options,
    ) -> Result<(), Problem> {
        let extended = match beside {
            SameName::AddsTo(slot) => connection.interest(slot),
            SameName::Nothing | SameName::InPlaceOf(_) => None,
        };
        let more = not_among(extended, &self.ids).len();
        let entities_max = options.live.entities_max;
        match connection.entity_count(beside.replaced()) + more > entities_max {
            true => Err(too_many(entities_max)),
            false => Ok(()),
        }
    }
}

impl Subject for EntityFollow {
    fn caught_up(&self, _: &Subscription, shard: &Shard) -> Option<Position> {
        self.live.then_some(shard.position)
    }

    fn stream_id(&self) -> Option<Arc<str>> {
        Some(own_name(&self.code))
    }

    /// One that is yet to begin, or has its turn before it, needs no other.
    fn hold(&mut self, turn: QueuedItem, _: &LiveOptions) -> PendingAction {
        if !self.live || self.is_held() || self.queued {
            return PendingAction::Held;
        }
        self.queued = true;
        PendingAction::Not(turn)
    }

    fn write(&mut self, about: &mut About<'_>, _: u32, room: &mut WriteBudget<'_>) -> Written {
        self.tell(about, room)
    }

    /// Nothing is lost: what waits is bounded by what is subscribed to.
    fn lose(&mut self, _: Lost) -> Option<u32> {
        None
    }

    fn last_words(&mut self, about: &mut About<'_>) -> Vec<String> {
        self.untold(about).0
    }

    fn leave(&self, shard: &mut Shard, follower: Follower, _: &Arc<str>, leaving: Detach) {
        shard.rosters.entities.leave(follower, self);
        set(&shard.stats.entities, shard.rosters.entities.index.size());
        if leaving == Detach::Alone {
            shard.leave_entities(follower, self);
        }
    }
}

impl ShardEntities {
    fn leave(&mut self, follower: Follower, interest: &EntityFollow) {
        for id in interest.ids.keys() {
            self.index.leave(&interest.code, id, follower);
        }
        self.prune(&interest.code);
    }

    /// Attends a code no longer that nobody is told of.
    fn prune(&mut self, code: &str) {
        if !self.index.has(code) {
            self.attendances.remove(code);
        }
    }
}

impl Connection {
    /// What a subscription is about, if it is one to entities.
    fn interest(&self, slot: Slot) -> Option<&EntityFollow> {
        let subscription = self.subscriptions.get(slot.index as usize)?.as_ref()?;
        subscription.kind.entities().filter(|_| subscription.serial == slot.serial)
    }

    /// Entities it is told of, but for one subscription's.
    pub(crate) fn entity_count(&self, without: Option<Slot>) -> usize {
        let others = self.slots().filter(|(slot, _)| Some(*slot) != without);
        others.filter_map(|(_, s)| s.kind.entities()).map(|interest| interest.ids.len()).sum()
    }

    /// Whether one of its subscriptions names an entity.
    fn names(&self, code: &str, id: &str) -> bool {
        let mut interests = self.slots().filter_map(|(_, s)| s.kind.entities());
        interests.any(|interest| *interest.code == *code && interest.ids.contains_key(id))
    }
}

/// The ids that a subscription does not have yet, each once.
pub(crate) fn not_among<'a>(
    interest: Option<&EntityFollow>,
    ids: &'a [Arc<str>],
) -> HashSet<&'a Arc<str>> {
    let has = |id: &Arc<str>| interest.is_some_and(|interest| interest.ids.contains_key(id));
    ids.iter().filter(|id| !has(id)).collect()
}

pub fn too_many(entities_max: usize) -> Problem {
    Problem::new(
        StatusCode::TOO_MANY_REQUESTS,
        "too_many_entities",
        format!("a connection follows at most {entities_max} entities (live.entities_max)"),
        "unsubscribe from some, or subscribe to the table",
    )
}
