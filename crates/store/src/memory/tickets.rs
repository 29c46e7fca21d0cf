//! Tickets.

use std::collections::BTreeMap;

use super::control::checked_json;
use crate::control::SWEPT_MAX;
use crate::error::StoreError;
use crate::keys::duration;

/// The tickets that wait to be taken: holder and end, by hash.
#[derive(Debug, Default)]
pub(super) struct StoredTickets(BTreeMap<String, (String, i64)>);

impl StoredTickets {
    pub(super) fn put(
        &mut self,
        hash: &str,
        holder: &str,
        ttl_ms: u64,
        now_ms: i64,
    ) -> Result<(), StoreError> {
        checked_json("put a ticket", holder)?;
        self.0.insert(hash.to_owned(), (holder.to_owned(), now_ms + duration(ttl_ms)));
        Ok(())
    }

    pub(super) fn take(&mut self, hash: &str, now_ms: i64) -> Option<String> {
        let (holder, expires_at_ms) = self.0.remove(hash)?;
        (expires_at_ms > now_ms).then_some(holder)
    }

    /// Removes some of those whose time is over, the oldest first, and says how many.
    pub(super) fn sweep(&mut self, now_ms: i64) -> usize {
        let over = self.0.iter().filter(|(_, (_, at_ms))| *at_ms <= now_ms);
        let mut over: Vec<_> = over.map(|(hash, (_, at_ms))| (*at_ms, hash.clone())).collect();
        over.sort_unstable();
        over.truncate(SWEPT_MAX);
        for (_, hash) in &over {
            self.0.remove(hash);
        }
        over.len()
    }
}
