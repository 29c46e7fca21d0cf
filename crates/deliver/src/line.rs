//! A connection's socket, which HTTP and the hub share.
//!
//! A WebSocket leaves HTTP behind, and its socket is the hub's. A live SSE response cannot leave: its
//! connection stays with hyper, which knows when the client goes and ends the response properly. But
//! while the response goes on, hyper has nothing to write, so the hub writes the chunks of its body
//! straight to the socket, as it does with a WebSocket's frames; passing each through a channel and a
//! task of its own would cost several times the write. That is sound because of two things: the hub
//! begins only after hyper has flushed the response's head ([`Line::cleared`]), and hyper writes
//! again only when the body ends, which the hub decides.

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// A socket.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) stream: TcpStream,
    stage: AtomicU8,
    moved: Notify,
}

/// Hyper writes as it likes.
const HYPERS: u8 = 0;
/// Hyper waits for a body that comes another way: its next flush is its last write for now.
const LAST_FLUSH: u8 = 1;
/// Hyper has written all it has, until the body ends.
const CLEAR: u8 = 2;

impl Line {
    pub(crate) fn new(stream: TcpStream) -> Line {
        Line { stream, stage: AtomicU8::new(HYPERS), moved: Notify::new() }
    }

    /// Hyper asks for a body that it is not going to get from the response. Called by that body.
    pub(crate) fn asked(&self) {
        let first = Ordering::AcqRel;
        let _ = self.stage.compare_exchange(HYPERS, LAST_FLUSH, first, Ordering::Acquire);
    }

    /// Waits until hyper has written all it has.
    pub(crate) async fn cleared(&self) {
        while self.stage.load(Ordering::Acquire) != CLEAR {
            self.moved.notified().await;
        }
    }

    /// The response is over: the socket is hyper's again.
    pub(crate) fn give_back(&self) {
        self.stage.store(HYPERS, Ordering::Release);
    }
}

/// The socket as hyper uses it.
#[derive(Debug)]
pub(crate) struct HttpSide(pub(crate) Arc<Line>);

impl HttpSide {
    fn write(
        &self,
        cx: &mut Context<'_>,
        write: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.stream.poll_write_ready(cx))?;
            match write(&self.0.stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
        }
    }
}

impl AsyncRead for HttpSide {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.stream.poll_read_ready(cx))?;
            match self.0.stream.try_read_buf(buffer) {
                Ok(_) => return Poll::Ready(Ok(())),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for HttpSide {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write(cx, |stream| stream.try_write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(cx, |stream| stream.try_write_vectored(pieces))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // What is written to a socket is with the system. Hyper flushes when it has written all.
        let stage = &self.0.stage;
        let order = Ordering::AcqRel;
        if stage.compare_exchange(LAST_FLUSH, CLEAR, order, Ordering::Acquire).is_ok() {
            self.0.moved.notify_one();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(socket2::SockRef::from(&self.0.stream).shutdown(Shutdown::Write))
    }
}
