//! Nodes and their leases.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::{MemoryStore, Rows};
use crate::error::StoreError;
use crate::nodes::{NodeReport, NodeView, Nodes};
use crate::session::after;

/// The nodes that are known, by id.
#[derive(Debug, Default)]
pub(super) struct Leases(pub(super) BTreeMap<String, Lease>);

/// A node's lease.
#[derive(Debug)]
pub(super) struct Lease {
    report: NodeReport,
    started_at_ms: i64,
    until_ms: i64,
}

impl Leases {
    /// Those whose lease has ended.
    pub(super) fn dead(&self, now_ms: i64) -> Vec<String> {
        let dead = self.0.iter().filter(|(_, lease)| lease.until_ms <= now_ms);
        dead.map(|(id, _)| id.clone()).collect()
    }

    /// Whether a node's lease holds.
    pub(super) fn lives(&self, id: &str, now_ms: i64) -> bool {
        self.0.get(id).is_some_and(|lease| lease.until_ms > now_ms)
    }
}

impl Rows {
    /// Forgets a node whose lease has ended, unless sessions name it. Says whether it did.
    pub(super) fn forget_node(&mut self, id: &str, now_ms: i64) -> bool {
        let named = self.sessions.rows.values().any(|row| row.node.as_deref() == Some(id));
        !named && !self.nodes.lives(id, now_ms) && self.nodes.0.remove(id).is_some()
    }
}

#[async_trait]
impl Nodes for MemoryStore {
    async fn renew_node(&self, report: &NodeReport, lease_ms: u64) -> Result<(), StoreError> {
        let renew = |rows: &mut Rows, now_ms| {
            let known = rows.nodes.0.get(&report.id).filter(|lease| lease.until_ms > now_ms);
            let started_at_ms = known.map_or(now_ms, |lease| lease.started_at_ms);
            let (report, until_ms) = (report.clone(), after(now_ms, lease_ms));
            rows.nodes.0.insert(report.id.clone(), Lease { report, started_at_ms, until_ms });
        };
        self.run(renew).await
    }

    async fn nodes(&self) -> Result<Vec<NodeView>, StoreError> {
        let list = |rows: &mut Rows, now_ms: i64| {
            let view = |lease: &Lease| {
                let lease_ms = u64::try_from(lease.until_ms - now_ms).ok().filter(|left| *left > 0);
                let (report, started_at_ms) = (lease.report.clone(), lease.started_at_ms);
                Some(NodeView { report, started_at_ms, lease_ms: lease_ms? })
            };
            rows.nodes.0.values().filter_map(view).collect()
        };
        self.run(list).await
    }

    async fn remove_node(&self, id: &str, session_ttl_ms: u64) -> Result<(), StoreError> {
        let remove = |rows: &mut Rows, now_ms| {
            let known = rows.nodes.0.get_mut(id).map(|lease| lease.until_ms = 0);
            let expires_at_ms = known.map(|()| after(now_ms, session_ttl_ms));
            rows.let_go_of(id, usize::MAX, now_ms, expires_at_ms);
            rows.forget_node(id, now_ms);
        };
        self.run(remove).await
    }
}
