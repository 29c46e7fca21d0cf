//! One receiving socket of the crowd: counts the messages in what it reads, in whatever form they
//! come.

use std::io::{ErrorKind, Read, Write};

use anyhow::{Context, Result, bail};
use mio::net::TcpStream;

use super::super::websocket::{self, Frames, Piece};
use super::message::{MARKER, NumberReader};

/// A `gap` stands for messages that a server did not send to a client that was too slow.
const GAP: &[u8] = b"\"gap\"";

#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) stream: TcpStream,
    pub(crate) frames: Frames,
    speaks_websocket: bool,
    /// Messages so far.
    pub(crate) received: usize,
    /// For the members whose messages are timed, and whose numbers are checked.
    numbers: Option<NumberReader>,
    /// Whether it has to receive every message: not once it has stopped reading.
    pub(crate) counts: bool,
    /// Only looked for when it does not count.
    pub(crate) gaps: usize,
    pub(crate) is_closed: bool,
}

/// What one read gave.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Receipt {
    /// This many bytes; the socket may have more if the buffer is full.
    Bytes(usize),
    Nothing,
    Closed,
}

impl Member {
    pub(crate) fn new(stream: TcpStream, speaks_websocket: bool, is_sampled: bool) -> Self {
        Self {
            stream,
            frames: Frames::default(),
            speaks_websocket,
            received: 0,
            numbers: is_sampled.then(NumberReader::default),
            counts: true,
            gaps: 0,
            is_closed: false,
        }
    }

    pub(crate) fn is_sampled(&self) -> bool {
        self.numbers.is_some()
    }

    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Result<Receipt> {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return Ok(Receipt::Closed),
                Ok(count) => return Ok(Receipt::Bytes(count)),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return Ok(Receipt::Nothing),
                    ErrorKind::Interrupted => {}
                    ErrorKind::ConnectionReset => return Ok(Receipt::Closed),
                    _ => return Err(error).context("read what a subscriber gets"),
                },
            }
        }
    }

    /// Writes something so short that an idle socket always takes it whole.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let count = self.stream.write(bytes).context("write as a subscriber")?;
        if count < bytes.len() {
            bail!("a subscriber's socket took {count} of {} bytes", bytes.len());
        }
        Ok(())
    }

    /// Counts what `bytes` hold, and answers pings.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<()> {
        if !self.speaks_websocket {
            return self.count(bytes);
        }
        let mut frames = std::mem::take(&mut self.frames);
        let scanned = frames.scan(bytes, |piece| match piece {
            Piece::Data(data) => self.count(data),
            Piece::Ping(ping) => match self.write(&websocket::pong(ping)) {
                // One that had stopped reading may find pings in front of the end.
                Err(_) if !self.counts => Ok(()),
                written => written,
            },
            Piece::Close(reason) if self.counts => {
                bail!("the server closed a subscriber: {}", String::from_utf8_lossy(reason))
            }
            Piece::Close(_) => Ok(()),
        });
        self.frames = frames;
        scanned
    }

    fn count(&mut self, data: &[u8]) -> Result<()> {
        if !self.counts {
            // What a slow client got and what it was told to fetch: not in order with the others.
            self.received += memchr::memchr_iter(MARKER, data).count();
            self.gaps += memchr::memmem::find_iter(data, GAP).count();
            return Ok(());
        }
        let Some(numbers) = &mut self.numbers else {
            self.received += memchr::memchr_iter(MARKER, data).count();
            return Ok(());
        };
        let (mut due, mut wrong) = (self.received, None);
        numbers.read(data, |number| {
            if number != Some(due as u64) {
                wrong.get_or_insert((due, number));
            }
            due += 1;
        });
        self.received = due;
        match wrong {
            None => Ok(()),
            Some((due, Some(number))) => bail!("message {number} came where {due} was due"),
            Some((due, None)) => bail!("message {due} came without its number"),
        }
    }
}
