//! A session's subscriptions as server-sent events, read as a browser would: the last `id` is kept,
//! to come back with.

use reqwest::{Method, Response};
use serde_json::Value;

use crate::http::Http;

/// One response, as it grows.
#[derive(Debug)]
pub struct EventSource {
    response: Response,
    text: Vec<u8>,
    /// The last id that came: what `Last-Event-ID` would say.
    pub last_id: Option<String>,
    /// The time after which the server wants its clients back.
    pub retry_ms: Option<u64>,
}

impl EventSource {
    /// `GET /v1/live/{session}`, from where the session stands or after `last_id`.
    pub async fn open(http: &Http, session: &str, last_id: Option<&str>) -> EventSource {
        let mut request = http.request(Method::GET, &format!("/v1/live/{session}"));
        if let Some(last_id) = last_id {
            request = request.header("last-event-id", last_id);
        }
        let response = request.send().await.expect("an answer");
        assert_eq!(response.status(), 200, "GET /v1/live/{session}");
        let last_id = last_id.map(ToOwned::to_owned);
        EventSource { response, text: Vec::new(), last_id, retry_ms: None }
    }

    /// The next message. `None` when the response has ended.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            while let Some(end) = self.text.windows(2).position(|two| two == b"\n\n") {
                let block: Vec<u8> = self.text.drain(..end + 2).collect();
                if let Some(message) = self.take(&String::from_utf8_lossy(&block)) {
                    return Some(message);
                }
            }
            match self.response.chunk().await {
                Ok(Some(piece)) => self.text.extend_from_slice(&piece),
                _ => return None,
            }
        }
    }

    fn take(&mut self, block: &str) -> Option<Value> {
        let mut data = None;
        for line in block.lines() {
            match line.split_once(": ") {
                Some(("id", id)) => self.last_id = Some(id.to_owned()),
                Some(("retry", ms)) => self.retry_ms = ms.parse().ok(),
                Some(("data", text)) => data = Some(text),
                _ => assert!(line.is_empty() || line.starts_with(':'), "a line {line:?}"),
            }
        }
        data.map(|text| serde_json::from_str(text).expect("JSON in data"))
    }
}
