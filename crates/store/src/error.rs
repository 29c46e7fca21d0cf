//! What can go wrong with a store, and what the caller should make of it.

use crate::keys::InvalidKey;

/// A store operation that did not happen, or may not have.
///
/// Refusals that follow from the protocol (a closed stream, a stale producer) are not errors: they
/// are [`Refusal`](crate::Refusal)s inside a successful answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The database cannot be reached; nothing was written.
    #[error("the database cannot be reached: {0}")]
    Unavailable(String),
    /// The database is not the one that was opened, or is an older state of it; nothing was written.
    #[error("the database was replaced: {0}")]
    Replaced(String),
    /// The connection broke while a commit was under way: the write may or may not be durable.
    /// Only an idempotent producer can retry without the risk of a duplicate.
    #[error("the connection broke during commit; the write may or may not have happened: {0}")]
    Unknown(String),
    /// The disk is full; nothing was written.
    #[error("the disk that holds the store is full: {0}")]
    Full(String),
    /// The store is shutting down; nothing was written.
    #[error("the store is shutting down")]
    Closed,
    /// More work is waiting than the queue may hold; nothing was written.
    #[error("too many appends are waiting ({0})")]
    Overloaded(usize),
    /// The database refused or broke in a way that retrying will not mend.
    #[error("{operation}: {reason}")]
    Broken {
        /// What was being done.
        operation: &'static str,
        /// What the database said.
        reason: String,
    },
    /// The store cannot be opened as it is; the text says what to do.
    #[error("{0}")]
    Refused(String),
    /// A key that cannot be kept, and why; nothing was written.
    #[error(transparent)]
    InvalidKey(#[from] InvalidKey),
}

impl StoreError {
    /// Whether the same call may succeed later although nobody changes anything.
    pub fn temporary(&self) -> bool {
        match self {
            StoreError::Unavailable(_)
            | StoreError::Replaced(_)
            | StoreError::Unknown(_)
            | StoreError::Full(_)
            | StoreError::Closed
            | StoreError::Overloaded(_) => true,
            StoreError::Broken { .. } | StoreError::Refused(_) | StoreError::InvalidKey(_) => false,
        }
    }
}
