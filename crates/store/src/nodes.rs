//! Nodes: the servers that share a store, and the leases by which they know of each other.
//!
//! A node that lives renews its lease; one whose lease has run out is dead to the others, whatever
//! it thinks itself. Leases are measured by the database's clock, so that nodes need not agree on
//! the time.
//!
//! A node keeps its sessions alive ([`sessions`](crate::session)), so two things must not happen
//! unnoticed. A node that was dead to the others and comes back has lost its sessions: it finds
//! [`NodeView::started_at_ms`] of its own changed, and connects them again. And a node that starts
//! under a name that was used before calls [`Nodes::remove_node`] first: otherwise the sessions of
//! its predecessor would live for as long as it does.

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
    /// How many events of the log it had yet to see.
    pub lag: u64,
}

/// A node as the others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeView {
    /// What it last said of itself.
    pub report: NodeReport,
    /// Since when its lease has held without a break, in milliseconds since the Unix epoch: when it
    /// started, or came back after the others had thought it dead.
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

    /// A node goes: its lease ends, and its sessions live for at least `session_ttl_ms` from now.
    /// One that is not known leaves no session any time.
    async fn remove_node(&self, id: &str, session_ttl_ms: u64) -> Result<(), StoreError>;
}
