//! Error messages over live connections.

use serde::Serialize;
use serde_json::{Map, Value};

use super::ServerMessage as _;
use tidewire_access::problem::Problem;

/// A problem, of a subscription or of the connection.
#[derive(Debug, Serialize)]
pub struct Error<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query_id: Option<&'a str>,
    pub code: &'a str,
    pub message: &'a str,
    pub hint: &'a str,
    pub temporary: bool,
    /// What some codes have besides.
    #[serde(flatten)]
    pub members: &'a Map<String, Value>,
}

/// Problems as messages of a live connection.
pub trait AsMessage {
    /// The problem as a message, of a subscription or of the connection.
    fn message(&self, query_id: Option<&str>) -> String;
}

impl AsMessage for Problem {
    fn message(&self, query_id: Option<&str>) -> String {
        let error = Error {
            query_id,
            code: self.code(),
            message: self.detail(),
            hint: self.hint(),
            temporary: self.is_temporary(),
            members: self.members(),
        };
        error.text()
    }
}
