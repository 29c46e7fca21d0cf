//! Nodes and their leases.

use deadpool_postgres::ClientWrapper;
use tokio_postgres::{Error, Row};

use super::columns::signed;
use super::error::{broken, broken_commit};
use super::query::{execute, query, sql, unsigned};
use super::session_sweep::let_go_of;
use super::sessions::begin;
use tidewire_store::error::StoreError;
use tidewire_store::nodes::{NodeReport, NodeView};
use tidewire_store::offset::{Epoch, Position};
use tidewire_store::session::after;

/// Rows of sessions changed in one transaction when a node goes, so that others do not wait long.
const ROWS_MAX: usize = 2_000;

/// The longest lease: any longer, and its end would not fit the database's integers.
const LEASE_MS_MAX: u64 = 1 << 50;

/// Renews a lease, or begins one.
pub(crate) async fn renew(
    client: &ClientWrapper,
    report: &NodeReport,
    lease_ms: u64,
) -> Result<(), StoreError> {
    let (connections, subscriptions) = (signed(report.connections)?, signed(report.subscriptions)?);
    let renewed = execute(
        client,
        sql!("node_renew"),
        &[
            &report.id,
            &report.url,
            &report.version,
            &connections,
            &subscriptions,
            &report.position.to_sql(),
            &signed(report.lag)?,
            &signed(lease_ms.min(LEASE_MS_MAX))?,
        ],
    )
    .await;
    renewed.map(drop).map_err(broken("renew a node's lease"))
}

/// Those whose lease holds.
pub(crate) async fn list(client: &ClientWrapper) -> Result<Vec<NodeView>, StoreError> {
    let of_row = |row: &Row| {
        Ok(NodeView {
            report: NodeReport {
                id: row.try_get(0)?,
                url: row.try_get(1)?,
                version: row.try_get(2)?,
                connections: unsigned(row.try_get(3)?),
                subscriptions: unsigned(row.try_get(4)?),
                position: Position::from_sql(row.try_get(5)?),
                lag: unsigned(row.try_get(6)?),
            },
            started_at_ms: row.try_get(7)?,
            lease_ms: unsigned(row.try_get(8)?),
        })
    };
    let read = async {
        let rows = query(client, sql!("nodes"), &[]).await?;
        rows.iter().map(of_row).collect::<Result<_, Error>>()
    };
    read.await.map_err(broken("list the nodes"))
}

/// Ends a node's lease and lets go of some of its sessions. Says whether that was all.
pub(crate) async fn remove(
    client: &ClientWrapper,
    epoch: Epoch,
    id: &str,
    session_ttl_ms: u64,
) -> Result<bool, StoreError> {
    let failed = broken("remove a node");
    let now_ms = begin(client, epoch, &[]).await?.now_ms();
    let known = execute(client, sql!("node_end"), &[&id]).await.map_err(&failed)? > 0;
    let ids = [id.to_owned()];
    let expires_at_ms = known.then(|| after(now_ms, session_ttl_ms));
    let_go_of(client, epoch, &ids, ROWS_MAX, now_ms, expires_at_ms).await?;
    let finish = async {
        execute(client, sql!("nodes_remove"), &[&&ids[..], &now_ms]).await?;
        let left = query(client, sql!("sessions_of_nodes"), &[&&ids[..], &1i64]).await?;
        Ok(left.is_empty())
    };
    let all = finish.await.map_err(&failed)?;
    let committed = client.batch_execute("COMMIT").await;
    committed.map_err(|error| broken_commit(true, &error))?;
    Ok(all)
}
