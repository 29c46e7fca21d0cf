//! API keys, and messages to all nodes; for administrators.

use std::time::Duration;

use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::answer;
use crate::client::{Client, ms};
use crate::error::ClientError;

/// A key as the server shows it: never the key itself, except once to who made it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Key {
    /// Its number, by which it is revoked.
    pub id: i64,
    /// What people call it.
    pub name: String,
    /// What it allows.
    pub scopes: Value,
    /// When it was made.
    pub created_at: Option<String>,
    /// When it was last used, give or take some seconds.
    pub last_used_at: Option<String>,
    /// When it stops by itself.
    pub expires_at: Option<String>,
    /// False once it was revoked.
    pub is_active: bool,
    /// Whether it is good now.
    pub is_valid: bool,
}

/// A key that was just made.
#[derive(Clone, Deserialize)]
pub struct NewKey {
    /// The key itself. The server cannot show it again.
    pub key: String,
    /// What the server noticed about its rules, in sentences.
    #[serde(default)]
    pub notes: Vec<String>,
    /// What is known of it.
    #[serde(flatten)]
    pub known: Key,
}

impl std::fmt::Debug for NewKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewKey").field("known", &self.known).finish_non_exhaustive()
    }
}

/// Something to say to all nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "act", rename_all = "snake_case")]
pub enum ControlMessage {
    /// Read the configuration again.
    Reload,
    /// Look up every credential again.
    EmptyCaches,
    /// End what a user is connected with.
    EndUser {
        /// The `sub` of their tokens.
        user: String,
        /// Their tenant; any if there is none.
        #[serde(skip_serializing_if = "Option::is_none")]
        host: Option<String>,
    },
    /// End a connection.
    EndConnection {
        /// As its `hello` said.
        connection_id: String,
    },
    /// End a subscription.
    EndSubscription {
        /// As its `subscription_created` said.
        live_id: String,
    },
}

#[derive(Deserialize)]
struct Keys {
    keys: Vec<Key>,
}

impl Client {
    /// All keys there are, also those that hold no longer.
    pub async fn keys(&self) -> Result<Vec<Key>, ClientError> {
        let response = self.get(self.address().route(&["v1", "keys"])).await?;
        let Keys { keys } = answer::json(self, response).await?;
        Ok(keys)
    }

    /// Makes a key that allows what the scopes say.
    pub async fn create_key(
        &self,
        name: &str,
        scopes: &Value,
        expires_in: Option<Duration>,
    ) -> Result<NewKey, ClientError> {
        let document =
            json!({ "name": name, "scopes": scopes, "expires_in_ms": expires_in.map(ms) });
        let url = self.address().route(&["v1", "keys"]);
        answer::json(self, self.send_json(Method::POST, url, &document).await?).await
    }

    /// Makes a key like another one, which goes on for the overlap: a day, if none is given.
    pub async fn rotate_key(
        &self,
        id: i64,
        overlap: Option<Duration>,
        expires_in: Option<Duration>,
    ) -> Result<NewKey, ClientError> {
        let document =
            json!({ "overlap_ms": overlap.map(ms), "expires_in_ms": expires_in.map(ms) });
        let url = self.address().route(&["v1", "keys", &id.to_string(), "rotate"]);
        answer::json(self, self.send_json(Method::POST, url, &document).await?).await
    }

    /// Ends a key, and all that is connected with it.
    pub async fn revoke_key(&self, id: i64) -> Result<(), ClientError> {
        let url = self.address().route(&["v1", "keys", &id.to_string()]);
        self.send(self.request(Method::DELETE, url)).await?;
        Ok(())
    }

    /// Says something to all nodes.
    pub async fn order(&self, order: &ControlMessage) -> Result<(), ClientError> {
        let url = self.address().route(&["v1", "control"]);
        self.send_json(Method::POST, url, order).await?;
        Ok(())
    }
}
