//! Who is to be told of which entity: a shard's index, so that what a change costs follows from how
//! many it reaches, and not from how many subscribe.
//!
//! ```text
//!   project ─┬─ 7 ─► tab 1, tab 2
//!            └─ 8 ─► tab 2
//!   task    ─── 1 ─► tab 1
//! ```

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

/// Members of one entity that are kept in a list: most have one or two, and there may be a million.
const FEW: usize = 8;

/// Entities by their code and id, and who is to be told of each.
#[derive(Debug)]
pub(super) struct Index<M> {
    codes: HashMap<Arc<str>, HashMap<Arc<str>, Members<M>>>,
    size: usize,
}

/// Those who are to be told of one entity. Each is there once.
#[derive(Debug)]
enum Members<M> {
    Few(Vec<M>),
    Many(HashSet<M>),
}

impl<M> Default for Index<M> {
    fn default() -> Index<M> {
        Index { codes: HashMap::new(), size: 0 }
    }
}

impl<M: Copy + Eq + Hash> Index<M> {
    /// Has a member told of an entity. Returns the id as all who share it keep it.
    pub(super) fn enter(&mut self, code: &Arc<str>, id: &Arc<str>, member: M) -> Arc<str> {
        let ids = self.codes.entry(Arc::clone(code)).or_default();
        let shared = ids.get_key_value(id).map_or_else(|| Arc::clone(id), |(id, _)| Arc::clone(id));
        let members = ids.entry(Arc::clone(&shared)).or_insert_with(|| Members::Few(Vec::new()));
        self.size += usize::from(members.enter(member));
        shared
    }

    /// Has a member told of an entity no longer.
    pub(super) fn leave(&mut self, code: &str, id: &str, member: M) {
        let Some(ids) = self.codes.get_mut(code) else { return };
        let Some(members) = ids.get_mut(id) else { return };
        self.size -= usize::from(members.leave(member));
        if members.is_empty() {
            ids.remove(id);
        }
        if ids.is_empty() {
            self.codes.remove(code);
        }
    }

    /// Those who are to be told of an entity, with its id as they keep it; without an id, of all
    /// entities of the code.
    pub(super) fn reached(&self, code: &str, id: Option<&str>) -> Vec<(Arc<str>, M)> {
        let Some(ids) = self.codes.get(code) else { return Vec::new() };
        let mut reached = Vec::new();
        let mut reach = |id: &Arc<str>, members: &Members<M>| {
            members.each(|member| reached.push((Arc::clone(id), member)));
        };
        match id {
            Some(id) => {
                if let Some((id, members)) = ids.get_key_value(id) {
                    reach(id, members);
                }
            }
            None => ids.iter().for_each(|(id, members)| reach(id, members)),
        }
        reached
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
    fn enter(&mut self, member: M) -> bool {
        match self {
            Members::Few(few) if few.contains(&member) => false,
            Members::Few(few) if few.len() < FEW => {
                few.push(member);
                true
            }
            Members::Few(few) => {
                let mut many: HashSet<M> = few.drain(..).collect();
                many.insert(member);
                *self = Members::Many(many);
                true
            }
            Members::Many(many) => many.insert(member),
        }
    }

    /// Returns whether the member was there.
    fn leave(&mut self, member: M) -> bool {
        match self {
            Members::Few(few) => match few.iter().position(|known| *known == member) {
                Some(place) => {
                    few.swap_remove(place);
                    true
                }
                None => false,
            },
            Members::Many(many) => many.remove(&member),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Members::Few(few) => few.is_empty(),
            Members::Many(many) => many.is_empty(),
        }
    }

    fn each(&self, tell: impl FnMut(M)) {
        match self {
            Members::Few(few) => few.iter().copied().for_each(tell),
            Members::Many(many) => many.iter().copied().for_each(tell),
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
    enum Step {
        Enter(usize, u8, u8),
        Leave(usize, u8, u8),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let named = || (0..CODES.len(), 0..4u8, 0..20u8);
        let step = prop_oneof![
            3 => named().prop_map(|(code, id, member)| Step::Enter(code, id, member)),
            2 => named().prop_map(|(code, id, member)| Step::Leave(code, id, member)),
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
                    Step::Enter(code, id, member) => {
                        index.enter(&CODES[code].into(), &id.to_string().into(), member);
                        model.insert((code, id.to_string(), member));
                    }
                    Step::Leave(code, id, member) => {
                        index.leave(CODES[code], &id.to_string(), member);
                        model.remove(&(code, id.to_string(), member));
                    }
                }
            }
            prop_assert_eq!(index.size(), model.len());
            for (number, code) in CODES.into_iter().enumerate() {
                let of_code = model.iter().filter(|(code, ..)| *code == number);
                let expected: BTreeSet<(&str, u8)> =
                    of_code.map(|(_, id, member)| (id.as_str(), *member)).collect();
                let all = index.reached(code, None);
                let found: BTreeSet<(&str, u8)> = all.iter().map(|(id, m)| (&**id, *m)).collect();
                prop_assert_eq!(all.len(), found.len(), "each once");
                prop_assert_eq!(&found, &expected);
                prop_assert_eq!(index.has(code), !expected.is_empty());
                for id in 0..4u8 {
                    let id = id.to_string();
                    let one: BTreeSet<u8> =
                        index.reached(code, Some(&id)).into_iter().map(|(_, m)| m).collect();
                    let wanted = expected.iter().filter(|(of, _)| *of == id).map(|(_, m)| *m);
                    prop_assert_eq!(one, wanted.collect::<BTreeSet<u8>>());
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
