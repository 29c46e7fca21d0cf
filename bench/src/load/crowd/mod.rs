//! A crowd: up to as many receiving sockets as a process may open, in one epoll loop with one read
//! buffer, and the publisher they listen to.
//!
//! What a delivery costs here is the same for every server: one read for what has arrived, its
//! WebSocket frames told apart by their lengths, one scan for markers, one addition in the ledger.
//!
//! - `connect`: connecting many sockets to one address
//! - `entry`: how a member of the crowd comes in
//! - `ledger`: what was published and who has it
//! - `member`: one receiving socket of the crowd
//! - `message`: the message that is fanned out
//! - `publisher`: the one publisher of a crowd, on one connection, as a client of each server would
//!   publish
//! - `stage`: a crowd with its publisher, and the paces at which it is published to

mod connect;
mod entry;
mod ledger;
mod member;
pub(crate) mod message;
mod publisher;
mod stage;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use connect::Sources;
use entry::{Entry, Next};
use ledger::Ledger;
use member::{Member, Receipt};

pub(crate) use connect::connections_max;
pub(crate) use entry::Door;
pub(crate) use publisher::Lane;
pub(crate) use stage::{CrowdRun, Leftovers, Pace, Tally};

const READ_BYTES: usize = 64 * 1024;
/// Members that come in at once: fewer than the shortest accept queue among the servers (128), and
/// enough for a server to share the commits of their sessions.
const ENTERING_MAX: usize = 100;
/// With nobody coming in for this long, the server hangs.
const ENTRY_SILENCE: Duration = Duration::from_secs(20);
/// One in so many members is timed, but never fewer than the least.
const SAMPLE_ONE_IN: usize = 100;
const SAMPLE_MIN: usize = 50;

#[derive(Debug)]
pub(crate) struct Crowd {
    members: Vec<Member>,
    buffer: Vec<u8>,
    ledger: Ledger,
}

/// Who comes, and how.
#[derive(Debug)]
pub(crate) struct Audience {
    pub(crate) address: SocketAddr,
    pub(crate) door: Door,
    pub(crate) members: usize,
    /// So many of them, the last, have narrow connections and can stop reading.
    pub(crate) stoppable: usize,
}

impl Crowd {
    /// Connects all members and waits until each is subscribed.
    fn enter(audience: &Audience, poll: &mut Poll, events: &mut Events) -> Result<Self> {
        let mut crowd = Self {
            members: Vec::with_capacity(audience.members),
            buffer: vec![0; READ_BYTES],
            ledger: Ledger::new(audience.members),
        };
        let mut sources = Sources::new();
        let mut entering: Vec<Option<Entry>> = Vec::with_capacity(audience.members);
        let mut is_in = 0;
        let mut last_entry = Instant::now();
        while is_in < audience.members {
            while crowd.members.len() < audience.members.min(is_in + ENTERING_MAX) {
                entering.push(Some(crowd.connect(audience, &mut sources, poll)?));
            }
            poll.poll(events, Some(Duration::from_millis(100)))?;
            for event in &*events {
                let index = event.token().0;
                if crowd.take_entry(index, &mut entering[index], &audience.door)? {
                    (is_in, last_entry) = (is_in + 1, Instant::now());
                }
            }
            if last_entry.elapsed() > ENTRY_SILENCE {
                bail!("{is_in} of {} subscriptions were answered", audience.members);
            }
        }
        Ok(crowd)
    }

    fn connect(
        &mut self,
        audience: &Audience,
        sources: &mut Sources,
        poll: &Poll,
    ) -> Result<Entry> {
        let index = self.members.len();
        let is_narrow = index + audience.stoppable >= audience.members;
        let mut stream = TcpStream::from_std(sources.connect(audience.address, is_narrow)?);
        poll.registry().register(&mut stream, Token(index), Interest::READABLE)?;
        let one_in = (audience.members / SAMPLE_MIN).clamp(1, SAMPLE_ONE_IN);
        let is_sampled = index.is_multiple_of(one_in) && !is_narrow;
        let mut member = Member::new(stream, audience.door.speaks_websocket(), is_sampled);
        let (entry, request) = Entry::begin(&audience.door);
        member.write(&request)?;
        self.members.push(member);
        Ok(entry)
    }

    /// Takes what a member that is coming in has received; `true` when that brought it in.
    fn take_entry(&mut self, index: usize, entry: &mut Option<Entry>, door: &Door) -> Result<bool> {
        let member = &mut self.members[index];
        loop {
            let count = match member.read(&mut self.buffer)? {
                Receipt::Bytes(count) => count,
                Receipt::Nothing => return Ok(false),
                Receipt::Closed => bail!("the server closed a subscriber as it came in"),
            };
            let bytes = &self.buffer[..count];
            // What follows the welcome holds no message yet, but may end within a frame.
            let Some(steps) = entry else {
                member.take(bytes)?;
                return Ok(false);
            };
            match steps.take(bytes, door, &mut member.frames)? {
                Next::Wait => {}
                Next::Send(request) => member.write(&request)?,
                Next::IsIn => {
                    *entry = None;
                    return Ok(true);
                }
            }
        }
    }

    /// Takes all that has arrived for a member.
    fn receive(&mut self, index: usize) -> Result<()> {
        let member = &mut self.members[index];
        loop {
            let count = match member.read(&mut self.buffer)? {
                Receipt::Bytes(count) => count,
                Receipt::Nothing => return Ok(()),
                Receipt::Closed if member.counts => bail!("the server closed a subscriber"),
                Receipt::Closed => {
                    member.is_closed = true;
                    return Ok(());
                }
            };
            let first = member.received;
            member.take(&self.buffer[..count]).with_context(|| format!("subscriber {index}"))?;
            let arrived = member.received - first;
            if arrived > 0 && member.counts {
                self.ledger.arrive(first, arrived, member.is_sampled())?;
            }
            // A read that leaves room in the buffer has emptied the socket and rearmed its edge;
            // only the end of the connection may still be behind it.
            if count < self.buffer.len() && member.counts {
                return Ok(());
            }
        }
    }
}
