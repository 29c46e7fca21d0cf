//! The one publisher of a crowd, on one connection, as a client of each server would publish.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use mio::net::TcpStream;
use mio::{Interest, Poll, Registry, Token};

use super::super::response::{complete, excerpt};
use super::super::{encode, stream_path};
use super::connect::Sources;
use super::message;
use crate::bare_loop::LoopMode;
use crate::latency::Latencies;

const READ_BYTES: usize = 16 * 1024;
const GREETING_WAIT: Duration = Duration::from_secs(10);

/// How messages are published.
#[derive(Debug, Clone)]
pub(crate) enum Lane {
    /// `POST` to a stream: one message as it is, several as one JSON array. The next request leaves
    /// when the answer is in.
    Append { stream: String },
    /// A row for each message, by `POST` of one INSERT. The next leaves when the answer is in.
    Insert { table: &'static str },
    /// `PUB` to a subject, not answered; several in one write.
    Nats { subject: String },
    /// To the bare loop, not answered; several in one write.
    Bare { habit: LoopMode },
}

impl Lane {
    fn is_answered(&self) -> bool {
        matches!(self, Lane::Append { .. } | Lane::Insert { .. })
    }
}

#[derive(Debug)]
pub(crate) struct Publisher {
    address: SocketAddr,
    registry: Registry,
    token: Token,
    /// `None` once the server has closed it between two requests, as HTTP servers do: the next one
    /// takes a new connection.
    stream: Option<TcpStream>,
    lane: Lane,
    outgoing: Vec<u8>,
    written: usize,
    answer: Vec<u8>,
    /// When the request under way left.
    asked_at: Option<Instant>,
    /// From a request to its answer.
    answer_latencies: Latencies,
}

impl Publisher {
    pub(crate) fn connect(
        address: SocketAddr,
        lane: Lane,
        poll: &Poll,
        token: Token,
    ) -> Result<Self> {
        let mut publisher = Self {
            address,
            registry: poll.registry().try_clone()?,
            token,
            stream: None,
            lane,
            outgoing: Vec::new(),
            written: 0,
            answer: Vec::new(),
            asked_at: None,
            answer_latencies: Latencies::default(),
        };
        publisher.reconnect()?;
        Ok(publisher)
    }

    fn reconnect(&mut self) -> Result<()> {
        let stream = Sources::new().connect(self.address, false)?;
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(GREETING_WAIT))?;
        greet(&stream, &self.lane).context("greet the server as its publisher")?;
        stream.set_nonblocking(true)?;
        let mut stream = TcpStream::from_std(stream);
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.registry.register(&mut stream, self.token, interest)?;
        self.stream = Some(stream);
        Ok(())
    }

    /// Whether the last messages have left and, where that is the custom, are acknowledged.
    pub(crate) fn is_ready(&self) -> bool {
        self.asked_at.is_none() && self.written == self.outgoing.len()
    }

    /// Sends the messages of these numbers; only when ready.
    pub(crate) fn send(&mut self, numbers: Range<usize>) -> Result<()> {
        if self.stream.is_none() {
            self.reconnect()?;
        }
        self.outgoing.clear();
        self.written = 0;
        let numbers = numbers.start as u64..numbers.end as u64;
        match &self.lane {
            Lane::Append { stream } => {
                let body = body(numbers);
                let path = stream_path(stream);
                self.outgoing = encode("POST", &path, Some("application/json"), &body);
                self.asked_at = Some(Instant::now());
            }
            Lane::Insert { table } => {
                let body = insert(table, numbers);
                self.outgoing = encode("POST", "/v1/sql", Some("application/json"), &body);
                self.asked_at = Some(Instant::now());
            }
            Lane::Nats { subject } => {
                for number in numbers {
                    write!(self.outgoing, "PUB {subject} {}\r\n", message::MESSAGE_BYTES)?;
                    message::write(number, &mut self.outgoing);
                    self.outgoing.extend_from_slice(b"\r\n");
                }
            }
            Lane::Bare { .. } => {
                numbers.for_each(|number| message::write(number, &mut self.outgoing));
            }
        }
        self.flush()
    }

    /// Goes on writing, and takes what the server says.
    pub(crate) fn turn(&mut self) -> Result<()> {
        self.flush()?;
        let mut buffer = [0; READ_BYTES];
        while let Some(stream) = &mut self.stream {
            match stream.read(&mut buffer) {
                Ok(0) if self.lane.is_answered() && self.is_ready() => {
                    self.stream = None;
                }
                Ok(0) => bail!("the server closed the publisher's connection"),
                Ok(count) => self.take(&buffer[..count])?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("read what the publisher is told"),
            }
        }
        Ok(())
    }

    fn take(&mut self, bytes: &[u8]) -> Result<()> {
        match self.lane {
            Lane::Append { .. } | Lane::Insert { .. } => {
                self.answer.extend_from_slice(bytes);
                let Some((status, _)) = complete(&self.answer)? else {
                    return Ok(());
                };
                if !(200..300).contains(&status) {
                    bail!("an append was answered with {}", excerpt(&self.answer));
                }
                self.answer.clear();
                let asked_at = self.asked_at.take().context("an answer that nobody asked for")?;
                self.answer_latencies.record(asked_at.elapsed());
            }
            Lane::Nats { .. } if bytes.starts_with(b"-ERR") => {
                bail!("NATS told its publisher {}", String::from_utf8_lossy(bytes));
            }
            Lane::Nats { .. } | Lane::Bare { .. } => {}
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        while let Some(stream) = &mut self.stream
            && self.written < self.outgoing.len()
        {
            match stream.write(&self.outgoing[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("publish"),
            }
        }
        Ok(())
    }

    /// The latencies of answers since this was last called; empty where nothing is answered.
    pub(crate) fn take_answer_latencies(&mut self) -> Latencies {
        std::mem::take(&mut self.answer_latencies)
    }
}

/// What each server wants to be told, and tells, before it takes messages.
fn greet(stream: &std::net::TcpStream, lane: &Lane) -> Result<()> {
    let mut writer = stream;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    let (greeting, welcome) = match lane {
        Lane::Append { .. } | Lane::Insert { .. } => return Ok(()),
        Lane::Nats { .. } => ("CONNECT {\"verbose\":false}\r\nPING\r\n".to_owned(), "PONG"),
        Lane::Bare { habit } => (habit.publish_request(), "\r\n"),
    };
    writer.write_all(greeting.as_bytes())?;
    while !line.starts_with(welcome) {
        line.clear();
        if reader.read_line(&mut line)? == 0 || line.starts_with("-ERR") {
            bail!("it answered {line:?}");
        }
    }
    Ok(())
}

fn body(numbers: Range<u64>) -> Vec<u8> {
    let mut body = Vec::new();
    let is_array = numbers.end - numbers.start > 1;
    if is_array {
        body.push(b'[');
    }
    for number in numbers {
        message::write(number, &mut body);
        body.push(b',');
    }
    body.pop();
    if is_array {
        body.push(b']');
    }
    body
}

fn insert(table: &str, numbers: Range<u64>) -> Vec<u8> {
    let rows: Vec<String> = numbers.map(message::row).collect();
    format!(r#"{{"sql": "INSERT INTO {table} VALUES {}"}}"#, rows.join(", ")).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_messages_are_one_insert() -> Result<()> {
        let body: serde_json::Value = serde_json::from_slice(&insert("hot", 5..7))?;
        let sql = body["sql"].as_str().context("a statement")?;
        assert!(sql.starts_with("INSERT INTO hot VALUES (5, '0000000005~', '"), "{sql}");
        assert!(sql.contains("), (6, '0000000006~', '"), "{sql}");
        Ok(())
    }

    #[test]
    fn several_messages_are_one_json_array_and_one_is_itself() -> Result<()> {
        let one: serde_json::Value = serde_json::from_slice(&body(5..6))?;
        assert_eq!(one["number"], "0000000005~");
        let three: serde_json::Value = serde_json::from_slice(&body(5..8))?;
        assert_eq!(three.as_array().map(Vec::len), Some(3));
        Ok(())
    }
}
