//! Who follows a stream on this shard.

use std::collections::HashMap;
use std::sync::Arc;

use super::connection::Key;
use super::outbox::Slot;
use crate::tail::Attendance;

/// One subscription of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Member {
    pub(super) key: Key,
    pub(super) slot: Slot,
}

/// A stream's followers, by the name they gave their subscription: those of one name get the same
/// bytes.
#[derive(Debug)]
pub(super) struct Audience {
    /// Keeps the stream's events coming with their payloads.
    pub(super) attendance: Attendance,
    /// The stream's end has gone out.
    pub(super) closed: bool,
    /// The stream's lifetime slides and is to be renewed so often, and when next.
    pub(super) renewal: Option<(u64, u64)>,
    groups: HashMap<Arc<str>, Group>,
}

/// Followers that get the same bytes. A fan-out under way holds on to the list as it was; one who
/// comes later does not need what is in it, and one who left is not found any more.
#[derive(Debug, Default)]
struct Group {
    members: Arc<Vec<Member>>,
    places: HashMap<Member, usize>,
}

impl Audience {
    pub(super) fn new(attendance: Attendance) -> Audience {
        Audience { attendance, closed: false, renewal: None, groups: HashMap::new() }
    }

    pub(super) fn enter(&mut self, query_id: &Arc<str>, member: Member) {
        let group = self.groups.entry(Arc::clone(query_id)).or_default();
        let members = Arc::make_mut(&mut group.members);
        group.places.insert(member, members.len());
        members.push(member);
    }

    pub(super) fn leave(&mut self, query_id: &Arc<str>, member: Member) {
        let Some(group) = self.groups.get_mut(query_id) else { return };
        if let Some(place) = group.places.remove(&member) {
            let members = Arc::make_mut(&mut group.members);
            members.swap_remove(place);
            if let Some(moved) = members.get(place) {
                group.places.insert(*moved, place);
            }
        }
        if group.members.is_empty() {
            self.groups.remove(query_id);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// How many follow.
    pub(super) fn size(&self) -> usize {
        self.groups.values().map(|group| group.members.len()).sum()
    }

    /// The followers, by name.
    pub(super) fn groups(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<Vec<Member>>)> {
        self.groups.iter().map(|(query_id, group)| (query_id, &group.members))
    }
}
