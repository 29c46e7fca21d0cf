//! What is appended from the write-ahead log, column by column, as `unnest` takes it.

use tidewire_store_postgres::captured::Param;

use super::append::{Item, RowItem};
use tidewire_store::Position;

/// Changes of rows, for `wal_rows_insert.sql`.
#[derive(Debug, Default)]
pub(crate) struct RowColumns<'a> {
    offsets: Vec<i64>,
    streams: Vec<&'a str>,
    table_ids: Vec<u32>,
    tables: Vec<&'a str>,
    keys: Vec<String>,
    entities: Vec<Option<&'a str>>,
    host_columns: Vec<Option<&'a str>>,
    user_columns: Vec<Option<&'a str>>,
    hosts: Vec<Option<&'a str>>,
    users: Vec<Option<&'a str>>,
    operations: Vec<&'static str>,
    befores: Vec<Option<&'a str>>,
    afters: Vec<Option<&'a str>>,
    txids: Vec<i64>,
    lasts: Vec<bool>,
    times: Vec<i64>,
}

impl<'a> RowColumns<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    pub(crate) fn push(&mut self, at: Position, item: &'a Item, row: &'a RowItem) {
        let table = &*row.table;
        self.offsets.push(at.to_sql());
        self.streams.push(&table.stream_id);
        self.table_ids.push(table.table_id);
        self.tables.push(&table.table_name);
        self.keys.push(serde_json::Value::from(table.key_columns.clone()).to_string());
        self.entities.push(table.entity_code.as_deref());
        self.host_columns.push(table.host_column.as_deref());
        self.user_columns.push(table.user_column.as_deref());
        self.hosts.push(row.actor.host_id.as_deref());
        self.users.push(row.actor.user_id.as_deref());
        self.operations.push(row.operation.as_str());
        self.befores.push(row.before.as_deref());
        self.afters.push(row.after.as_deref());
        self.txids.push(item.txid);
        self.lasts.push(item.last);
        self.times.push(item.committed_at);
    }

    pub(crate) fn params(&self) -> [Param<'_>; 16] {
        [
            &self.offsets,
            &self.streams,
            &self.table_ids,
            &self.tables,
            &self.keys,
            &self.entities,
            &self.host_columns,
            &self.user_columns,
            &self.hosts,
            &self.users,
            &self.operations,
            &self.befores,
            &self.afters,
            &self.txids,
            &self.lasts,
            &self.times,
        ]
    }
}

/// Changes of rows that were staged, for `wal_staged_rows.sql`.
#[derive(Debug, Default)]
pub(crate) struct StagedRowColumns {
    offsets: Vec<i64>,
    ids: Vec<i64>,
    txids: Vec<i64>,
    lasts: Vec<bool>,
}

impl StagedRowColumns {
    pub(crate) fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    pub(crate) fn push(&mut self, at: Position, item: &Item, id: i64) {
        self.offsets.push(at.to_sql());
        self.ids.push(id);
        self.txids.push(item.txid);
        self.lasts.push(item.last);
    }

    pub(crate) fn params(&self) -> [Param<'_>; 4] {
        [&self.offsets, &self.ids, &self.txids, &self.lasts]
    }
}

/// Control events, for `wal_controls_insert.sql`.
#[derive(Debug, Default)]
pub(crate) struct ControlColumns {
    offsets: Vec<i64>,
    streams: Vec<String>,
    payloads: Vec<Option<Vec<u8>>>,
    content_types: Vec<Option<&'static str>>,
    controls: Vec<String>,
    txids: Vec<i64>,
    lasts: Vec<bool>,
    times: Vec<i64>,
}

impl ControlColumns {
    pub(crate) fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    pub(crate) fn push(
        &mut self,
        at: Position,
        item: &Item,
        stream: String,
        control: &str,
        payload: Option<Vec<u8>>,
    ) {
        self.offsets.push(at.to_sql());
        self.streams.push(stream);
        self.content_types.push(payload.as_ref().map(|_| "application/json"));
        self.payloads.push(payload);
        self.controls.push(control.to_owned());
        self.txids.push(item.txid);
        self.lasts.push(item.last);
        self.times.push(item.committed_at);
    }

    pub(crate) fn params(&self) -> [Param<'_>; 8] {
        [
            &self.offsets,
            &self.streams,
            &self.payloads,
            &self.content_types,
            &self.controls,
            &self.txids,
            &self.lasts,
            &self.times,
        ]
    }
}
