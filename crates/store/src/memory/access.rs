//! Access control: hands the calls of its traits to where they are carried out.

use async_trait::async_trait;
use tokio::sync::watch;

use super::MemoryStore;
use crate::control::{ControlChannel, ControlCursor, ControlMessage};
use crate::error::StoreError;
use crate::keys::{KeyView, Keys, NewKey, check_expiry, check_hash};
use crate::tickets::Tickets;

impl MemoryStore {
    /// Says that something may have been said in the control channel.
    fn signal_control(&self) {
        self.data.control.send_modify(|count| *count += 1);
    }
}

#[async_trait]
impl Keys for MemoryStore {
    async fn create_key(&self, key: NewKey) -> Result<KeyView, StoreError> {
        let key = key.checked()?;
        Ok(self.run(|rows, now_ms| rows.keys.create(key, now_ms)).await??)
    }

    async fn keys(&self) -> Result<Vec<KeyView>, StoreError> {
        self.run(|rows, now_ms| rows.keys.list(now_ms)).await
    }

    async fn key(&self, id: i64) -> Result<Option<KeyView>, StoreError> {
        self.run(|rows, now_ms| rows.keys.by_id(id, now_ms)).await
    }

    async fn key_of_hash(&self, hash: &str) -> Result<Option<KeyView>, StoreError> {
        self.run(|rows, now_ms| rows.keys.by_hash(hash, now_ms)).await
    }

    async fn revoke_key(&self, id: i64) -> Result<bool, StoreError> {
        let revoked = self
            .run(|rows, now_ms| {
                let changed = rows.keys.revoke(id);
                if changed == Some(true) {
                    rows.control.key_changed(id, now_ms);
                }
                changed.is_some()
            })
            .await?;
        self.signal_control();
        Ok(revoked)
    }

    async fn rotate_key(
        &self,
        id: i64,
        hash: &str,
        overlap_ms: u64,
        expires_in_ms: Option<u64>,
    ) -> Result<Option<KeyView>, StoreError> {
        check_hash(hash)?;
        check_expiry(expires_in_ms)?;
        let rotated = self
            .run(|rows, now_ms| {
                let rotated = rows.keys.rotate(id, hash, overlap_ms, expires_in_ms, now_ms)?;
                Ok::<_, StoreError>(rotated.map(|(made, changed)| {
                    if changed {
                        rows.control.key_changed(id, now_ms);
                    }
                    made
                }))
            })
            .await??;
        self.signal_control();
        Ok(rotated)
    }

    async fn note_key_uses(&self, ids: &[i64]) -> Result<(), StoreError> {
        self.run(|rows, now_ms| rows.keys.note_uses(ids, now_ms)).await
    }
}

#[async_trait]
impl Tickets for MemoryStore {
    async fn put_ticket(&self, hash: &str, holder: &str, ttl_ms: u64) -> Result<(), StoreError> {
        self.run(|rows, now_ms| rows.tickets.put(hash, holder, ttl_ms, now_ms)).await?
    }

    async fn take_ticket(&self, hash: &str) -> Result<Option<String>, StoreError> {
        self.run(|rows, now_ms| rows.tickets.take(hash, now_ms)).await
    }
}

#[async_trait]
impl ControlChannel for MemoryStore {
    async fn send_control(&self, kind: &str, body: &str) -> Result<(), StoreError> {
        self.run(|rows, now_ms| rows.control.send(kind, body, now_ms)).await??;
        self.signal_control();
        Ok(())
    }

    fn control_signals(&self) -> watch::Receiver<u64> {
        self.data.control.subscribe()
    }

    async fn control_since(
        &self,
        cursor: &mut ControlCursor,
    ) -> Result<Vec<ControlMessage>, StoreError> {
        self.run(|rows, now_ms| rows.control.since(cursor, now_ms)).await
    }

    async fn sweep_control(&self, keep_ms: u64) -> Result<usize, StoreError> {
        self.run(|rows, now_ms| rows.control.sweep(keep_ms, now_ms) + rows.tickets.sweep(now_ms))
            .await
    }
}
