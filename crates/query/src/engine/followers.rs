//! Those who follow a query and have been told everything: mostly one.

use std::collections::BTreeSet;

use super::messages::Subscriber;

/// Subscribers, each once, in order. Of very many queries each has one, which takes no room beside.
#[derive(Debug, Default)]
pub(super) enum Followers {
    #[default]
    None,
    One(Subscriber),
    Many(BTreeSet<Subscriber>),
}

impl Followers {
    pub(super) fn insert(&mut self, who: Subscriber) {
        match self {
            Followers::None => *self = Followers::One(who),
            Followers::One(known) if *known == who => {}
            Followers::One(known) => {
                *self = Followers::Many(BTreeSet::from([*known, who]));
            }
            Followers::Many(all) => {
                all.insert(who);
            }
        }
    }

    pub(super) fn remove(&mut self, who: Subscriber) {
        match self {
            Followers::One(known) if *known == who => *self = Followers::None,
            Followers::None | Followers::One(_) => {}
            Followers::Many(all) => {
                all.remove(&who);
                match (all.first(), all.len()) {
                    (Some(last), 1) => *self = Followers::One(*last),
                    (None, _) => *self = Followers::None,
                    _ => {}
                }
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Followers::None)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Subscriber> + '_ {
        let (one, many) = match self {
            Followers::None => (None, None),
            Followers::One(who) => (Some(*who), None),
            Followers::Many(all) => (None, Some(all)),
        };
        one.into_iter().chain(many.into_iter().flat_map(|all| all.iter().copied()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn followers_are_a_set_in_order_however_many_there_are() {
        let mut followers = Followers::default();
        let mut wanted = BTreeSet::new();
        let steps = [(3, true), (3, true), (1, true), (2, true), (9, false), (1, false)];
        let back = [(3, false), (2, false), (2, false), (5, true), (5, false)];
        for (number, comes) in steps.into_iter().chain(back) {
            let who = Subscriber(number);
            if comes {
                followers.insert(who);
                wanted.insert(who);
            } else {
                followers.remove(who);
                wanted.remove(&who);
            }
            assert!(followers.iter().eq(wanted.iter().copied()), "{followers:?}");
            assert_eq!(followers.is_empty(), wanted.is_empty());
        }
    }
}
