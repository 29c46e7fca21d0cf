//! Nodes and their leases.

use rusqlite::{Connection, Row, params};

use super::error::{broken, now_ms};
use super::session_sweep::let_go_of;
use super::sql;
use super::writer::Writer;
use tidewire_store::error::StoreError;
use tidewire_store::nodes::{NodeReport, NodeView};
use tidewire_store::offset::{Epoch, Position};
use tidewire_store::session::after;

/// Rows of sessions changed in one transaction when a node goes, so that appends do not notice.
const ROWS_MAX: usize = 2_000;

/// Renews a lease, or begins one.
pub(crate) fn renew(
    writer: &mut Writer,
    report: &NodeReport,
    lease_ms: u64,
) -> Result<(), StoreError> {
    let failed = broken("renew a node's lease");
    let transaction = writer.transaction()?;
    let now_ms = now_ms();
    transaction
        .prepare_cached(sql!("node_renew"))
        .and_then(|mut renew| {
            renew.execute(params![
                report.id,
                report.url,
                report.version,
                report.connections,
                report.subscriptions,
                report.position.to_sql(),
                report.lag,
                now_ms,
                after(now_ms, lease_ms)
            ])
        })
        .map_err(&failed)?;
    transaction.commit().map_err(&failed)
}

/// Those whose lease holds.
pub(crate) fn list(connection: &Connection) -> Result<Vec<NodeView>, StoreError> {
    let of_row = |row: &Row<'_>| {
        Ok(NodeView {
            report: NodeReport {
                id: row.get(0)?,
                url: row.get(1)?,
                version: row.get(2)?,
                connections: row.get(3)?,
                subscriptions: row.get(4)?,
                position: Position::from_sql(row.get(5)?),
                lag: row.get(6)?,
            },
            started_at_ms: row.get(7)?,
            lease_ms: row.get(8)?,
        })
    };
    let read = || -> rusqlite::Result<Vec<NodeView>> {
        let mut query = connection.prepare_cached(sql!("nodes"))?;
        query.query_map([now_ms()], of_row)?.collect()
    };
    read().map_err(broken("list the nodes"))
}

/// Ends a node's lease and lets go of some of its sessions. Says whether that was all.
pub(crate) fn remove(
    writer: &mut Writer,
    epoch: Epoch,
    id: &str,
    session_ttl_ms: u64,
) -> Result<bool, StoreError> {
    let failed = broken("remove a node");
    let transaction = writer.transaction()?;
    let now_ms = now_ms();
    let remove = || -> rusqlite::Result<bool> {
        let known = transaction.prepare_cached(sql!("node_end"))?.execute([id])? > 0;
        let at_ms = known.then(|| after(now_ms, session_ttl_ms));
        let_go_of(&transaction, epoch, id, ROWS_MAX, now_ms, at_ms)?;
        transaction.prepare_cached(sql!("node_remove"))?.execute((id, now_ms))?;
        let left = transaction.prepare_cached(sql!("sessions_of_node"))?.exists((id, 1))?;
        Ok(!left)
    };
    let all = remove().map_err(&failed)?;
    transaction.commit().map_err(&failed)?;
    Ok(all)
}
