//! Translates what was read into what is appended: images of rows, numbers of transactions.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use tidewire_store::{Actor, Operation, StoreError};
use tidewire_store_postgres::captured::CaptureSession;

use super::append::{Item, Read, RowItem};
use super::assemble::{Change, Entry};
use super::database;
use super::image::{self, Form, ServerWritten};
use super::pgoutput::Cell;
use super::table::{Role, Table};

/// Items of entries. `txids` has the transactions' whole numbers. With `cautious`, JSON is checked
/// before it is taken as such: slower, and only needed where a batch failed.
pub(crate) async fn items(
    session: &CaptureSession,
    entries: &[Entry],
    txids: &HashMap<u32, i64>,
    cautious: bool,
) -> Result<Vec<Item>, StoreError> {
    let written = written(session, entries).await?;
    let mut items = Vec::with_capacity(entries.len());
    for entry in entries {
        let txid = txids.get(&entry.xid).copied().unwrap_or(0);
        let begin = items.len();
        translate(&mut items, entry, txid, &written, Form::Usual);
        if cautious && !are_json(session, &items[begin..]).await? {
            tracing::error!("the database rejects a row's JSON; the event carries it as text");
            items.truncate(begin);
            translate(&mut items, entry, txid, &written, Form::Plain);
        }
    }
    Ok(items)
}

/// Whether the database takes the images of rows as JSON.
async fn are_json(session: &CaptureSession, items: &[Item]) -> Result<bool, StoreError> {
    for item in items {
        let Read::Row(row) = &item.what else {
            continue;
        };
        for image in [&row.before, &row.after].into_iter().flatten() {
            if !database::is_json(session.client(), image).await? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Has the database write what only it can.
async fn written(session: &CaptureSession, entries: &[Entry]) -> Result<ServerWritten, StoreError> {
    let mut asked: BTreeMap<&str, BTreeSet<&Bytes>> = BTreeMap::new();
    for entry in entries {
        let (table, rows) = match &entry.change {
            Change::Insert { table, new } => (table, vec![new.as_slice()]),
            Change::Update { table, old, new } => (table, vec![old.cells(), new.as_slice()]),
            Change::Delete { table, old } => (table, vec![old.cells()]),
            Change::Truncate { .. } | Change::Staged(_) | Change::End => continue,
        };
        for (name, text) in rows.into_iter().flat_map(|cells| image::unwritten(table, cells)) {
            asked.entry(name).or_default().insert(text);
        }
    }
    let mut written = ServerWritten::new();
    for (name, values) in asked {
        let texts: Vec<&str> =
            values.iter().map(|value| std::str::from_utf8(value).unwrap_or_default()).collect();
        let Some(answers) = database::write_values(session.client(), name, &texts).await? else {
            continue;
        };
        let keys = values.into_iter().map(|value| (name.to_owned(), value.clone()));
        written.extend(keys.zip(answers));
    }
    Ok(written)
}

fn translate(items: &mut Vec<Item>, entry: &Entry, txid: i64, written: &ServerWritten, form: Form) {
    let row =
        |table: &Arc<Table>, operation, before: Option<Vec<Cell>>, after: Option<Vec<Cell>>| {
            let Role::Watched(watch) = &table.role else {
                return None;
            };
            let object = |cells: Vec<Cell>| image::object(table, &cells, written, form);
            Some(Read::Row(RowItem {
                table: Arc::clone(watch),
                operation,
                before: before.map(object),
                after: after.map(object),
                actor: Actor {
                    user_id: entry.actor.user_id.clone(),
                    host_id: entry.actor.host_id.clone(),
                    ..Actor::default()
                },
            }))
        };
    let reads: Vec<Read> = match &entry.change {
        Change::Insert { table, new } => {
            row(table, Operation::Insert, None, Some(new.clone())).into_iter().collect()
        }
        Change::Update { table, old, new } => {
            let (before, after) = (image::before(old, new), image::filled(new, old));
            row(table, Operation::Update, Some(before), Some(after)).into_iter().collect()
        }
        Change::Delete { table, old } => {
            let before = image::before(old, &[]);
            row(table, Operation::Delete, Some(before), None).into_iter().collect()
        }
        Change::Truncate { tables } => tables
            .iter()
            .filter_map(|table| row(table, Operation::Truncate, None, None))
            .map(|read| match read {
                // Whose it is cannot be said of a table whose rows say it one by one.
                Read::Row(mut row) => {
                    row.actor.host_id.take_if(|_| row.table.host_column.is_some());
                    row.actor.user_id.take_if(|_| row.table.user_column.is_some());
                    Read::Row(row)
                }
                other => other,
            })
            .collect(),
        Change::Staged(id) => vec![Read::Staged(*id)],
        Change::End => vec![Read::End],
    };
    let count = reads.len();
    for (at, what) in reads.into_iter().enumerate() {
        let last = entry.last && at + 1 == count;
        items.push(Item { txid, last, committed_at: entry.committed_at, what });
    }
}
