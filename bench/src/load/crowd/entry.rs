//! How a member of the crowd comes in: what it sends, and what it must see before it counts as
//! subscribed. One connection does all of its own steps, so that thousands can come in at once.

use anyhow::{Context, Result, bail};

use super::super::response::{complete, excerpt, parse_head};
use super::super::websocket::{self, Frames, Piece};
use super::super::{encode, stream_path};

const JSON: Option<&str> = Some("application/json");
/// Beyond this many bytes of greeting, something else is being sent.
const GREETING_BYTES_MAX: usize = 64 * 1024;

/// The way in, the same for every member.
#[derive(Debug, Clone)]
pub(crate) enum Door {
    WebSocket {
        path: &'static str,
        /// A frame to send once the connection is upgraded; empty for none.
        greeting: Vec<u8>,
        /// A text the server sends when the subscription holds; empty if the upgrade says it.
        welcome: &'static str,
    },
    /// `GET` of a response that does not end.
    Sse { path: String, welcome: &'static str },
    /// A session of its own, a subscription in it, then its live response.
    SessionSse { stream: String },
}

impl Door {
    pub(crate) fn speaks_websocket(&self) -> bool {
        matches!(self, Self::WebSocket { .. })
    }

    /// A subscription to a stream by Tidewire's WebSocket.
    pub(crate) fn tidewire_websocket(stream: &str) -> Self {
        let subscribe = format!(
            r#"{{"type":"subscribe","subscriptions":[{{"query_id":"q","stream":"{stream}"}}]}}"#
        );
        Self::WebSocket {
            path: "/v1/ws",
            greeting: websocket::client_frame(websocket::TEXT, subscribe.as_bytes()),
            welcome: "subscription_created",
        }
    }

    /// The live query of all rows of a table of messages, by Tidewire's WebSocket.
    pub(crate) fn tidewire_query(table: &str) -> Self {
        let sql = format!("SELECT id, number, text FROM {table}");
        let subscribe =
            format!(r#"{{"type":"subscribe","subscriptions":[{{"query_id":"q","sql":"{sql}"}}]}}"#);
        Self::WebSocket {
            path: "/v1/ws",
            greeting: websocket::client_frame(websocket::TEXT, subscribe.as_bytes()),
            welcome: "subscription_created",
        }
    }

    /// A live read of a stream as Durable Streams defines it.
    pub(crate) fn stream_sse(stream: &str) -> Self {
        let path = format!("{}?offset=now&live=sse", stream_path(stream));
        Self::Sse { path, welcome: "upToDate" }
    }

    pub(crate) fn nats_websocket(subject: &str) -> Self {
        let commands = format!("CONNECT {{\"verbose\":false}}\r\nSUB {subject} 1\r\nPING\r\n");
        Self::WebSocket {
            path: "/",
            greeting: websocket::client_frame(websocket::BINARY, commands.as_bytes()),
            // Answers come in order, so the subscription holds when the ping after it is answered.
            welcome: "PONG",
        }
    }
}

/// How far a member has come.
#[derive(Debug)]
pub(crate) struct Entry {
    step: Step,
    /// What the server has sent in this step.
    seen: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Upgrade,
    Greet,
    Session,
    Subscribe { session: String },
    Listen,
}

/// What a member does next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Wait,
    Send(Vec<u8>),
    IsIn,
}

impl Entry {
    /// A member that has connected, and what it sends first.
    pub(crate) fn begin(door: &Door) -> (Self, Vec<u8>) {
        let (step, request) = match door {
            Door::WebSocket { path, .. } => (Step::Upgrade, websocket::upgrade_request(path)),
            Door::Sse { path, .. } => (Step::Listen, encode("GET", path, None, &[])),
            Door::SessionSse { .. } => (Step::Session, encode("POST", "/v1/sessions", JSON, b"")),
        };
        (Self { step, seen: Vec::new() }, request)
    }

    /// Takes what the server has sent. `frames` is where the member's WebSocket stands.
    pub(crate) fn take(&mut self, bytes: &[u8], door: &Door, frames: &mut Frames) -> Result<Next> {
        if self.step == Step::Greet {
            self.take_frames(bytes, frames)?;
        } else {
            self.seen.extend_from_slice(bytes);
        }
        if self.seen.len() > GREETING_BYTES_MAX {
            bail!("a subscription was answered at length: {}", excerpt(&self.seen));
        }
        match self.step.clone() {
            Step::Upgrade => self.upgraded(door, frames),
            Step::Greet => self.greeted(door),
            Step::Session => self.got_session(door),
            Step::Subscribe { session } => self.subscribed(&session),
            Step::Listen => self.listens(door),
        }
    }

    fn take_frames(&mut self, bytes: &[u8], frames: &mut Frames) -> Result<()> {
        frames.scan(bytes, |piece| {
            match piece {
                Piece::Data(data) => self.seen.extend_from_slice(data),
                Piece::Ping(_) => {}
                Piece::Close(reason) => {
                    bail!("a subscription was closed: {}", String::from_utf8_lossy(reason))
                }
            }
            Ok(())
        })
    }

    fn upgraded(&mut self, door: &Door, frames: &mut Frames) -> Result<Next> {
        let Some(head) = parse_head(&self.seen)? else {
            return Ok(Next::Wait);
        };
        if head.status != 101 {
            bail!("an upgrade was answered with {}", excerpt(&self.seen));
        }
        let first_frames = self.seen.split_off(head.len);
        self.seen.clear();
        self.step = Step::Greet;
        self.take_frames(&first_frames, frames)?;
        match door {
            Door::WebSocket { greeting, .. } if !greeting.is_empty() => {
                Ok(Next::Send(greeting.clone()))
            }
            _ => Ok(Next::IsIn),
        }
    }

    fn greeted(&self, door: &Door) -> Result<Next> {
        let has = |text: &str| memchr::memmem::find(&self.seen, text.as_bytes()).is_some();
        match door {
            Door::WebSocket { welcome, .. } if has(welcome) => Ok(Next::IsIn),
            _ if has("-ERR") || has("\"error\"") => {
                bail!("a subscription failed: {}", String::from_utf8_lossy(&self.seen))
            }
            _ => Ok(Next::Wait),
        }
    }

    fn got_session(&mut self, door: &Door) -> Result<Next> {
        let Door::SessionSse { stream } = door else {
            bail!("only the door of sessions asks for one");
        };
        let Some(answer) = self.answer("a session")? else {
            return Ok(Next::Wait);
        };
        let session = text_member(&answer, "sessionId").context("a session without its id")?;
        let body = format!(r#"{{"sessionId":"{session}","streamId":"{stream}"}}"#);
        self.step = Step::Subscribe { session };
        Ok(Next::Send(encode("POST", "/v1/subscriptions", JSON, body.as_bytes())))
    }

    fn subscribed(&mut self, session: &str) -> Result<Next> {
        if self.answer("a session's subscription")?.is_none() {
            return Ok(Next::Wait);
        }
        self.step = Step::Listen;
        Ok(Next::Send(encode("GET", &format!("/v1/live/{session}"), None, &[])))
    }

    fn listens(&self, door: &Door) -> Result<Next> {
        let Some(head) = parse_head(&self.seen)? else {
            return Ok(Next::Wait);
        };
        if head.status != 200 {
            bail!("a live response began with {}", excerpt(&self.seen));
        }
        let welcome = match door {
            Door::Sse { welcome, .. } => welcome,
            _ => "hello",
        };
        let is_in = memchr::memmem::find(&self.seen, welcome.as_bytes()).is_some();
        Ok(if is_in { Next::IsIn } else { Next::Wait })
    }

    /// The whole answer to a request, which must be a success; `None` while it is incomplete.
    fn answer(&mut self, what: &str) -> Result<Option<Vec<u8>>> {
        match complete(&self.seen)? {
            None => Ok(None),
            Some((200..300, _)) => Ok(Some(std::mem::take(&mut self.seen))),
            Some(_) => bail!("{what} was answered with {}", excerpt(&self.seen)),
        }
    }
}

/// A text member of a small JSON answer, without minding how its body is framed.
fn text_member(answer: &[u8], name: &str) -> Option<String> {
    let text = std::str::from_utf8(answer).ok()?;
    let value = text.split_once(&format!("\"{name}\""))?.1.split_once('"')?.1;
    Some(value.split_once('"')?.0.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_websocket_greets_after_the_upgrade_and_waits_for_its_welcome() -> Result<()> {
        let door = Door::nats_websocket("s");
        let (mut entry, request) = Entry::begin(&door);
        assert!(request.starts_with(b"GET / HTTP/1.1\r\n"));
        let mut frames = Frames::default();
        let mut answer = websocket::upgrade_answer();
        answer.extend_from_slice(&websocket::server_frame(websocket::BINARY, b"INFO {}\r\n"));
        let (first, second) = answer.split_at(20);
        assert_eq!(entry.take(first, &door, &mut frames)?, Next::Wait);
        assert!(matches!(entry.take(second, &door, &mut frames)?, Next::Send(_)));
        let pong = websocket::server_frame(websocket::BINARY, b"PONG\r\n");
        assert_eq!(entry.take(&pong, &door, &mut frames)?, Next::IsIn);
        Ok(())
    }

    #[test]
    fn a_session_is_made_subscribed_and_listened_to() -> Result<()> {
        let door = Door::SessionSse { stream: "s".to_owned() };
        let (mut entry, _) = Entry::begin(&door);
        let mut frames = Frames::default();
        let created = b"HTTP/1.1 201 Created\r\ncontent-length: 20\r\n\r\n{\"sessionId\": \"tws\"}";
        let Next::Send(subscribe) = entry.take(created, &door, &mut frames)? else {
            bail!("a subscription must follow");
        };
        assert!(subscribe.ends_with(br#"{"sessionId":"tws","streamId":"s"}"#));
        let subscribed = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
        let Next::Send(listen) = entry.take(subscribed, &door, &mut frames)? else {
            bail!("the live response must follow");
        };
        assert!(listen.starts_with(b"GET /v1/live/tws "));
        let head = b"HTTP/1.1 200 OK\r\n\r\n";
        assert_eq!(entry.take(head, &door, &mut frames)?, Next::Wait);
        assert_eq!(entry.take(b"data: {\"type\":\"hello\"}\n\n", &door, &mut frames)?, Next::IsIn);
        Ok(())
    }
}
