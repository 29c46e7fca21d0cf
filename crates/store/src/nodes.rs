//! Nodes: the servers that share a store, and the leases by which they know of each other.
//!
//! A node that lives renews its lease; one whose lease has run out is dead to the others, whatever
//! it thinks itself. Leases are measured by the database's clock, so that nodes need not agree on
//! the time.

use async_trait::async_trait;

use crate::error::StoreError;
use crate::offset::Position;

/// What a node says of itself with each renewal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeReport {
    /// Its name, which no other node has.
    pub id: String,
    /// Where clients reach it.
    pub url: String,
    /// Which version it runs.
    pub version: String,
    /// Live connections it holds.
    pub connections: u64,
    /// Subscriptions on them.
    pub subscriptions: u64,
    /// Where it stands in the log.
    pub position: Position,
}

/// A node as the others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeView {
    /// What it last said of itself.
    pub report: NodeReport,
    /// When it started, in milliseconds since the Unix epoch.
    pub started_at_ms: i64,
    /// How long its lease still holds.
    pub lease_ms: u64,
}

/// The nodes of a store.
#[async_trait]
pub trait Nodes: Send + Sync {
    /// Renews a node's lease for `lease_ms` from now, making the node known if it is not.
    async fn renew_node(&self, report: &NodeReport, lease_ms: u64) -> Result<(), StoreError>;

    /// Those whose lease holds, in order of id.
    async fn nodes(&self) -> Result<Vec<NodeView>, StoreError>;

    /// A node goes: its lease ends, and its sessions live for `session_ttl_ms` from now.
    async fn remove_node(&self, id: &str, session_ttl_ms: u64) -> Result<(), StoreError>;
}
