//! A connection of the bare server: the least of HTTP/1.1 that tells requests apart.

use std::io::{ErrorKind, Read, Write};

use anyhow::{Context, Result, bail};
use mio::net::TcpStream;

const STREAMS: &[u8] = b"/v1/stream/";
const LENGTH: &[u8] = b"content-length: ";

/// What a client wants. Each has one request under way at most.
#[derive(Debug)]
pub(super) enum Asked {
    /// The request is not whole yet.
    Nothing,
    /// Whether the server is there.
    Ready,
    Append {
        stream: String,
        payload: Vec<u8>,
    },
    /// The client went away.
    Gone,
}

#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    /// The beginning of a request that did not come in one piece.
    begun: Vec<u8>,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, begun: Vec::new() }
    }

    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> Result<Asked> {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return Ok(Asked::Gone),
                Ok(count) => {
                    let whole = if self.begun.is_empty() {
                        parse(&buffer[..count])?
                    } else {
                        self.begun.extend_from_slice(&buffer[..count]);
                        parse(&self.begun)?
                    };
                    if let Some(asked) = whole {
                        self.begun.clear();
                        return Ok(asked);
                    }
                    if self.begun.is_empty() {
                        self.begun.extend_from_slice(&buffer[..count]);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Asked::Nothing),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(Asked::Gone),
                Err(error) => return Err(error).context("read a request"),
            }
        }
    }

    pub(super) fn say(&mut self, status: &str, offset: Option<i64>) -> Result<()> {
        let answer = match offset {
            Some(offset) => {
                format!("HTTP/1.1 {status}\r\nstream-next-offset: 0001_{offset:016}\r\n\r\n")
            }
            None => format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n"),
        };
        match self.stream.write(answer.as_bytes()) {
            Ok(count) if count == answer.len() => Ok(()),
            Ok(_) => bail!("a client does not take a small answer"),
            // It went away, and is noticed when it is read from.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            Err(error) => Err(error).context("answer"),
        }
    }
}

/// What a request asks for; none while it is not whole.
fn parse(bytes: &[u8]) -> Result<Option<Asked>> {
    let Some(end) = memchr::memmem::find(bytes, b"\r\n\r\n") else {
        return Ok(None);
    };
    let (head, body) = (&bytes[..end], &bytes[end + 4..]);
    let path = head.split(|byte| *byte == b' ').nth(1).context("a request without a path")?;
    let Some(stream) = path.strip_prefix(STREAMS) else {
        return Ok(Some(Asked::Ready));
    };
    let length_at = memchr::memmem::find(head, LENGTH).context("an append without a length")?;
    let digits = &head[length_at + LENGTH.len()..];
    let digits = digits.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let length: usize = std::str::from_utf8(digits)?.parse()?;
    if body.len() < length {
        return Ok(None);
    }
    let stream = String::from_utf8(stream.to_vec())?;
    Ok(Some(Asked::Append { stream, payload: body[..length].to_vec() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{encode, stream_path};

    #[test]
    fn a_request_is_whole_with_its_last_byte() -> Result<()> {
        let request = encode("POST", &stream_path("a"), Some("text/plain"), b"hello");
        for cut in 0..request.len() {
            assert!(parse(&request[..cut])?.is_none(), "{cut} bytes");
        }
        let Some(Asked::Append { stream, payload }) = parse(&request)? else {
            bail!("no append");
        };
        assert_eq!((stream.as_str(), payload.as_slice()), ("a", b"hello".as_slice()));
        Ok(())
    }
}
