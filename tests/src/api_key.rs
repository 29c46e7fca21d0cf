//! API keys, as an administrator makes and ends them over HTTP.

use reqwest::Method;
use serde_json::{Value, json};

use crate::http::{Answer, Http};

/// A key that was made, and its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    pub id: i64,
    pub key: String,
}

impl ApiKey {
    /// The key of an answer that shows one.
    fn of(answer: &Answer) -> ApiKey {
        assert_eq!(answer.status, 201, "a key is made: {}", answer.text());
        let made = answer.json();
        let id = made["id"].as_i64().expect("a number");
        ApiKey { id, key: made["key"].as_str().expect("the key").to_owned() }
    }
}

impl Http {
    /// Makes a key that does not expire.
    pub async fn make_key(&self, scopes: &Value) -> ApiKey {
        let body = json!({ "name": "story", "scopes": scopes });
        ApiKey::of(&self.json(Method::POST, "/v1/keys", &body).await)
    }

    /// Makes a key that expires by itself.
    pub async fn make_key_for(&self, scopes: &Value, expires_in_ms: u64) -> ApiKey {
        let body = json!({ "name": "story", "scopes": scopes, "expires_in_ms": expires_in_ms });
        ApiKey::of(&self.json(Method::POST, "/v1/keys", &body).await)
    }

    /// Makes a key in the place of another, which goes on for a while.
    pub async fn rotate_key(&self, key: &ApiKey, overlap_ms: u64) -> ApiKey {
        let path = format!("/v1/keys/{}/rotate", key.id);
        let body = json!({ "overlap_ms": overlap_ms });
        ApiKey::of(&self.json(Method::POST, &path, &body).await)
    }

    /// Revokes a key.
    pub async fn revoke_key(&self, key: &ApiKey) {
        let request = self.request(Method::DELETE, &format!("/v1/keys/{}", key.id));
        let answer = Answer::of(request).await;
        assert_eq!(answer.status, 204, "a key is revoked: {}", answer.text());
    }

    /// The same server, for the holder of a key.
    #[must_use]
    pub fn holder(&self, key: &ApiKey) -> Http {
        self.as_someone(Some(&key.key))
    }
}
