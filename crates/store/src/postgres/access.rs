//! Access control: hands the calls of its traits to where they are carried out.

use async_trait::async_trait;

use super::pool::Lent;
use super::{PostgresStore, keys};
use crate::error::StoreError;
use crate::keys::{KeyView, Keys, NewKey, check_expiry, check_hash};

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
        self.pool.read(|client| async move { keys::revoke(&client, id).await }).await
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
        let rotate = |client: Lent| async move {
            keys::rotate(&client, id, hash, overlap_ms, expires_in_ms).await
        };
        self.pool.write(rotate).await
    }

    async fn note_key_uses(&self, ids: &[i64]) -> Result<(), StoreError> {
        self.pool.read(|client| async move { keys::note_uses(&client, ids).await }).await
    }
}
