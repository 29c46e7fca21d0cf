//! A socket with TLS on it, used like one without: calls that do not block, and waits for readiness.
//!
//! **What is reported as written is with the system**, as it is with a plain socket, so that nobody who
//! writes has to know of ciphertext that still waits. Plaintext becomes ciphertext a record at a time.
//! Where the socket takes only a part of a record, the rest waits here (never more than one record)
//! and all of the record's plaintext *but its last byte* is reported. The writer sees a partial write,
//! waits until the socket is writable and comes back with that byte, which sends the rest and is then
//! reported, but not encrypted again.
//!
//! That asks one thing of writers: what they have begun they go on with. A piece of a vectored write may
//! be something that its writer takes back while none of it is out, so the byte that is held back
//! always belongs to a piece of which another byte was reported ([`cut`]).

use std::io::{self, BufRead as _, IoSlice, Write as _};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use rustls::ServerConnection;
use tokio::io::ReadBuf;
use tokio::net::TcpStream;

/// Plaintext of one record: as much as TLS allows.
const RECORD_BYTES_MAX: usize = 16 << 10;

/// Pieces of one record: as many as the hub gives at once.
const PIECES_MAX: usize = 64;

/// An encrypted socket, after its handshake.
#[derive(Debug)]
pub struct Secure {
    tcp: TcpStream,
    /// Reading and writing share its state. Nobody holds it while waiting.
    session: Mutex<Session>,
    /// Plaintext has arrived that nobody has read: the socket does not tell of it again.
    unread: AtomicBool,
}

#[derive(Debug)]
struct Session {
    tls: ServerConnection,
    /// The next byte that is offered for writing has been encrypted.
    held_back: bool,
}

impl Secure {
    pub(super) fn new(tcp: TcpStream, mut tls: ServerConnection) -> Secure {
        // With its last words of the handshake a client may send its first request.
        let unread = AtomicBool::new(has_plaintext(&mut tls));
        Secure { tcp, session: Mutex::new(Session { tls, held_back: false }), unread }
    }

    fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_with(|plaintext| {
            let count = plaintext.len().min(buffer.len());
            buffer[..count].copy_from_slice(&plaintext[..count]);
            count
        })
    }

    pub(crate) fn try_read_buf(&self, buffer: &mut ReadBuf<'_>) -> io::Result<usize> {
        self.read_with(|plaintext| {
            let count = plaintext.len().min(buffer.remaining());
            buffer.put_slice(&plaintext[..count]);
            count
        })
    }

    /// Hands over what plaintext there is. `take` says how much of it was wanted.
    fn read_with(&self, take: impl FnOnce(&[u8]) -> usize) -> io::Result<usize> {
        let Session { tls, .. } = &mut *self.session();
        loop {
            let mut reader = tls.reader();
            match reader.fill_buf() {
                Ok(plaintext) => {
                    let count = take(plaintext);
                    reader.consume(count);
                    self.unread.store(has_plaintext(tls), Ordering::Relaxed);
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Requests and messages say how long they are, so an end without a farewell is an end.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                Err(error) => return Err(error),
            }
            self.unread.store(false, Ordering::Relaxed);
            tls.read_tls(&mut Ciphertext(&self.tcp))?;
            let processed = tls.process_new_packets();
            // An answer that TLS itself gives is small; what the socket does not take goes out with
            // the next write.
            let _ = push(&self.tcp, tls);
            processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
    }

    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.try_write_vectored(&[IoSlice::new(bytes)])
    }

    pub fn try_write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let Session { tls, held_back } = &mut *self.session();
        push(&self.tcp, tls)?;
        if std::mem::take(held_back) {
            return Ok(1);
        }
        let mut record = [IoSlice::new(&[]); PIECES_MAX];
        let count = cut(pieces, &mut record);
        let encrypted = tls.writer().write_vectored(&record[..count])?;
        match push(&self.tcp, tls) {
            Ok(()) => Ok(encrypted),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                *held_back = true;
                // Of a single byte nothing is reported. It is the rest of something, or its writer is
                // one who takes nothing back.
                if encrypted > 1 { Ok(encrypted - 1) } else { Err(error) }
            }
            Err(error) => Err(error),
        }
    }

    pub async fn readable(&self) -> io::Result<()> {
        if self.unread.load(Ordering::Relaxed) { Ok(()) } else { self.tcp.readable().await }
    }

    pub async fn writable(&self) -> io::Result<()> {
        self.tcp.writable().await
    }

    pub(crate) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.unread.load(Ordering::Relaxed) {
            Poll::Ready(Ok(()))
        } else {
            self.tcp.poll_read_ready(cx)
        }
    }

    pub(crate) fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.tcp.poll_write_ready(cx)
    }

    /// Says farewell and then nothing more.
    pub(crate) fn poll_shutdown(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match self.say_farewell() {
                Ok(()) => {
                    return Poll::Ready(
                        socket2::SockRef::from(&self.tcp).shutdown(Shutdown::Write),
                    );
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.tcp.poll_write_ready(cx))?;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    fn say_farewell(&self) -> io::Result<()> {
        let Session { tls, .. } = &mut *self.session();
        // It is said once, however often it is asked for.
        tls.send_close_notify();
        push(&self.tcp, tls)
    }
}

impl Drop for Secure {
    fn drop(&mut self) {
        // A WebSocket ends without a shutdown. Whoever cannot take these few bytes has gone anyway.
        let _ = self.say_farewell();
    }
}

fn has_plaintext(tls: &mut ServerConnection) -> bool {
    matches!(tls.reader().fill_buf(), Ok([_, ..]))
}

/// Chooses what goes into the next record: of each piece but the first at least two bytes, or
/// nothing. Returns how many pieces that are.
fn cut<'a>(pieces: &'a [IoSlice<'a>], record: &mut [IoSlice<'a>; PIECES_MAX]) -> usize {
    let (mut count, mut room) = (0, RECORD_BYTES_MAX);
    for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
        let bytes = piece.len().min(room);
        if count == PIECES_MAX || bytes == 0 || (bytes == 1 && count > 0) {
            break;
        }
        record[count] = IoSlice::new(&piece[..bytes]);
        room -= bytes;
        count += 1;
    }
    count
}

/// Gives the socket the ciphertext that waits for it. `WouldBlock`: it did not take all.
pub(super) fn push(tcp: &TcpStream, tls: &mut ServerConnection) -> io::Result<()> {
    while tls.wants_write() {
        match tls.write_tls(&mut Ciphertext(tcp)) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The socket as rustls reads and writes it.
pub(super) struct Ciphertext<'a>(pub(super) &'a TcpStream);

impl io::Read for Ciphertext<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(buffer)
    }
}

impl io::Write for Ciphertext<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(pieces)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
