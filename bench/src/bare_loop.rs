//! The bare loop: the limit that fan-out is measured against. It runs as a process of its own
//! (`tidewire-bench bare-loop`), so that its CPU is measured as any server's.
//!
//! It accepts sockets, answers their handshake with a constant, and deals them out to as many
//! threads as there are cores. For each message from its publisher it builds one frame, the very one
//! that Tidewire would send, and every thread writes it to each of its sockets in turn with one
//! non-blocking `write`. Joined, it builds one piece of all messages that one read of the publisher's
//! connection gave, and writes that: one `write` for each socket and up to sixteen messages. Synced, it first
//! writes as many bytes to a file as the embedded store writes for one append, and waits for the disk. No
//! queue, no readiness, nothing read again: a socket that does not take a frame whole ends the process.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Serialize;

use crate::load::crowd::message::MESSAGE_BYTES;
use crate::load::websocket;

const READY: &str = "/readyz";
/// The request of a connection is on its way when the connection is accepted.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(10);
/// As many messages as the load generator ever has under way.
const READ_MESSAGES: usize = 64;

/// What one append of a small event adds to the embedded store's write-ahead log: two pages.
const SYNCED_BYTES: usize = 2 * (4096 + 24);
/// As long as that log becomes before it begins again.
const SYNCED_FILE_BYTES: u64 = 2000 * SYNCED_BYTES as u64;

/// What the bare loop does with messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LoopMode {
    /// One write to a socket for each message.
    Plain,
    /// One for all messages that have come together.
    Joined,
    /// As plain, after the disk has been waited for.
    Synced,
}

impl LoopMode {
    const ALL: [Self; 3] = [Self::Plain, Self::Joined, Self::Synced];

    fn path(self) -> &'static str {
        match self {
            Self::Plain => "/publish",
            Self::Joined => "/publish-joined",
            Self::Synced => "/publish-synced",
        }
    }

    /// What the load generator sends to become the publisher: raw messages follow.
    pub(crate) fn publish_request(self) -> String {
        format!("GET {} HTTP/1.1\r\n\r\n", self.path())
    }
}

/// A file that is written over and over, as a write-ahead log is.
#[derive(Debug)]
struct Journal {
    file: File,
    next: u64,
}

impl Journal {
    fn open() -> Result<Self> {
        let mut file = tempfile::tempfile().context("make a file to sync")?;
        let blank = vec![0; usize::try_from(SYNCED_FILE_BYTES)?];
        file.write_all(&blank).and_then(|()| file.sync_all()).context("fill the file to sync")?;
        Ok(Self { file, next: 0 })
    }

    fn sync(&mut self) -> Result<()> {
        self.file.write_all_at(&[b'x'; SYNCED_BYTES], self.next).context("write to the file")?;
        self.next = (self.next + SYNCED_BYTES as u64) % SYNCED_FILE_BYTES;
        self.file.sync_data().context("sync the file")
    }
}

/// The same message in the form of each kind of subscriber.
#[derive(Debug, Default)]
struct Frames {
    websocket: Vec<u8>,
    sse: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
enum Form {
    WebSocket,
    Sse,
}

#[derive(Debug)]
enum Order {
    Seat(TcpStream, Form),
    Write(Arc<Frames>),
}

/// Serves until it is killed.
pub(crate) fn run(listen: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(listen).with_context(|| format!("listen on {listen}"))?;
    let threads = thread::available_parallelism()?.get();
    thread::scope(|scope| {
        let mut writers = Vec::with_capacity(threads);
        for _ in 0..threads {
            let (orders, inbox) = mpsc::channel();
            writers.push(orders);
            scope.spawn(move || write_all(&inbox));
        }
        for (turn, stream) in listener.incoming().enumerate() {
            serve(stream?, &writers, turn % threads)?;
        }
        Ok(())
    })
}

fn serve(mut stream: TcpStream, writers: &[Sender<Order>], turn: usize) -> Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(HANDSHAKE_WAIT))?;
    let Some((path, upgrades)) = read_head(&stream)? else {
        return Ok(());
    };
    if let Some(habit) = LoopMode::ALL.into_iter().find(|habit| habit.path() == path) {
        return publish(stream, writers, habit);
    }
    let form = match path.as_str() {
        READY => {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")?;
            return Ok(());
        }
        _ if upgrades => {
            stream.write_all(&websocket::upgrade_answer())?;
            Form::WebSocket
        }
        _ => {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                        transfer-encoding: chunked\r\n\r\n";
            stream.write_all(head.as_bytes())?;
            Form::Sse
        }
    };
    stream.set_nonblocking(true)?;
    writers[turn].send(Order::Seat(stream, form)).context("a writer has ended")
}

/// The path of a request, and whether it asks for a WebSocket; `None` if the client went away.
fn read_head(stream: &TcpStream) -> Result<Option<(String, bool)>> {
    // Clients send nothing after the head before it is answered, so no byte is lost in the buffer.
    let mut lines = BufReader::new(stream).lines();
    let Some(first) = lines.next().transpose()? else {
        return Ok(None);
    };
    let path = first.split(' ').nth(1).context("a request without a path")?.to_owned();
    let mut upgrades = false;
    for line in lines {
        let line = line?;
        if line.is_empty() {
            break;
        }
        upgrades |= line.to_ascii_lowercase().starts_with("upgrade:");
    }
    Ok(Some((path, upgrades)))
}

/// Takes messages until the publisher goes away.
fn publish(mut stream: TcpStream, writers: &[Sender<Order>], habit: LoopMode) -> Result<()> {
    let mut journal = (habit == LoopMode::Synced).then(Journal::open).transpose()?;
    let joined = habit == LoopMode::Joined;
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
    stream.set_read_timeout(None)?;
    let mut buffer = [0; READ_MESSAGES * MESSAGE_BYTES];
    let (mut filled, mut number) = (0, 0);
    loop {
        let count = stream.read(&mut buffer[filled..])?;
        if count == 0 {
            return Ok(());
        }
        filled += count;
        if let Some(journal) = &mut journal {
            journal.sync()?;
        }
        let whole = filled - filled % MESSAGE_BYTES;
        let mut frames = Frames::default();
        for message in buffer[..whole].chunks(MESSAGE_BYTES) {
            number += 1;
            frames.add(number, message);
            if !joined {
                order(writers, std::mem::take(&mut frames))?;
            }
        }
        if joined && whole > 0 {
            order(writers, frames)?;
        }
        buffer.copy_within(whole..filled, 0);
        filled -= whole;
    }
}

fn order(writers: &[Sender<Order>], frames: Frames) -> Result<()> {
    let frames = Arc::new(frames);
    for writer in writers {
        writer.send(Order::Write(Arc::clone(&frames))).context("a writer has ended")?;
    }
    Ok(())
}

impl Frames {
    /// Adds a message as Tidewire would deliver it.
    fn add(&mut self, number: u64, message: &[u8]) {
        let offset = format!("0001_{number:016}");
        let mut event = format!(
            r#"{{"type":"event","query_id":"q","streamId":"fan-out","offset":"{offset}","payload":"#
        )
        .into_bytes();
        event.extend_from_slice(message);
        event.push(b'}');
        self.websocket.extend_from_slice(&websocket::server_frame(websocket::TEXT, &event));
        let head = format!("id: {offset}\ndata: ");
        let chunk = head.len() + event.len() + 2;
        self.sse.extend_from_slice(format!("{chunk:x}\r\n{head}").as_bytes());
        self.sse.extend_from_slice(&event);
        self.sse.extend_from_slice(b"\n\n\r\n");
    }
}

/// A writer thread: its sockets, and one write to each for every order.
fn write_all(inbox: &Receiver<Order>) {
    let mut seats: Vec<(TcpStream, Form)> = Vec::new();
    for order in inbox {
        match order {
            Order::Seat(stream, form) => seats.push((stream, form)),
            Order::Write(frames) => seats.retain(|(stream, form)| {
                let bytes = match form {
                    Form::WebSocket => &frames.websocket,
                    Form::Sse => &frames.sse,
                };
                is_written(stream, bytes).unwrap_or_else(|error| {
                    eprintln!("bare loop: {error:#}");
                    std::process::exit(1);
                })
            }),
        }
    }
}

/// `false` if the subscriber has gone away.
fn is_written(mut stream: &TcpStream, bytes: &[u8]) -> Result<bool> {
    match stream.write(bytes) {
        Ok(count) if count == bytes.len() => Ok(true),
        Ok(count) => bail!("a socket took {count} of {} bytes", bytes.len()),
        Err(error) => match error.kind() {
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => Ok(false),
            _ => Err(error).context("write to a subscriber"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_framed_for_both_kinds_of_subscriber() {
        let mut frames = Frames::default();
        frames.add(7, b"{\"x\":1}");
        let sse = String::from_utf8(frames.sse).expect("text");
        let (size, chunk) = sse.split_once("\r\n").expect("a chunk");
        let data = chunk.strip_suffix("\r\n").expect("an end");
        assert_eq!(usize::from_str_radix(size, 16), Ok(data.len()));
        assert!(data.starts_with("id: 0001_0000000000000007\ndata: {\"type\":\"event\""));
        assert!(data.ends_with("\"payload\":{\"x\":1}}\n\n"));
        assert!(frames.websocket.ends_with(b"\"payload\":{\"x\":1}}"));
    }
}
