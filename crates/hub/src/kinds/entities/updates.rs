//! Puts changes of entities into the outboxes of those who subscribe to them.

use std::sync::Arc;

use bytes::Bytes;

use crate::messages::AsMessage as _;
use tidewire_store::EntityAction;

use super::interest::EntityFollow;
use super::news::ChangesOfEntities;
use super::own_name;
use super::waiting::{self, EntityState};
use crate::announce::Announcement;
use crate::audience::Follower;
use crate::connection::Key;
use crate::flush::WriteBudget;
use crate::kinds::{About, News, Written};
use crate::messages::CreatedOf;
use crate::outbox::{OutboxItem, Slot};
use crate::round::{Round, Serving};
use crate::shard::Shard;
use crate::stats::add;
use crate::tail::EntityNews;
use tidewire_access::problem::Problem;

impl Shard {
    /// Has all told of what became of entities who are to be. Of each code the changes go together.
    pub(crate) fn see_entities(&mut self, news: &[Arc<EntityNews>]) {
        let mut rounds: Vec<ChangesOfEntities> = Vec::new();
        for news in news {
            let change = &news.change;
            let index = &self.rosters.entities.index;
            let Some(code) = index.code(&change.code) else { continue };
            let place = rounds.iter().position(|round| round.code == code);
            let place = place.unwrap_or_else(|| {
                rounds.push(ChangesOfEntities::new(&code));
                rounds.len() - 1
            });
            let round = &mut rounds[place];
            match &change.id {
                Some(id) => {
                    let reached = index.reached(&code, id);
                    reached.into_iter().for_each(|it| round.add(it, change.action, news));
                }
                None => round.add_all(index.everyone(&code).unwrap_or_default(), news),
            }
            let was = change.was.as_ref().and_then(|was| index.reached(&code, was));
            was.into_iter().for_each(|it| round.add(it, EntityAction::Delete, news));
        }
        for round in rounds.into_iter().filter(|round| round.size() > 0) {
            self.fan_out(vec![Round::of(News::Entities(Box::new(round)))], false);
        }
    }

    /// A request has got what it needs of the store, or cannot.
    pub(super) fn begun(
        &mut self,
        key: Key,
        slot: Slot,
        joining: u32,
        outcome: Result<Vec<EntityState>, Problem>,
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
                let (code, entities) = (Arc::clone(&interest.code), interest.ids.len());
                let (after, reset) = (Some(answered.after), subscription.is_begun_anew());
                let stream_id = &own_name(&code);
                let of = CreatedOf::Entities { stream_id, entity_code: &code, entities };
                self.announce(key, vec![Announcement { slot, after, reset, of }]);
                self.make_ready(Follower { key, slot });
            }
            Err(problem) => {
                let given_up = interest.given_up(answered);
                let last = !subscription.announced && given_up.len() == interest.ids.len();
                if last {
                    return self.fail(key, slot, &problem);
                }
                self.give_up(Follower { key, slot }, &given_up, true);
                self.say(key, &problem.message(Some(&query_id)));
                self.make_ready(Follower { key, slot });
            }
        }
    }

    /// Tells what has waited for a request to be answered.
    fn make_ready(&mut self, follower: Follower) {
        let subscription =
            self.connection(follower.key).and_then(|c| c.subscription(follower.slot));
        let Some(subscription) = subscription.filter(|s| s.announced) else { return };
        let Some(interest) = subscription.kind.entities_mut() else { return };
        if interest.is_held() {
            return;
        }
        interest.live = true;
        if !interest.waiting.is_empty() {
            let item = OutboxItem::Turn { slot: follower.slot, ticket: 0 };
            self.hand_over(follower, Bytes::new(), item, &mut Serving::default());
        }
    }
}

impl EntityFollow {
    /// Takes out what is yet to be told, as messages.
    pub(super) fn untold(&mut self, about: &mut About<'_>) -> (Vec<String>, Vec<EntityState>) {
        self.queued = false;
        if !about.announced || self.is_held() {
            return Default::default();
        }
        let (messages, changes) = self.take(about.query_id, *about.sent);
        *about.sent = changes.last().map_or(*about.sent, |told| told.position.max(*about.sent));
        (messages, changes)
    }

    /// The bytes of what is to be told, now that its turn has come.
    pub(super) fn tell(&mut self, about: &mut About<'_>, room: &mut WriteBudget<'_>) -> Written {
        let created_at_ms = self.waiting.created_at_ms();
        let (messages, changes) = self.untold(about);
        add(&room.stats.invalidations, changes.len() as u64);
        let bytes = waiting::encode(&messages, room.dialect, room.deflater).freeze();
        let happened = created_at_ms.map(|at| (changes.len(), at));
        Written { bytes, happened, ..Written::default() }
    }
}
