//! A fair queue: those who wait for the same take turns, however much each of them asks for.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Things that wait, each someone's.
#[derive(Debug)]
pub(super) struct FairQueue<Who, Thing> {
    /// Those of whom something waits, each once.
    order: VecDeque<Who>,
    waiting: HashMap<Who, VecDeque<Thing>>,
    len: usize,
}

impl<Who, Thing> Default for FairQueue<Who, Thing> {
    fn default() -> FairQueue<Who, Thing> {
        FairQueue { order: VecDeque::new(), waiting: HashMap::new(), len: 0 }
    }
}

impl<Who: Clone + Eq + Hash, Thing> FairQueue<Who, Thing> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push(&mut self, who: &Who, thing: Thing) {
        let own = self.waiting.entry(who.clone()).or_default();
        if own.is_empty() {
            self.order.push_back(who.clone());
        }
        own.push_back(thing);
        self.len += 1;
    }

    /// The next thing of the next one who may have a turn. The others keep theirs.
    pub(super) fn pop(&mut self, may: impl Fn(&Who) -> bool) -> Option<Thing> {
        let at = self.order.iter().position(may)?;
        let who = self.order.remove(at)?;
        let own = self.waiting.get_mut(&who)?;
        let thing = own.pop_front()?;
        self.len -= 1;
        if own.is_empty() {
            self.waiting.remove(&who);
        } else {
            self.order.push_back(who);
        }
        Some(thing)
    }

    pub(super) fn retain(&mut self, mut stays: impl FnMut(&Thing) -> bool) {
        self.waiting.retain(|_, own| {
            own.retain(&mut stays);
            !own.is_empty()
        });
        self.order.retain(|who| self.waiting.contains_key(who));
        self.len = self.waiting.values().map(VecDeque::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_much_does_not_come_before_who_asks_for_little() {
        let mut turns = FairQueue::default();
        for n in 0..3 {
            turns.push(&"much", n);
        }
        turns.push(&"little", 10);
        let order: Vec<i32> = std::iter::from_fn(|| turns.pop(|_| true)).collect();
        assert_eq!(order, [0, 10, 1, 2]);
        assert_eq!(turns.len(), 0);
    }

    #[test]
    fn who_may_not_have_a_turn_keeps_it() {
        let mut turns = FairQueue::default();
        turns.push(&"a", 1);
        turns.push(&"b", 2);
        assert_eq!(turns.pop(|who| *who == "b"), Some(2));
        assert_eq!(turns.pop(|who| *who == "b"), None);
        assert_eq!(turns.pop(|_| true), Some(1));
    }

    #[test]
    fn what_is_dropped_has_no_turn() {
        let mut turns = FairQueue::default();
        for n in 1..5 {
            turns.push(&(n % 2), n);
        }
        turns.retain(|n| n % 2 == 0);
        assert_eq!(turns.len(), 2);
        assert_eq!(std::iter::from_fn(|| turns.pop(|_| true)).collect::<Vec<_>>(), [2, 4]);
    }
}
