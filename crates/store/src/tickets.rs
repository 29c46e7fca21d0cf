//! Tickets: what stands for someone in a place where a key must not, such as an `EventSource`'s URL,
//! which ends up in logs and histories.
//!
//! A ticket is good for one use within a short time, on any node. The store knows it by its hash, as
//! it does a key, and gives back what was put with it: whom it stands for. Whoever deletes the row
//! has taken the ticket, so two that come at once do not both get in.

use async_trait::async_trait;

use crate::error::StoreError;

/// The tickets of a store. See the [module documentation](self).
#[async_trait]
pub trait Tickets: Send + Sync {
    /// Puts a ticket that can be taken within `ttl_ms` from now. `holder` is JSON.
    async fn put_ticket(&self, hash: &str, holder: &str, ttl_ms: u64) -> Result<(), StoreError>;

    /// Takes a ticket: its holder, once. `None` if there is none, or no longer. If the database is
    /// lost while it answers, the ticket may be too.
    async fn take_ticket(&self, hash: &str) -> Result<Option<String>, StoreError>;
}
