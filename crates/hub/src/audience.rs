//! Who follows a stream on this shard.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use super::connection::Key;
use super::outbox::Slot;
use crate::row_filter::View;
use crate::tail::TopicGuard;

/// One subscription of one connection, or a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Follower {
    pub(super) key: Key,
    pub(super) slot: Slot,
}

/// Followers that get the same bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EncodingGroup {
    /// Those who gave their subscription this name.
    Named(Arc<str>, ViewMode),
    /// Those who read the stream itself, by `live=sse`; all of it, or what they see of a table.
    Readers(Option<View>),
}

/// How a subscription is served.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ViewMode {
    /// It is to a table, whose changes are messages of their own.
    pub to_table: bool,
    /// What is seen of the table, if not all.
    pub view: Option<View>,
}

impl EncodingGroup {
    pub(super) fn is_of_readers(&self) -> bool {
        matches!(self, EncodingGroup::Readers(_))
    }

    /// What is seen of the stream, if not all.
    pub(super) fn view(&self) -> Option<&View> {
        match self {
            EncodingGroup::Named(_, ViewMode { view, .. }) | EncodingGroup::Readers(view) => {
                view.as_ref()
            }
        }
    }
}

/// A stream's followers.
#[derive(Debug)]
pub(super) struct Audience {
    /// Keeps the stream's events coming with their payloads.
    pub(super) topic_guard: TopicGuard,
    /// The stream's end was seen.
    pub(super) closed: bool,
    /// The stream's lifetime slides and is to be renewed so often, and when next.
    pub(super) renewal: Option<(u64, u64)>,
    groups: HashMap<EncodingGroup, Group>,
}

/// Followers who get the same. A fan-out under way holds on to the list as it was; one who comes later
/// does not need what is in it, and one who left is not found any more.
#[derive(Debug)]
pub(crate) struct Group<M = Follower> {
    followers: Arc<Vec<M>>,
    places: HashMap<M, usize>,
}

impl<M> Default for Group<M> {
    fn default() -> Group<M> {
        Group { followers: Arc::default(), places: HashMap::new() }
    }
}

impl<M: Copy + Eq + Hash> Group<M> {
    /// Returns whether the member was not there.
    pub(crate) fn enter(&mut self, follower: M) -> bool {
        let is_new = !self.places.contains_key(&follower);
        if is_new {
            self.places.insert(follower, self.followers.len());
            Arc::make_mut(&mut self.followers).push(follower);
        }
        is_new
    }

    /// Returns whether the member was there.
    pub(crate) fn leave(&mut self, follower: M) -> bool {
        let Some(place) = self.places.remove(&follower) else { return false };
        let followers = Arc::make_mut(&mut self.followers);
        followers.swap_remove(place);
        if let Some(moved) = followers.get(place) {
            self.places.insert(*moved, place);
        }
        true
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.followers.is_empty()
    }

    /// All of them, as they are.
    pub(crate) fn list(&self) -> Arc<Vec<M>> {
        Arc::clone(&self.followers)
    }
}

impl Audience {
    pub(super) fn new(topic_guard: TopicGuard) -> Audience {
        Audience { topic_guard, closed: false, renewal: None, groups: HashMap::new() }
    }

    pub(super) fn enter(&mut self, encoding_group: EncodingGroup, follower: Follower) {
        self.groups.entry(encoding_group).or_default().enter(follower);
    }

    pub(super) fn leave(&mut self, encoding_group: &EncodingGroup, follower: Follower) {
        let Some(group) = self.groups.get_mut(encoding_group) else { return };
        group.leave(follower);
        if group.is_empty() {
            self.groups.remove(encoding_group);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The followers, by group.
    pub(super) fn groups(&self) -> impl Iterator<Item = (&EncodingGroup, &Arc<Vec<Follower>>)> {
        self.groups.iter().map(|(encoding_group, group)| (encoding_group, &group.followers))
    }

    /// All followers, as they are.
    pub(super) fn followers(&self) -> Vec<(EncodingGroup, Follower)> {
        let of_group = |(encoding_group, followers): (&EncodingGroup, &Arc<Vec<Follower>>)| {
            let encoding_group = encoding_group.clone();
            followers
                .iter()
                .map(move |follower| (encoding_group.clone(), *follower))
                .collect::<Vec<_>>()
        };
        self.groups().flat_map(of_group).collect()
    }
}
