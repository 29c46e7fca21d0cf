//! A connection's socket, plain or with TLS on it, which HTTP leaves to the hub.
//!
//! A WebSocket leaves HTTP behind, and its socket is the hub's. So does a live SSE response over
//! HTTP/1.1, though HTTP has no word for it: once hyper has flushed the response's head
//! ([`Line::cleared`]) it has nothing more to do than to pass on a body, and the hub writes the body's
//! chunks straight to the socket, as it does with a WebSocket's frames; passing each through a channel
//! and a task would cost several times the write. Then the socket is taken ([`Line::take`]), hyper's
//! side of the connection is dropped, with its buffers, and the connection ends with the response.
//!
//! Hyper promises nothing of this. What it has to do: ask for the body ([`TakenOverBody`]) once it has the
//! head, write the head, flush, and write nothing more until the body ends. If it does not ask or does
//! not flush, the connection is closed ([`CLEAR_WITHIN`]); that it does all of it is pinned by the tests
//! of `connection::takeover`.

mod taken_over;

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::bad_request;
use crate::clock::clock_ms;
use crate::tls::Secure;

pub use taken_over::TakenOverBody;

/// How long hyper may take to write a response's head. It is a few hundred bytes, which a socket takes at
/// once, so only a client that leaves earlier responses lying makes it wait; and nobody may wait for ever
/// for a version of hyper that does not do what is relied upon here.
const CLEAR_WITHIN: Duration = Duration::from_secs(10);

/// A socket.
#[derive(Debug)]
pub struct Line {
    wire: Wire,
    stage: AtomicU8,
    /// It became clear.
    moved: Notify,
    /// It was taken, or given up.
    left: Notify,
    /// It speaks something else than HTTP from now on, and someone else reads from it.
    upgraded: AtomicBool,
    /// Something was read since hyper began to wait for a request.
    stirred: AtomicBool,
    /// Since when the client takes nothing of what hyper writes, by the hub's clock; 0 while it does.
    stalled_since_ms: AtomicU64,
}

/// What the bytes go over.
#[derive(Debug)]
enum Wire {
    Plain(TcpStream),
    /// Boxed, so that a plain line does not carry the size of it.
    Secure(Box<Secure>),
}

/// Hyper writes as it likes.
const HYPERS: u8 = 0;
/// Hyper waits for a body that comes another way: its next flush is its last write for now.
const LAST_FLUSH: u8 = 1;
/// Hyper has written all it has, until the body ends.
const CLEAR: u8 = 2;
/// The socket is not hyper's any more.
const TAKEN: u8 = 3;
/// Hyper did not become clear in time: the socket is nobody's, and is closed.
const GIVEN_UP: u8 = 4;

impl Line {
    pub fn plain(stream: TcpStream) -> Line {
        Line::new(Wire::Plain(stream))
    }

    pub fn secure(secure: Secure) -> Line {
        Line::new(Wire::Secure(Box::new(secure)))
    }

    fn new(wire: Wire) -> Line {
        Line {
            wire,
            stage: AtomicU8::new(HYPERS),
            moved: Notify::new(),
            left: Notify::new(),
            upgraded: AtomicBool::new(false),
            stirred: AtomicBool::new(false),
            stalled_since_ms: AtomicU64::new(0),
        }
    }

    /// Someone else than hyper is going to read from it.
    pub fn upgrade(&self) {
        self.upgraded.store(true, Ordering::Release);
    }

    /// Whether nobody but hyper reads from it, or writes to it.
    pub fn is_hypers(&self) -> bool {
        !self.upgraded.load(Ordering::Acquire) && self.stage.load(Ordering::Acquire) == HYPERS
    }

    /// Hyper begins to wait for a request.
    pub fn rest(&self) {
        self.stirred.store(false, Ordering::Relaxed);
    }

    /// Whether something has arrived since.
    pub fn has_stirred(&self) -> bool {
        self.stirred.load(Ordering::Relaxed)
    }

    /// For how long the client has taken nothing of what hyper writes.
    pub(crate) fn stalled(&self) -> Duration {
        match self.stalled_since_ms.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            since_ms => Duration::from_millis(clock_ms().saturating_sub(since_ms)),
        }
    }

    /// Hyper asks for a body that it is not going to get from the response. Called by that body.
    pub fn asked(&self) {
        let first = Ordering::AcqRel;
        let _ = self.stage.compare_exchange(HYPERS, LAST_FLUSH, first, Ordering::Acquire);
    }

    /// Waits until hyper has written all it has. False if it has not in time: then the socket is given up,
    /// because nobody knows what hyper would still write to it.
    pub async fn cleared(&self) -> bool {
        let cleared = async {
            while self.stage.load(Ordering::Acquire) != CLEAR {
                self.moved.notified().await;
            }
        };
        let in_time = tokio::time::timeout(CLEAR_WITHIN, cleared).await.is_ok();
        if !in_time {
            self.stage.store(GIVEN_UP, Ordering::Release);
            self.left.notify_one();
        }
        in_time
    }

    /// The response broke off before the socket was taken: it is hyper's again.
    pub fn give_back(&self) {
        let order = Ordering::AcqRel;
        let back = |stage| (stage < TAKEN).then_some(HYPERS);
        let _ = self.stage.fetch_update(order, Ordering::Acquire, back);
    }

    /// Takes the socket from hyper, which has written all it has. False if hyper has it back already.
    pub fn take(&self) -> bool {
        let order = Ordering::AcqRel;
        let taken = self.stage.compare_exchange(CLEAR, TAKEN, order, Ordering::Acquire).is_ok();
        if taken {
            self.left.notify_one();
        }
        taken
    }

    /// Waits until the socket is taken from hyper, or given up.
    pub async fn taken(&self) {
        while self.stage.load(Ordering::Acquire) < TAKEN {
            self.left.notified().await;
        }
    }

    /// Lets the socket forget the task that waited to read from it. For as long as it would be woken, all
    /// that the task had in it stays in memory.
    pub fn forget_reader(&self) {
        let _ = self.poll_read_ready(&mut Context::from_waker(Waker::noop()));
    }

    /// Waits until the client is gone, or sends no more. What it sends until then is nobody's.
    pub async fn hung_up(&self) {
        let mut nobodys = [0; 256];
        while self.readable().await.is_ok() {
            match self.try_read(&mut nobodys) {
                Ok(0) => return,
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return,
                Ok(_) | Err(_) => {}
            }
        }
    }

    /// Writes the last bytes there are to be, and says that they are.
    pub async fn finish(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.writable().await?;
            match self.try_write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        std::future::poll_fn(|cx| self.poll_shutdown(cx)).await
    }
}

impl Line {
    /// Reads what a write to it reads.
    pub fn prefetch(&self) -> u64 {
        match &self.wire {
            Wire::Plain(stream) => u64::from(stream.as_raw_fd().unsigned_abs()),
            Wire::Secure(_) => 0,
        }
    }
}

/// The calls of a socket. What is reported as written is with the system, on either wire.
impl Line {
    /// Reads what has arrived. 0: the client sends no more.
    pub fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match &self.wire {
            Wire::Plain(stream) => stream.try_read(buffer),
            Wire::Secure(secure) => secure.try_read(buffer),
        }
    }

    fn try_read_buf(&self, buffer: &mut ReadBuf<'_>) -> io::Result<usize> {
        match &self.wire {
            Wire::Plain(stream) => read_all(stream, buffer),
            Wire::Secure(secure) => secure.try_read_buf(buffer),
        }
    }

    /// Writes what the socket takes. What of it is begun must be gone on with.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match &self.wire {
            // Straight to the system: whether the runtime thinks that the socket takes something is one
            // more wait for memory. It is asked where the socket does not, so that it knows to wait.
            Wire::Plain(stream) => match socket2::SockRef::from(stream).send(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => stream.try_write(bytes),
                written => written,
            },
            Wire::Secure(secure) => secure.try_write(bytes),
        }
    }

    /// The same for several pieces. A piece of which nothing is reported may be taken back.
    pub fn try_write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match &self.wire {
            Wire::Plain(stream) => stream.try_write_vectored(pieces),
            Wire::Secure(secure) => secure.try_write_vectored(pieces),
        }
    }

    /// Waits until there may be something to read.
    pub async fn readable(&self) -> io::Result<()> {
        match &self.wire {
            Wire::Plain(stream) => stream.readable().await,
            Wire::Secure(secure) => secure.readable().await,
        }
    }

    /// Waits until the socket may take more.
    pub async fn writable(&self) -> io::Result<()> {
        match &self.wire {
            Wire::Plain(stream) => stream.writable().await,
            Wire::Secure(secure) => secure.writable().await,
        }
    }

    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.wire {
            Wire::Plain(stream) => stream.poll_read_ready(cx),
            Wire::Secure(secure) => secure.poll_read_ready(cx),
        }
    }

    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.wire {
            Wire::Plain(stream) => stream.poll_write_ready(cx),
            Wire::Secure(secure) => secure.poll_write_ready(cx),
        }
    }

    fn poll_shutdown(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.wire {
            Wire::Plain(stream) => {
                Poll::Ready(socket2::SockRef::from(stream).shutdown(Shutdown::Write))
            }
            Wire::Secure(secure) => secure.poll_shutdown(cx),
        }
    }
}

/// Reads what has arrived. Less than there was room for is all of it: the socket then counts as empty until
/// more arrives, so that hyper, which looks again at once, asks the system once for each request.
fn read_all(stream: &TcpStream, buffer: &mut ReadBuf<'_>) -> io::Result<usize> {
    let room = buffer.remaining();
    let mut all = None;
    let read = stream.try_io(Interest::READABLE, || {
        let count = stream.try_read_buf(buffer)?;
        if count > 0 && count < room {
            all = Some(count);
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(count)
    });
    all.map_or(read, Ok)
}

/// The socket as hyper uses it.
#[derive(Debug)]
pub struct HttpSide {
    pub line: Arc<Line>,
    /// What is written in the place of hyper's own answer to what it could not read.
    bad_request: &'static [u8],
}

impl HttpSide {
    /// `bad_request` is a whole response.
    pub fn new(line: Arc<Line>, bad_request: &'static [u8]) -> HttpSide {
        HttpSide { line, bad_request }
    }

    fn write(
        &self,
        cx: &mut Context<'_>,
        write: impl Fn(&Line) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let stalled_since_ms = &self.line.stalled_since_ms;
        loop {
            let Poll::Ready(ready) = self.line.poll_write_ready(cx) else {
                if stalled_since_ms.load(Ordering::Relaxed) == 0 {
                    stalled_since_ms.store(clock_ms().max(1), Ordering::Relaxed);
                }
                return Poll::Pending;
            };
            ready?;
            match write(&self.line) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => {
                    stalled_since_ms.store(0, Ordering::Relaxed);
                    return Poll::Ready(result);
                }
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
            ready!(self.line.poll_read_ready(cx))?;
            match self.line.try_read_buf(buffer) {
                Ok(count) => {
                    self.line.stirred.store(count > 0, Ordering::Relaxed);
                    return Poll::Ready(Ok(()));
                }
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
        let answer = self.bad_request;
        match bad_request::is_of_hyper(bytes) {
            true => self.write(cx, |line| line.try_write(answer).map(|_| bytes.len())),
            false => self.write(cx, |line| line.try_write(bytes)),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let answer = self.bad_request;
        match bad_request::is_all_of_hyper(pieces) {
            true => {
                let whole = pieces.iter().map(|piece| piece.len()).sum();
                self.write(cx, |line| line.try_write(answer).map(|_| whole))
            }
            false => self.write(cx, |line| line.try_write_vectored(pieces)),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // What is written to a socket is with the system. Hyper flushes when it has written all.
        let stage = &self.line.stage;
        let order = Ordering::AcqRel;
        if stage.compare_exchange(LAST_FLUSH, CLEAR, order, Ordering::Acquire).is_ok() {
            self.line.moved.notify_one();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.line.stage.load(Ordering::Acquire) == TAKEN {
            return Poll::Ready(Ok(()));
        }
        self.line.poll_shutdown(cx)
    }
}
