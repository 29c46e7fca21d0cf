//! Acknowledgements, as the hub takes them.

use tidewire_store::Position;

/// What a client has processed.
#[derive(Debug, PartialEq, Eq)]
pub struct Ack {
    pub of: Acked,
    pub offset: Position,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Acked {
    Query(String),
    Stream(String),
    /// All that a `progress` covers.
    Everything,
}
