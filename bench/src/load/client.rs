//! A blocking keep-alive client: creates streams, fills them, reads them whole, and scrapes
//! `/metrics`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::response::{Framing, chunk_size, parse_head};
use super::{encode, stream_path};

/// Large enough that a catch-up answer costs few reads.
const BUFFER_BYTES: usize = 256 * 1024;
/// A request that takes longer than this has failed; the slowest good one (a first read after a
/// bulk load) takes seconds.
const ANSWER_WAIT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Client {
    reader: BufReader<TcpStream>,
    head: Vec<u8>,
    /// The body of the last answer.
    pub(crate) body: Vec<u8>,
}

/// The head of an answer; its body is in [`Client::body`].
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) next_offset: Option<String>,
    pub(crate) up_to_date: bool,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Result<Self> {
        let stream =
            TcpStream::connect(address).with_context(|| format!("connect to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_WAIT))?;
        let reader = BufReader::with_capacity(BUFFER_BYTES, stream);
        Ok(Self { reader, head: Vec::new(), body: Vec::new() })
    }

    pub(crate) fn get(&mut self, path: &str) -> Result<Answer> {
        self.exchange(&encode("GET", path, None, &[])).with_context(|| format!("GET {path}"))
    }

    pub(crate) fn post(&mut self, path: &str, content_type: &str, body: &[u8]) -> Result<Answer> {
        self.exchange(&encode("POST", path, Some(content_type), body))
            .with_context(|| format!("POST {path}"))
    }

    /// Posts JSON that has to be taken.
    pub(crate) fn command(&mut self, path: &str, json: &str) -> Result<()> {
        let answer = self.post(path, "application/json", json.as_bytes())?;
        self.expect_success(&answer, "post to", path)
    }

    pub(crate) fn create_stream(&mut self, stream: &str, content_type: &str) -> Result<()> {
        let answer =
            self.exchange(&encode("PUT", &stream_path(stream), Some(content_type), &[]))?;
        self.expect_success(&answer, "create stream", stream)
    }

    pub(crate) fn append(&mut self, stream: &str, content_type: &str, body: &[u8]) -> Result<()> {
        let answer = self.post(&stream_path(stream), content_type, body)?;
        self.expect_success(&answer, "append to stream", stream)
    }

    fn expect_success(&self, answer: &Answer, what: &str, name: &str) -> Result<()> {
        if (200..300).contains(&answer.status) {
            return Ok(());
        }
        let body = String::from_utf8_lossy(&self.body);
        bail!("{what} {name}: status {} {}", answer.status, body.trim())
    }

    fn exchange(&mut self, request: &[u8]) -> Result<Answer> {
        self.reader.get_mut().write_all(request)?;
        self.head.clear();
        while !self.head.ends_with(b"\r\n\r\n") {
            if self.reader.read_until(b'\n', &mut self.head)? == 0 {
                bail!("the server closed the connection");
            }
        }
        let head = parse_head(&self.head)?.context("an incomplete head")?;
        self.body.clear();
        match head.framing {
            Framing::Length(length) => self.read_body_bytes(length)?,
            Framing::Chunked => self.read_chunks()?,
        }
        let next_offset = head.next_offset.map(|range| &self.head[range]);
        Ok(Answer {
            status: head.status,
            next_offset: next_offset.map(|bytes| String::from_utf8_lossy(bytes).into_owned()),
            up_to_date: head.up_to_date,
        })
    }

    fn read_body_bytes(&mut self, length: usize) -> Result<()> {
        let start = self.body.len();
        self.body.resize(start + length, 0);
        self.reader.read_exact(&mut self.body[start..]).context("read a body")
    }

    fn read_chunks(&mut self) -> Result<()> {
        loop {
            let mut line = Vec::new();
            self.reader.read_until(b'\n', &mut line)?;
            let size = chunk_size(&line)?;
            self.read_body_bytes(size)?;
            self.reader.read_exact(&mut [0; 2]).context("the end of a chunk")?;
            if size == 0 {
                return Ok(());
            }
        }
    }
}
