//! Acknowledgements, as the hub takes them.

use tidewire_store::Position;

/// What a client has processed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ack {
    pub(crate) of: Acked,
    pub(crate) offset: Position,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Acked {
    Query(String),
    Stream(String),
    /// All that a `progress` covers.
    Everything,
}
