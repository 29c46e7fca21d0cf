//! Access control: hands the calls of its traits to where they are carried out.

use async_trait::async_trait;
use tokio::sync::watch;

use super::{SqliteStore, control, keys, tickets};
use tidewire_store::control::{ControlChannel, ControlCursor, ControlMessage};
use tidewire_store::error::StoreError;
use tidewire_store::keys::{KeyView, Keys, NewKey, check_expiry, check_hash};
use tidewire_store::tickets::Tickets;

impl SqliteStore {
    /// Runs work that may say something in the control channel, and says so if it succeeds, whether
    /// or not the caller is still there.
    async fn telling<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut super::writer::Writer) -> Result<T, StoreError> + Send + 'static,
    {
        let signals = self.control.clone();
        self.exclusively(move |writer| {
            let done = work(writer)?;
            signals.send_modify(|count| *count += 1);
            Ok(done)
        })
        .await
    }
}

#[async_trait]
impl Keys for SqliteStore {
    async fn create_key(&self, key: NewKey) -> Result<KeyView, StoreError> {
        let key = key.checked()?;
        self.exclusively(move |writer| keys::create(writer, &key)).await
    }

    async fn keys(&self) -> Result<Vec<KeyView>, StoreError> {
        self.readers.run(|connection| keys::list(connection)).await
    }

    async fn key(&self, id: i64) -> Result<Option<KeyView>, StoreError> {
        self.readers.run(move |connection| keys::by_id(connection, id)).await
    }

    async fn key_of_hash(&self, hash: &str) -> Result<Option<KeyView>, StoreError> {
        let hash = hash.to_owned();
        self.readers.run(move |connection| keys::by_hash(connection, &hash)).await
    }

    async fn revoke_key(&self, id: i64) -> Result<bool, StoreError> {
        self.telling(move |writer| keys::revoke(writer, id)).await
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
        let hash = hash.to_owned();
        self.telling(move |writer| keys::rotate(writer, id, hash, overlap_ms, expires_in_ms)).await
    }

    async fn note_key_uses(&self, ids: &[i64]) -> Result<(), StoreError> {
        let ids = ids.to_vec();
        self.exclusively(move |writer| keys::note_uses(writer, &ids)).await
    }
}

#[async_trait]
impl Tickets for SqliteStore {
    async fn put_ticket(&self, hash: &str, holder: &str, ttl_ms: u64) -> Result<(), StoreError> {
        let (hash, holder) = (hash.to_owned(), holder.to_owned());
        self.exclusively(move |writer| tickets::put(writer, &hash, &holder, ttl_ms)).await
    }

    async fn take_ticket(&self, hash: &str) -> Result<Option<String>, StoreError> {
        let hash = hash.to_owned();
        self.exclusively(move |writer| tickets::take(writer, &hash)).await
    }
}

#[async_trait]
impl ControlChannel for SqliteStore {
    async fn send_control(&self, kind: &str, body: &str) -> Result<(), StoreError> {
        let (kind, body) = (kind.to_owned(), body.to_owned());
        self.telling(move |writer| control::send(writer, &kind, &body)).await
    }

    fn control_signals(&self) -> watch::Receiver<u64> {
        self.control.subscribe()
    }

    async fn control_since(
        &self,
        cursor: &mut ControlCursor,
    ) -> Result<Vec<ControlMessage>, StoreError> {
        let before = cursor.clone();
        let read = self.readers.run(move |connection| control::since(connection, before)).await;
        let (messages, after) = read?;
        *cursor = after;
        Ok(messages)
    }

    async fn sweep_control(&self, keep_ms: u64) -> Result<usize, StoreError> {
        self.exclusively(move |writer| control::sweep(writer, keep_ms)).await
    }
}
