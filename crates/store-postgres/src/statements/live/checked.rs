//! Queries that were checked, so that they need not be checked again each time they are read.
//!
//! What is remembered of a text is its digest: texts are their authors' to choose, long ones too. That a
//! query was checked is what lets it run, so the digest must be one for which nobody finds a second text.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::digest::{Context, SHA256, SHA256_OUTPUT_LEN};
use tokio_postgres::types::Type;

use super::super::value;
use tidewire_store::queries::LiveRead;
use tidewire_store::sql::SqlColumn;

/// Queries that are remembered. Past it the oldest is forgotten, and checked anew when it comes.
const QUERIES_MAX: usize = 4_096;

/// What all of them may take together, by [`CheckedRead::size_bytes`]: a query may have more than a thousand
/// columns.
const SIZE_BYTES_MAX: usize = 16 << 20;

/// A query that was checked.
#[derive(Debug)]
pub(super) struct CheckedRead {
    pub(super) columns: Vec<(String, Type)>,
    pub(super) cost: Option<f64>,
    /// The statement that locks its tables; empty without any.
    pub(super) lock: String,
}

impl CheckedRead {
    pub(super) fn columns(&self) -> Vec<SqlColumn> {
        let column = |(name, kind): &(String, Type)| SqlColumn {
            name: name.clone(),
            type_name: value::type_name(kind),
        };
        self.columns.iter().map(column).collect()
    }

    fn size_bytes(&self) -> usize {
        let names: usize = self.columns.iter().map(|(name, _)| name.len()).sum();
        size_of::<CheckedRead>()
            + self.columns.len() * size_of::<(String, Type)>()
            + names
            + self.lock.len()
    }
}

/// The digest of a text and of the tables that it was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ReadKey([u8; SHA256_OUTPUT_LEN]);

impl ReadKey {
    pub(super) fn of(read: &LiveRead) -> ReadKey {
        let mut context = Context::new(&SHA256);
        // Each text goes with its length, so that none can be taken for the beginning of another.
        let mut text = |text: &str| {
            context.update(&text.len().to_le_bytes());
            context.update(text.as_bytes());
        };
        text(&read.sql);
        for (name, fingerprint) in &read.tables {
            text(name);
            text(&fingerprint.to_string());
        }
        let mut digest = [0; SHA256_OUTPUT_LEN];
        digest.copy_from_slice(context.finish().as_ref());
        ReadKey(digest)
    }
}

/// Those that are remembered. See the [module documentation](self).
#[derive(Debug, Default)]
pub(super) struct CheckedReads(Mutex<Cache>);

/// `order` has each key of `queries` once, and `size_bytes` is their sum.
#[derive(Debug, Default)]
struct Cache {
    queries: HashMap<ReadKey, Arc<CheckedRead>>,
    /// The oldest first.
    order: VecDeque<ReadKey>,
    size_bytes: usize,
}

impl CheckedReads {
    pub(super) fn find(&self, key: &ReadKey) -> Option<Arc<CheckedRead>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).queries.get(key).cloned()
    }

    pub(super) fn remember(&self, key: ReadKey, known: CheckedRead) -> Arc<CheckedRead> {
        let known = Arc::new(known);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, Arc::clone(&known));
        known
    }
}

impl Cache {
    fn insert(&mut self, key: ReadKey, known: Arc<CheckedRead>) {
        self.size_bytes += known.size_bytes();
        // Two may have checked the same query at once.
        match self.queries.insert(key, known) {
            Some(replaced) => self.size_bytes -= replaced.size_bytes(),
            None => self.order.push_back(key),
        }
        while self.queries.len() > QUERIES_MAX || self.size_bytes > SIZE_BYTES_MAX {
            let Some(oldest) = self.order.pop_front() else { return };
            let forgotten = self.queries.remove(&oldest);
            self.size_bytes -= forgotten.map_or(0, |known| known.size_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_store::sql::SqlLimits;

    fn key(sql: &str, tables: &[(&str, u64)]) -> ReadKey {
        let limits = SqlLimits { timeout_ms: 1, rows_max: 1, bytes_max: 1 };
        let tables = tables.iter().map(|(name, print)| ((*name).to_owned(), *print)).collect();
        ReadKey::of(&LiveRead { sql: sql.to_owned(), tables, limits, account: None })
    }

    fn known(columns: usize) -> CheckedRead {
        let columns = vec![("x".repeat(63), Type::TEXT); columns];
        CheckedRead { columns, cost: None, lock: String::new() }
    }

    #[test]
    fn queries_are_told_apart_by_text_and_tables() {
        let keys = [
            key("SELECT 1", &[]),
            key("SELECT 2", &[]),
            key("SELECT 1", &[("a", 1)]),
            key("SELECT 1", &[("a", 11)]),
            key("SELECT 1", &[("a1", 1)]),
            key("SELECT 1", &[("a", 1), ("b", 1)]),
            key("SELECT 1", &[("b", 1), ("a", 1)]),
        ];
        for (index, one) in keys.iter().enumerate() {
            assert!(!keys[..index].contains(one), "{index}");
        }
        assert_eq!(key("SELECT 1", &[("a", 1)]), keys[2]);
    }

    #[test]
    fn only_the_oldest_query_is_forgotten() {
        let checked = CheckedReads::default();
        let keys: Vec<ReadKey> =
            (0..=QUERIES_MAX).map(|number| key(&number.to_string(), &[])).collect();
        for key in &keys {
            checked.remember(*key, known(1));
            checked.remember(*key, known(1));
        }
        let forgotten = keys.iter().filter(|key| checked.find(key).is_none());
        assert_eq!(forgotten.collect::<Vec<_>>(), [&keys[0]]);
    }

    #[test]
    fn wide_queries_are_forgotten_sooner() {
        let checked = CheckedReads::default();
        let keys: Vec<ReadKey> = (0..1_000).map(|number| key(&number.to_string(), &[])).collect();
        for key in &keys {
            checked.remember(*key, known(1_664));
        }
        assert!(checked.find(&keys[0]).is_none() && checked.find(&keys[999]).is_some());
        let kept = checked.0.lock().expect("nobody panicked with it");
        let sum: usize = kept.queries.values().map(|known| known.size_bytes()).sum();
        assert_eq!((kept.size_bytes, kept.order.len()), (sum, kept.queries.len()));
        assert!(sum <= SIZE_BYTES_MAX);
    }
}
