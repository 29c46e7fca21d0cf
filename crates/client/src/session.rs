//! Sessions: a durable identity for a client that connects again and again, with the streams it follows and its
//! position in each. [`live`](crate::live) connects with one.

use std::time::Duration;

use reqwest::Method;
use serde::{Deserialize, Serialize};

use crate::answer;
use crate::client::Client;
use crate::error::ClientError;
use crate::follow::ReadFrom;

/// A session that was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Its name: signed by the server, and of use only to who asked for it.
    pub id: String,
    /// How long it lasts without a heartbeat or a live connection.
    pub expires_in: Duration,
}

/// How far a session has got in a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionOffset {
    /// The stream.
    #[serde(rename = "streamId")]
    pub stream: String,
    /// All up to here was processed.
    pub last_offset: String,
    /// Which subscription to the stream this belongs to; it rises when one is made anew. In a
    /// heartbeat, `None` means the one there is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscription_epoch: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Opened {
    session_id: String,
    expires_in_ms: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Following<'a> {
    session_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offsets: Option<&'a [SessionOffset]>,
}

impl<'a> Following<'a> {
    fn of(session_id: &'a str) -> Following<'a> {
        Following { session_id, stream_id: None, offset: None, offsets: None }
    }
}

impl Client {
    /// Opens a session.
    pub async fn open_session(&self) -> Result<Session, ClientError> {
        let url = self.address().route(&["v1", "sessions"]);
        let response = self.send(self.request(Method::POST, url)).await?;
        let opened: Opened = answer::json(self, response).await?;
        let expires_in = Duration::from_millis(opened.expires_in_ms);
        Ok(Session { id: opened.session_id, expires_in })
    }

    /// Lets a session follow a stream, from its end where `from` is `None`. One that follows it
    /// already is moved to `from`, and left as it is by `None`.
    pub async fn subscribe_session(
        &self,
        session: &str,
        stream: &str,
        from: impl Into<Option<ReadFrom>>,
    ) -> Result<SessionOffset, ClientError> {
        let from = from.into();
        let offset = from.as_ref().map(ReadFrom::as_offset);
        let body = Following { stream_id: Some(stream), offset, ..Following::of(session) };
        let url = self.address().route(&["v1", "subscriptions"]);
        let response = self.send_json(Method::POST, url, &body).await?;
        answer::json(self, response).await
    }

    /// Lets a session follow a stream no more. Nothing happens where it does not.
    pub async fn unsubscribe_session(
        &self,
        session: &str,
        stream: &str,
    ) -> Result<(), ClientError> {
        let body = Following { stream_id: Some(stream), ..Following::of(session) };
        let url = self.address().route(&["v1", "subscriptions"]);
        self.send_json(Method::DELETE, url, &body).await?;
        Ok(())
    }

    /// Keeps a session alive, and says how far it has got. The answer comes when that is durable, and
    /// says how long the session lasts from there.
    pub async fn heartbeat(
        &self,
        session: &str,
        offsets: &[SessionOffset],
    ) -> Result<Duration, ClientError> {
        let offsets = (!offsets.is_empty()).then_some(offsets);
        let body = Following { offsets, ..Following::of(session) };
        let url = self.address().route(&["v1", "heartbeat"]);
        let response = self.send_json(Method::POST, url, &body).await?;
        let opened: Opened = answer::json(self, response).await?;
        Ok(Duration::from_millis(opened.expires_in_ms))
    }

    /// The streams that a session follows, and how far it has got.
    pub async fn session_offsets(&self, session: &str) -> Result<Vec<SessionOffset>, ClientError> {
        let response = self.get(self.address().route(&["v1", "session-offsets", session])).await?;
        answer::json(self, response).await
    }
}
