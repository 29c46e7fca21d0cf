//! The problems a server finds with itself and its database; for administrators.

use serde::{Deserialize, Serialize};

use crate::answer;
use crate::client::Client;
use crate::error::ClientError;

/// What a server was found to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkup {
    /// The server's version.
    pub version: String,
    /// The node that looked.
    pub node: String,
    /// Its clock, in milliseconds since 1970.
    pub time_ms: i64,
    /// What it looked at.
    pub checks: Vec<Check>,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// What.
    pub name: String,
    /// `good`; `note`, which may be meant so; or `bad`.
    pub status: String,
    /// What was found.
    pub text: String,
    /// What to do about it.
    #[serde(default)]
    pub todo: Vec<String>,
    /// SQL to run in the database, with all names in it.
    #[serde(default)]
    pub run: Vec<String>,
}

impl Client {
    /// Has the server look at itself.
    pub async fn doctor(&self) -> Result<Checkup, ClientError> {
        answer::json(self, self.get(self.address().route(&["v1", "doctor"])).await?).await
    }
}
