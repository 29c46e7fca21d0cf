//! A server for tests of the socket: the test itself says what it answers, step by step.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures_util::SinkExt as _;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use yawc::{Frame, OpCode, Options, Role, WebSocket};

const DEFLATE: &str = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";

/// A node that listens.
pub(crate) struct Node {
    listener: TcpListener,
}

/// The server's side of a WebSocket.
pub(crate) struct Peer {
    /// The request that became it.
    pub(crate) head: String,
    socket: WebSocket<TcpStream>,
}

impl Node {
    pub(crate) async fn listen() -> Node {
        Node { listener: TcpListener::bind("127.0.0.1:0").await.expect("a free port") }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.listener.local_addr().expect("an address"))
    }

    /// Waits for a request: its head, its body, and where to answer.
    async fn request(&self) -> (String, String, TcpStream) {
        let (mut stream, _) = self.listener.accept().await.expect("a connection");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.expect("a request's head"));
        }
        let head = String::from_utf8(head).expect("text");
        let length = header(&head, "content-length").map_or(0, |text| text.parse().expect("bytes"));
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.expect("a request's body");
        (head, String::from_utf8(body).expect("text"), stream)
    }

    /// Answers one request, and says what it was: its first line, and its body.
    pub(crate) async fn answer(&self, status: &str, headers: &str, body: &str) -> (String, String) {
        let (head, request, mut stream) = self.request().await;
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n\
             {body}"
        );
        stream.write_all(answer.as_bytes()).await.expect("an answer");
        (head.lines().next().unwrap_or_default().to_owned(), request)
    }

    /// Waits for a WebSocket, and accepts compression where it is offered.
    pub(crate) async fn peer(&self) -> Peer {
        let (head, _, mut stream) = self.request().await;
        let key = header(&head, "sec-websocket-key").expect("a key");
        let proof = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
        let proof = BASE64_STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, proof.as_bytes()));
        let deflate = header(&head, "sec-websocket-extensions").map(|_| DEFLATE);
        let extensions = deflate.map(|text| format!("sec-websocket-extensions: {text}\r\n"));
        let answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-accept: {proof}\r\n{}\r\n",
            extensions.unwrap_or_default()
        );
        stream.write_all(answer.as_bytes()).await.expect("an answer");
        let options = Options::default().with_balanced_compression();
        let options = if deflate.is_some() { options } else { Options::default() };
        let socket = WebSocket::from_stream_with_extensions(stream, Role::Server, deflate, options);
        Peer { head, socket: socket.expect("a WebSocket") }
    }
}

impl Peer {
    pub(crate) async fn says(&mut self, message: Value) {
        self.sends(Frame::text(message.to_string())).await;
    }

    pub(crate) async fn sends(&mut self, frame: Frame) {
        self.socket.send(frame).await.expect("the client listens");
    }

    pub(crate) async fn hears_frame(&mut self) -> Frame {
        self.socket.next_frame().await.expect("the client speaks")
    }

    /// Answers the client's farewell.
    pub(crate) async fn goes(mut self) {
        assert!(self.socket.next_frame().await.is_err(), "nothing comes after a farewell");
    }

    /// The next message of the client.
    pub(crate) async fn hears(&mut self) -> Value {
        loop {
            let frame = self.hears_frame().await;
            if frame.opcode() == OpCode::Text {
                return serde_json::from_slice(frame.payload()).expect("JSON");
            }
        }
    }
}

/// A header of a request.
pub(crate) fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then_some(value.trim())
    })
}
