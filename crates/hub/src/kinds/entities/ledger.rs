//! Counts how often the store was told of each entity subscription of this shard's connections.

use std::collections::HashMap;

use crate::connection::Key;

/// Of each connection of which the store may have something.
#[derive(Debug, Default)]
pub(super) struct Ledgers(HashMap<Key, Ledger>);

#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Times that the store was told something of it, or may have been by others.
    pub(super) edits: u64,
    /// The store is looked at for what others told it.
    pub(super) reviewing: bool,
}

impl Ledgers {
    /// The store is told something. Returns how it stands then.
    pub(super) fn edit(&mut self, key: Key) -> &mut Ledger {
        let ledger = self.0.entry(key).or_default();
        ledger.edits += 1;
        ledger
    }

    /// How it stands, if the store may have something of it.
    pub(super) fn of(&mut self, key: Key) -> Option<&mut Ledger> {
        self.0.get_mut(&key)
    }

    /// The connection is gone. Returns whether the store may have something of it.
    pub(super) fn close(&mut self, key: Key) -> bool {
        self.0.remove(&key).is_some()
    }
}
