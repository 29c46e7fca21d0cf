//! Who is to be told of which entity: a shard's index, so that what a change costs follows from how
//! many it reaches, and not from how many subscribe. Whom a change reaches is a list that is there
//! already, so that a crowd is found as quickly as a few.
//!
//! ```text
//!   project ─┬─ 7 ─► tab 1, tab 2
//!            └─ 8 ─► tab 2
//!   task    ─── 1 ─► tab 1
//! ```

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use crate::audience::Group;

/// Members of one entity that are kept in a list alone: most have one or two, and there may be a million.
const FEW: usize = 8;

/// Entities by their code and id, and who is to be told of each.
#[derive(Debug)]
pub(super) struct Index<M> {
    codes: HashMap<Arc<str>, Code<M>>,
    size: usize,
}

/// Entities of one code.
#[derive(Debug)]
struct Code<M> {
    ids: HashMap<Arc<str>, Members<M>>,
    /// Those who are to be told of any, and of how many each.
    counts: HashMap<M, usize>,
    everyone: Group<M>,
}

/// Those who are to be told of one entity. Each is there once.
#[derive(Debug)]
enum Members<M> {
    Few(Vec<M>),
    Many(Group<M>),
}

impl<M> Default for Index<M> {
    fn default() -> Index<M> {
        Index { codes: HashMap::new(), size: 0 }
    }
}

impl<M> Default for Code<M> {
    fn default() -> Code<M> {
        Code { ids: HashMap::new(), counts: HashMap::new(), everyone: Group::default() }
    }
}

impl<M: Copy + Eq + Hash> Index<M> {
    /// Has a member told of an entity. Returns the id as all who share it keep it.
    pub(super) fn enter(&mut self, code: &Arc<str>, id: &Arc<str>, follower: M) -> Arc<str> {
        let Code { ids, counts, everyone } = self.codes.entry(Arc::clone(code)).or_default();
        let shared = ids.get_key_value(id).map_or_else(|| Arc::clone(id), |(id, _)| Arc::clone(id));
        let followers = ids.entry(Arc::clone(&shared)).or_insert_with(|| Members::Few(Vec::new()));
        if followers.enter(follower) {
            self.size += 1;
            *counts.entry(follower).or_default() += 1;
            everyone.enter(follower);
        }
        shared
    }

    /// Has a member told of an entity no longer.
    pub(super) fn leave(&mut self, code: &str, id: &str, follower: M) {
        let Some(Code { ids, counts, everyone }) = self.codes.get_mut(code) else { return };
        let Some(followers) = ids.get_mut(id) else { return };
        if followers.leave(follower) {
            self.size -= 1;
            let count = counts.entry(follower).or_default();
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(&follower);
                everyone.leave(follower);
            }
        }
        if followers.is_empty() {
            ids.remove(id);
        }
        if ids.is_empty() {
            self.codes.remove(code);
        }
    }

    /// A code as all who share it keep it, if anyone is to be told of entities of it.
    pub(super) fn code(&self, code: &str) -> Option<Arc<str>> {
        self.codes.get_key_value(code).map(|(code, _)| Arc::clone(code))
    }

    /// Those who are to be told of an entity, with its id as they keep it.
    pub(super) fn reached(&self, code: &str, id: &str) -> Option<(Arc<str>, Arc<Vec<M>>)> {
        let (id, followers) = self.codes.get(code)?.ids.get_key_value(id)?;
        Some((Arc::clone(id), followers.list()))
    }

    /// Those who are to be told of any entity of a code.
    pub(super) fn everyone(&self, code: &str) -> Option<Arc<Vec<M>>> {
        Some(self.codes.get(code)?.everyone.list())
    }

    /// Whether anyone is to be told of entities of a code.
    pub(super) fn has(&self, code: &str) -> bool {
        self.codes.contains_key(code)
    }

    /// How many pairs of an entity and someone who is to be told of it there are.
    pub(super) fn size(&self) -> usize {
        self.size
    }
}

impl<M: Copy + Eq + Hash> Members<M> {
    /// Returns whether the member was not there.
    fn enter(&mut self, follower: M) -> bool {
        match self {
            Members::Few(few) if few.contains(&follower) => false,
            Members::Few(few) if few.len() < FEW => {
                few.push(follower);
                true
            }
            Members::Few(few) => {
                let mut many = Group::default();
                few.drain(..).chain([follower]).for_each(|follower| _ = many.enter(follower));
                *self = Members::Many(many);
                true
            }
            Members::Many(many) => many.enter(follower),
        }
    }

    /// Returns whether the member was there.
    fn leave(&mut self, follower: M) -> bool {
        match self {
            Members::Few(few) => match few.iter().position(|known| *known == follower) {
                Some(place) => {
                    few.swap_remove(place);
                    true
                }
                None => false,
            },
            Members::Many(many) => many.leave(follower),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Members::Few(few) => few.is_empty(),
            Members::Many(many) => many.is_empty(),
        }
    }

    fn list(&self) -> Arc<Vec<M>> {
        match self {
            Members::Few(few) => Arc::new(few.clone()),
            Members::Many(many) => many.list(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const CODES: [&str; 2] = ["project", "task"];

    #[derive(Debug, Clone)]
    enum IndexStep {
        Enter(usize, u8, u8),
        Leave(usize, u8, u8),
    }

    fn steps() -> impl Strategy<Value = Vec<IndexStep>> {
        let named = || (0..CODES.len(), 0..4u8, 0..20u8);
        let step = prop_oneof![
            3 => named().prop_map(|(code, id, follower)| IndexStep::Enter(code, id, follower)),
            2 => named().prop_map(|(code, id, follower)| IndexStep::Leave(code, id, follower)),
        ];
        proptest::collection::vec(step, 0..400)
    }

    proptest! {
        /// Each gets exactly the entities it is subscribed to, of one id and of all.
        #[test]
        fn each_is_reached_by_exactly_its_entities(steps in steps()) {
            let mut index = Index::default();
            let mut model = BTreeSet::new();
            for step in steps {
                match step {
                    IndexStep::Enter(code, id, follower) => {
                        index.enter(&CODES[code].into(), &id.to_string().into(), follower);
                        model.insert((code, id.to_string(), follower));
                    }
                    IndexStep::Leave(code, id, follower) => {
                        index.leave(CODES[code], &id.to_string(), follower);
                        model.remove(&(code, id.to_string(), follower));
                    }
                }
            }
            prop_assert_eq!(index.size(), model.len());
            for (number, code) in CODES.into_iter().enumerate() {
                let of_code = model.iter().filter(|(code, ..)| *code == number);
                let expected: BTreeSet<(&str, u8)> =
                    of_code.map(|(_, id, follower)| (id.as_str(), *follower)).collect();
                let everyone = index.everyone(code).unwrap_or_default();
                let found: BTreeSet<u8> = everyone.iter().copied().collect();
                prop_assert_eq!(everyone.len(), found.len(), "each once");
                prop_assert_eq!(found, expected.iter().map(|(_, m)| *m).collect());
                prop_assert_eq!(index.has(code), !expected.is_empty());
                for id in 0..4u8 {
                    let id = id.to_string();
                    let reached = index.reached(code, &id).map(|(_, followers)| followers);
                    let reached = reached.unwrap_or_default();
                    let found: BTreeSet<u8> = reached.iter().copied().collect();
                    prop_assert_eq!(reached.len(), found.len(), "each once");
                    let wanted = expected.iter().filter(|(of, _)| *of == id).map(|(_, m)| *m);
                    prop_assert_eq!(found, wanted.collect::<BTreeSet<u8>>());
                }
            }
        }
    }

    #[test]
    fn those_who_share_an_entity_share_its_id() {
        let mut index = Index::default();
        let first = index.enter(&"project".into(), &"7".into(), 1);
        let second = index.enter(&"project".into(), &"7".into(), 2);
        assert!(Arc::ptr_eq(&first, &second));
    }
}
