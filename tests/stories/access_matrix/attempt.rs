//! One request with one credential, over HTTP or a WebSocket, and all that came of it.

use reqwest::Method;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use tidewire_stories::wait::within_patience;
use tidewire_stories::{Answer, Http, WebSocket};

use super::table::{Cell, Row, Verb};
use super::things::Things;

/// What came of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// 101 of a WebSocket whose every message was answered as it should be. An error on one has no
    /// status.
    pub(crate) status: Option<u16>,
    /// Of a refusal.
    pub(crate) code: Option<String>,
    /// With which code a WebSocket was closed.
    pub(crate) closed: Option<u16>,
    /// All that was said: headers and body, or messages.
    pub(crate) said: String,
}

/// Does what a row asks for, with a credential. `cell` says how long to read on: until the content has
/// come, or not.
pub(crate) async fn attempt(
    server: &Http,
    row: &Row,
    credential: Option<&str>,
    things: &Things,
    cell: Cell,
) -> Outcome {
    // One that stands in a body or a message stands nowhere else.
    let credential = credential.filter(|_| !row.uses("credential"));
    let http = &server.as_someone(credential);
    let path = things.fill(&row.path);
    match &row.verb {
        Verb::Http(method) => {
            let mut request = http.request(method.clone(), &path);
            for (name, value) in &row.headers {
                request = request.header(name, things.fill(value));
            }
            if *method != Method::GET && *method != Method::HEAD {
                request = request.header("content-type", "application/json");
            }
            if let Some(text) = row.texts.first() {
                request = request.body(things.fill(text));
            }
            let mut response = request.send().await.expect("an answer");
            let (status, headers) = (response.status().as_u16(), response.headers().clone());
            let mut body = Vec::new();
            let what = format!("the answer to {}", row.name);
            while let Ok(Some(piece)) = within_patience(&what, response.chunk()).await {
                body.extend_from_slice(&piece);
                // A live response does not end by itself.
                if cell.shown && contains(&body, &things.content) {
                    break;
                }
            }
            Outcome::of_answer(&Answer { status, headers, body: body.into() })
        }
        Verb::WebSocket => {
            if let Some(refusal) = turned_away(http, &path).await {
                return refusal;
            }
            let texts: Vec<Value> = row.texts.iter().map(|text| json(&things.fill(text))).collect();
            let socket = WebSocket::connect(http, &path).await;
            let content = cell.shown.then_some(things.content.as_str());
            let known = credential.is_some_and(|credential| !credential.is_empty());
            Conversation { socket, heard: Vec::new(), refused: None }
                .hold(known, texts, content)
                .await
        }
    }
}

/// The answer to a handshake that does not succeed.
async fn turned_away(http: &Http, path: &str) -> Option<Outcome> {
    let request = http
        .request(Method::GET, path)
        .header("connection", "upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
    let response = request.send().await.expect("an answer");
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    if status == 101 {
        return None;
    }
    let body = response.bytes().await.expect("a body");
    Some(Outcome::of_answer(&Answer { status, headers, body }))
}

/// Messages, and what is said to them.
struct Conversation {
    socket: WebSocket,
    heard: Vec<Value>,
    refused: Option<String>,
}

impl Conversation {
    /// Says one thing after the other, for as long as each is answered as it should be. One who is
    /// known from the beginning is greeted.
    async fn hold(mut self, known: bool, texts: Vec<Value>, content: Option<&str>) -> Outcome {
        if known && !self.hears("hello").await {
            return self.outcome().await;
        }
        for text in texts {
            let kind = text["type"].as_str().expect("a type");
            // What a session follows comes by itself, and might not any more after these.
            if kind == "unsubscribe" || kind == "ack" {
                self.sees(content).await;
            }
            self.socket.say(&text).await;
            let answered = match kind {
                "auth" => self.hears("hello").await,
                "subscribe" | "SUBSCRIBE" => self.hears("subscription_created").await,
                "unsubscribe" | "UNSUBSCRIBE" => self.hears("subscription_ended").await,
                "ping" => self.hears("pong").await,
                "ack" => {
                    self.socket.say(&json!({ "type": "ping" })).await;
                    self.hears("pong").await
                }
                other => panic!("what is the answer to {other}?"),
            };
            if !answered {
                return self.outcome().await;
            }
        }
        self.sees(content).await;
        self.outcome().await
    }

    /// Reads on to the content, if that is to come.
    async fn sees(&mut self, content: Option<&str>) {
        while content.is_some_and(|content| !self.said().contains(content)) {
            self.next().await;
        }
    }

    /// Reads on to a message of this type. `false` if the client was refused instead.
    async fn hears(&mut self, kind: &str) -> bool {
        loop {
            let message = self.next().await;
            if message["type"] == "error" {
                self.refused = message["code"].as_str().map(ToOwned::to_owned);
                return false;
            }
            if message["type"] == kind {
                return true;
            }
        }
    }

    async fn next(&mut self) -> Value {
        let mut message = self.socket.next().await;
        // The one thing that differs between two connections of the same client.
        if message["type"] == "hello" {
            message["connection_id"] = Value::Null;
        }
        self.heard.push(message.clone());
        message
    }

    fn said(&self) -> String {
        self.heard.iter().map(|message| format!("{message}\n")).collect()
    }

    /// Waits until it is certain that no more comes.
    async fn outcome(mut self) -> Outcome {
        let mut closed = None;
        if self.refused.as_deref().is_some_and(Row::closes) {
            let farewell = self.socket.closed().await;
            closed = Some(farewell.code);
            self.heard.extend(farewell.messages);
            self.heard.push(json!(farewell.reason));
        } else {
            self.socket.say(&json!({ "type": "ping" })).await;
            while self.next().await["type"] != "pong" {}
        }
        let status = self.refused.is_none().then_some(101);
        Outcome { status, closed, said: self.said(), code: self.refused }
    }
}

impl Outcome {
    fn of_answer(answer: &Answer) -> Outcome {
        let problem: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let code = problem["code"].as_str().or(problem["error"]["code"].as_str());
        Outcome {
            status: Some(answer.status),
            code: code.map(ToOwned::to_owned),
            closed: None,
            said: format!("{}\n{}", lines(&answer.headers), answer.text()),
        }
    }
}

/// Headers, but for the clock's.
fn lines(headers: &HeaderMap) -> String {
    let lines = headers.iter().filter(|(name, _)| *name != "date");
    lines
        .map(|(name, value)| format!("{name}: {}\n", String::from_utf8_lossy(value.as_bytes())))
        .collect()
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("not JSON ({error}): {text}"))
}
