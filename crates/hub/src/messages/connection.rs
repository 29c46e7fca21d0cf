//! Messages about a connection as a whole.

use serde::Serialize;

use tidewire_store::Offset;

use super::shown;

/// The first.
#[derive(Debug, Serialize)]
pub struct Hello<'a> {
    pub connection_id: &'a str,
    pub node: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<&'a str>,
}

/// All that matched up to an offset was sent: of everything, or of one live query.
#[derive(Debug, Serialize)]
pub struct Progress<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query_id: Option<&'a str>,
    #[serde(serialize_with = "shown")]
    pub offset: Offset,
}

/// The answer to `ping`.
#[derive(Debug, Serialize)]
pub struct Pong {}

/// The server goes away.
#[derive(Debug, Serialize)]
pub struct Closing {
    pub reason: &'static str,
    pub(crate) reconnect_in_ms: u64,
}
