//! A WebSocket for clients that read when they like and answer when they like. Nothing is
//! deduplicated and nothing asked for again.

use serde_json::Value;

use crate::http::Http;
use crate::wait::within_patience;
use crate::websocket::{CLOSE, Frame, PONG, WebSocket, frame, json};

/// Small, so that one who stops reading is noticed soon.
const RECEIVE_BYTES: u32 = 16 << 10;

/// One connection.
#[derive(Debug)]
pub struct Wire {
    socket: WebSocket,
    /// Whether pings are answered.
    pub answers: bool,
    /// The code that the server closed with.
    pub closed: Option<u16>,
    /// Pings that have come.
    pub pings: usize,
}

impl Wire {
    /// Connects to `/v1/ws` or another path that becomes a WebSocket.
    pub async fn open(http: &Http, path: &str) -> Wire {
        let socket = WebSocket::connect_window(http, path, RECEIVE_BYTES).await;
        Wire { socket, answers: true, closed: None, pings: 0 }
    }

    /// Follows a stream under its own name, and returns after which offset.
    pub async fn subscribe(&mut self, stream: &str, offset: &str) -> String {
        let one = serde_json::json!({ "query_id": stream, "stream": stream, "offset": offset });
        self.say(&serde_json::json!({ "type": "subscribe", "subscriptions": [one] })).await;
        let created = self.hears("subscription_created").await;
        let offset = created["subscriptions"][0]["offset"].as_str();
        offset.unwrap_or_else(|| panic!("no offset in {created}")).to_owned()
    }

    /// Sends a message. That nobody takes it shows in the next read.
    pub async fn say(&mut self, message: &Value) {
        self.socket.say(message).await;
    }

    /// Waits for the next message of this type. Others are passed over.
    pub async fn hears(&mut self, kind: &str) -> Value {
        loop {
            match within_patience(kind, self.next()).await {
                Some(message) if message["type"] == kind => return message,
                Some(message) => assert_ne!(message["type"], "error", "{message}"),
                None => panic!("the server hung up ({:?}) without {kind}", self.closed),
            }
        }
    }

    /// The next message, however long that takes. `None` when the connection is over.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            match self.socket.frame_whenever().await? {
                Frame::Text { text, .. } => return Some(json(&text)),
                Frame::Ping(payload) => {
                    self.pings += 1;
                    if self.answers {
                        self.socket.send(frame(PONG, &payload)).await;
                    }
                }
                Frame::Pong(_) => {}
                Frame::Close { code, .. } => {
                    self.closed = Some(code);
                    self.socket.send(frame(CLOSE, &code.to_be_bytes())).await;
                    return None;
                }
            }
        }
    }
}
