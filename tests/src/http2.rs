//! HTTP/2, encrypted or not: one connection, and requests over it.

use std::convert::Infallible;
use std::net::Ipv4Addr;

use axum::body::{Body, Bytes};
use axum::http::{Request, Response, Uri};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::http::Http;
use crate::wait::within_patience;

/// A connection. Hangs up when dropped.
#[derive(Debug)]
pub struct Http2 {
    base: String,
    token: Option<String>,
    requests: SendRequest<Body>,
    connection: JoinSet<()>,
}

/// An answer whose body is read as it comes.
#[derive(Debug)]
pub struct Streamed {
    response: Response<Incoming>,
    received: Vec<u8>,
}

impl Http2 {
    /// Connects to the server of another client, and with what that one has.
    pub async fn connect(http: &Http) -> Http2 {
        let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, http.port())).await;
        let socket = socket.expect("a connection");
        let (base, token) = (http.base().to_owned(), http.token().map(ToOwned::to_owned));
        let mut connection = JoinSet::new();
        let requests = match http.authority() {
            None => {
                let (requests, driver) =
                    handshake(TokioExecutor::new(), TokioIo::new(socket)).await.expect("HTTP/2");
                connection.spawn(async { drop(driver.await) });
                requests
            }
            Some(authority) => {
                let offered = ["h2", "http/1.1"];
                let secure = authority.secure(socket, rustls::ALL_VERSIONS, &offered).await;
                let secure = secure.expect("TLS");
                assert_eq!(secure.get_ref().1.alpn_protocol(), Some(&b"h2"[..]), "of both");
                let (requests, driver) =
                    handshake(TokioExecutor::new(), TokioIo::new(secure)).await.expect("HTTP/2");
                connection.spawn(async { drop(driver.await) });
                requests
            }
        };
        Http2 { base, token, requests, connection }
    }

    /// Sends a request and waits for the answer's head.
    pub async fn send(&mut self, method: &str, path: &str, body: Body) -> hyper::Result<Streamed> {
        let uri: Uri = format!("{}{path}", self.base).parse().expect("an address");
        let mut request = Request::builder().method(method).uri(uri);
        request = request.header("content-type", "application/json");
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(body).expect("a request");
        let answer = within_patience(path, self.requests.send_request(request)).await?;
        Ok(Streamed { response: answer, received: Vec::new() })
    }

    /// A request that must be answered with this status; the answer's body, whole.
    pub async fn ask(&mut self, method: &str, path: &str, body: &str, status: u16) -> Bytes {
        let answer = self.send(method, path, Body::from(body.to_owned())).await.expect("an answer");
        assert_eq!(answer.response.status(), status, "{method} {path}");
        let whole = within_patience(path, answer.response.into_body().collect()).await;
        whole.expect("a whole body").to_bytes()
    }

    /// A GET whose answer goes on.
    pub async fn follow(&mut self, path: &str) -> Streamed {
        let answer = self.send("GET", path, Body::empty()).await.expect("an answer");
        assert_eq!(answer.response.status(), 200, "GET {path}");
        answer
    }

    /// Waits until the server hangs up.
    pub async fn hung_up(mut self) {
        within_patience("the server hangs up", self.connection.join_next()).await;
    }
}

impl Streamed {
    /// The answer's status.
    pub fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// Reads until what has come contains `what`, and returns all of it.
    pub async fn hears(&mut self, what: &str) -> String {
        loop {
            let text = String::from_utf8_lossy(&self.received).into_owned();
            if text.contains(what) {
                return text;
            }
            let goes_on = within_patience(what, self.receive()).await;
            assert!(goes_on, "it ended after {text:?}");
        }
    }

    /// Waits until the answer has ended, as it should, and returns all that came.
    pub async fn ended(mut self) -> String {
        within_patience("the answer ends", async { while self.receive().await {} }).await;
        String::from_utf8_lossy(&self.received).into_owned()
    }

    async fn receive(&mut self) -> bool {
        let Some(frame) = self.response.body_mut().frame().await else { return false };
        if let Ok(data) = frame.expect("more of the body").into_data() {
            self.received.extend_from_slice(&data);
        }
        true
    }
}

/// A body of which one byte comes now and then, without end.
pub fn dripping(pause: std::time::Duration) -> Body {
    Body::from_stream(futures_util::stream::unfold((), move |()| async move {
        tokio::time::sleep(pause).await;
        Some((Ok::<_, Infallible>(Bytes::from_static(b"1")), ()))
    }))
}

/// The body of an append of one message.
pub fn message(payload: &Value) -> String {
    Value::from(vec![payload.clone()]).to_string()
}
