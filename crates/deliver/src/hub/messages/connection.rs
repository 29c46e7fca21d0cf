//! Messages about a connection as a whole.

use serde::Serialize;

use tidewire_store::Offset;

use super::shown;

/// The first.
#[derive(Debug, Serialize)]
pub(crate) struct Hello<'a> {
    pub(crate) connection_id: &'a str,
    pub(crate) node: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<&'a str>,
}

/// All that matched up to an offset was sent: of everything, or of one live query.
#[derive(Debug, Serialize)]
pub(crate) struct Progress<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) query_id: Option<&'a str>,
    #[serde(serialize_with = "shown")]
    pub(crate) offset: Offset,
}

/// The answer to `ping`.
#[derive(Debug, Serialize)]
pub(crate) struct Pong {}

/// The server goes away.
#[derive(Debug, Serialize)]
pub(crate) struct Closing {
    pub(crate) reason: &'static str,
    pub(crate) reconnect_in_ms: u64,
}
