//! API keys.

use rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use super::error::{broken, now_ms};
use super::sql;
use super::writer::Writer;
use tidewire_store::error::StoreError;
use tidewire_store::keys::{InvalidKey, KeyView, NewKey, duration};

/// Makes a key that has been checked.
pub(crate) fn create(writer: &mut Writer, key: &NewKey) -> Result<KeyView, StoreError> {
    let failed = not_made("make a key");
    let transaction = writer.transaction()?;
    let made = insert(&transaction, key, now_ms()).map_err(&failed)?;
    transaction.commit().map_err(&failed)?;
    Ok(made)
}

fn insert(transaction: &Transaction<'_>, key: &NewKey, now_ms: i64) -> rusqlite::Result<KeyView> {
    let expires_at_ms = key.expires_in_ms.map(|in_ms| now_ms + duration(in_ms));
    let mut insert = transaction.prepare_cached(sql!("key_create"))?;
    insert.query_row(params![now_ms, key.name, key.hash, key.scopes, expires_at_ms], view_of_row)
}

/// Sorts what can go wrong with a key that is made: one with the same hash is told apart.
fn not_made(operation: &'static str) -> impl Fn(rusqlite::Error) -> StoreError {
    move |error| match error.sqlite_error().map(|error| error.extended_code) {
        Some(SQLITE_CONSTRAINT_UNIQUE) => InvalidKey::HashInUse.into(),
        _ => broken(operation)(error),
    }
}

/// All keys.
pub(crate) fn list(connection: &Connection) -> Result<Vec<KeyView>, StoreError> {
    let read = || -> rusqlite::Result<Vec<KeyView>> {
        connection.prepare_cached(sql!("keys"))?.query_map([now_ms()], view_of_row)?.collect()
    };
    read().map_err(broken("list the keys"))
}

/// A key by its id.
pub(crate) fn by_id(connection: &Connection, id: i64) -> Result<Option<KeyView>, StoreError> {
    connection
        .prepare_cached(sql!("key"))
        .and_then(|mut query| query.query_row((now_ms(), id), view_of_row).optional())
        .map_err(broken("read a key"))
}

/// A key by its hash.
pub(crate) fn by_hash(connection: &Connection, hash: &str) -> Result<Option<KeyView>, StoreError> {
    connection
        .prepare_cached(sql!("key_of_hash"))
        .and_then(|mut query| query.query_row((now_ms(), hash), view_of_row).optional())
        .map_err(broken("read a key"))
}

/// Revokes a key. Says whether there is one.
pub(crate) fn revoke(writer: &mut Writer, id: i64) -> Result<bool, StoreError> {
    let failed = broken("revoke a key");
    let transaction = writer.transaction()?;
    let revoked = transaction
        .prepare_cached(sql!("key_revoke"))
        .and_then(|mut revoke| revoke.execute([id]))
        .map_err(&failed)?;
    transaction.commit().map_err(&failed)?;
    Ok(revoked > 0)
}

/// Makes a key in the place of another.
pub(crate) fn rotate(
    writer: &mut Writer,
    id: i64,
    hash: String,
    overlap_ms: u64,
    expires_in_ms: Option<u64>,
) -> Result<Option<KeyView>, StoreError> {
    let failed = not_made("rotate a key");
    let transaction = writer.transaction()?;
    let now_ms = now_ms();
    let rotate = || -> rusqlite::Result<Option<KeyView>> {
        let of_row = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let mut expire = transaction.prepare_cached(sql!("key_expire"))?;
        let end_ms = now_ms + duration(overlap_ms);
        let Some((name, scopes)) = expire.query_row((now_ms, id, end_ms), of_row).optional()?
        else {
            return Ok(None);
        };
        insert(&transaction, &NewKey { name, hash, scopes, expires_in_ms }, now_ms).map(Some)
    };
    let made = rotate().map_err(&failed)?;
    transaction.commit().map_err(&failed)?;
    Ok(made)
}

/// Notes that keys were used.
pub(crate) fn note_uses(writer: &mut Writer, ids: &[i64]) -> Result<(), StoreError> {
    let failed = broken("note the use of keys");
    let transaction = writer.transaction()?;
    let now_ms = now_ms();
    for id in ids {
        transaction
            .prepare_cached(sql!("key_used"))
            .and_then(|mut note| note.execute((now_ms, id)))
            .map_err(&failed)?;
    }
    transaction.commit().map_err(&failed)
}

fn view_of_row(row: &Row<'_>) -> rusqlite::Result<KeyView> {
    Ok(KeyView {
        id: row.get(0)?,
        name: row.get(1)?,
        scopes: row.get(2)?,
        created_at_ms: row.get(3)?,
        last_used_at_ms: row.get(4)?,
        is_active: row.get(5)?,
        expires_at_ms: row.get(6)?,
        expires_in_ms: row.get(7)?,
    })
}
