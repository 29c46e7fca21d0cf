//! Who follows which query on this shard.

use std::collections::HashMap;
use std::sync::Arc;

use tidewire_query::{QueryId, Subscriber, To};
use tidewire_store::Position;

use crate::audience::{Follower, Group};
use crate::fan_out::listed;

/// What a shard knows of queries.
#[derive(Debug, Default)]
pub struct QueryCohorts {
    /// Where the desk was when it was last heard.
    pub(super) position: Position,
    members: HashMap<Subscriber, Follower>,
    circles: HashMap<QueryId, QueryCohort>,
}

/// Those who follow one query and have begun.
#[derive(Debug, Default)]
pub(crate) struct QueryCohort {
    /// By the name that they have for it: those of one name are told the same bytes.
    named: HashMap<Arc<str>, Group>,
    /// Something that happened is yet to be told.
    behind: bool,
}

/// Those whom something concerns.
#[derive(Debug)]
pub(super) struct AffectedFollowers {
    /// The name that all of them have for the query, if that is known.
    pub(super) query_id: Option<Arc<str>>,
    pub(super) members: Arc<Vec<Follower>>,
}

impl QueryCohorts {
    pub fn at(position: Position) -> QueryCohorts {
        QueryCohorts { position, ..QueryCohorts::default() }
    }

    /// Someone waits for the first rows.
    pub fn enter(&mut self, who: Subscriber, member: Follower) {
        self.members.insert(who, member);
    }

    /// Someone follows a query, under a name, from here on.
    pub fn begin(&mut self, query: QueryId, query_id: &Arc<str>, member: Follower) {
        let circle = self.circles.entry(query).or_default();
        circle.named.entry(Arc::clone(query_id)).or_default().enter(member);
    }

    pub(super) fn leave(&mut self, who: Subscriber, query: Option<QueryId>, query_id: &Arc<str>) {
        let member = self.members.remove(&who);
        let circle = query.and_then(|query| Some((query, self.circles.get_mut(&query)?)));
        let (Some(member), Some((query, circle))) = (member, circle) else { return };
        if let Some(group) = circle.named.get_mut(query_id) {
            group.leave(member);
            if group.is_empty() {
                circle.named.remove(query_id);
            }
        }
        if circle.named.is_empty() {
            self.circles.remove(&query);
        }
    }

    /// Whether something is yet to be told of a query, or it has not begun.
    pub(super) fn is_behind(&self, query: Option<QueryId>) -> bool {
        query.and_then(|query| self.circles.get(&query)).is_none_or(|circle| circle.behind)
    }

    pub(super) fn set_behind(&mut self, query: QueryId, behind: bool) {
        if let Some(circle) = self.circles.get_mut(&query) {
            circle.behind = behind;
        }
    }

    /// One who follows a query, or waits to.
    pub(super) fn member(&self, who: Subscriber) -> Option<Follower> {
        self.members.get(&who).copied()
    }

    /// Those whom something concerns: all of a query by the name that they have for it, or some of whatever
    /// names.
    pub(super) fn concerned(&self, to: &To) -> Vec<AffectedFollowers> {
        match to {
            To::All(query) => {
                let named = self.circles.get(query).into_iter().flat_map(|circle| &circle.named);
                let concerned = |(name, group): (&Arc<str>, &Group)| AffectedFollowers {
                    query_id: Some(Arc::clone(name)),
                    members: group.list(),
                };
                named.map(concerned).collect()
            }
            To::Only(_, named) => {
                let found = named.iter().filter_map(|who| self.member(*who));
                vec![AffectedFollowers { query_id: None, members: listed(found) }]
            }
        }
    }
}
