//! The servers of one system, and the best one for a session.

use serde::{Deserialize, Deserializer, Serialize};

use crate::answer;
use crate::client::Client;
use crate::error::ClientError;

/// One server whose lease holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Its name.
    #[serde(rename = "node")]
    pub name: String,
    /// Where it is reached, if it has said so.
    #[serde(default)]
    pub url: Option<String>,
    /// What it runs.
    #[serde(default)]
    pub version: String,
    /// Since when its lease has held without a break.
    #[serde(default, deserialize_with = "text")]
    pub started_at: String,
    /// How long its lease still holds without being renewed.
    #[serde(default)]
    pub lease_ms: u64,
    /// Its live connections.
    #[serde(default)]
    pub connections: u64,
    /// The subscriptions on them.
    #[serde(default)]
    pub subscriptions: u64,
    /// How far it has followed the log.
    #[serde(default, deserialize_with = "text")]
    pub position: String,
    /// How many events of the log it has yet to see.
    #[serde(default)]
    pub lag: u64,
    /// Whether it is the one that answered.
    #[serde(default, rename = "self")]
    pub answered: bool,
}

/// Where a session is best served. Any other node serves it correctly too.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Route {
    /// The node's name.
    pub node: String,
    /// Where it is reached, if it has said so.
    #[serde(default)]
    pub url: Option<String>,
    /// Whether it is the one that answered.
    #[serde(default, rename = "self")]
    pub answered: bool,
}

#[derive(Deserialize)]
struct Nodes {
    nodes: Vec<Node>,
}

impl Client {
    /// The servers of the system.
    pub async fn nodes(&self) -> Result<Vec<Node>, ClientError> {
        let response = self.get(self.address().route(&["v1", "nodes"])).await?;
        let Nodes { nodes } = answer::json(self, response).await?;
        Ok(nodes)
    }

    /// Where a session is best served.
    pub async fn route(&self, session: &str) -> Result<Route, ClientError> {
        let mut url = self.address().route(&["v1", "route"]);
        url.query_pairs_mut().append_pair("session", session);
        answer::json(self, self.get(url).await?).await
    }
}

/// For people to read, whether the server writes it as text or as a number.
fn text<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(match serde_json::Value::deserialize(from)? {
        serde_json::Value::String(text) => text,
        serde_json::Value::Null => String::new(),
        other => other.to_string(),
    })
}
