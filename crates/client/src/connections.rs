//! The connections of a server, for administrators.

use serde::{Deserialize, Serialize};

use crate::answer;
use crate::client::Client;
use crate::error::ClientError;

/// A connection, as its node knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Connection {
    /// Its name.
    pub connection_id: String,
    /// The node that serves it.
    pub node: String,
    /// The API key it came with.
    #[serde(default)]
    pub api_key_id: Option<i64>,
    /// The end user whose it is.
    #[serde(default)]
    pub user_id: Option<String>,
    /// Their tenant.
    #[serde(default)]
    pub host_id: Option<String>,
    /// Whose it is, in one word: `key:7`, `user:ann`, `admin`, `anonymous`.
    #[serde(default)]
    pub who: Option<String>,
    /// Whether it is known whose it is.
    #[serde(default)]
    pub is_authenticated: bool,
    /// Since when it is there.
    #[serde(default)]
    pub connected_at: String,
    /// When it last showed a sign of life, where it can.
    #[serde(default)]
    pub last_heartbeat_at: Option<String>,
    /// The tables it follows.
    #[serde(default)]
    pub subscribed_tables: Vec<String>,
    /// How much it follows.
    #[serde(default)]
    pub subscriptions: u64,
    /// Events that wait for it.
    #[serde(default)]
    pub queued_events: u64,
    /// Their bytes.
    #[serde(default)]
    pub queued_bytes: u64,
    /// Where it comes from.
    #[serde(default)]
    pub metadata: Metadata,
}

/// Where a connection comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// What the client calls itself.
    #[serde(default)]
    pub user_agent: Option<String>,
    /// Its address.
    #[serde(default)]
    pub address: Option<String>,
    /// `websocket`, `sse` or `stream`.
    #[serde(default)]
    pub transport: String,
    /// Whether it serves a session.
    #[serde(default)]
    pub has_session: bool,
}

/// The connections of one node.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Connections {
    /// The node.
    pub node: String,
    /// How many there are that were asked for.
    pub total: u64,
    /// Those of them that were told, the oldest first.
    pub connections: Vec<Connection>,
}

/// Which connections.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConnectionFilter {
    /// The one of this name.
    pub connection_id: Option<String>,
    /// Those of an end user.
    pub user_id: Option<String>,
    /// Those of an API key.
    pub key_id: Option<i64>,
    /// So many at most.
    pub limit: Option<u32>,
}

impl Client {
    /// The connections of the node that answers.
    pub async fn connections(&self, filter: &ConnectionFilter) -> Result<Connections, ClientError> {
        let mut url = self.address().route(&["v1", "connections"]);
        let ConnectionFilter { connection_id, user_id, key_id, limit } = filter;
        let key_id = key_id.map(|id| id.to_string());
        let limit = limit.map(|limit| limit.to_string());
        let asked = [
            ("connection_id", connection_id.as_ref()),
            ("user_id", user_id.as_ref()),
            ("key_id", key_id.as_ref()),
            ("limit", limit.as_ref()),
        ];
        for (name, value) in asked {
            if let Some(value) = value {
                url.query_pairs_mut().append_pair(name, value);
            }
        }
        answer::json(self, self.get(url).await?).await
    }
}
