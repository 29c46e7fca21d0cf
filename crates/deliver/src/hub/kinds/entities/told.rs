//! From news of entities to the outboxes of those who subscribe to them.

use std::sync::Arc;

use bytes::Bytes;

use tidewire_store::EntityAction;

use super::interest::Interest;
use super::own_name;
use super::waiting::{self, Told};
use crate::access::problem::Problem;
use crate::hub::audience::Member;
use crate::hub::connection::Key;
use crate::hub::fan_out::listed;
use crate::hub::flush::Room;
use crate::hub::kinds::{About, News, Written};
use crate::hub::messages::{Created, CreatedOf, SubscriptionCreated};
use crate::hub::outbox::{Cargo, Slot};
use crate::hub::round::Round;
use crate::hub::shard::Shard;
use crate::hub::stats::add;
use crate::hub::tail::EntityNews;

impl Shard {
    /// Notes what became of entities for all who are to be told, and gives them their turn. What comes for
    /// them before that is told together.
    pub(in crate::hub) fn see_entities(&mut self, news: &[EntityNews]) {
        let mut waiting: Vec<(&str, Vec<Member>)> = Vec::new();
        for news in news {
            let change = &news.change;
            let mut noted = Vec::new();
            for (id, member) in self.entities.index.reached(&change.code, change.id.as_deref()) {
                noted.extend(self.note_change(member, id, change.action, news));
            }
            if let Some(was) = &change.was {
                for (id, member) in self.entities.index.reached(&change.code, Some(was)) {
                    noted.extend(self.note_change(member, id, EntityAction::Delete, news));
                }
            }
            match waiting.iter_mut().find(|(code, _)| *code == change.code) {
                Some((_, members)) => members.append(&mut noted),
                None => waiting.push((&change.code, noted)),
            }
        }
        for (code, members) in waiting.into_iter().filter(|(_, members)| !members.is_empty()) {
            self.fan_out(vec![Round::new(News::Entities(code.into()), listed(members))], false);
        }
    }

    /// Returns the follower if it is to have a turn.
    fn note_change(
        &mut self,
        member: Member,
        id: Arc<str>,
        action: EntityAction,
        news: &EntityNews,
    ) -> Option<Member> {
        let connection = self.connections.get_mut(member.key.index)?;
        if connection.serial != member.key.serial || connection.closing {
            return None;
        }
        let subscription = connection.subscription(member.slot)?;
        let announced = subscription.announced;
        let interest = subscription.kind.entities_mut()?;
        let is_new = interest.ids.get(&id).is_some_and(|after| news.position > *after);
        if !is_new || !interest.may_hear(&self.hub, news) {
            return None;
        }
        let told = Told { id, position: news.position, action };
        interest.waiting.note(told, Some(news.created_at_ms));
        let waits = announced && !interest.queued && !interest.is_held();
        interest.queued |= waits;
        waits.then_some(member)
    }

    /// Gives one for whom something waits a place in its outbox. What it says is decided when its turn
    /// comes there.
    pub(in crate::hub) fn take_turn(&mut self, Member { key, slot }: Member) {
        let now_ms = self.now_ms;
        if let Some(connection) = self.connection(key) {
            connection.queue(Bytes::new(), Cargo::Turn { slot, ticket: 0 }, now_ms);
            self.touch(key.index);
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
            self.take_turn(member);
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

impl Interest {
    /// Takes out what is yet to be told, as messages.
    pub(super) fn untold(&mut self, about: &mut About<'_>) -> (Vec<String>, Vec<Told>) {
        if !about.announced || self.is_held() {
            return Default::default();
        }
        self.queued = false;
        let (messages, changes) = self.take(about.query_id, *about.sent);
        *about.sent = changes.last().map_or(*about.sent, |told| told.position.max(*about.sent));
        (messages, changes)
    }

    /// The bytes of what is to be told, now that its turn has come.
    pub(super) fn tell(&mut self, about: &mut About<'_>, room: &mut Room<'_>) -> Written {
        let created_at_ms = self.waiting.created_at_ms();
        let (messages, changes) = self.untold(about);
        let count = changes.len() as u64;
        add(&room.stats.invalidations, count);
        if let Some(created_at_ms) = created_at_ms {
            room.stats.pushed(count, room.wall_ms - created_at_ms);
        }
        let bytes = waiting::encode(&messages, room.dialect, room.deflater).freeze();
        Written { bytes, ..Written::default() }
    }
}
