//! Where a connection's bytes go: a socket, as a WebSocket's frames or as the chunks of an SSE
//! response; or, over HTTP/2, the body of a response, which hyper writes.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::sync::{Notify, mpsc};

use super::connection::Key;
use super::frames::Dialect;
use tidewire_wire::line::Line;

/// A socket that a shard writes to and something else reads.
#[derive(Debug)]
pub struct Socket {
    line: Arc<Line>,
    /// When its client was last heard, in milliseconds of the hub's clock.
    pub heard_ms: AtomicU64,
    /// The shard is done with it.
    pub released: Notify,
    /// All that was to be written has been.
    pub finished: AtomicBool,
    /// Bytes of answers that wait to be written. Whoever asks waits while they are too many, so that
    /// a client which asks and does not read cannot fill the memory.
    owed_bytes: AtomicUsize,
    paid: Notify,
}

/// Answers that may wait before no more questions are taken.
const OWED_BYTES_MAX: usize = 64 << 10;

impl Socket {
    pub fn new(line: Arc<Line>, now_ms: u64) -> Socket {
        Socket {
            line,
            heard_ms: AtomicU64::new(now_ms),
            released: Notify::new(),
            finished: AtomicBool::new(false),
            owed_bytes: AtomicUsize::new(0),
            paid: Notify::new(),
        }
    }

    /// Waits while too many answers wait to be written.
    pub async fn paid(&self) {
        while self.owed_bytes.load(Ordering::Acquire) > OWED_BYTES_MAX {
            self.paid.notified().await;
        }
    }

    pub fn stream(&self) -> &Line {
        &self.line
    }
}

/// The body of an SSE response.
#[derive(Debug)]
pub struct ServerSent {
    pub body: mpsc::Sender<Bytes>,
}

/// A connection's way out.
#[derive(Debug)]
pub enum Transport {
    WebSocket {
        socket: Arc<Socket>,
        deflate: bool,
    },
    /// The body of an SSE response, written straight to its socket.
    Chunks(Arc<Socket>),
    /// The body of an SSE response, by way of hyper.
    ServerSent(ServerSent),
}

/// Why nothing more could be written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// It takes no more for now.
    Full,
    /// There is nobody at the other end.
    Gone,
}

impl Transport {
    pub(super) fn dialect(&self) -> Dialect {
        match self {
            Transport::WebSocket { deflate: true, .. } => Dialect::DeflatedFrames,
            Transport::WebSocket { deflate: false, .. } => Dialect::Frames,
            Transport::Chunks(_) => Dialect::Chunks,
            Transport::ServerSent(_) => Dialect::ServerSent,
        }
    }

    /// The socket, where there is one.
    fn socket(&self) -> Option<&Arc<Socket>> {
        match self {
            Transport::WebSocket { socket, .. } | Transport::Chunks(socket) => Some(socket),
            Transport::ServerSent(_) => None,
        }
    }

    /// Reads what a write to it reads.
    pub(super) fn prefetch(&self) -> u64 {
        self.socket().map_or(0, |socket| socket.line.prefetch())
    }

    /// Notes how many bytes of answers wait.
    pub(super) fn owe(&self, bytes: usize) {
        if let Some(socket) = self.socket() {
            let before = socket.owed_bytes.swap(bytes, Ordering::AcqRel);
            if before > OWED_BYTES_MAX && bytes <= OWED_BYTES_MAX {
                socket.paid.notify_one();
            }
        }
    }

    /// Notes that all that was to be written has been.
    pub(super) fn finish(&self) {
        if let Some(socket) = self.socket() {
            socket.finished.store(true, Ordering::Release);
        }
    }

    /// Writes what it takes without waiting. Returns how many bytes that was.
    pub(super) fn write(&self, pieces: &[IoSlice<'_>], bytes: &Bytes) -> Result<usize, Refused> {
        match self {
            Transport::WebSocket { socket, .. } | Transport::Chunks(socket) => {
                let written = match pieces {
                    [piece] => socket.stream().try_write(piece),
                    _ => socket.stream().try_write_vectored(pieces),
                };
                match written {
                    Ok(0) => Err(Refused::Gone),
                    Ok(count) => Ok(count),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(Refused::Full),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(Refused::Full),
                    Err(_) => Err(Refused::Gone),
                }
            }
            Transport::ServerSent(ServerSent { body }) => match body.try_send(bytes.clone()) {
                Ok(()) => Ok(bytes.len()),
                Err(mpsc::error::TrySendError::Full(_)) => Err(Refused::Full),
                Err(mpsc::error::TrySendError::Closed(_)) => Err(Refused::Gone),
            },
        }
    }

    /// Whether several pieces can go in one write.
    pub(super) fn takes_pieces(&self) -> bool {
        self.socket().is_some()
    }

    /// Waits until it takes more.
    pub(super) fn writable(&self, key: Key) -> BoxFuture<'static, Key> {
        match self {
            Transport::WebSocket { socket, .. } | Transport::Chunks(socket) => {
                let socket = Arc::clone(socket);
                Box::pin(async move {
                    // An error shows again at the write that follows.
                    let _ = socket.stream().writable().await;
                    key
                })
            }
            Transport::ServerSent(ServerSent { body }) => {
                let body = body.clone();
                Box::pin(async move {
                    let _ = body.reserve().await;
                    key
                })
            }
        }
    }

    /// When its client was last heard, where that can be known.
    pub(super) fn heard_ms(&self) -> Option<u64> {
        match self {
            Transport::WebSocket { socket, .. } => Some(socket.heard_ms.load(Ordering::Relaxed)),
            Transport::Chunks(_) | Transport::ServerSent(_) => None,
        }
    }
}

impl Drop for Transport {
    fn drop(&mut self) {
        if let Some(socket) = self.socket() {
            socket.released.notify_one();
        }
    }
}
