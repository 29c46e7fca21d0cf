//! The queries of one anchor.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use crate::engine::QueryId;

/// A map whose keys are hashes already.
pub(super) type ByHash<V> = HashMap<u64, V, BuildHasherDefault<AsItIs>>;

/// Takes a hash for what it is.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// How often each query is there. Apart, so that the one query of most anchors takes no room for it.
#[derive(Debug)]
pub(super) struct Counted(BTreeMap<QueryId, u32>);

/// Queries, each as often as it was added. Mostly there is one; where there are many, each still goes
/// in the logarithm of their number.
#[derive(Debug, Default)]
pub(super) enum Posting {
    #[default]
    None,
    One(QueryId),
    Many(Box<Counted>),
}

impl Posting {
    pub(super) fn insert(&mut self, query: QueryId) {
        match self {
            Posting::None => *self = Posting::One(query),
            Posting::One(known) => {
                let mut all = BTreeMap::from([(*known, 1)]);
                *all.entry(query).or_default() += 1;
                *self = Posting::Many(Box::new(Counted(all)));
            }
            Posting::Many(all) => *all.0.entry(query).or_default() += 1,
        }
    }

    pub(super) fn remove(&mut self, query: QueryId) {
        match self {
            Posting::One(known) if *known == query => *self = Posting::None,
            Posting::None | Posting::One(_) => {}
            Posting::Many(all) => {
                if let Some(times) = all.0.get_mut(&query) {
                    *times -= 1;
                    if *times == 0 {
                        all.0.remove(&query);
                    }
                }
                if all.0.is_empty() {
                    *self = Posting::None;
                }
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Posting::None)
    }

    /// How many different ones there are.
    pub(super) fn len(&self) -> usize {
        match self {
            Posting::None => 0,
            Posting::One(_) => 1,
            Posting::Many(all) => all.0.len(),
        }
    }

    pub(super) fn all(&self, found: &mut Vec<QueryId>) {
        match self {
            Posting::None => {}
            Posting::One(query) => found.push(*query),
            Posting::Many(all) => found.extend(all.0.keys()),
        }
    }
}
