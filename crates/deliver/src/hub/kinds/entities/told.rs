//! From a sight of the log to the outboxes of those who subscribe to entities.

use std::sync::Arc;

use bytes::Bytes;

use tidewire_store::EntityAction;

use super::own_name;
use super::waiting::{self, Told};
use crate::access::problem::Problem;
use crate::hub::audience::Member;
use crate::hub::connection::{Key, Subscription};
use crate::hub::flush::Departing;
use crate::hub::messages::{Created, CreatedOf, SubscriptionCreated};
use crate::hub::outbox::{Cargo, Slot};
use crate::hub::shard::Shard;
use crate::hub::stats::add;
use crate::hub::tail::EntityNews;

/// Subscriptions that get a place in their outbox in one turn: each is a write to a socket, and one
/// entity may have a crowd. What comes for the others meanwhile is told together.
const INVALIDATIONS_A_TURN: usize = 64;

impl Shard {
    /// Notes what became of entities for all who are to be told.
    pub(in crate::hub) fn see_entities(&mut self, news: &[EntityNews]) {
        for news in news {
            let change = &news.change;
            for (id, member) in self.entities.index.reached(&change.code, change.id.as_deref()) {
                self.note_change(member, id, change.action, news);
            }
            if let Some(was) = &change.was {
                for (id, member) in self.entities.index.reached(&change.code, Some(was)) {
                    self.note_change(member, id, EntityAction::Delete, news);
                }
            }
        }
    }

    fn note_change(
        &mut self,
        member: Member,
        id: Arc<str>,
        action: EntityAction,
        news: &EntityNews,
    ) {
        let Some(connection) = self.connections.get_mut(member.key.index) else { return };
        if connection.serial != member.key.serial || connection.closing {
            return;
        }
        let Some(subscription) = connection.subscription(member.slot) else { return };
        let announced = subscription.announced;
        let Some(interest) = subscription.kind.entities_mut() else { return };
        let is_new = interest.ids.get(&id).is_some_and(|after| news.position > *after);
        if !is_new || !interest.may_hear(&self.hub, news) {
            return;
        }
        let told = Told { id, position: news.position, action };
        interest.waiting.note(told, Some(news.created_at_ms));
        if announced && !interest.queued && !interest.is_held() {
            interest.queued = true;
            self.entities.ready.push_back(member);
        }
    }

    /// Gives some of those for whom something waits a place in their outbox. What it says is decided
    /// when its turn comes there.
    pub(in crate::hub) fn hand_out_invalidations(&mut self) {
        for _ in 0..INVALIDATIONS_A_TURN {
            let Some(Member { key, slot }) = self.entities.ready.pop_front() else { return };
            let now_ms = self.now_ms;
            if let Some(connection) = self.connection(key) {
                connection.queue(Bytes::new(), Cargo::Invalidation(slot), now_ms);
                self.touch(key.index);
            }
        }
    }

    /// A request has got what it needs of the store, or cannot.
    pub(super) fn begun(
        &mut self,
        key: Key,
        slot: Slot,
        joining: u32,
        outcome: Result<Vec<Told>, Problem>,
    ) {
        let Some(connection) = self.connection(key) else { return };
        let Some(subscription) = connection.subscription(slot) else { return };
        let query_id = Arc::clone(&subscription.query_id);
        let Some(interest) = subscription.kind.entities_mut() else { return };
        let Some(answered) = interest.answered(joining) else { return };
        match outcome {
            Ok(changes) => {
                for told in changes.into_iter().filter(|told| interest.ids.contains_key(&told.id)) {
                    interest.waiting.note(told, None);
                }
                let announced = std::mem::replace(&mut subscription.announced, true);
                let reset = subscription.renewed && !announced;
                self.announce_entities(key, slot, answered.after, reset);
                self.make_ready(Member { key, slot });
            }
            Err(problem) => {
                let given_up = interest.given_up(answered);
                let last = !subscription.announced && given_up.len() == interest.ids.len();
                if last {
                    return self.fail(key, slot, &problem);
                }
                self.give_up(Member { key, slot }, &given_up, true);
                self.say(key, &problem.message(Some(&query_id)));
                self.make_ready(Member { key, slot });
            }
        }
    }

    /// Tells what has waited for a request to be answered.
    fn make_ready(&mut self, member: Member) {
        let subscription = self.connection(member.key).and_then(|c| c.subscription(member.slot));
        let Some(subscription) = subscription.filter(|s| s.announced) else { return };
        let Some(interest) = subscription.kind.entities_mut() else { return };
        if interest.is_held() {
            return;
        }
        interest.live = true;
        if !interest.waiting.is_empty() && !interest.queued {
            interest.queued = true;
            self.entities.ready.push_back(member);
        }
    }

    /// Tells the client that a subscription has begun, or has more entities.
    fn announce_entities(
        &mut self,
        key: Key,
        slot: Slot,
        after: tidewire_store::Position,
        reset: bool,
    ) {
        let offset = self.hub.offset(after);
        let connection = self.connections.get(key.index).filter(|c| c.serial == key.serial);
        let Some(connection) = connection else { return };
        let subscription = connection.subscriptions.get(slot.index as usize);
        let Some(subscription) = subscription.and_then(Option::as_ref) else { return };
        let Some(interest) = subscription.kind.entities() else { return };
        let message = SubscriptionCreated::written(Created {
            query_id: &subscription.query_id,
            live_id: connection.live_id(&subscription.query_id),
            offset: Some(offset),
            reset,
            of: CreatedOf::Entities {
                stream_id: &own_name(&interest.code),
                entity_code: &interest.code,
                entities: interest.ids.len(),
            },
        });
        self.say(key, &message);
    }
}

impl Subscription {
    /// Takes out what a subscription to entities is yet to be told, as messages.
    pub(in crate::hub) fn untold(&mut self) -> (Vec<String>, Vec<Told>) {
        let Some(interest) = self.kind.entities_mut() else { return Default::default() };
        if !self.announced || interest.is_held() {
            return Default::default();
        }
        interest.queued = false;
        let (messages, changes) = interest.take(&self.query_id, self.sent);
        self.sent = changes.last().map_or(self.sent, |told| told.position.max(self.sent));
        (messages, changes)
    }
}

impl Departing<'_> {
    /// The bytes of what is to be told of entities, now that its turn has come.
    pub(in crate::hub) fn tell(&mut self, slot: Slot) -> Bytes {
        let (dialect, wall_ms, stats) = (self.dialect, self.wall_ms, self.stats);
        let Some(subscription) = self.subscription(slot) else { return Bytes::new() };
        let created_at_ms = subscription.kind.entities().and_then(|i| i.waiting.created_at_ms());
        let (messages, changes) = subscription.untold();
        let count = changes.len() as u64;
        add(&stats.invalidations, count);
        if let Some(created_at_ms) = created_at_ms {
            stats.pushed(count, wall_ms - created_at_ms);
        }
        waiting::encode(&messages, dialect, self.deflater).freeze()
    }
}
