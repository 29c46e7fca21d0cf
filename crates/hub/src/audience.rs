//! Who follows a stream on this shard.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use super::connection::Key;
use super::outbox::Slot;
use crate::lens::View;
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
    pub(super) attendance: TopicGuard,
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
    members: Arc<Vec<M>>,
    places: HashMap<M, usize>,
}

impl<M> Default for Group<M> {
    fn default() -> Group<M> {
        Group { members: Arc::default(), places: HashMap::new() }
    }
}

impl<M: Copy + Eq + Hash> Group<M> {
    /// Returns whether the member was not there.
    pub(crate) fn enter(&mut self, member: M) -> bool {
        let is_new = !self.places.contains_key(&member);
        if is_new {
            self.places.insert(member, self.members.len());
            Arc::make_mut(&mut self.members).push(member);
        }
        is_new
    }

    /// Returns whether the member was there.
    pub(crate) fn leave(&mut self, member: M) -> bool {
        let Some(place) = self.places.remove(&member) else { return false };
        let members = Arc::make_mut(&mut self.members);
        members.swap_remove(place);
        if let Some(moved) = members.get(place) {
            self.places.insert(*moved, place);
        }
        true
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// All of them, as they are.
    pub(crate) fn list(&self) -> Arc<Vec<M>> {
        Arc::clone(&self.members)
    }
}

impl Audience {
    pub(super) fn new(attendance: TopicGuard) -> Audience {
        Audience { attendance, closed: false, renewal: None, groups: HashMap::new() }
    }

    pub(super) fn enter(&mut self, circle: EncodingGroup, member: Follower) {
        self.groups.entry(circle).or_default().enter(member);
    }

    pub(super) fn leave(&mut self, circle: &EncodingGroup, member: Follower) {
        let Some(group) = self.groups.get_mut(circle) else { return };
        group.leave(member);
        if group.is_empty() {
            self.groups.remove(circle);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The followers, by circle.
    pub(super) fn groups(&self) -> impl Iterator<Item = (&EncodingGroup, &Arc<Vec<Follower>>)> {
        self.groups.iter().map(|(circle, group)| (circle, &group.members))
    }

    /// All followers, as they are.
    pub(super) fn members(&self) -> Vec<(EncodingGroup, Follower)> {
        let of_group = |(circle, members): (&EncodingGroup, &Arc<Vec<Follower>>)| {
            let circle = circle.clone();
            members.iter().map(move |member| (circle.clone(), *member)).collect::<Vec<_>>()
        };
        self.groups().flat_map(of_group).collect()
    }
}
