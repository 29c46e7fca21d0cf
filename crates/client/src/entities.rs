//! The number of subscriptions to entities.

use serde::{Deserialize, Serialize};

use crate::answer;
use crate::client::Client;
use crate::error::ClientError;

/// The subscriptions to entities of one code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EntityCount {
    /// The code.
    pub entity_code: String,
    /// Subscriptions, of all connections.
    pub subscriptions: u64,
    /// Entities among them.
    pub entities: u64,
    /// Users among them.
    pub users: u64,
}

#[derive(Deserialize)]
struct Counts {
    entities: Vec<EntityCount>,
}

impl Client {
    /// How many subscriptions to entities there are, by code: of all users, or of one.
    pub async fn entity_counts(
        &self,
        user_id: Option<&str>,
    ) -> Result<Vec<EntityCount>, ClientError> {
        let mut url = self.address().route(&["v1", "entities", "stats"]);
        if let Some(user_id) = user_id {
            url.query_pairs_mut().append_pair("user_id", user_id);
        }
        let Counts { entities } = answer::json(self, self.get(url).await?).await?;
        Ok(entities)
    }
}
