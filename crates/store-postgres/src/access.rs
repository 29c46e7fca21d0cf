//! Access control: hands the calls of its traits to where they are carried out.
//!
//! What goes through the control channel is signalled here besides: the listener hears of it too,
//! unless it has just lost its connection.

use async_trait::async_trait;
use tokio::sync::watch;

use super::pool::PooledConnection;
use super::{PostgresStore, control, keys, tickets};
use tidewire_store::control::{ControlChannel, ControlCursor, ControlMessage};
use tidewire_store::error::StoreError;
use tidewire_store::keys::{KeyView, Keys, NewKey, check_expiry, check_hash};
use tidewire_store::tickets::Tickets;

#[async_trait]
impl Keys for PostgresStore {
    async fn create_key(&self, key: NewKey) -> Result<KeyView, StoreError> {
        let key = &key.checked()?;
        self.pool.write(|client| async move { keys::create(&client, key).await }).await
    }

    async fn keys(&self) -> Result<Vec<KeyView>, StoreError> {
        self.pool.read(|client| async move { keys::list(&client).await }).await
    }

    async fn key(&self, id: i64) -> Result<Option<KeyView>, StoreError> {
        self.pool.read(|client| async move { keys::by_id(&client, id).await }).await
    }

    async fn key_of_hash(&self, hash: &str) -> Result<Option<KeyView>, StoreError> {
        self.pool.read(|client| async move { keys::by_hash(&client, hash).await }).await
    }

    async fn revoke_key(&self, id: i64) -> Result<bool, StoreError> {
        let revoked =
            self.pool.read(|client| async move { keys::revoke(&client, id).await }).await?;
        self.effects.signal_control();
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
        let rotate = |client: PooledConnection| async move {
            keys::rotate(&client, id, hash, overlap_ms, expires_in_ms).await
        };
        let rotated = self.pool.write(rotate).await?;
        self.effects.signal_control();
        Ok(rotated)
    }

    async fn note_key_uses(&self, ids: &[i64]) -> Result<(), StoreError> {
        self.pool.read(|client| async move { keys::note_uses(&client, ids).await }).await
    }
}

#[async_trait]
impl Tickets for PostgresStore {
    async fn put_ticket(&self, hash: &str, holder: &str, ttl_ms: u64) -> Result<(), StoreError> {
        let put = |client: PooledConnection| async move {
            tickets::put(&client, hash, holder, ttl_ms).await
        };
        self.pool.read(put).await
    }

    async fn take_ticket(&self, hash: &str) -> Result<Option<String>, StoreError> {
        self.pool.read(|client| async move { tickets::take(&client, hash).await }).await
    }
}

#[async_trait]
impl ControlChannel for PostgresStore {
    async fn send_control(&self, kind: &str, body: &str) -> Result<(), StoreError> {
        self.pool.write(|client| async move { control::send(&client, kind, body).await }).await?;
        self.effects.signal_control();
        Ok(())
    }

    fn control_signals(&self) -> watch::Receiver<u64> {
        self.effects.control_signals.subscribe()
    }

    async fn control_since(
        &self,
        cursor: &mut ControlCursor,
    ) -> Result<Vec<ControlMessage>, StoreError> {
        let before = &*cursor;
        let read =
            |client: PooledConnection| async move { control::since(&client, before.clone()).await };
        let (messages, after) = self.pool.read(read).await?;
        *cursor = after;
        Ok(messages)
    }

    async fn sweep_control(&self, keep_ms: u64) -> Result<usize, StoreError> {
        self.pool.read(|client| async move { control::sweep(&client, keep_ms).await }).await
    }
}
