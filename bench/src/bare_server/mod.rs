//! The bare server: the limit that appends over HTTP are measured against. It runs as a process of its own
//! (`tidewire-bench bare-server`), so that its CPU is measured as any server's.
//!
//! One thread speaks HTTP and one writes, into the embedded store that Tidewire has made. A request is told
//! from the next by its length and nothing else of it is looked at; what waits while a commit is under way
//! shares the next one; the answer is a constant but for the offset. No routes, no identity, no streams that
//! might be closed, no producers, nobody who follows: whoever takes appends over HTTP and makes them durable
//! in this way does at least this.
//!
//! - `connection`: a connection of the bare server

mod connection;

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use anyhow::{Context, Result};
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token, Waker};

use crate::append::measure::CONTENT_TYPE;
use crate::raw::SqliteLog;
use connection::{Asked, Connection};

const LISTENER: Token = Token(usize::MAX >> 1);
const WRITTEN: Token = Token((usize::MAX >> 1) - 1);
const EVENTS_MAX: usize = 1024;
const READ_BYTES: usize = 64 * 1024;

/// An append, and whose it is.
#[derive(Debug)]
struct Append {
    connection: usize,
    stream: String,
    payload: Vec<u8>,
}

/// A batch that is durable, and the offset of its first event.
type Written = (Vec<Append>, i64);

/// Serves until it is killed.
pub(crate) fn run(listen: SocketAddr, data: &Path) -> Result<()> {
    let mut poll = Poll::new()?;
    let mut listener = TcpListener::bind(listen).with_context(|| format!("listen on {listen}"))?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let waker = Arc::new(Waker::new(poll.registry(), WRITTEN)?);
    let (batches, to_write) = mpsc::channel();
    let (to_answer, written) = mpsc::channel();
    let log = SqliteLog::open(data)?;
    thread::spawn(move || {
        if let Err(error) = write_all(log, &to_write, &to_answer, &waker) {
            eprintln!("bare server: {error:#}");
            std::process::exit(1);
        }
    });
    let mut server = Server {
        connections: HashMap::new(),
        next: 0,
        waiting: Vec::new(),
        is_writing: false,
        batches,
        written,
        buffer: vec![0; READ_BYTES],
    };
    let mut events = Events::with_capacity(EVENTS_MAX);
    loop {
        poll.poll(&mut events, None)?;
        for event in &events {
            match event.token() {
                LISTENER => server.accept(&listener, &poll)?,
                WRITTEN => {}
                Token(number) => server.receive(number)?,
            }
        }
        server.answer()?;
        server.hand_over()?;
    }
}

/// The writer thread: what waits is one commit.
fn write_all(
    mut log: SqliteLog,
    batches: &Receiver<Vec<Append>>,
    written: &Sender<Written>,
    waker: &Waker,
) -> Result<()> {
    let mut next = log.next_offset()?;
    for batch in batches {
        let rows = batch.iter().map(|append| (append.stream.as_str(), append.payload.as_slice()));
        log.insert_rows(next, CONTENT_TYPE, rows)?;
        let first = next;
        next += i64::try_from(batch.len())?;
        written.send((batch, first)).context("answer")?;
        waker.wake()?;
    }
    Ok(())
}

/// What the thread that speaks HTTP has.
#[derive(Debug)]
struct Server {
    connections: HashMap<usize, Connection>,
    next: usize,
    waiting: Vec<Append>,
    is_writing: bool,
    batches: Sender<Vec<Append>>,
    written: Receiver<Written>,
    buffer: Vec<u8>,
}

impl Server {
    fn accept(&mut self, listener: &TcpListener, poll: &Poll) -> Result<()> {
        loop {
            let (mut stream, _) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error).context("accept"),
            };
            stream.set_nodelay(true)?;
            poll.registry().register(&mut stream, Token(self.next), Interest::READABLE)?;
            self.connections.insert(self.next, Connection::new(stream));
            self.next += 1;
        }
    }

    fn receive(&mut self, number: usize) -> Result<()> {
        let Some(connection) = self.connections.get_mut(&number) else { return Ok(()) };
        match connection.receive(&mut self.buffer)? {
            Asked::Nothing => {}
            Asked::Ready => connection.say("200 OK", None)?,
            Asked::Append { stream, payload } => {
                self.waiting.push(Append { connection: number, stream, payload });
            }
            Asked::Gone => {
                self.connections.remove(&number);
            }
        }
        Ok(())
    }

    /// Answers what is durable. The next commit begins first.
    fn answer(&mut self) -> Result<()> {
        while let Ok((batch, first)) = self.written.try_recv() {
            self.is_writing = false;
            self.hand_over()?;
            for (offset, append) in (first..).zip(batch) {
                if let Some(connection) = self.connections.get_mut(&append.connection) {
                    connection.say("204 No Content", Some(offset))?;
                }
            }
        }
        Ok(())
    }

    fn hand_over(&mut self) -> Result<()> {
        if !self.is_writing && !self.waiting.is_empty() {
            self.is_writing = true;
            self.batches.send(std::mem::take(&mut self.waiting)).context("the writer has ended")?;
        }
        Ok(())
    }
}
