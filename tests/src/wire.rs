//! A WebSocket byte by byte: for clients that read when they like, answer when they like, and
//! mistake nothing for something else. Nothing is deduplicated and nothing asked for again.

use std::net::Ipv4Addr;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::http::Http;
use crate::wait::within_patience;

const TEXT: u8 = 0x1;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xa;

/// Small, so that one who stops reading is noticed soon.
const RECEIVE_BYTES: u32 = 16 << 10;

/// One connection.
#[derive(Debug)]
pub struct Wire {
    socket: TcpStream,
    received: Vec<u8>,
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
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(RECEIVE_BYTES).expect("a smaller buffer");
        let port = http.port();
        let socket = socket.connect((Ipv4Addr::LOCALHOST, port).into()).await;
        let mut wire = Wire {
            socket: socket.unwrap_or_else(|error| panic!("cannot connect to {port}: {error}")),
            received: Vec::new(),
            answers: true,
            closed: None,
            pings: 0,
        };
        let head = format!(
            "GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: upgrade\r\n\
             upgrade: websocket\r\nsec-websocket-version: 13\r\n\
             sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n{}\r\n",
            http.authorization()
        );
        wire.socket.write_all(head.as_bytes()).await.expect("a request that is taken");
        let answer = wire.head().await;
        assert!(answer.starts_with("HTTP/1.1 101"), "no WebSocket at {path}: {answer}");
        wire
    }

    /// Follows a stream under its own name, and returns after which offset.
    pub async fn subscribe(&mut self, stream: &str, offset: &str) -> String {
        let one = json!({ "query_id": stream, "stream": stream, "offset": offset });
        self.say(&json!({ "type": "subscribe", "subscriptions": [one] })).await;
        let created = self.hears("subscription_created").await;
        let offset = created["subscriptions"][0]["offset"].as_str();
        offset.unwrap_or_else(|| panic!("no offset in {created}")).to_owned()
    }

    /// Sends a message.
    pub async fn say(&mut self, message: &Value) {
        self.send(TEXT, message.to_string().as_bytes()).await;
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

    /// The next message. `None` when the connection is over.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            let (kind, payload) = self.frame().await?;
            match kind {
                TEXT => return Some(serde_json::from_slice(&payload).expect("JSON in a text")),
                PING => {
                    self.pings += 1;
                    if self.answers {
                        self.send(PONG, &payload).await;
                    }
                }
                CLOSE => {
                    self.closed = payload.first_chunk().map(|code| u16::from_be_bytes(*code));
                    self.send(CLOSE, &payload).await;
                    return None;
                }
                _ => {}
            }
        }
    }

    /// A frame with the mask that changes nothing. That nobody takes it shows in the next read.
    async fn send(&mut self, kind: u8, payload: &[u8]) {
        let mut frame = vec![0x80 | kind];
        match u16::try_from(payload.len()) {
            Ok(length @ ..126) => frame.push(0x80 | length.to_be_bytes()[1]),
            Ok(length) => {
                frame.push(0x80 | 126);
                frame.extend(length.to_be_bytes());
            }
            Err(_) => panic!("a story says less than 64 KiB at once"),
        }
        frame.extend([0; 4]);
        frame.extend(payload);
        let _ = self.socket.write_all(&frame).await;
    }

    async fn frame(&mut self) -> Option<(u8, Vec<u8>)> {
        loop {
            if let Some((kind, length, start)) = header(&self.received)
                && self.received.len() >= start + length
            {
                let payload = self.received[start..start + length].to_vec();
                self.received.drain(..start + length);
                return Some((kind, payload));
            }
            match self.socket.read_buf(&mut self.received).await {
                Ok(1..) => {}
                _ => return None,
            }
        }
    }

    async fn head(&mut self) -> String {
        let all = async {
            loop {
                if let Some(end) = self.received.windows(4).position(|four| four == b"\r\n\r\n") {
                    let head = String::from_utf8_lossy(&self.received[..end]).into_owned();
                    self.received.drain(..end + 4);
                    return head;
                }
                let read = self.socket.read_buf(&mut self.received).await;
                assert!(matches!(read, Ok(1..)), "the server hung up: {:?}", self.received);
            }
        };
        within_patience("the head of an answer", all).await
    }
}

/// A whole frame's kind, its payload's length and where that begins.
fn header(bytes: &[u8]) -> Option<(u8, usize, usize)> {
    let (kind, short) = (*bytes.first()? & 0x0f, *bytes.get(1)?);
    match short {
        126 => {
            let length = bytes.get(2..4)?.first_chunk().copied().map(u16::from_be_bytes)?;
            Some((kind, length.into(), 4))
        }
        127 => {
            let length = bytes.get(2..10)?.first_chunk().copied().map(u64::from_be_bytes)?;
            Some((kind, usize::try_from(length).ok()?, 10))
        }
        short => Some((kind, short.into(), 2)),
    }
}
