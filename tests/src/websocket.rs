//! A WebSocket made by hand: it says what no library would, and shows each frame as it came.

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf as _, BytesMut};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::http::Http;
use crate::socket::{Socket, connect};
use crate::wait::within_patience;

/// The first byte of a whole text message, of a ping, and so on (RFC 6455, section 5.2).
pub const TEXT: u8 = 0x81;
pub const BINARY: u8 = 0x82;
pub const CLOSE: u8 = 0x88;
pub const PING: u8 = 0x89;
pub const PONG: u8 = 0x8A;
/// Says that a message is compressed.
pub const COMPRESSED: u8 = 0x40;
const MASKED: u8 = 0x80;

/// A window so small that a client which does not read is soon noticed.
pub(crate) const SMALL_WINDOW_BYTES: u32 = 4 << 10;

/// An open connection. Gone without a word when dropped.
#[derive(Debug)]
pub struct WebSocket {
    socket: Box<dyn Socket>,
    received: BytesMut,
    /// The head of the server's answer to the handshake.
    head: String,
}

/// One frame from the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    Text { text: String, compressed: bool },
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close { code: u16, reason: String },
}

/// How a connection ended: the messages before its close frame, and the frame.
#[derive(Debug)]
pub struct Farewell {
    pub messages: Vec<Value>,
    pub code: u16,
    pub reason: String,
}

impl WebSocket {
    /// Connects, with the client's token in a header if it has one.
    pub async fn connect(http: &Http, path: &str) -> WebSocket {
        WebSocket::connect_with(http, path, &[]).await
    }

    /// Connects with further headers. The handshake must succeed.
    pub async fn connect_with(http: &Http, path: &str, headers: &[(&str, &str)]) -> WebSocket {
        WebSocket::greet(None, http, path, headers).await
    }

    /// Connects someone who has room for next to nothing, so that not reading shows.
    pub async fn connect_narrow(http: &Http, path: &str) -> WebSocket {
        WebSocket::connect_narrow_with(http, path, &[]).await
    }

    /// The same, with further headers.
    pub async fn connect_narrow_with(
        http: &Http,
        path: &str,
        headers: &[(&str, &str)],
    ) -> WebSocket {
        WebSocket::greet(Some(SMALL_WINDOW_BYTES), http, path, headers).await
    }

    /// Connects someone who has room for so much.
    pub(crate) async fn connect_window(http: &Http, path: &str, bytes: u32) -> WebSocket {
        WebSocket::greet(Some(bytes), http, path, &[]).await
    }

    async fn greet(
        receive_bytes: Option<u32>,
        http: &Http,
        path: &str,
        headers: &[(&str, &str)],
    ) -> WebSocket {
        let socket = connect(http.port(), http.authority(), receive_bytes).await;
        let mut websocket = WebSocket { socket, received: BytesMut::new(), head: String::new() };
        websocket.send(handshake(http, path, headers)).await;
        let end = loop {
            if let Some(end) = websocket.received.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            let goes_on = within_patience("the handshake", websocket.receive()).await;
            assert!(goes_on, "the server hung up during the handshake of {path}");
        };
        let head = websocket.received.split_to(end);
        websocket.head = String::from_utf8_lossy(&head).to_ascii_lowercase();
        let switched = websocket.head.starts_with("http/1.1 101 ");
        assert!(switched, "the handshake of {path}: {}", websocket.head);
        websocket
    }

    /// The head of the answer to the handshake, in lower case.
    pub fn head(&self) -> &str {
        &self.head
    }

    /// Sends bytes as they are. Returns whether the other side still takes them.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        let bytes = bytes.as_ref();
        self.socket.write_all(bytes).await.is_ok() && self.socket.flush().await.is_ok()
    }

    /// Says something, in one text frame.
    pub async fn say(&mut self, message: &Value) {
        self.send(frame(TEXT, message.to_string().as_bytes())).await;
    }

    /// The next frame. `None`: the server has hung up.
    pub async fn frame(&mut self) -> Option<Frame> {
        within_patience("a frame from the server", self.frame_whenever()).await
    }

    /// The next frame, however long that takes. `None`: the server has hung up.
    pub(crate) async fn frame_whenever(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.take_frame() {
                return Some(frame);
            }
            if !self.receive().await {
                return None;
            }
        }
    }

    /// The next message. Pings on the way are answered.
    pub async fn next(&mut self) -> Value {
        loop {
            match self.frame().await {
                Some(Frame::Text { text, .. }) => return json(&text),
                Some(Frame::Ping(payload)) => {
                    self.send(frame(PONG, &payload)).await;
                }
                Some(Frame::Pong(_)) => {}
                ended => panic!("a message was to come, not {ended:?}"),
            }
        }
    }

    /// The next message but `progress`, which comes when it comes. It must be of this type.
    #[track_caller]
    pub fn hears(&mut self, kind: &str) -> impl Future<Output = Value> {
        let caller = std::panic::Location::caller();
        async move {
            loop {
                let message = self.next().await;
                if message["type"] == kind {
                    return message;
                }
                let in_between = message["type"] == "progress";
                assert!(in_between, "{caller}: {kind} was to come, not {message}");
            }
        }
    }

    /// Reads on to the first message of this type.
    pub async fn hears_at_last(&mut self, kind: &str) -> Value {
        loop {
            let message = self.next().await;
            if message["type"] == kind {
                return message;
            }
        }
    }

    /// Subscribes, and waits until that is confirmed. Returns the confirmation's entry.
    #[track_caller]
    pub fn subscribe(&mut self, subscription: &Value) -> impl Future<Output = Value> {
        let caller = std::panic::Location::caller();
        async move {
            let message = serde_json::json!({
                "type": "subscribe", "subscriptions": [subscription],
            });
            self.say(&message).await;
            let created = self.hears_at_last("subscription_created").await;
            let entries = created["subscriptions"].as_array().expect("an array");
            assert_eq!(entries.len(), 1, "{caller}: {created}");
            assert_eq!(entries[0]["query_id"], subscription["query_id"], "{caller}");
            entries[0].clone()
        }
    }

    /// Reads until the server closes. It must say so, and then hang up.
    pub async fn closed(&mut self) -> Farewell {
        let mut messages = Vec::new();
        let (code, reason) = loop {
            match self.frame().await {
                Some(Frame::Text { text, .. }) => messages.push(json(&text)),
                Some(Frame::Close { code, reason }) => break (code, reason),
                Some(_) => {}
                None => panic!("the server hung up without a close frame, after {messages:?}"),
            }
        };
        self.send(frame(CLOSE, &code.to_be_bytes())).await;
        assert_eq!(self.frame().await, None, "after the close frame");
        Farewell { messages, code, reason }
    }

    /// Takes what has arrived. `false`: the connection is over, one way or the other.
    async fn receive(&mut self) -> bool {
        matches!(self.socket.read_buf(&mut self.received).await, Ok(1..))
    }

    fn take_frame(&mut self) -> Option<Frame> {
        let [first, second, rest @ ..] = &self.received[..] else { return None };
        let first = *first;
        let (length, header) = match second {
            126 => (usize::from(u16::from_be_bytes(*rest.first_chunk()?)), 4),
            127 => {
                let length = u64::from_be_bytes(*rest.first_chunk()?);
                (usize::try_from(length).expect("a frame that fits"), 10)
            }
            masked if masked & MASKED != 0 => panic!("a server's frames are not masked"),
            length => (usize::from(*length), 2),
        };
        if self.received.len() < header + length {
            return None;
        }
        self.received.advance(header);
        let payload = self.received.split_to(length).to_vec();
        Some(Frame::of(first, payload))
    }
}

impl Frame {
    fn of(first: u8, payload: Vec<u8>) -> Frame {
        let text = |bytes| String::from_utf8(bytes).expect("text is UTF-8");
        match first {
            TEXT => Frame::Text { text: text(payload), compressed: false },
            first if first == TEXT | COMPRESSED => {
                Frame::Text { text: text(inflate(&payload)), compressed: true }
            }
            PING => Frame::Ping(payload),
            PONG => Frame::Pong(payload),
            CLOSE => {
                let (code, reason) = payload.split_first_chunk().expect("a code");
                Frame::Close { code: u16::from_be_bytes(*code), reason: text(reason.to_vec()) }
            }
            other => panic!("a server sends no frame that begins with {other:#x}"),
        }
    }
}

fn handshake(http: &Http, path: &str, headers: &[(&str, &str)]) -> String {
    let key = STANDARD.encode(rand::random::<[u8; 16]>());
    let mut head = format!(
        "GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: {key}\r\n"
    );
    let token = http.token().map(|token| ("authorization", format!("Bearer {token}")));
    let token = token.iter().map(|(name, value)| (*name, value.as_str()));
    for (name, value) in headers.iter().copied().chain(token) {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head + "\r\n"
}

/// A client's frame: the first byte as given, the rest as it should be.
pub fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match u16::try_from(payload.len()) {
        #[expect(clippy::cast_possible_truncation, reason = "at most 125")]
        Ok(short @ 0..=125) => frame.push(MASKED | short as u8),
        Ok(middling) => {
            frame.push(MASKED | 126);
            frame.extend(middling.to_be_bytes());
        }
        Err(_) => {
            frame.push(MASKED | 127);
            frame.extend((payload.len() as u64).to_be_bytes());
        }
    }
    let mask: [u8; 4] = rand::random();
    frame.extend(mask);
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// Compresses a message as permessage-deflate has it (RFC 7692, section 7.2.1).
pub fn deflate(message: &[u8]) -> Vec<u8> {
    let mut compress = flate2::Compress::new(flate2::Compression::best(), false);
    let mut out = Vec::with_capacity(message.len() + 100);
    let flush = flate2::FlushCompress::Sync;
    compress.compress_vec(message, &mut out, flush).expect("what can be compressed");
    assert!(out.ends_with(&TAIL), "the flush does not end as it should");
    out.truncate(out.len() - TAIL.len());
    out
}

/// What every compressed message ends with, and the wire leaves out.
const TAIL: [u8; 4] = [0x00, 0x00, 0xFF, 0xFF];

/// Each message by itself: there is no context takeover.
fn inflate(compressed: &[u8]) -> Vec<u8> {
    let whole = [compressed, &TAIL].concat();
    let mut out = Vec::new();
    let mut decoder = flate2::bufread::DeflateDecoder::new(&whole[..]);
    let read = decoder.read_to_end(&mut out);
    // The stream is never finished, so its end is always unexpected.
    assert!(read.is_ok() || !out.is_empty(), "not deflated: {read:?}");
    out
}

pub(crate) fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("not JSON ({error}): {text}"))
}
