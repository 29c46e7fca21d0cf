//! A session as a page's code uses it: over HTTP, in the shapes of PROTOCOL.md, section 20.

use reqwest::Method;
use serde_json::{Value, json};

use crate::http::{Answer, Http};
use crate::wait::eventually;

/// One browser tab, as far as the server knows.
#[derive(Debug, Clone)]
pub struct Tab {
    http: Http,
    pub session: String,
}

impl Tab {
    /// Opens a session.
    pub async fn open(http: &Http) -> Tab {
        let answer = Answer::of(http.request(Method::POST, "/v1/sessions")).await;
        assert_eq!(answer.status, 201, "POST /v1/sessions: {}", answer.text());
        let session = answer.json()["sessionId"].as_str().expect("sessionId").to_owned();
        Tab { http: http.clone(), session }
    }

    /// The same session at another node, or for someone else.
    #[must_use]
    pub fn at(&self, http: &Http) -> Tab {
        Tab { http: http.clone(), session: self.session.clone() }
    }

    /// Follows a stream from its end, or from where it follows it already.
    pub async fn subscribe(&self, stream: &str) -> Value {
        self.subscribed(json!({ "sessionId": self.session, "streamId": stream })).await
    }

    /// Follows a stream from an offset.
    pub async fn subscribe_at(&self, stream: &str, offset: &str) -> Value {
        let request = json!({ "sessionId": self.session, "streamId": stream, "offset": offset });
        self.subscribed(request).await
    }

    async fn subscribed(&self, request: Value) -> Value {
        let answer = self.http.json(Method::POST, "/v1/subscriptions", &request).await;
        assert_eq!(answer.status, 200, "{request}: {}", answer.text());
        answer.json()
    }

    /// Follows a stream no more.
    pub async fn unsubscribe(&self, stream: &str) {
        let request = json!({ "sessionId": self.session, "streamId": stream });
        let answer = self.http.json(Method::DELETE, "/v1/subscriptions", &request).await;
        assert_eq!(answer.status, 204, "{request}: {}", answer.text());
    }

    /// A sign of life, with what was processed.
    pub async fn heartbeat(&self, offsets: &Value) {
        let request = json!({ "sessionId": self.session, "offsets": offsets });
        let answer = self.http.json(Method::POST, "/v1/heartbeat", &request).await;
        assert_eq!(answer.status, 200, "{request}: {}", answer.text());
    }

    /// What the session follows, as the server tells it.
    pub async fn offsets(&self) -> Value {
        let answer = self.http.get(&format!("/v1/session-offsets/{}", self.session)).await;
        assert_eq!(answer.status, 200, "session-offsets: {}", answer.text());
        answer.json()
    }

    /// How far it has got in a stream, if it follows it.
    pub async fn pointer(&self, stream: &str) -> Option<String> {
        let offsets = self.offsets().await;
        let mut all = offsets.as_array().expect("an array").iter();
        let of_stream = all.find(|pointer| pointer["streamId"] == stream)?;
        Some(of_stream["lastOffset"].as_str().expect("lastOffset").to_owned())
    }

    /// Waits until it has got so far in a stream.
    pub async fn gets_to(&self, stream: &str, offset: &str) {
        eventually(&format!("the pointer of {stream} gets to {offset}"), async || {
            (self.pointer(stream).await.as_deref() == Some(offset)).then_some(())
        })
        .await;
    }

    /// Where its WebSocket is.
    pub fn socket(&self) -> String {
        format!("/v1/ws?session={}", self.session)
    }
}
