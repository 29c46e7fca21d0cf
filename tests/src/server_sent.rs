//! A session's live connection as a page's `EventSource` has it: each event with its id.

use std::collections::VecDeque;

use reqwest::{Method, Response};
use serde_json::Value;

use crate::http::Http;
use crate::wait::within_patience;

/// An open response. Dropping it ends the connection.
#[derive(Debug)]
pub struct ServerSent {
    response: Response,
    unread: Vec<u8>,
    arrived: VecDeque<Sent>,
    retry_ms: Option<u64>,
}

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub struct Sent {
    /// Where it stands in the log, if it stands there.
    pub id: Option<String>,
    /// The message.
    pub message: Value,
}

impl ServerSent {
    /// Opens a session's live connection, after the last event's id if there is one.
    pub async fn open(http: &Http, session: &str, last_event_id: Option<&str>) -> ServerSent {
        ServerSent::greeted(http, session, last_event_id).await.0
    }

    /// Opens a session's live connection, and says which one it is.
    pub async fn open_with_id(http: &Http, session: &str) -> (ServerSent, String) {
        let (opened, hello) = ServerSent::greeted(http, session, None).await;
        let id = hello["connection_id"].as_str().expect("a connection's id").to_owned();
        (opened, id)
    }

    async fn greeted(
        http: &Http,
        session: &str,
        last_event_id: Option<&str>,
    ) -> (ServerSent, Value) {
        let mut request = http.request(Method::GET, &format!("/v1/live/{session}"));
        if let Some(id) = last_event_id {
            request = request.header("last-event-id", id);
        }
        let response = request.send().await.expect("an answer");
        assert_eq!(response.status(), 200, "/v1/live of {session}");
        let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok());
        assert_eq!(kind, Some("text/event-stream"));
        let (unread, arrived) = (Vec::new(), VecDeque::new());
        let mut opened = ServerSent { response, unread, arrived, retry_ms: None };
        let hello = opened.next().await.expect("hello");
        assert_eq!(hello.message["type"], "hello", "{hello:?}");
        assert_eq!(hello.message["session"], session, "{hello:?}");
        (opened, hello.message)
    }

    /// The next event. `None`: the response has ended.
    pub async fn next(&mut self) -> Option<Sent> {
        within_patience("a server-sent event", self.whenever()).await
    }

    /// The next event, however long that takes. `None`: the response has ended.
    pub async fn whenever(&mut self) -> Option<Sent> {
        loop {
            if let Some(sent) = self.arrived.pop_front() {
                return Some(sent);
            }
            let piece = self.response.chunk().await.ok()??;
            self.unread.extend_from_slice(&piece);
            while let Some(end) = self.unread.windows(2).position(|two| two == b"\n\n") {
                let block: Vec<u8> = self.unread.drain(..end + 2).collect();
                self.take(std::str::from_utf8(&block[..end]).expect("UTF-8"));
            }
        }
    }

    /// The next message but `progress`, which comes when it comes. It must be of this type.
    pub async fn hears(&mut self, kind: &str) -> Sent {
        loop {
            let sent = self.next().await.unwrap_or_else(|| panic!("it ended before {kind}"));
            if sent.message["type"] == kind {
                return sent;
            }
            assert_eq!(sent.message["type"], "progress", "{kind} was to come, not {sent:?}");
        }
    }

    /// The next so many events of streams. What else comes is left out, but for complaints.
    pub async fn events(&mut self, count: usize) -> Vec<Sent> {
        let mut events = Vec::with_capacity(count);
        while events.len() < count {
            let sent = self.next().await.expect("more events");
            match sent.message["type"].as_str() {
                Some("event") => events.push(sent),
                Some("subscription_created" | "progress") => {}
                _ => panic!("event {} was to come, not {sent:?}", events.len()),
            }
        }
        events
    }

    /// When to come back, if the server has said so.
    pub fn retry_ms(&self) -> Option<u64> {
        self.retry_ms
    }

    /// One block of lines. Comments are signs of life.
    fn take(&mut self, block: &str) {
        let (mut id, mut data) = (None, None);
        for line in block.lines().filter(|line| !line.starts_with(':')) {
            let (field, value) = line.split_once(": ").expect("a field");
            match field {
                "id" => id = Some(value.to_owned()),
                "data" => assert_eq!(data.replace(value), None, "two data lines in {block:?}"),
                "retry" => self.retry_ms = Some(value.parse().expect("milliseconds")),
                other => panic!("events of live connections have no {other:?}: {block:?}"),
            }
        }
        if let Some(data) = data {
            let message = serde_json::from_str(data).expect("messages are JSON");
            self.arrived.push_back(Sent { id, message });
        }
    }
}
