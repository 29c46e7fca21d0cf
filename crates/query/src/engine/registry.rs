//! Which queries there are: by number, by key, by table, by subscriber.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::live::Live;
use super::messages::{QueryId, Subscriber};
use crate::index::Index;
use crate::plan::{Conditions, Plan, Query, QueryKey};

/// All queries of an engine.
#[derive(Debug, Default)]
pub(super) struct Registry {
    last: u32,
    queries: HashMap<QueryId, Live>,
    by_key: HashMap<QueryKey, QueryId>,
    pub(super) tables: HashMap<Box<str>, TableQueries>,
    pub(super) followers: HashMap<Subscriber, QueryId>,
}

/// The queries that read a table.
#[derive(Debug, Default)]
pub(super) struct TableQueries {
    pub(super) index: Index,
    pub(super) all: BTreeSet<QueryId>,
}

impl Registry {
    pub(super) fn get(&self, id: QueryId) -> Option<&Live> {
        self.queries.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: QueryId) -> Option<&mut Live> {
        self.queries.get_mut(&id)
    }

    pub(super) fn len(&self) -> usize {
        self.queries.len()
    }

    /// The query that is the same, which is there from now on. Keys are hashes that a client could make
    /// collide, so that what is run is compared too: nobody gets another's result. With it, of a query that
    /// is new and that no index finds, how many there are of those.
    pub(super) fn query(&mut self, query: Arc<Query>) -> (QueryId, usize) {
        let known = self.by_key.get(&query.key).copied();
        let is_same = |id: &QueryId| self.get(*id).is_some_and(|live| live.query.is_same(&query));
        if let Some(id) = known.filter(is_same) {
            return (id, 0);
        }
        self.last = self.last.wrapping_add(1);
        while self.queries.contains_key(&QueryId(self.last)) {
            self.last = self.last.wrapping_add(1);
        }
        let id = QueryId(self.last);
        let unindexed = self.put(id, query);
        (id, unindexed)
    }

    /// A query under a number that none has; if no index finds it, with how many others of its table.
    pub(super) fn put(&mut self, id: QueryId, query: Arc<Query>) -> usize {
        let unindexed = self.list(id, &query);
        self.queries.insert(id, Live::new(query));
        unindexed
    }

    pub(super) fn remove(&mut self, id: QueryId) -> Option<Live> {
        let live = self.queries.remove(&id)?;
        if self.by_key.get(&live.query.key) == Some(&id) {
            self.by_key.remove(&live.query.key);
        }
        for (table, conditions) in listings(&live.query) {
            let Some(book) = self.tables.get_mut(table) else { continue };
            book.index.remove(id, &conditions);
            book.all.remove(&id);
            if book.all.is_empty() {
                self.tables.remove(table);
            }
        }
        Some(live)
    }

    /// A table's queries, in the order of their numbers.
    pub(super) fn queries_of(&self, table: &str) -> Vec<QueryId> {
        let book = self.tables.get(table);
        book.map_or_else(Vec::new, |book| book.all.iter().copied().collect())
    }

    fn list(&mut self, id: QueryId, query: &Query) -> usize {
        self.by_key.entry(query.key).or_insert(id);
        let mut unindexed = 0;
        for (table, conditions) in listings(query) {
            let book = match self.tables.get_mut(table) {
                Some(book) => book,
                None => self.tables.entry(table.into()).or_default(),
            };
            if !book.index.insert(id, &conditions) {
                unindexed = unindexed.max(book.index.unindexed());
            }
            book.all.insert(id);
        }
        unindexed
    }
}

/// Under which conditions changes of which tables concern a query. They depend on nothing else, so
/// that what was added is what is removed.
fn listings(query: &Query) -> Vec<(&str, Cow<'_, Conditions>)> {
    let filter = match &query.plan {
        Plan::Filter(filter) => filter,
        Plan::Window(window) => &window.filter,
        Plan::Aggregate(aggregate) => &aggregate.filter,
        Plan::Requery(requery) => {
            let of_table = requery.relevance.iter().flat_map(|relevance| {
                let always = relevance.any_of.is_empty();
                let always = always.then(|| Cow::Owned(Conditions::default()));
                let some = relevance.any_of.iter().map(Cow::Borrowed);
                some.chain(always).map(|conditions| (&*relevance.table, conditions))
            });
            let is_listed =
                |table: &str| requery.relevance.iter().any(|listed| *listed.table == *table);
            let others = query.dependencies.iter().map(|dependency| &*dependency.table);
            let others = others.filter(|table| !is_listed(table));
            let others = others.map(|table| (table, Cow::Owned(Conditions::default())));
            return of_table.chain(others).collect();
        }
    };
    vec![(&*filter.table, Cow::Borrowed(&filter.conditions))]
}
