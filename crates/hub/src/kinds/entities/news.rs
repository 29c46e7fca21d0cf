//! Changes of a code's entities, on their way to the followers of any of them.
//!
//! ```text
//!   changes    7: UPDATE at 12     8: DELETE at 13
//!   reached    7: tab 1, tab 2     8: tab 2
//! ```
//!
//! One who has its turn is told of all the changes that concern it, whichever of them it was reached by: so
//! what it is told covers the log up to there. Being reached again it finds nothing that is news to it.
//! What waits is bounded: of changes of one entity that the same may hear of, the last counts.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;

use tidewire_store::EntityAction;

use super::interest::EntityFollow;
use super::waiting::EntityState;
use crate::Hub;
use crate::audience::Follower;
use crate::outbox::OutboxItem;
use crate::round::Serving;
use crate::shard::Shard;
use crate::tail::EntityNews;

/// Changes of entities of one code, and whom they reach.
#[derive(Debug)]
pub struct ChangesOfEntities {
    pub code: Arc<str>,
    of_each: HashMap<Arc<str>, Vec<Change>>,
    of_all: Vec<Change>,
    /// Those who are yet to have their turn, by the entity that they are reached by.
    reached: BTreeMap<Arc<str>, Arc<Vec<Follower>>>,
    /// The same, by all entities.
    everyone: Option<Arc<Vec<Follower>>>,
}

#[derive(Debug)]
struct Change {
    news: Arc<EntityNews>,
    action: EntityAction,
}

impl Change {
    /// Whether it is for the same ears.
    fn is_as_audible(&self, other: &Change) -> bool {
        self.news.stream == other.news.stream
            && self.news.change.host_id == other.news.change.host_id
    }
}

/// Puts a change after others, in the place of one that the same may hear of.
fn put(changes: &mut Vec<Change>, later: Change) {
    changes.retain(|change| !change.is_as_audible(&later));
    changes.push(later);
}

impl ChangesOfEntities {
    pub(super) fn new(code: &Arc<str>) -> ChangesOfEntities {
        ChangesOfEntities {
            code: Arc::clone(code),
            of_each: HashMap::new(),
            of_all: Vec::new(),
            reached: BTreeMap::new(),
            everyone: None,
        }
    }

    /// Something became of an entity.
    pub(super) fn add(
        &mut self,
        (id, followers): (Arc<str>, Arc<Vec<Follower>>),
        action: EntityAction,
        news: &Arc<EntityNews>,
    ) {
        let change = Change { news: Arc::clone(news), action };
        put(self.of_each.entry(Arc::clone(&id)).or_default(), change);
        self.reached.insert(id, followers);
    }

    /// Something became of all entities of the code.
    pub(super) fn add_all(&mut self, everyone: Arc<Vec<Follower>>, news: &Arc<EntityNews>) {
        let action = news.change.action;
        put(&mut self.of_all, Change { news: Arc::clone(news), action });
        self.reached.clear();
        self.everyone = Some(everyone);
    }

    /// Takes along what comes after it.
    pub fn absorb(&mut self, later: ChangesOfEntities) {
        let ChangesOfEntities { of_each, of_all, reached, everyone, .. } = later;
        for (id, changes) in of_each {
            let known = self.of_each.entry(id).or_default();
            changes.into_iter().for_each(|change| put(known, change));
        }
        of_all.into_iter().for_each(|change| put(&mut self.of_all, change));
        if everyone.is_some() {
            self.reached.clear();
            self.everyone = everyone;
        }
        // One who came since may need the later news, and one who left is not found.
        self.reached.extend(reached);
    }

    /// Some of those who are yet to have their turn.
    pub(crate) fn next_members(&mut self) -> Option<Arc<Vec<Follower>>> {
        let everyone = self.everyone.take();
        everyone.or_else(|| self.reached.pop_first().map(|(_, followers)| followers))
    }

    /// How many are yet to have their turn. Who is reached by several entities has several.
    pub fn size(&self) -> usize {
        self.everyone.iter().chain(self.reached.values()).map(|followers| followers.len()).sum()
    }

    /// Tells one follower: notes what concerns it, and gives it a place in its outbox. What it says is
    /// decided when its turn comes there.
    pub fn tell(&self, shard: &mut Shard, follower: Follower, serving: &mut Serving) {
        let Shard { hub, connections, .. } = shard;
        let connection = connections.get_mut(follower.key.index);
        let connection = connection.filter(|c| c.serial == follower.key.serial && !c.closing);
        let Some(connection) = connection else { return };
        let Some(subscription) = connection.subscription(follower.slot) else { return };
        let Some(interest) = subscription.kind.entities_mut() else { return };
        if self.note(interest, hub) {
            let item = OutboxItem::Turn { slot: follower.slot, ticket: 0 };
            shard.hand_over(follower, Bytes::new(), item, serving);
        }
    }

    /// Notes what concerns a follower. Returns whether anything does.
    fn note(&self, interest: &mut EntityFollow, hub: &Hub) -> bool {
        let of_one = |id: &Arc<str>| self.of_each.get(id).into_iter().flatten();
        let concerning: Vec<(Arc<str>, &Change)> = if self.of_all.is_empty()
            && self.of_each.len() < interest.ids.len()
        {
            let named = self.of_each.iter().filter(|(id, _)| interest.ids.contains_key(*id));
            named.flat_map(|(id, changes)| changes.iter().map(|c| (Arc::clone(id), c))).collect()
        } else {
            let ids = interest.ids.keys();
            let of_it = |id: &Arc<str>| {
                let id = Arc::clone(id);
                of_one(&id).chain(&self.of_all).map(move |change| (Arc::clone(&id), change))
            };
            ids.flat_map(of_it).collect()
        };
        let mut noted = false;
        for (id, Change { news, action }) in concerning {
            let told_up_to = interest.ids.get(&id).copied();
            let is_new = told_up_to.is_some_and(|up_to| news.position > up_to);
            if is_new && interest.may_hear(hub, news) {
                interest.note(EntityState { id, position: news.position, action: *action }, news);
                noted = true;
            }
        }
        noted
    }
}
