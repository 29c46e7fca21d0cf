//! The list of live queries.

use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use super::error::{broken, now_ms};
use super::sql;
use super::writer::Writer;
use tidewire_store::error::StoreError;
use tidewire_store::queries::{LiveQueryEdit, LiveQueryRow};

/// Rows that are swept in one transaction, so that appends do not notice.
pub(crate) const SWEPT_MAX: u64 = 2_000;

/// Makes edits, one after the other, all or none.
pub(crate) fn edit(writer: &mut Writer, edits: &[LiveQueryEdit]) -> Result<(), StoreError> {
    let failed = broken("change the list of live queries");
    let transaction = writer.transaction()?;
    let now_ms = now_ms();
    for edit in edits {
        edit_one(&transaction, edit, now_ms).map_err(&failed)?;
    }
    transaction.commit().map_err(&failed)
}

fn edit_one(
    transaction: &Transaction<'_>,
    edit: &LiveQueryEdit,
    now_ms: i64,
) -> rusqlite::Result<usize> {
    match edit {
        LiveQueryEdit::Open(row) => {
            transaction.prepare_cached(sql!("live_query_open"))?.execute(params![
                row.live_id,
                row.connection_id,
                row.query_id,
                row.user_id,
                row.query,
                now_ms,
                row.node,
                row.plan,
                row.user_agent,
                row.address,
            ])
        }
        LiveQueryEdit::Count { live_id, changes, lag_ms, queue_depth, plan } => transaction
            .prepare_cached(sql!("live_query_count"))?
            .execute(params![live_id, changes, lag_ms, queue_depth, plan, now_ms]),
        LiveQueryEdit::Close { live_id } => {
            transaction.prepare_cached(sql!("live_query_close"))?.execute([live_id])
        }
        LiveQueryEdit::Disconnect { connection_id } => {
            transaction.prepare_cached(sql!("live_queries_gone"))?.execute([connection_id])
        }
    }
}

/// A row, if its node lives.
pub(crate) fn find(
    connection: &Connection,
    live_id: &str,
) -> Result<Option<LiveQueryRow>, StoreError> {
    let of_row = |row: &Row<'_>| {
        Ok(LiveQueryRow {
            live_id: row.get(0)?,
            connection_id: row.get(1)?,
            query_id: row.get(2)?,
            user_id: row.get(3)?,
            query: row.get(4)?,
            node: row.get(5)?,
            plan: row.get(6)?,
            user_agent: row.get(7)?,
            address: row.get(8)?,
        })
    };
    let query = connection.prepare_cached(sql!("live_query"));
    query
        .and_then(|mut query| query.query_row([live_id], of_row).optional())
        .map_err(broken("look up a live query"))
}

/// Removes some rows of nodes that live no more. Returns how many.
pub(crate) fn sweep(writer: &mut Writer) -> Result<u64, StoreError> {
    let failed = broken("sweep the list of live queries");
    let transaction = writer.transaction()?;
    let removed = transaction
        .prepare_cached(sql!("live_queries_sweep"))
        .and_then(|mut sweep| sweep.execute(params![now_ms(), SWEPT_MAX]))
        .map_err(&failed)?;
    transaction.commit().map_err(&failed)?;
    Ok(u64::try_from(removed).unwrap_or(0))
}
