//! API keys.

use std::collections::BTreeMap;

use crate::keys::{InvalidKey, KeyView, NewKey, duration};

/// The keys, valid or not.
#[derive(Debug, Default)]
pub(super) struct StoredKeys {
    keys: BTreeMap<i64, Key>,
    ids: BTreeMap<String, i64>,
    /// The last id that was given.
    last_id: i64,
}

/// A key. What its view says of the time that is left is filled in when it is read.
#[derive(Debug)]
struct Key(KeyView);

impl Key {
    fn seen_at(&self, now_ms: i64) -> KeyView {
        let expires_in_ms = self.0.expires_at_ms.map(|at_ms| at_ms - now_ms);
        KeyView { expires_in_ms, ..self.0.clone() }
    }
}

impl StoredKeys {
    /// Makes a key that has been checked.
    pub(super) fn create(&mut self, key: NewKey, now_ms: i64) -> Result<KeyView, InvalidKey> {
        if self.ids.contains_key(&key.hash) {
            return Err(InvalidKey::HashInUse);
        }
        self.last_id += 1;
        let made = Key(KeyView {
            id: self.last_id,
            name: key.name,
            scopes: key.scopes,
            created_at_ms: now_ms,
            last_used_at_ms: None,
            is_active: true,
            expires_at_ms: key.expires_in_ms.map(|in_ms| now_ms + duration(in_ms)),
            expires_in_ms: None,
        });
        let view = made.seen_at(now_ms);
        self.ids.insert(key.hash, self.last_id);
        self.keys.insert(self.last_id, made);
        Ok(view)
    }

    pub(super) fn list(&self, now_ms: i64) -> Vec<KeyView> {
        self.keys.values().map(|key| key.seen_at(now_ms)).collect()
    }

    pub(super) fn by_id(&self, id: i64, now_ms: i64) -> Option<KeyView> {
        self.keys.get(&id).map(|key| key.seen_at(now_ms))
    }

    pub(super) fn by_hash(&self, hash: &str, now_ms: i64) -> Option<KeyView> {
        self.by_id(*self.ids.get(hash)?, now_ms)
    }

    /// Revokes a key. Says whether that changed it; none if there is none.
    pub(super) fn revoke(&mut self, id: i64) -> Option<bool> {
        let Key(key) = self.keys.get_mut(&id)?;
        Some(std::mem::replace(&mut key.is_active, false))
    }

    /// Makes a key in the place of a valid one. Says whether that one changed.
    pub(super) fn rotate(
        &mut self,
        id: i64,
        hash: &str,
        overlap_ms: u64,
        expires_in_ms: Option<u64>,
        now_ms: i64,
    ) -> Result<Option<(KeyView, bool)>, InvalidKey> {
        let Some(old) = self.by_id(id, now_ms).filter(KeyView::is_valid) else { return Ok(None) };
        let (name, scopes, hash) = (old.name, old.scopes, hash.to_owned());
        let made = self.create(NewKey { name, hash, scopes, expires_in_ms }, now_ms)?;
        let end_ms = now_ms + duration(overlap_ms);
        let end_ms = Some(old.expires_at_ms.map_or(end_ms, |at_ms| at_ms.min(end_ms)));
        if let Some(Key(key)) = self.keys.get_mut(&id) {
            key.expires_at_ms = end_ms;
        }
        Ok(Some((made, old.expires_at_ms != end_ms)))
    }

    pub(super) fn note_uses(&mut self, ids: &[i64], now_ms: i64) {
        for id in ids {
            if let Some(Key(key)) = self.keys.get_mut(id) {
                key.last_used_at_ms = Some(now_ms);
            }
        }
    }
}
