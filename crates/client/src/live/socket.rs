//! One WebSocket: text in, text out, and a check that the server still answers.
//!
//! All of it happens in [`Socket::receive`]: it sends what is queued and answers pings, and dropping its future loses
//! nothing.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future as _, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Sink as _;
use reqwest::Upgraded;
use tokio::time::{Instant, Sleep, sleep};
use yawc::close::CloseCode;
use yawc::{Frame, OpCode, WebSocket};

use super::wire::Request;

/// With this code a server closes a connection whose user has made another one, where they may have
/// one at a time.
const NEW_CONNECTION: u16 = 4000;

/// How long a silent server has to answer when it is asked for a sign of life, or as long as it may
/// be silent where that is shorter.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(5);

pub(super) struct Socket {
    frames: WebSocket<Upgraded>,
    /// What waits to be sent: the requests of one turn, and a ping.
    outbox: VecDeque<Frame>,
    unflushed: bool,
    /// Why nothing can be sent any more.
    broken: Option<String>,
    silence: IdleTimer,
}

/// Watches for a server that is silent. It is asked before it is given up: a caller who was busy
/// elsewhere for long has not heard what may be waiting in the socket.
struct IdleTimer {
    max: Duration,
    heard: Instant,
    asked: Option<Instant>,
    timer: Pin<Box<Sleep>>,
}

/// How a connection ended.
#[derive(Debug)]
pub(super) struct SocketClosed {
    pub(super) why: String,
    /// The server does not want this client, and said before why.
    pub(super) refused: bool,
}

impl From<String> for SocketClosed {
    fn from(why: String) -> SocketClosed {
        SocketClosed { why, refused: false }
    }
}

impl Socket {
    pub(super) fn new(frames: WebSocket<Upgraded>, silence_max: Duration) -> Socket {
        let silence = IdleTimer {
            max: silence_max,
            heard: Instant::now(),
            asked: None,
            timer: Box::pin(sleep(silence_max)),
        };
        Socket { frames, outbox: VecDeque::new(), unflushed: false, broken: None, silence }
    }

    /// Whether all that was sent so far is under way.
    pub(super) fn is_sent(&self) -> bool {
        self.outbox.is_empty() && !self.unflushed
    }

    /// Puts a request behind what waits. It goes out while receiving.
    pub(super) fn send(&mut self, request: &Request) {
        // Names and offsets always have a JSON form.
        if let Ok(text) = serde_json::to_vec(request) {
            self.outbox.push_back(Frame::text(text));
        }
    }

    /// The next message, or what was said of the connection's end.
    pub(super) async fn receive(&mut self) -> Result<Bytes, SocketClosed> {
        poll_fn(|cx| self.poll_receive(cx)).await
    }

    /// Sends what waits and takes leave. Done when the server has done the same: then it has read
    /// all of it.
    pub(super) async fn close(mut self) -> Result<(), String> {
        self.outbox.push_back(Frame::close(CloseCode::Normal, ""));
        while poll_fn(|cx| self.poll_frame(cx)).await?.opcode() != OpCode::Close {}
        Ok(())
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, SocketClosed>> {
        loop {
            let frame = ready!(self.poll_frame(cx)).map_err(SocketClosed::from)?;
            match frame.opcode() {
                OpCode::Text => return Poll::Ready(Ok(frame.into_payload())),
                OpCode::Close => return Poll::Ready(Err(farewell(&frame))),
                OpCode::Ping | OpCode::Pong => {}
                _ => {
                    return Poll::Ready(Err("the server sent a frame that is not text"
                        .to_owned()
                        .into()));
                }
            }
        }
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Result<Frame, String>> {
        loop {
            // Neither a server that does not read nor one that is gone keeps us from reading what
            // it sent.
            if self.broken.is_none() {
                self.broken = match self.poll_send(cx) {
                    Poll::Ready(Err(error)) => Some(error.to_string()),
                    _ => None,
                };
            }
            if let Poll::Ready(frame) = self.frames.poll_next_frame(cx) {
                self.silence.broken();
                return Poll::Ready(frame.map_err(|error| error.to_string()));
            }
            if let Some(why) = self.broken.take() {
                return Poll::Ready(Err(why));
            }
            ready!(self.silence.poll(cx))?;
            self.outbox.push_back(Frame::ping(""));
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<yawc::Result<()>> {
        let mut frames = Pin::new(&mut self.frames);
        while !self.outbox.is_empty() {
            ready!(frames.as_mut().poll_ready(cx))?;
            if let Some(frame) = self.outbox.pop_front() {
                frames.as_mut().start_send(frame)?;
                self.unflushed = true;
            }
        }
        if self.unflushed {
            ready!(frames.as_mut().poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }
}

impl IdleTimer {
    fn broken(&mut self) {
        self.heard = Instant::now();
        self.asked = None;
    }

    /// Ready when the server is to be asked for a sign of life, or when it gave none.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), String>> {
        loop {
            ready!(self.timer.as_mut().poll(cx));
            // The timer is moved only when it rings, not with every frame.
            let now = Instant::now();
            let answer_wait = self.max.min(ANSWER_WAIT_MAX);
            let end = self.asked.map_or(self.heard + self.max, |asked| asked + answer_wait);
            if now < end {
                self.timer.as_mut().reset(end);
            } else if self.asked.is_some() {
                let silent = now - self.heard;
                return Poll::Ready(Err(format!("it was silent for {} s", silent.as_secs())));
            } else {
                self.asked = Some(now);
                self.timer.as_mut().reset(now + answer_wait);
                return Poll::Ready(Ok(()));
            }
        }
    }
}

/// What a server says when it closes the connection.
fn farewell(frame: &Frame) -> SocketClosed {
    let code = frame.close_code().map(u16::from);
    let reason = frame.close_reason().ok().flatten().unwrap_or_default();
    let why = match code {
        Some(code) if reason.is_empty() => format!("the server closed it with {code}"),
        Some(code) => format!("the server closed it with {code}: {reason}"),
        None => "the server closed it".to_owned(),
    };
    // To come back would only close the other one.
    let refused = code == Some(CloseCode::Policy.into()) || code == Some(NEW_CONNECTION);
    SocketClosed { why, refused }
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socket").field("waiting", &self.outbox.len()).finish_non_exhaustive()
    }
}
