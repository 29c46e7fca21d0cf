//! The write-ahead log as the source of changes: whether it is, and whose changes it carries.
//!
//! The store's administration of watched tables needs this, and so does `tidewire-capture`, which has what
//! else reading needs.

use deadpool_postgres::ClientWrapper;
use tokio_postgres::{Error, Row};

use super::error::broken;
use super::query::{query, query_one, sql};
use tidewire_store::error::StoreError;

pub use super::wal_obstacles::{Obstacles, obstacles};
pub use super::wal_slot::{SlotState, drop_slot, end_sender, make_publications, make_slot, slot};
pub use super::wal_switch::{Chooser, SWITCH_SETTINGS, drop_orphan, switch};

/// A watched table, as far as its events need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedTable {
    /// The table's oid.
    pub table_id: u32,
    /// Its name, as its events have it.
    pub table_name: String,
    /// The stream that has its changes.
    pub stream_id: String,
    /// The columns that tell rows apart; none if the whole row does.
    pub key_columns: Vec<String>,
    /// What its rows are to those who subscribe to entities.
    pub entity_code: Option<String>,
    /// The column that says whose tenant's a row is.
    pub host_column: Option<String>,
    /// The column that says which user's a row is.
    pub user_column: Option<String>,
}

/// What is kept of capture, as far as the write-ahead log is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WalState {
    /// Whether the write-ahead log is the source.
    pub on: bool,
    /// It was, and is still to be read up to the switch.
    pub finishing: bool,
    /// Rows that were staged before the switch, up to this id, come first.
    pub staged_until: Option<i64>,
    /// The slot's name.
    pub slot: String,
    /// Whether a person chose the source.
    pub chosen: bool,
    /// The tables are to be compared with the log, because the slot was lost for this reason.
    pub repairing: Option<String>,
}

/// The state of capture.
pub async fn state(client: &ClientWrapper) -> Result<WalState, StoreError> {
    let read = async {
        let row = query_one(client, sql!("wal_state"), &[]).await?;
        Ok(WalState {
            on: row.try_get::<_, &str>(0)? == "wal",
            finishing: row.try_get(1)?,
            staged_until: row.try_get(2)?,
            slot: row.try_get(3)?,
            chosen: row.try_get(4)?,
            repairing: row.try_get(5)?,
        })
    };
    read.await.map_err(broken("read the state of capture"))
}

/// What is watched.
pub async fn watched(client: &ClientWrapper) -> Result<Vec<WatchedTable>, StoreError> {
    let of_row = |row: &Row| {
        Ok(WatchedTable {
            table_id: row.try_get(0)?,
            table_name: row.try_get(1)?,
            stream_id: row.try_get(2)?,
            key_columns: row.try_get(3)?,
            entity_code: row.try_get(4)?,
            host_column: row.try_get(5)?,
            user_column: row.try_get(6)?,
        })
    };
    let read = async {
        query(client, sql!("wal_watches"), &[])
            .await?
            .iter()
            .map(of_row)
            .collect::<Result<Vec<_>, Error>>()
    };
    read.await.map_err(broken("read what is watched"))
}
