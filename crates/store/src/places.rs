//! Places: connections that users' SQL runs on, up to a number, of which nobody has all.
//!
//! Whoever runs something that takes long, and much of it, waits for their own places and not for those of
//! others: one place at least is never theirs. A place is held for as long as the database works, however
//! early the answer is given up.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// Whose places are known at a time before those are forgotten who have none.
const ACCOUNTS_KEPT: usize = 1_024;

/// Some places.
#[derive(Debug)]
pub(crate) struct Places {
    all: Arc<Semaphore>,
    own_max: usize,
    accounts: Mutex<HashMap<Arc<str>, Arc<Semaphore>>>,
}

/// One of them, given back when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    _own: Option<OwnedSemaphorePermit>,
    _one: OwnedSemaphorePermit,
}

/// How many of some places one account may have: a quarter is for others, and one in any case.
pub(crate) fn share(count: usize) -> usize {
    (count - (count / 4).max(1).min(count)).max(1)
}

impl Places {
    pub(crate) fn new(count: usize) -> Places {
        let count = count.max(1);
        Places {
            all: Arc::new(Semaphore::new(count)),
            own_max: share(count),
            accounts: Mutex::default(),
        }
    }

    /// Waits for a place on an account; without one, for any that is free.
    pub(crate) async fn take(&self, account: Option<&Arc<str>>) -> Result<Place, AcquireError> {
        let own = match account.map(|account| self.own(account)) {
            Some(own) => Some(own.acquire_owned().await?),
            None => None,
        };
        let one = Arc::clone(&self.all).acquire_owned().await?;
        Ok(Place { _own: own, _one: one })
    }

    fn own(&self, account: &Arc<str>) -> Arc<Semaphore> {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        if accounts.len() >= ACCOUNTS_KEPT {
            // One that is held or waited for is in someone else's hands too.
            accounts.retain(|_, own| Arc::strong_count(own) > 1);
        }
        let own = accounts.entry(Arc::clone(account));
        Arc::clone(own.or_insert_with(|| Arc::new(Semaphore::new(self.own_max))))
    }

    /// Nobody gets a place any more.
    pub(crate) fn close(&self) {
        self.all.close();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn take(places: &Places, account: &str) -> Option<Place> {
        places.take(Some(&account.into())).now_or_never().map(|place| place.expect("it is open"))
    }

    #[test]
    fn nobody_has_all_places() {
        for count in 2..20 {
            let places = Places::new(count);
            let own: Vec<Place> = std::iter::from_fn(|| take(&places, "ann")).collect();
            assert_eq!(own.len(), share(count));
            assert!(own.len() < count, "of {count}");
            let other = take(&places, "bob").expect("one is never hers");
            drop(own);
            assert!(take(&places, "ann").is_some());
            drop(other);
        }
        assert!(take(&Places::new(1), "ann").is_some());
    }

    #[test]
    fn accounts_that_have_no_place_are_forgotten() {
        let places = Places::new(4);
        let held = take(&places, "held");
        for name in 0..3 * ACCOUNTS_KEPT {
            assert!(take(&places, &name.to_string()).is_some());
        }
        let known = places.accounts.lock().expect("nobody panicked");
        assert!(known.len() <= ACCOUNTS_KEPT && known.contains_key("held"));
        drop(held);
    }
}
