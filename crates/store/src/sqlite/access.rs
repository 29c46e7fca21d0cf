//! Access control: hands the calls of its traits to where they are carried out.

use async_trait::async_trait;

use super::{SqliteStore, keys};
use crate::error::StoreError;
use crate::keys::{KeyView, Keys, NewKey, check_expiry, check_hash};

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
        self.exclusively(move |writer| keys::revoke(writer, id)).await
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
        let rotate = move |writer: &mut super::writer::Writer| {
            keys::rotate(writer, id, hash, overlap_ms, expires_in_ms)
        };
        self.exclusively(rotate).await
    }

    async fn note_key_uses(&self, ids: &[i64]) -> Result<(), StoreError> {
        let ids = ids.to_vec();
        self.exclusively(move |writer| keys::note_uses(writer, &ids)).await
    }
}
