//! What went wrong.

use serde::Serialize;
use serde_json::{Map, Value};

use super::ServerMessage as _;
use crate::access::problem::Problem;

/// A problem, of a subscription or of the connection.
#[derive(Debug, Serialize)]
pub(crate) struct Error<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) query_id: Option<&'a str>,
    pub(crate) code: &'a str,
    pub(crate) message: &'a str,
    pub(crate) hint: &'a str,
    pub(crate) temporary: bool,
    /// What some codes have besides.
    #[serde(flatten)]
    pub(crate) members: &'a Map<String, Value>,
}

impl Problem {
    /// The problem as a message of a live connection.
    pub(crate) fn message(&self, query_id: Option<&str>) -> String {
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
