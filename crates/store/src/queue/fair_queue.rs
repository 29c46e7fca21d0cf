//! What waits on the accounts of callers: each account has its turn, however much of one there is.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Whose work it is. What is nobody's has turns of its own.
pub type Account = Option<Arc<str>>;

/// Work that waits. An account stands in `order` once for as long as it has some.
#[derive(Debug)]
pub(super) struct FairQueue<E> {
    waiting: HashMap<Account, VecDeque<E>>,
    order: VecDeque<Account>,
}

impl<E> Default for FairQueue<E> {
    fn default() -> FairQueue<E> {
        FairQueue { waiting: HashMap::new(), order: VecDeque::new() }
    }
}

impl<E> FairQueue<E> {
    pub(super) fn push(&mut self, account: Account, work: E) {
        let own = self.waiting.entry(account.clone()).or_default();
        if own.is_empty() {
            self.order.push_back(account);
        }
        own.push_back(work);
    }

    /// Takes what is next. Its account comes behind those that wait.
    pub(super) fn pop(&mut self) -> Option<E> {
        let account = self.order.pop_front()?;
        let own = self.waiting.get_mut(&account)?;
        let work = own.pop_front();
        match own.is_empty() {
            true => drop(self.waiting.remove(&account)),
            false => self.order.push_back(account),
        }
        work
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_account_has_its_turn() {
        let mut turns = FairQueue::default();
        let account = |name: &str| Some(Arc::from(name));
        for (name, work) in [("ann", 1), ("ann", 2), ("ann", 3), ("bob", 4), ("cem", 5), ("bob", 6)]
        {
            turns.push(account(name), work);
        }
        turns.push(None, 7);
        let first: Vec<_> = (0..4).filter_map(|_| turns.pop()).collect();
        assert_eq!(first, [1, 4, 5, 7]);
        turns.push(account("cem"), 8);
        let rest: Vec<_> = std::iter::from_fn(|| turns.pop()).collect();
        assert_eq!(rest, [2, 6, 8, 3]);
        assert!(turns.waiting.is_empty() && turns.order.is_empty(), "nobody is remembered");
    }
}
