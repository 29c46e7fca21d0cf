//! Who follows which query on this shard.

use std::collections::HashMap;
use std::sync::Arc;

use tidewire_query::{QueryId, Recipients, Subscriber};
use tidewire_store::Position;

use crate::audience::{Follower, Group};
use crate::fan_out::listed;

/// What a shard knows of queries.
#[derive(Debug, Default)]
pub struct QueryCohorts {
    /// Where the query engine was when it was last heard.
    pub(super) position: Position,
    followers: HashMap<Subscriber, Follower>,
    cohorts: HashMap<QueryId, QueryCohort>,
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
    pub(super) followers: Arc<Vec<Follower>>,
}

impl QueryCohorts {
    pub fn at(position: Position) -> QueryCohorts {
        QueryCohorts { position, ..QueryCohorts::default() }
    }

    /// Someone waits for the first rows.
    pub fn enter(&mut self, who: Subscriber, follower: Follower) {
        self.followers.insert(who, follower);
    }

    /// Someone follows a query, under a name, from here on.
    pub fn begin(&mut self, query: QueryId, query_id: &Arc<str>, follower: Follower) {
        let cohort = self.cohorts.entry(query).or_default();
        cohort.named.entry(Arc::clone(query_id)).or_default().enter(follower);
    }

    pub(super) fn leave(&mut self, who: Subscriber, query: Option<QueryId>, query_id: &Arc<str>) {
        let follower = self.followers.remove(&who);
        let cohort = query.and_then(|query| Some((query, self.cohorts.get_mut(&query)?)));
        let (Some(follower), Some((query, cohort))) = (follower, cohort) else { return };
        if let Some(group) = cohort.named.get_mut(query_id) {
            group.leave(follower);
            if group.is_empty() {
                cohort.named.remove(query_id);
            }
        }
        if cohort.named.is_empty() {
            self.cohorts.remove(&query);
        }
    }

    /// Whether something is yet to be told of a query, or it has not begun.
    pub(super) fn is_behind(&self, query: Option<QueryId>) -> bool {
        query.and_then(|query| self.cohorts.get(&query)).is_none_or(|cohort| cohort.behind)
    }

    pub(super) fn set_behind(&mut self, query: QueryId, behind: bool) {
        if let Some(cohort) = self.cohorts.get_mut(&query) {
            cohort.behind = behind;
        }
    }

    /// One who follows a query, or waits to.
    pub(super) fn follower(&self, who: Subscriber) -> Option<Follower> {
        self.followers.get(&who).copied()
    }

    /// Those whom something concerns: all of a query by the name that they have for it, or some of whatever
    /// names.
    pub(super) fn affected(&self, to: &Recipients) -> Vec<AffectedFollowers> {
        match to {
            Recipients::All(query) => {
                let named = self.cohorts.get(query).into_iter().flat_map(|cohort| &cohort.named);
                let affected = |(name, group): (&Arc<str>, &Group)| AffectedFollowers {
                    query_id: Some(Arc::clone(name)),
                    followers: group.list(),
                };
                named.map(affected).collect()
            }
            Recipients::Only(_, named) => {
                let found = named.iter().filter_map(|who| self.follower(*who));
                vec![AffectedFollowers { query_id: None, followers: listed(found) }]
            }
        }
    }
}
