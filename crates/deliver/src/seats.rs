//! Seats: how many of something each of many holders has, up to a number.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// Who has how many. Only those who have one take memory.
#[derive(Debug)]
pub(crate) struct Seats<K>(Arc<Mutex<HashMap<K, usize>>>);

/// One of them, given back when dropped.
#[derive(Debug)]
pub(crate) struct Seat<K: Hash + Eq> {
    holder: K,
    taken: Arc<Mutex<HashMap<K, usize>>>,
}

impl<K> Default for Seats<K> {
    fn default() -> Seats<K> {
        Seats(Arc::default())
    }
}

impl<K: Hash + Eq + Clone> Seats<K> {
    /// Takes one, unless the holder has as many as it may.
    pub(crate) fn take(&self, holder: K, seats_max: usize) -> Option<Seat<K>> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(holder.clone()).or_default();
        if *count >= seats_max {
            return None;
        }
        *count += 1;
        Some(Seat { holder, taken: Arc::clone(&self.0) })
    }

    /// How many holders there are.
    #[cfg(test)]
    pub(crate) fn holders(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl<K: Hash + Eq> Drop for Seat<K> {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        // No key is made for this: the one that is there was made by `take`.
        if let Some(count) = taken.get_mut(&self.holder) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.holder);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_is_free_again_once_it_is_left() {
        let seats = Seats::default();
        let first = seats.take("ann", 1).expect("there is room");
        assert!(seats.take("ann", 1).is_none());
        let other = seats.take("bob", 1).expect("another's seat is another's");
        drop(first);
        assert!(seats.take("ann", 1).is_some());
        drop(other);
        assert_eq!(seats.holders(), 0, "nothing is kept of those who left");
    }
}
