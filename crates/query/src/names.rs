//! Names of columns and lists of them, each held once however many queries name it.
//!
//! A million queries of one table name the same few columns. What nobody holds any more is forgotten
//! when the list has doubled.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use crate::plan::Projected;

/// A column as conditions name it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Named {
    pub(crate) name: Box<str>,
    pub(crate) type_name: Box<str>,
}

/// A column by its name and type.
pub(crate) fn column(name: &str, type_name: &str) -> Arc<Named> {
    static HELD: LazyLock<Mutex<OwnerIndex<Named, Named>>> = LazyLock::new(Mutex::default);
    let named = Named { name: name.into(), type_name: type_name.into() };
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    held.of(named, |named| Arc::new(named.clone()))
}

/// A list of columns' names.
pub(crate) fn columns(names: Vec<String>) -> Arc<[String]> {
    static HELD: Lists<String> = LazyLock::new(Mutex::default);
    once(&HELD, names)
}

/// A list of names that a result's columns have, or a key's.
pub(crate) fn labels(labels: Vec<Box<str>>) -> Arc<[Box<str>]> {
    static HELD: Lists<Box<str>> = LazyLock::new(Mutex::default);
    once(&HELD, labels)
}

/// What a result is made of.
pub(crate) fn projection(projection: Vec<Projected>) -> Arc<[Projected]> {
    static HELD: Lists<Projected> = LazyLock::new(Mutex::default);
    once(&HELD, projection)
}

type Lists<T> = LazyLock<Mutex<OwnerIndex<Vec<T>, [T]>>>;

fn once<T: Clone + Eq + Hash>(held: &Mutex<OwnerIndex<Vec<T>, [T]>>, list: Vec<T>) -> Arc<[T]> {
    let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
    held.of(list, |list| Arc::from(list.as_slice()))
}

/// What is held by someone, by what it is.
struct OwnerIndex<K, V: ?Sized> {
    all: HashMap<K, Weak<V>>,
    /// With so many, those that nobody holds are forgotten.
    forget_at: usize,
}

impl<K, V: ?Sized> Default for OwnerIndex<K, V> {
    fn default() -> Self {
        OwnerIndex { all: HashMap::new(), forget_at: 1024 }
    }
}

impl<K: Eq + Hash, V: ?Sized> OwnerIndex<K, V> {
    fn of(&mut self, key: K, make: impl FnOnce(&K) -> Arc<V>) -> Arc<V> {
        if let Some(known) = self.all.get(&key).and_then(Weak::upgrade) {
            return known;
        }
        if self.all.len() >= self.forget_at {
            self.all.retain(|_, known| known.strong_count() > 0);
            self.forget_at = (self.all.len() * 2).max(1024);
        }
        let made = make(&key);
        self.all.insert(key, Arc::downgrade(&made));
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_are_held_once_while_someone_holds_them() {
        let first = column("total", "numeric");
        assert!(Arc::ptr_eq(&first, &column("total", "numeric")));
        assert!(!Arc::ptr_eq(&first, &column("total", "int4")));
        let mut held: OwnerIndex<u32, u32> = OwnerIndex::default();
        let kept = held.of(0, |key| Arc::new(*key));
        for key in 1..5000 {
            held.of(key, |key| Arc::new(*key));
        }
        assert!(held.all.len() <= 1024);
        assert!(Arc::ptr_eq(&kept, &held.of(0, |key| Arc::new(*key))));
    }
}
