//! Watched tables, whose changes are streams, and the source of these changes; for administrators.

use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::answer;
use crate::client::Client;
use crate::error::ClientError;

/// What to watch, and how.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct NewWatch {
    /// The table, as one writes it in SQL: `orders`, `sales.orders`, `"Odd Name"`.
    pub table: String,
    /// The columns that tell a row from others. None: the primary key; without one, the whole row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_columns: Option<Vec<String>>,
    /// What its rows are to those who subscribe to entities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entity: Option<String>,
    /// The column that says whose tenant's a row is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_column: Option<String>,
    /// The column that says which user's a row is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_column: Option<String>,
}

/// A watched table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// Its name, as its events have it.
    pub table: String,
    /// The stream that has its changes.
    pub stream: String,
    /// The columns that tell rows apart; none if the whole row does.
    #[serde(default)]
    pub key_columns: Vec<String>,
    /// What its rows are to those who subscribe to entities.
    pub entity: Option<String>,
    /// The column that says whose tenant's a row is.
    pub host_column: Option<String>,
    /// The column that says which user's a row is.
    pub user_column: Option<String>,
    /// Since when it is watched.
    pub created_at: Option<String>,
    /// Changes that came into the log since.
    #[serde(default)]
    pub events: u64,
    /// Where the last of them lies.
    pub last_offset: Option<String>,
    /// Changes that are committed and not in the log yet, where that is known.
    #[serde(default)]
    pub waiting: u64,
    /// For how long the oldest of them has been waiting.
    #[serde(default)]
    pub waiting_ms: u64,
    /// What is not captured with it.
    #[serde(default)]
    pub notes: Vec<String>,
    /// What someone who may has to run in the database before live queries of it work; told to who had it watched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub live_query_needs: Vec<String>,
}

/// How changes come into the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capture {
    /// Where they come from: `embedded`, `outbox` or `wal`; `undecided` until a node has chosen.
    pub mode: String,
    /// Why that way.
    #[serde(default)]
    pub reason: String,
    /// What stands in the way of the other, and what to do about it.
    #[serde(default)]
    pub advice: Vec<String>,
    /// The node that brings them into the log, if one does.
    pub leader: Option<String>,
    /// Rows that wait for their place in the log.
    #[serde(default)]
    pub waiting: u64,
    /// For how long the oldest of them has been waiting.
    #[serde(default)]
    pub waiting_ms: u64,
    /// Rows that could not be published and are tried again.
    #[serde(default)]
    pub failed: u64,
    /// Rows that were given up.
    #[serde(default)]
    pub dead: u64,
    /// What the database keeps of its write-ahead log for this, in bytes.
    pub retained_wal_bytes: Option<u64>,
    /// Tables that were changed past capture, and repaired: the last time for each.
    #[serde(default)]
    pub repairs: Vec<Repair>,
}

/// A table that was changed past capture, and was brought together with the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repair {
    /// The table, as its events have it.
    pub table: String,
    /// What had happened.
    pub why: String,
    /// When it was repaired.
    pub at: Option<String>,
    /// How many events carry the difference. None: those who follow the table were told to read it again.
    pub events: Option<u64>,
}

impl Client {
    /// Watches a table, or changes how it is watched.
    pub async fn watch(&self, watch: &NewWatch) -> Result<Watch, ClientError> {
        let url = self.address().route(&["v1", "watch"]);
        answer::json(self, self.send_json(Method::POST, url, watch).await?).await
    }

    /// Stops watching a table, and ends its stream.
    pub async fn unwatch(&self, table: &str) -> Result<(), ClientError> {
        let mut url = self.address().route(&["v1", "watch"]);
        url.query_pairs_mut().append_pair("table", table);
        self.send(self.request(Method::DELETE, url)).await?;
        Ok(())
    }

    /// What is watched, in order of name.
    pub async fn watches(&self) -> Result<Vec<Watch>, ClientError> {
        #[derive(Deserialize)]
        struct Watches {
            watches: Vec<Watch>,
        }
        let response = self.get(self.address().route(&["v1", "watch"])).await?;
        let Watches { watches } = answer::json(self, response).await?;
        Ok(watches)
    }

    /// How changes come into the log.
    pub async fn capture(&self) -> Result<Capture, ClientError> {
        answer::json(self, self.get(self.address().route(&["v1", "capture"])).await?).await
    }

    /// Takes changes from another source: `wal` or `outbox`.
    pub async fn switch_capture(&self, mode: &str) -> Result<Capture, ClientError> {
        let url = self.address().route(&["v1", "capture"]);
        let request = json!({ "mode": mode });
        answer::json(self, self.send_json(Method::POST, url, &request).await?).await
    }
}
