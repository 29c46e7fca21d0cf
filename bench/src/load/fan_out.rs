//! One publisher, many SSE subscribers on one stream.
//!
//! A message carries one marker byte that occurs nowhere else in an SSE answer (not in headers,
//! chunk sizes, control events or offsets), so a delivery is counted by one SIMD scan of what was
//! read, with no parsing, and a marker can never be cut in two. Messages arrive in order, so the
//! n-th marker of a connection is message n.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use mio::{Events, Poll};

use super::response::{complete, excerpt};
use super::socket::Socket;
use super::{Window, encode, json_message, stream_path};
use crate::latency::Latencies;

const MARKER: u8 = b'~';
const READ_BYTES: usize = 64 * 1024;
const EVENTS_MAX: usize = 1024;
/// A flat-out publisher waits while subscribers are this many messages behind on average, so that
/// the rate measured is one the server can keep up, and not the growth of its queues.
const LAG_MESSAGES_MAX: u64 = 256;
/// Time for all subscriptions to be answered, and for the last messages to arrive after the window.
const SETTLE: Duration = Duration::from_secs(20);
const PUBLISHER: usize = usize::MAX >> 1;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Pace {
    /// The next POST leaves when the answer is in; each carries this many messages as one JSON
    /// array.
    FlatOut { messages_per_post: usize },
    /// One message at each interval, whatever the answers.
    Every(Duration),
}

#[derive(Debug)]
pub(crate) struct Load<'a> {
    pub(crate) address: SocketAddr,
    /// An existing, empty JSON stream.
    pub(crate) stream: &'a str,
    pub(crate) subscribers: usize,
    pub(crate) message_bytes: usize,
    pub(crate) pace: Pace,
    pub(crate) window: Window,
}

#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) published: u64,
    pub(crate) deliveries: u64,
    pub(crate) seconds: f64,
    /// Deliveries that had not arrived when the settling time was over: must be 0.
    pub(crate) missing: u64,
    /// Deliveries beyond one per message and subscriber.
    pub(crate) repeated: u64,
    /// From the moment a message was due to be sent to the moment a subscriber's bytes were read.
    pub(crate) latencies: Latencies,
}

/// Runs the load; `at_edge` is called when the window opens and when it closes.
pub(crate) fn run(load: &Load<'_>, at_edge: &mut dyn FnMut() -> Result<()>) -> Result<Outcome> {
    let mut hall = FanOutLoad::open(load)?;
    let opens = Instant::now() + load.window.warm_up;
    while Instant::now() < opens {
        hall.turn(opens)?;
    }
    at_edge()?;
    let (published, deliveries) = (hall.sent_at.len(), hall.deliveries);
    hall.measured_from = Some(published);
    let opened = Instant::now();
    let closes = opened + load.window.measure;
    while Instant::now() < closes {
        hall.turn(closes)?;
    }
    let seconds = opened.elapsed().as_secs_f64();
    let counted = hall.deliveries - deliveries;
    at_edge()?;
    let published = (hall.sent_at.len() - published) as u64;
    hall.next_due = None;
    let gives_up = Instant::now() + SETTLE;
    while hall.missing_and_repeated().0 > 0 && Instant::now() < gives_up {
        hall.turn(gives_up)?;
    }
    let (missing, repeated) = hall.missing_and_repeated();
    Ok(Outcome {
        published,
        deliveries: counted,
        seconds,
        missing,
        repeated,
        latencies: hall.latencies,
    })
}

#[derive(Debug)]
struct Subscriber {
    socket: Socket,
    received: usize,
}

/// The publisher, its audience, and what has been sent and received.
#[derive(Debug)]
struct FanOutLoad {
    poll: Poll,
    events: Events,
    buffer: Vec<u8>,
    subscribers: Vec<Subscriber>,
    publisher: Socket,
    publisher_answer: Vec<u8>,
    publisher_waits: bool,
    pace: Pace,
    /// When the next message is due; `None` ends publishing.
    next_due: Option<Instant>,
    /// When each message was due to leave.
    sent_at: Vec<Instant>,
    deliveries: u64,
    /// The first message whose latency counts.
    measured_from: Option<usize>,
    latencies: Latencies,
}

impl FanOutLoad {
    fn open(load: &Load<'_>) -> Result<Self> {
        let poll = Poll::new()?;
        let path = stream_path(load.stream);
        let subscribe = encode("GET", &format!("{path}?offset=now&live=sse"), None, &[]);
        let mut subscribers = Vec::with_capacity(load.subscribers);
        for token in 0..load.subscribers {
            let mut socket = Socket::connect(load.address, subscribe.clone(), &poll, token)?;
            socket.send()?;
            subscribers.push(Subscriber { socket, received: 0 });
        }
        let post = encode("POST", &path, Some("application/json"), &body(load));
        let publisher = Socket::connect(load.address, post, &poll, PUBLISHER)?;
        let mut hall = Self {
            poll,
            events: Events::with_capacity(EVENTS_MAX),
            buffer: vec![0; READ_BYTES],
            subscribers,
            publisher,
            publisher_answer: Vec::new(),
            publisher_waits: false,
            pace: load.pace,
            next_due: None,
            sent_at: Vec::new(),
            deliveries: 0,
            measured_from: None,
            latencies: Latencies::default(),
        };
        hall.wait_for_subscriptions()?;
        hall.next_due = Some(Instant::now());
        Ok(hall)
    }

    /// Every subscriber must have its 200 before the first message leaves.
    fn wait_for_subscriptions(&mut self) -> Result<()> {
        let gives_up = Instant::now() + SETTLE;
        let mut answered = vec![false; self.subscribers.len()];
        while answered.contains(&false) {
            self.poll.poll(&mut self.events, Some(Duration::from_millis(100)))?;
            for event in self.events.iter().filter(|event| event.token().0 != PUBLISHER) {
                let token = event.token().0;
                let count = self.subscribers[token].socket.receive(&mut self.buffer)?;
                let bytes = &self.buffer[..count];
                if !answered[token] && count > 0 {
                    if !bytes.starts_with(b"HTTP/1.1 200") {
                        bail!("a subscription was answered with {}", excerpt(bytes));
                    }
                    answered[token] = true;
                }
            }
            if Instant::now() > gives_up {
                let silent = answered.iter().filter(|answered| !**answered).count();
                bail!("{silent} of {} subscriptions were not answered", answered.len());
            }
        }
        Ok(())
    }

    /// Publishes what is due, waits until something happens or `until`, and takes what has arrived.
    fn turn(&mut self, until: Instant) -> Result<()> {
        self.publish_if_due()?;
        let now = Instant::now();
        let wake = self.next_due.filter(|due| *due > now).map_or(until, |due| due.min(until));
        self.poll.poll(&mut self.events, Some(wake.saturating_duration_since(now)))?;
        for event in &self.events {
            let token = event.token().0;
            if token == PUBLISHER {
                self.publisher.continue_writing()?;
                let count = self.publisher.receive(&mut self.buffer)?;
                self.publisher_answer.extend_from_slice(&self.buffer[..count]);
                continue;
            }
            let subscriber = &mut self.subscribers[token];
            loop {
                let count = subscriber.socket.receive(&mut self.buffer).context("a subscriber")?;
                let arrived = memchr::memchr_iter(MARKER, &self.buffer[..count]).count();
                let first = subscriber.received;
                subscriber.received += arrived;
                self.deliveries += arrived as u64;
                if arrived > 0 && matches!(self.pace, Pace::Every(_)) {
                    let now = Instant::now();
                    let counted = self.measured_from.unwrap_or(usize::MAX).max(first);
                    for sent_at in self.sent_at.iter().take(first + arrived).skip(counted) {
                        self.latencies.record(now.saturating_duration_since(*sent_at));
                    }
                }
                if count < self.buffer.len() {
                    break;
                }
            }
        }
        self.take_answer()
    }

    fn take_answer(&mut self) -> Result<()> {
        if self.publisher_answer.is_empty() {
            return Ok(());
        }
        let Some((status, _)) = complete(&self.publisher_answer)? else {
            return Ok(());
        };
        if !(200..300).contains(&status) {
            bail!("a POST was answered with {}", excerpt(&self.publisher_answer));
        }
        self.publisher_answer.clear();
        self.publisher_waits = false;
        Ok(())
    }

    fn publish_if_due(&mut self) -> Result<()> {
        let now = Instant::now();
        let Some(due) = self.next_due.filter(|due| *due <= now && !self.publisher_waits) else {
            return Ok(());
        };
        match self.pace {
            Pace::FlatOut { messages_per_post } => {
                let delivered_on_average = self.deliveries / self.subscribers.len() as u64;
                if self.sent_at.len() as u64 > delivered_on_average + LAG_MESSAGES_MAX {
                    return Ok(());
                }
                self.sent_at.extend(std::iter::repeat_n(now, messages_per_post));
            }
            Pace::Every(interval) => {
                self.sent_at.push(due);
                self.next_due = Some(due + interval);
            }
        }
        self.publisher_waits = true;
        self.publisher.send()
    }

    /// Deliveries that have not arrived, and those that arrived once too often.
    fn missing_and_repeated(&self) -> (u64, u64) {
        let sent = self.sent_at.len();
        self.subscribers.iter().fold((0, 0), |(missing, repeated), subscriber| {
            let too_few = sent.saturating_sub(subscriber.received) as u64;
            let too_many = subscriber.received.saturating_sub(sent) as u64;
            (missing + too_few, repeated + too_many)
        })
    }
}

fn body(load: &Load<'_>) -> Vec<u8> {
    let message = json_message(load.message_bytes, char::from(MARKER));
    match load.pace {
        Pace::FlatOut { messages_per_post } if messages_per_post > 1 => {
            format!("[{}]", vec![message; messages_per_post].join(",")).into_bytes()
        }
        _ => message.into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_the_size_asked_for_and_one_marker() {
        let message = json_message(128, char::from(MARKER));
        assert_eq!(message.len(), 128);
        assert_eq!(message.matches('~').count(), 1);
    }
}
