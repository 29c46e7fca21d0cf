//! Producers: many connections, each appending in a closed loop (the next request leaves when the
//! answer is in).

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use mio::{Events, Poll};

use super::response::{complete, excerpt};
use super::socket::Socket;
use super::{Window, encode, stream_path};
use crate::latency::Latencies;

/// An append's answer is a few hundred bytes; an error page is larger.
const READ_BYTES: usize = 16 * 1024;
/// With no answer at all for this long, the server hangs.
const SILENCE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Load<'a> {
    pub(crate) address: SocketAddr,
    /// The stream of each connection.
    pub(crate) streams: &'a [String],
    pub(crate) content_type: &'a str,
    pub(crate) payload: &'a [u8],
    pub(crate) window: Window,
}

#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) requests: u64,
    pub(crate) seconds: f64,
    /// Requests acknowledged in the first and in the second half of the window.
    pub(crate) halves: [u64; 2],
    pub(crate) latencies: Latencies,
}

#[derive(Debug)]
struct Producer {
    socket: Socket,
    answer: Vec<u8>,
    sent_at: Instant,
}

/// Runs the load; `at_edge` is called when the window opens and when it closes.
pub(crate) fn run(load: &Load<'_>, at_edge: &mut dyn FnMut() -> Result<()>) -> Result<Outcome> {
    let mut poll = Poll::new()?;
    let mut producers = connect(load, &poll)?;
    let mut events = Events::with_capacity(producers.len().max(16));
    let mut buffer = vec![0; READ_BYTES];
    let mut latencies = Latencies::default();
    let mut halves = [0; 2];

    for producer in &mut producers {
        producer.sent_at = Instant::now();
        producer.socket.send()?;
    }
    let mut opens = Instant::now() + load.window.warm_up;
    let mut is_open = false;
    loop {
        poll.poll(&mut events, Some(SILENCE))?;
        if events.is_empty() {
            bail!("no answer for {} s", SILENCE.as_secs());
        }
        let now = Instant::now();
        if !is_open && now >= opens {
            at_edge()?;
            (opens, is_open) = (Instant::now(), true);
        }
        let elapsed = if is_open { now.saturating_duration_since(opens) } else { Duration::ZERO };
        if elapsed >= load.window.measure {
            at_edge()?;
            let seconds = elapsed.as_secs_f64();
            return Ok(Outcome { requests: halves[0] + halves[1], seconds, halves, latencies });
        }
        for event in &events {
            let producer = &mut producers[event.token().0];
            if event.is_writable() {
                producer.socket.continue_writing()?;
            }
            if event.is_readable()
                && let Some(latency) = producer.receive(&mut buffer)?
                && is_open
            {
                latencies.record(latency);
                halves[usize::from(elapsed * 2 >= load.window.measure)] += 1;
            }
        }
    }
}

fn connect(load: &Load<'_>, poll: &Poll) -> Result<Vec<Producer>> {
    let connect_one = |(token, stream): (usize, &String)| {
        let request = encode("POST", &stream_path(stream), Some(load.content_type), load.payload);
        let socket = Socket::connect(load.address, request, poll, token)?;
        Ok(Producer { socket, answer: Vec::with_capacity(1024), sent_at: Instant::now() })
    };
    load.streams.iter().enumerate().map(connect_one).collect()
}

impl Producer {
    /// Takes what has arrived; with the whole answer in, sends the next request and returns this
    /// one's latency.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<Option<Duration>> {
        let count = self.socket.receive(buffer)?;
        if count == 0 {
            return Ok(None);
        }
        // Nearly every answer arrives in one piece, and is then parsed where it was read.
        let bytes = if self.answer.is_empty() {
            &buffer[..count]
        } else {
            self.answer.extend_from_slice(&buffer[..count]);
            &self.answer[..]
        };
        let Some((status, length)) = complete(bytes)? else {
            if self.answer.is_empty() {
                self.answer.extend_from_slice(&buffer[..count]);
            }
            return Ok(None);
        };
        if !(200..300).contains(&status) || length != bytes.len() {
            bail!("an append was answered with {}", excerpt(bytes));
        }
        self.answer.clear();
        let now = Instant::now();
        let latency = now - self.sent_at;
        self.sent_at = now;
        self.socket.send().context("append")?;
        Ok(Some(latency))
    }
}
