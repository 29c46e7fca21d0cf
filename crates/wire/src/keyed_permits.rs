//! Permits by key: each key may hold a bounded number of them.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// Who has how many. Only those who have one take memory.
#[derive(Debug)]
pub struct KeyedPermits<K>(Arc<Mutex<HashMap<K, usize>>>);

/// One of them or several, given back when dropped.
#[derive(Debug)]
pub struct KeyedPermit<K: Hash + Eq> {
    holder: K,
    count: usize,
    taken: Arc<Mutex<HashMap<K, usize>>>,
}

impl<K> Default for KeyedPermits<K> {
    fn default() -> KeyedPermits<K> {
        KeyedPermits(Arc::default())
    }
}

impl<K: Hash + Eq + Clone> KeyedPermits<K> {
    /// Takes one, unless the holder has as many as it may.
    pub fn take(&self, holder: K, seats_max: usize) -> Option<KeyedPermit<K>> {
        self.take_several(holder, 1, seats_max)
    }

    /// Takes some, or none if the holder would have more than it may.
    pub fn take_several(
        &self,
        holder: K,
        count: usize,
        seats_max: usize,
    ) -> Option<KeyedPermit<K>> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = taken.get(&holder).copied().unwrap_or_default();
        let after = before.saturating_add(count);
        if count == 0 || after > seats_max {
            return None;
        }
        taken.insert(holder.clone(), after);
        Some(KeyedPermit { holder, count, taken: Arc::clone(&self.0) })
    }

    /// How many holders there are.
    #[cfg(test)]
    pub fn holders(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl<K: Hash + Eq> Drop for KeyedPermit<K> {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        // No key is made for this: the one that is there was made by `take`.
        if let Some(count) = taken.get_mut(&self.holder) {
            *count = count.saturating_sub(self.count);
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
        let seats = KeyedPermits::default();
        let first = seats.take("ann", 1).expect("there is room");
        assert!(seats.take("ann", 1).is_none());
        let other = seats.take("bob", 1).expect("another's seat is another's");
        drop(first);
        assert!(seats.take("ann", 1).is_some());
        drop(other);
        assert_eq!(seats.holders(), 0, "nothing is kept of those who left");
    }

    #[test]
    fn several_seats_are_taken_together_or_not_at_all() {
        let seats = KeyedPermits::default();
        let three = seats.take_several("ann", 3, 4).expect("there is room");
        assert!(seats.take_several("ann", 2, 4).is_none());
        let one = seats.take_several("ann", 1, 4);
        assert!(one.is_some() && seats.take("ann", 4).is_none());
        drop(three);
        assert!(seats.take_several("ann", 3, 4).is_some());
        drop(one);
        assert!(seats.take_several("ann", 5, 4).is_none());
        assert_eq!(seats.holders(), 0);
    }
}
