//! Consumer groups: their state, their settings, and the work of their members, one request each. A running member
//! is a [`Worker`](crate::consume::Worker).
//!
//! - `json`: the JSON of groups, their partitions, members, batches and letters

mod json;

use std::time::Duration;

use reqwest::{Method, Response, StatusCode, Url};
use serde::{Deserialize, Serialize};
use serde_json::json;

pub use self::json::{
    Acked, ClaimRequest, Claimed, Failed, Group, GroupSettings, KeyEvents, Letter, LetterSelection,
    Letters, LogPosition, Member, Partition, Statement, StopReason,
};
use crate::answer;
use crate::client::{Client, ms};
use crate::error::ClientError;

/// Keys that one nack names. The others come again with the batch, and can be named then.
pub(crate) const FAILED_MAX: usize = 1_000;

impl Client {
    /// All groups, without their partitions and members.
    pub async fn groups(&self) -> Result<Vec<Group>, ClientError> {
        #[derive(Deserialize)]
        struct Groups {
            groups: Vec<Group>,
        }
        let response = self.get(self.address().route(&["v1", "groups"])).await?;
        let Groups { groups } = answer::json(self, response).await?;
        Ok(groups)
    }

    /// A group.
    pub async fn group(&self, group: &str) -> Result<Group, ClientError> {
        answer::json(self, self.get(self.of_group(group, &[])).await?).await
    }

    /// Makes a group, and says whether there was none.
    pub async fn put_group(
        &self,
        group: &str,
        settings: &GroupSettings,
    ) -> Result<(Group, bool), ClientError> {
        let response = self.send_json(Method::PUT, self.of_group(group, &[]), settings).await?;
        let made = response.status() == StatusCode::CREATED;
        Ok((answer::json(self, response).await?, made))
    }

    /// Changes a group.
    pub async fn change_group(
        &self,
        group: &str,
        change: &GroupSettings,
    ) -> Result<Group, ClientError> {
        answer::json(self, self.say_to_group(group, &["change"], change).await?).await
    }

    /// Sets a group, or one of its partitions, to a place.
    pub async fn reset_group(
        &self,
        group: &str,
        to: &LogPosition,
        partition: Option<u32>,
        drop_letters: bool,
    ) -> Result<Group, ClientError> {
        let mut document = json!({ "to": to, "drop_letters": drop_letters });
        if let Some(partition) = partition {
            document["partition"] = partition.into();
        }
        answer::json(self, self.say_to_group(group, &["reset"], &document).await?).await
    }

    /// Lets a group go on.
    pub async fn resume_group(&self, group: &str, accept_loss: bool) -> Result<Group, ClientError> {
        let document = json!({ "accept_loss": accept_loss });
        answer::json(self, self.say_to_group(group, &["resume"], &document).await?).await
    }

    /// Removes a group, with all that is known of it.
    pub async fn remove_group(&self, group: &str) -> Result<(), ClientError> {
        self.send(self.request(Method::DELETE, self.of_group(group, &[]))).await?;
        Ok(())
    }

    /// A batch; none if there was no work in time.
    pub async fn claim(
        &self,
        group: &str,
        request: &ClaimRequest,
    ) -> Result<Option<Claimed>, ClientError> {
        let response = self.say_to_group(group, &["claim"], request).await?;
        if response.status() == StatusCode::NO_CONTENT {
            return Ok(None);
        }
        answer::json(self, response).await.map(Some)
    }

    /// Keeps a batch for so long from now.
    pub async fn extend(&self, group: &str, token: &str, lease_ms: u64) -> Result<(), ClientError> {
        let document = json!({ "token": token, "lease_ms": lease_ms });
        self.say_to_group(group, &["extend"], &document).await?;
        Ok(())
    }

    /// A batch is done. The statements are kept with that, or nothing is.
    pub async fn ack(
        &self,
        group: &str,
        token: &str,
        statements: &[Statement],
    ) -> Result<Acked, ClientError> {
        let mut document = json!({ "token": token });
        if !statements.is_empty() {
            document["sql"] = json!(statements);
        }
        answer::json(self, self.say_to_group(group, &["ack"], &document).await?).await
    }

    /// A batch is not done, because of what failed; if nothing did, it is given back.
    pub async fn nack(
        &self,
        group: &str,
        token: &str,
        failed: &[Failed],
        retry_in: Option<Duration>,
    ) -> Result<(), ClientError> {
        let mut document = json!({ "token": token });
        if !failed.is_empty() {
            document["failed"] = json!(failed);
        }
        if let Some(retry_in) = retry_in {
            document["retry_in_ms"] = json!(ms(retry_in));
        }
        self.say_to_group(group, &["nack"], &document).await?;
        Ok(())
    }

    /// Events that were set aside, after an offset, in one state or both.
    pub async fn letters(
        &self,
        group: &str,
        after: Option<&str>,
        limit: u32,
        state: Option<&str>,
    ) -> Result<Letters, ClientError> {
        let mut url = self.of_group(group, &["dead"]);
        url.query_pairs_mut().append_pair("limit", &limit.to_string());
        for (name, value) in [("after", after), ("state", state)] {
            if let Some(value) = value {
                url.query_pairs_mut().append_pair(name, value);
            }
        }
        answer::json(self, self.get(url).await?).await
    }

    /// Has letters worked off again, and says of how many keys.
    pub async fn redrive_letters(
        &self,
        group: &str,
        which: &LetterSelection,
    ) -> Result<u64, ClientError> {
        #[derive(Deserialize)]
        struct Redriven {
            keys: u64,
        }
        let response = self.say_to_group(group, &["dead", "redrive"], &which.document()).await?;
        let Redriven { keys } = answer::json(self, response).await?;
        Ok(keys)
    }

    /// Gives letters up, and says how many.
    pub async fn drop_letters(
        &self,
        group: &str,
        which: &LetterSelection,
        with_parked: bool,
    ) -> Result<u64, ClientError> {
        #[derive(Deserialize)]
        struct Dropped {
            letters: u64,
        }
        let mut document = which.document();
        document["with_parked"] = with_parked.into();
        let response = self.say_to_group(group, &["dead", "drop"], &document).await?;
        let Dropped { letters } = answer::json(self, response).await?;
        Ok(letters)
    }

    fn of_group(&self, group: &str, rest: &[&str]) -> Url {
        self.address().route(&[&["v1", "groups", group], rest].concat())
    }

    async fn say_to_group(
        &self,
        group: &str,
        rest: &[&str],
        document: &impl Serialize,
    ) -> Result<Response, ClientError> {
        self.send_json(Method::POST, self.of_group(group, rest), document).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_keeps_its_own_segment_of_the_url() {
        let client = Client::new("http://127.0.0.1:1", None).expect("a client");
        let url = client.of_group("a b/?ö", &["dead"]);
        assert_eq!(url.path(), "/v1/groups/a%20b%2F%3F%C3%B6/dead");
    }
}
