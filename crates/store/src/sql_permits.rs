//! Permits to run users' SQL: up to a number of them, of which no account gets all.
//!
//! An account that runs much, or what takes long, waits for permits of its own and not for those of others: it
//! gets another only while more are free than it has. So an account alone has half of them, the more accounts
//! there are the less each has, and the last permit always goes to an account that has none. Several accounts
//! together can hold all: of 8 permits four accounts do, of 16 five. The next account then waits, and is the
//! first to get what they give back. Of those who wait, the account with the fewest permits comes first;
//! accounts with equally few take turns. A permit is held for as long as the database works, even if nobody
//! waits for the answer any longer.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Some permits. Clones share them.
#[derive(Debug, Clone)]
pub struct SqlPermits(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    free: usize,
    /// How many each account has: only those that have any.
    held: HashMap<Arc<str>, usize>,
    /// In the order in which they came.
    waiting: VecDeque<Waiter>,
    /// When those who wait had their last turn, counted in turns.
    turns: HashMap<Arc<str>, u64>,
    turn: u64,
    closed: bool,
}

#[derive(Debug)]
struct Waiter {
    account: Option<Arc<str>>,
    gets: oneshot::Sender<SqlPermit>,
}

/// One of them, given back when dropped.
#[derive(Debug)]
pub struct SqlPermit {
    account: Option<Arc<str>>,
    permits: SqlPermits,
}

/// Nobody gets a permit any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed;

impl State {
    /// How many permits an account has. Without an account nothing is counted.
    fn held(&self, account: Option<&Arc<str>>) -> usize {
        account.and_then(|account| self.held.get(account)).copied().unwrap_or(0)
    }

    fn may_have(&self, account: Option<&Arc<str>>) -> bool {
        self.held(account) < self.free
    }

    fn take(&mut self, account: Option<&Arc<str>>) {
        self.free -= 1;
        if let Some(account) = account {
            self.turn += 1;
            self.turns.insert(Arc::clone(account), self.turn);
            *self.held.entry(Arc::clone(account)).or_default() += 1;
        }
    }

    fn give_back(&mut self, account: Option<&Arc<str>>) {
        self.free += 1;
        if let Some(account) = account
            && let Some(held) = self.held.get_mut(account)
        {
            *held -= 1;
            if *held == 0 {
                self.held.remove(account);
            }
        }
    }

    /// Whose turn it is, if a permit may be had.
    fn next(&mut self) -> Option<Waiter> {
        self.waiting.retain(|waiter| !waiter.gets.is_closed());
        if self.waiting.is_empty() {
            self.turns.clear();
        }
        let order = |waiter: &Waiter| {
            let account = waiter.account.as_ref();
            let turn = account.and_then(|account| self.turns.get(account)).copied();
            (self.held(account), turn.unwrap_or(0))
        };
        let (at, next) = self.waiting.iter().enumerate().min_by_key(|(_, it)| order(it))?;
        if !self.may_have(next.account.as_ref()) {
            return None;
        }
        let next = self.waiting.remove(at)?;
        self.take(next.account.as_ref());
        Some(next)
    }
}

impl SqlPermits {
    pub fn new(count: usize) -> SqlPermits {
        SqlPermits(Arc::new(Mutex::new(State {
            free: count.max(1),
            held: HashMap::new(),
            waiting: VecDeque::new(),
            turns: HashMap::new(),
            turn: 0,
            closed: false,
        })))
    }

    /// Waits for a permit on an account; without one, for any that is free.
    pub async fn take(&self, account: Option<&Arc<str>>) -> Result<SqlPermit, Closed> {
        let permit = {
            let mut state = self.state();
            if state.closed {
                return Err(Closed);
            }
            // Whoever waits may not have one: else they would have got it when it became free.
            if state.may_have(account) {
                state.take(account);
                return Ok(self.permit(account.cloned()));
            }
            let (gets, permit) = oneshot::channel();
            state.waiting.push_back(Waiter { account: account.cloned(), gets });
            permit
        };
        permit.await.map_err(|_| Closed)
    }

    /// Nobody gets a permit any more.
    pub fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        drop(waiting);
    }

    fn permit(&self, account: Option<Arc<str>>) -> SqlPermit {
        SqlPermit { account, permits: self.clone() }
    }

    /// Gives free permits to those who wait.
    fn hand_out(&self) {
        loop {
            let next = self.state().next();
            let Some(Waiter { account, gets }) = next else { return };
            // Who has gone meanwhile drops it, and it is handed out again.
            let _ = gets.send(self.permit(account));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SqlPermit {
    fn drop(&mut self) {
        self.permits.state().give_back(self.account.as_ref());
        self.permits.hand_out();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};

    use futures_util::FutureExt as _;

    use super::*;

    fn take(permits: &SqlPermits, account: &str) -> Option<SqlPermit> {
        permits.take(Some(&account.into())).now_or_never().map(|permit| permit.expect("it is open"))
    }

    fn now<F: Future>(permit: &mut Pin<Box<F>>) -> Option<F::Output> {
        permit.as_mut().now_or_never()
    }

    /// All that an account gets without waiting.
    fn all(permits: &SqlPermits, account: &str) -> Vec<SqlPermit> {
        std::iter::from_fn(|| take(permits, account)).collect()
    }

    #[test]
    fn the_more_there_are_the_less_each_has() {
        let permits = SqlPermits::new(8);
        let (ann, bob) = (all(&permits, "ann"), all(&permits, "bob"));
        assert_eq!((ann.len(), bob.len()), (4, 2));
        let cem = all(&permits, "cem");
        assert_eq!(cem.len(), 1);
        assert!(take(&permits, "dee").is_some(), "the last is for one who has none");
        assert!(take(&permits, "cem").is_none(), "and for nobody else");
    }

    #[test]
    fn nobody_has_all_places() {
        for count in 2..20 {
            let permits = SqlPermits::new(count);
            let own = all(&permits, "ann");
            assert!(!own.is_empty() && own.len() < count, "of {count}");
            let other = take(&permits, "bob").expect("one is never hers");
            drop(own);
            assert!(take(&permits, "ann").is_some());
            drop(other);
        }
        assert!(take(&SqlPermits::new(1), "ann").is_some());
        assert!(SqlPermits::new(1).take(None).now_or_never().is_some());
    }

    /// What PROTOCOL.md and SECURITY.md say of how many callers make another wait.
    #[test]
    fn so_many_together_have_all_places_and_the_next_one_comes_first() {
        for (count, expected) in [(2, 2), (4, 3), (8, 4), (10, 4), (16, 5), (64, 7)] {
            let permits = SqlPermits::new(count);
            let (mut held, mut accounts) = (Vec::new(), 0);
            while held.iter().map(Vec::len).sum::<usize>() < count {
                let its = all(&permits, &format!("greedy{accounts}"));
                assert!(!its.is_empty(), "of {count}: one that has none gets the last");
                held.push(its);
                accounts += 1;
            }
            assert_eq!(accounts, expected, "of {count}");
            let (greedy, next): (Arc<str>, Arc<str>) = ("greedy0".into(), "next".into());
            let mut more = pin!(permits.take(Some(&greedy)));
            let mut waits = pin!(permits.take(Some(&next)));
            assert!(more.as_mut().now_or_never().is_none());
            assert!(waits.as_mut().now_or_never().is_none());
            held[0].pop();
            let next = waits.now_or_never();
            assert!(next.is_some(), "of {count}");
            assert!(more.now_or_never().is_none(), "of {count}");
        }
    }

    #[test]
    fn of_those_who_wait_who_has_the_fewest_comes_first() {
        let permits = SqlPermits::new(4);
        let mut ann = all(&permits, "ann");
        let mut others: Vec<SqlPermit> =
            ["bob", "cem"].into_iter().filter_map(|account| take(&permits, account)).collect();
        assert_eq!((ann.len(), others.len()), (2, 2));
        let names: [Arc<str>; 3] = ["ann".into(), "dee".into(), "bob".into()];
        let [mut of_ann, mut of_dee, mut of_bob] =
            names.each_ref().map(|name| Box::pin(permits.take(Some(name))));
        assert!(now(&mut of_ann).is_none() && now(&mut of_dee).is_none());
        assert!(now(&mut of_bob).is_none());
        // The one that has none, though another of hers was asked for before.
        drop(ann.pop());
        assert!(now(&mut of_ann).is_none());
        let dee = now(&mut of_dee).expect("it is dee's turn").expect("it is open");
        drop((ann, dee));
        let hers = now(&mut of_ann).expect("she has none, and waited longer");
        assert!(now(&mut of_bob).is_none(), "the last is for one who has none");
        others.clear();
        assert!(now(&mut of_bob).is_some());
        drop(hers);
    }

    /// Whoever waits with many at once does not come again before the others.
    #[test]
    fn those_who_have_none_take_turns() {
        let permits = SqlPermits::new(1);
        let held = take(&permits, "ann").expect("one is free");
        let names: [Arc<str>; 4] = ["ann".into(), "ann".into(), "ann".into(), "bob".into()];
        let [mut one, mut two, mut three, mut of_bob] =
            names.each_ref().map(|name| Box::pin(permits.take(Some(name))));
        for waits in [&mut one, &mut two, &mut three, &mut of_bob] {
            assert!(now(waits).is_none());
        }
        drop(held);
        let bob = now(&mut of_bob).expect("ann had a turn before");
        assert!(now(&mut one).is_none() && now(&mut two).is_none());
        drop(bob);
        assert!(now(&mut one).is_some(), "hers are in their order");
    }

    #[test]
    fn who_gives_up_waiting_is_not_waited_for() {
        let permits = SqlPermits::new(1);
        let held = take(&permits, "ann").expect("one is free");
        let (bob, cem): (Arc<str>, Arc<str>) = ("bob".into(), "cem".into());
        let mut gone = Box::pin(permits.take(Some(&bob)));
        let mut stays = pin!(permits.take(Some(&cem)));
        assert!((&mut gone).now_or_never().is_none());
        assert!(stays.as_mut().now_or_never().is_none());
        drop(gone);
        drop(held);
        assert!(stays.now_or_never().is_some());
        assert!(permits.state().held.is_empty(), "accounts without a permit are forgotten");
    }

    #[test]
    fn a_place_that_was_given_to_one_who_is_gone_is_the_next_ones() {
        let permits = SqlPermits::new(1);
        let held = take(&permits, "ann").expect("one is free");
        let bob: Arc<str> = "bob".into();
        let mut gone = Box::pin(permits.take(Some(&bob)));
        assert!((&mut gone).now_or_never().is_none());
        drop(held);
        drop(gone);
        assert!(take(&permits, "cem").is_some());
    }

    #[test]
    fn who_waits_is_told_that_it_is_closed() {
        let permits = SqlPermits::new(1);
        let held = take(&permits, "ann").expect("one is free");
        let mut waits = pin!(permits.take(None));
        assert!(waits.as_mut().now_or_never().is_none());
        permits.close();
        assert_eq!(waits.now_or_never().expect("it ends").map(drop), Err(Closed));
        assert_eq!(permits.take(None).now_or_never().expect("it ends").map(drop), Err(Closed));
        drop(held);
    }
}
