//! API keys.

use deadpool_postgres::ClientWrapper;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Error, Row};

use super::error::{broken, broken_commit};
use super::query::{Params, execute, query, sql};
use tidewire_store::error::StoreError;
use tidewire_store::keys::{InvalidKey, KeyView, NewKey, check_hash, duration};

/// Makes a key that has been checked.
pub(crate) async fn create(client: &ClientWrapper, key: &NewKey) -> Result<KeyView, StoreError> {
    let expires_in_ms = key.expires_in_ms.map(duration);
    let params: Params<'_> = &[&key.name, &key.hash, &key.scopes, &expires_in_ms];
    let made = make(client, sql!("key_create"), params, "make a key").await?;
    made.ok_or_else(|| StoreError::Broken {
        operation: "make a key",
        reason: "the database made none, and did not say why".to_owned(),
    })
}

/// Makes a key in the place of another.
pub(crate) async fn rotate(
    client: &ClientWrapper,
    id: i64,
    hash: &str,
    overlap_ms: u64,
    expires_in_ms: Option<u64>,
) -> Result<Option<KeyView>, StoreError> {
    let (overlap_ms, expires_in_ms) = (duration(overlap_ms), expires_in_ms.map(duration));
    let params: Params<'_> = &[&id, &hash, &overlap_ms, &expires_in_ms];
    make(client, sql!("key_rotate"), params, "rotate a key").await
}

/// Runs a statement that makes a key, in a transaction of its own: if the connection breaks, that
/// tells whether the key may be there.
async fn make(
    client: &ClientWrapper,
    statement: &str,
    params: Params<'_>,
    operation: &'static str,
) -> Result<Option<KeyView>, StoreError> {
    let work = async {
        client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED").await?;
        query(client, statement, params).await?.first().map(view_of_row).transpose()
    };
    let made = work.await.map_err(|error| match error.code() {
        Some(code) if *code == SqlState::UNIQUE_VIOLATION => InvalidKey::HashInUse.into(),
        _ => broken(operation)(error),
    })?;
    let committed = client.batch_execute("COMMIT").await;
    committed.map_err(|error| broken_commit(true, &error))?;
    Ok(made)
}

/// All keys.
pub(crate) async fn list(client: &ClientWrapper) -> Result<Vec<KeyView>, StoreError> {
    let read = async {
        query(client, sql!("keys"), &[])
            .await?
            .iter()
            .map(view_of_row)
            .collect::<Result<_, Error>>()
    };
    read.await.map_err(broken("list the keys"))
}

/// A key by its id.
pub(crate) async fn by_id(client: &ClientWrapper, id: i64) -> Result<Option<KeyView>, StoreError> {
    let read =
        async { query(client, sql!("key"), &[&id]).await?.first().map(view_of_row).transpose() };
    read.await.map_err(broken("read a key"))
}

/// A key by its hash.
pub(crate) async fn by_hash(
    client: &ClientWrapper,
    hash: &str,
) -> Result<Option<KeyView>, StoreError> {
    // Not every text can be sent; one that is no hash is not there.
    if check_hash(hash).is_err() {
        return Ok(None);
    }
    let read = async {
        query(client, sql!("key_of_hash"), &[&hash]).await?.first().map(view_of_row).transpose()
    };
    read.await.map_err(broken("read a key"))
}

/// Revokes a key. Says whether there is one.
pub(crate) async fn revoke(client: &ClientWrapper, id: i64) -> Result<bool, StoreError> {
    let revoked = execute(client, sql!("key_revoke"), &[&id]).await;
    revoked.map(|rows| rows > 0).map_err(broken("revoke a key"))
}

/// Notes that keys were used.
pub(crate) async fn note_uses(client: &ClientWrapper, ids: &[i64]) -> Result<(), StoreError> {
    let noted = execute(client, sql!("keys_used"), &[&ids]).await;
    noted.map(drop).map_err(broken("note the use of keys"))
}

fn view_of_row(row: &Row) -> Result<KeyView, Error> {
    Ok(KeyView {
        id: row.try_get(0)?,
        name: row.try_get(1)?,
        scopes: row.try_get(2)?,
        created_at_ms: row.try_get(3)?,
        last_used_at_ms: row.try_get(4)?,
        is_active: row.try_get(5)?,
        expires_at_ms: row.try_get(6)?,
        expires_in_ms: row.try_get(7)?,
    })
}
