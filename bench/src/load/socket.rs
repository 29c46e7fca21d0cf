//! A non-blocking socket with one request in flight: shared by the epoll loops.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use mio::net::TcpStream;
use mio::{Interest, Poll, Token};

/// Loopback connects at once unless the server's accept queue is full; beyond this it is stuck.
const CONNECT_WAIT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Socket {
    stream: TcpStream,
    request: Vec<u8>,
    written: usize,
}

impl Socket {
    /// Connects, registers with `poll` (edge-triggered) and holds `request` for [`Socket::send`].
    pub(crate) fn connect(
        address: SocketAddr,
        request: Vec<u8>,
        poll: &Poll,
        token: usize,
    ) -> Result<Self> {
        let stream = std::net::TcpStream::connect_timeout(&address, CONNECT_WAIT)
            .with_context(|| format!("connect to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut stream = TcpStream::from_std(stream);
        let interest = Interest::READABLE | Interest::WRITABLE;
        poll.registry().register(&mut stream, Token(token), interest)?;
        let written = request.len();
        Ok(Self { stream, request, written })
    }

    /// Starts the next round of the same request.
    pub(crate) fn send(&mut self) -> Result<()> {
        self.written = 0;
        self.continue_writing()
    }

    /// Writes what the socket did not take before; call it when the socket becomes writable.
    pub(crate) fn continue_writing(&mut self) -> Result<()> {
        while self.written < self.request.len() {
            match self.stream.write(&self.request[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("write a request"),
            }
        }
        Ok(())
    }

    /// One read into `buffer`; 0 when nothing is there. A read that fills less than the buffer has
    /// emptied the socket, so the caller needs no second call to rearm the edge.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => bail!("the server closed the connection"),
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("read a response"),
            }
        }
    }
}
