//! Queries that the reader of the write-ahead log runs: types, visibility, its position.
//!
//! The reader runs these on the session that holds the election's lock.

use deadpool_postgres::ClientWrapper;
use tidewire_store::StoreError;
use tidewire_store_postgres::captured::{broken, execute, query, query_one, texts, unsigned};
use tokio_postgres::types::PgLsn;
use tokio_postgres::{Error, Row};

use crate::query::sql;

/// The settings of a session that asks the database to write values, besides those of every session.
pub const SETTINGS: &str = "
    SET TimeZone = 'UTC'; SET DateStyle = 'ISO, MDY'; SET IntervalStyle = 'postgres';
    SET extra_float_digits = 1; SET bytea_output = 'hex';
";

/// What the catalogs say of a type, with domains looked through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeRow {
    /// The type.
    pub id: u32,
    /// The base type.
    pub base: u32,
    /// The element's base type, if it is an array.
    pub element: Option<u32>,
    /// What parts the elements.
    pub delimiter: u8,
    /// Whether the type, or its element, is a composite one or has a cast of its own to JSON.
    pub special: bool,
    /// Its full name, as SQL takes it.
    pub name: String,
}

/// How far the write-ahead log was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WalPosition {
    /// Transactions that end here or before are in the log.
    pub lsn: u64,
    /// A transaction that is in the log in part: where its commit lies, and how many of its changes
    /// are there.
    pub part: Option<(u64, u64)>,
}

/// A transaction as the database sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionVisibility {
    /// Its number, with the epoch.
    pub txid: i64,
    /// Whether what it did can be seen.
    pub visible: bool,
}

/// What the catalogs say of types. Those that are gone are not in the answer.
pub async fn types(client: &ClientWrapper, ids: &[u32]) -> Result<Vec<TypeRow>, StoreError> {
    let of_row = |row: &Row| {
        Ok(TypeRow {
            id: row.try_get(0)?,
            base: row.try_get(1)?,
            element: row.try_get(2)?,
            delimiter: row.try_get::<_, &str>(3)?.bytes().next().unwrap_or(b','),
            special: row.try_get(4)?,
            name: row.try_get(5)?,
        })
    };
    let read = async {
        query(client, sql!("wal_types"), &[&ids])
            .await?
            .iter()
            .map(of_row)
            .collect::<Result<Vec<_>, Error>>()
    };
    read.await.map_err(broken("look up types"))
}

/// The generated columns of a table, which are left out of events. Some versions of PostgreSQL send them.
pub async fn generated_columns(
    client: &ClientWrapper,
    table_id: u32,
) -> Result<Vec<String>, StoreError> {
    let rows = query(client, sql!("wal_generated"), &[&table_id]).await;
    rows.and_then(|rows| texts(&rows)).map_err(broken("read what a table looks like"))
}

/// Has the database write values of a type, given by its full name, as JSON. None where it cannot.
pub async fn write_values(
    client: &ClientWrapper,
    type_name: &str,
    texts: &[&str],
) -> Result<Option<Vec<String>>, StoreError> {
    let sql = format!(
        "SELECT pg_catalog.to_jsonb(given::{type_name})::text
         FROM unnest($1::text[]) WITH ORDINALITY AS asked (given, place) ORDER BY place"
    );
    match client.query(&sql, &[&texts]).await {
        Ok(rows) => {
            let texts: Result<Vec<String>, Error> = rows.iter().map(|row| row.try_get(0)).collect();
            texts.map(Some).map_err(broken("write values as JSON"))
        }
        Err(error) => match broken("write values as JSON")(error) {
            refused @ StoreError::Broken { .. } => {
                tracing::warn!(error = %refused, type_name, "the database cannot write values");
                Ok(None)
            }
            other => Err(other),
        },
    }
}

/// Whether the database takes a text as JSON.
pub async fn is_json(client: &ClientWrapper, text: &str) -> Result<bool, StoreError> {
    let read = async { query_one(client, sql!("wal_is_json"), &[&text]).await?.try_get(0) };
    read.await.map_err(broken("look whether a text is JSON"))
}

/// What the database sees of transactions, given by their numbers without the epoch.
pub async fn seen(
    client: &ClientWrapper,
    xids: &[u32],
) -> Result<Vec<TransactionVisibility>, StoreError> {
    let xids: Vec<i64> = xids.iter().map(|xid| i64::from(*xid)).collect();
    let of_row =
        |row: &Row| Ok(TransactionVisibility { txid: row.try_get(0)?, visible: row.try_get(1)? });
    let read = async {
        query(client, sql!("wal_visible"), &[&xids])
            .await?
            .iter()
            .map(of_row)
            .collect::<Result<Vec<_>, Error>>()
    };
    read.await.map_err(broken("look whether transactions are visible"))
}

/// The position, and its number.
pub async fn position(client: &ClientWrapper) -> Result<Option<(i64, WalPosition)>, StoreError> {
    let read = async {
        let rows = query(client, sql!("wal_place"), &[]).await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let commit: Option<PgLsn> = row.try_get(2)?;
        let changes = unsigned(row.try_get(3)?);
        let position = WalPosition {
            lsn: row.try_get::<_, PgLsn>(1)?.into(),
            part: commit.map(|lsn| (lsn.into(), changes)),
        };
        Ok(Some((row.try_get(0)?, position)))
    };
    read.await.map_err(broken("read how far the write-ahead log was read"))
}

/// Forgets positions before this one.
pub async fn forget_positions(client: &ClientWrapper, before: i64) -> Result<(), StoreError> {
    let removed = execute(client, sql!("wal_places_remove"), &[&before]).await;
    removed.map(drop).map_err(broken("forget old positions"))
}

/// A snapshot as text, and a position in the write-ahead log behind everything it sees.
pub async fn now(client: &ClientWrapper) -> Result<(String, u64), StoreError> {
    let read = async {
        let row = query_one(client, sql!("wal_now"), &[]).await?;
        Ok((row.try_get(0)?, row.try_get::<_, PgLsn>(1)?.into()))
    };
    read.await.map_err(broken("look where the write-ahead log is"))
}

/// Everything that a snapshot sees is in the log.
pub async fn settle(client: &ClientWrapper, snapshot: &str) -> Result<(), StoreError> {
    let settled = execute(client, sql!("wal_settle"), &[&snapshot]).await;
    settled.map(drop).map_err(broken("note what is in the log"))
}

/// What was staged before the switch is in the log.
pub async fn drained(client: &ClientWrapper) -> Result<(), StoreError> {
    let drained = execute(client, sql!("wal_drained"), &[]).await;
    drained.map(drop).map_err(broken("note that what was staged is in the log"))
}

/// Gives partitions that were added to watched tables the replica identity they need. Returns how
/// many got it.
pub async fn identify_partitions(client: &ClientWrapper) -> Result<i64, StoreError> {
    let read = async { query_one(client, sql!("wal_identify"), &[]).await?.try_get(0) };
    read.await.map_err(broken("look at the partitions of watched tables"))
}
