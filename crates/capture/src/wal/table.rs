//! What the reader knows of a table: its columns as the slot says them, and how it is watched.

use std::sync::Arc;

use tidewire_store_postgres::wal::WatchedTable;

use super::kind::Kind;
use super::pgoutput::Relation;

/// A table whose changes the slot sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    /// Its columns, in the order of their values.
    pub(crate) columns: Vec<(String, Kind)>,
    /// What becomes of its changes.
    pub(crate) role: Role,
}

/// What becomes of a table's changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Role {
    /// They are events.
    Watched(Arc<WatchedTable>),
    /// Its rows become events: the staging table. At this place among its columns is a row's id.
    Staging { id_at: usize },
    /// Nothing: it was watched when they were made, and is no more.
    Forgotten,
}

impl Table {
    /// The staging table, if it is that.
    pub(crate) fn staging(relation: &Relation) -> Option<Table> {
        let ours = relation.schema == "tidewire" && relation.name == "staging";
        let id_at = relation.columns.iter().position(|column| column.name == "id");
        let id_at = id_at.filter(|_| ours)?;
        Some(Table { columns: Vec::new(), role: Role::Staging { id_at } })
    }
}
