//! A session's subscriptions as server-sent events, read as a browser would: the last `id` is kept,
//! to come back with.

use serde_json::Value;

use crate::http::Http;
use crate::server_sent::ServerSent;

/// One response, as it grows.
#[derive(Debug)]
pub struct EventSource {
    response: ServerSent,
    /// The last id that came: what `Last-Event-ID` would say.
    pub last_id: Option<String>,
}

impl EventSource {
    /// `GET /v1/live/{session}`, from where the session stands or after `last_id`.
    pub async fn open(http: &Http, session: &str, last_id: Option<&str>) -> EventSource {
        let response = ServerSent::open(http, session, last_id).await;
        EventSource { response, last_id: last_id.map(ToOwned::to_owned) }
    }

    /// The next message, however long that takes. `None` when the response has ended.
    pub async fn next(&mut self) -> Option<Value> {
        let sent = self.response.whenever().await?;
        self.last_id = sent.id.or(self.last_id.take());
        Some(sent.message)
    }

    /// The time after which the server wants its clients back.
    pub fn retry_ms(&self) -> Option<u64> {
        self.response.retry_ms()
    }
}
