//! A crowd with its publisher, and the paces at which it is published to.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use mio::{Events, Interest, Poll, Token};
use serde::Serialize;

use super::member::Member;
use super::publisher::Publisher;
use super::{Audience, Crowd, Lane};
use crate::latency::Percentiles;
use crate::load::Window;

const EVENTS_MAX: usize = 1024;
/// With nothing arriving for this long, what is missing is lost.
const SILENCE: Duration = Duration::from_secs(20);
const PUBLISHER: Token = Token(usize::MAX >> 1);

#[derive(Debug, Clone, Copy)]
pub(crate) enum Pace {
    /// The next message leaves when everybody has the one before.
    OneAtATime,
    /// As many messages leave together as there is room for, `batch` at least: no more than
    /// `outstanding_max` are under way to anybody, so that no server is driven into dropping.
    FlatOut { outstanding_max: usize, batch: usize },
    /// One message at each interval.
    Every(Duration),
}

/// What happened in a window.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) published: u64,
    pub(crate) deliveries: u64,
    pub(crate) seconds: f64,
    /// From the moment a message leaves to the moment a sampled member has read it; `None` if the
    /// backlog from before the window left room for none.
    pub(crate) latency: Option<Percentiles>,
    /// From an append to its answer, where there is one.
    pub(crate) answer: Option<Percentiles>,
}

/// What members that had stopped reading found when they read again.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Leftovers {
    pub(crate) messages: usize,
    pub(crate) gaps: usize,
    /// Members that the server had disconnected.
    pub(crate) closed: usize,
}

#[derive(Debug)]
pub(crate) struct CrowdRun {
    poll: Poll,
    events: Events,
    crowd: Crowd,
    stoppable: usize,
    publisher: Publisher,
    /// When the next message of [`Pace::Every`] is due.
    due: Instant,
    /// Whether the publisher was still busy when it was.
    is_late: bool,
}

impl CrowdRun {
    /// Opens when everybody is subscribed.
    pub(crate) fn open(audience: &Audience, publish_to: SocketAddr, lane: Lane) -> Result<Self> {
        let mut poll = Poll::new()?;
        let mut events = Events::with_capacity(EVENTS_MAX);
        let crowd = Crowd::enter(audience, &mut poll, &mut events)?;
        let publisher = Publisher::connect(publish_to, lane, &poll, PUBLISHER)?;
        let stoppable = audience.stoppable;
        let due = Instant::now();
        Ok(Self { poll, events, crowd, stoppable, publisher, due, is_late: false })
    }

    /// Publishes for the length of the window and waits for what is then under way. `at_edge` is
    /// called when the window opens and when it closes. Fails if a delivery is lost, comes twice
    /// or, to a sampled member, out of order.
    pub(crate) fn run(
        &mut self,
        pace: Pace,
        window: Window,
        at_edge: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Tally> {
        self.due = Instant::now();
        self.publish_until(pace, Instant::now() + window.warm_up)?;
        at_edge()?;
        self.publisher.take_answer_latencies();
        self.crowd.ledger.open_window();
        let (published, deliveries) = (self.published(), self.crowd.ledger.deliveries());
        let opened = Instant::now();
        self.publish_until(pace, opened + window.measure)?;
        let seconds = opened.elapsed().as_secs_f64();
        let deliveries = self.crowd.ledger.deliveries() - deliveries;
        let published = self.published() - published;
        at_edge()?;
        self.settle()?;
        Ok(Tally {
            published: published as u64,
            deliveries,
            seconds,
            latency: self.crowd.ledger.close_window().percentiles_if_any(),
            answer: self.publisher.take_answer_latencies().percentiles_if_any(),
        })
    }

    /// Publishes so many messages flat out, unmeasured.
    pub(crate) fn publish(&mut self, messages: usize, pace: Pace) -> Result<()> {
        let end = self.published() + messages;
        let mut progress = Progress::new();
        while self.published() < end {
            self.publish_if_due(pace)?;
            self.turn(Instant::now() + Duration::from_millis(100))?;
            progress.check(self)?;
        }
        self.settle()
    }

    /// Answers pings and expects nothing, for so long.
    pub(crate) fn idle(&mut self, duration: Duration) -> Result<()> {
        let end = Instant::now() + duration;
        while Instant::now() < end {
            self.turn(end)?;
        }
        Ok(())
    }

    /// From here on the members that can stop do not read.
    pub(crate) fn stop_reading(&mut self) -> Result<()> {
        let moving = self.crowd.members.len() - self.stoppable;
        self.crowd.ledger.expect(moving)?;
        for member in &mut self.crowd.members[moving..] {
            self.poll.registry().deregister(&mut member.stream)?;
            member.counts = false;
        }
        Ok(())
    }

    /// Those that had stopped read again, until nothing comes for a moment. Fails if one of them has
    /// neither every message, nor been told of a gap, nor been disconnected.
    pub(crate) fn resume_reading(&mut self) -> Result<Leftovers> {
        const QUIET: Duration = Duration::from_millis(500);
        let moving = self.crowd.members.len() - self.stoppable;
        let received = self.stopped_received(moving);
        for (index, member) in self.crowd.members.iter_mut().enumerate().skip(moving) {
            self.poll.registry().register(&mut member.stream, Token(index), Interest::READABLE)?;
        }
        let (mut seen, mut changed_at) = (received, Instant::now());
        loop {
            let is_quiet = changed_at.elapsed() > QUIET;
            let uninformed = self.uninformed(moving);
            if is_quiet && uninformed == 0 {
                break;
            }
            if changed_at.elapsed() > SILENCE {
                bail!("LOST: {uninformed} that had stopped reading lack messages and do not know");
            }
            self.turn(Instant::now() + QUIET)?;
            let received = self.stopped_received(moving);
            if received > seen {
                (seen, changed_at) = (received, Instant::now());
            }
        }
        let stopped = &self.crowd.members[moving..];
        Ok(Leftovers {
            messages: seen - received,
            gaps: stopped.iter().map(|member| member.gaps).sum(),
            closed: stopped.iter().filter(|member| member.is_closed).count(),
        })
    }

    fn uninformed(&self, moving: usize) -> usize {
        let lacks = |member: &&Member| {
            member.received < self.published() && member.gaps == 0 && !member.is_closed
        };
        self.crowd.members[moving..].iter().filter(lacks).count()
    }

    fn stopped_received(&self, moving: usize) -> usize {
        self.crowd.members[moving..].iter().map(|member| member.received).sum()
    }

    fn published(&self) -> usize {
        self.crowd.ledger.published()
    }

    fn publish_until(&mut self, pace: Pace, end: Instant) -> Result<()> {
        while Instant::now() < end {
            self.publish_if_due(pace)?;
            let wake = match pace {
                Pace::Every(_) if !self.is_late => end.min(self.due),
                _ => end,
            };
            self.turn(wake)?;
        }
        Ok(())
    }

    /// Waits until everybody has everything.
    fn settle(&mut self) -> Result<()> {
        let mut progress = Progress::new();
        while self.crowd.ledger.outstanding() > 0 || !self.publisher.is_ready() {
            self.turn(Instant::now() + Duration::from_millis(100))?;
            progress.check(self)?;
        }
        Ok(())
    }

    fn publish_if_due(&mut self, pace: Pace) -> Result<()> {
        let outstanding = self.crowd.ledger.outstanding();
        let now = Instant::now();
        let (messages, left_at) = match pace {
            Pace::OneAtATime if outstanding == 0 => (1, now),
            Pace::FlatOut { outstanding_max, batch } if outstanding + batch <= outstanding_max => {
                (outstanding_max - outstanding, now)
            }
            // A message that has to wait for the answer to the one before counts from when it was
            // due; one that this loop itself was late for does not.
            Pace::Every(_) if self.due <= now => (1, if self.is_late { self.due } else { now }),
            _ => return Ok(()),
        };
        if !self.publisher.is_ready() {
            self.is_late = matches!(pace, Pace::Every(_));
            return Ok(());
        }
        if let Pace::Every(interval) = pace {
            self.due += interval;
            self.is_late = false;
        }
        let first = self.published();
        self.crowd.ledger.publish(messages, left_at);
        self.publisher.send(first..first + messages)
    }

    /// Waits until something happens or `until`, and takes what has arrived.
    fn turn(&mut self, until: Instant) -> Result<()> {
        let wait = until.saturating_duration_since(Instant::now());
        match self.poll.poll(&mut self.events, Some(wait)) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => return Ok(()),
            polled => polled.context("wait for messages")?,
        }
        for event in &self.events {
            match event.token() {
                PUBLISHER => self.publisher.turn()?,
                Token(index) => self.crowd.receive(index)?,
            }
        }
        Ok(())
    }
}

/// Notices that nothing arrives any more.
#[derive(Debug)]
struct Progress {
    deliveries: u64,
    at: Instant,
}

impl Progress {
    fn new() -> Self {
        Self { deliveries: 0, at: Instant::now() }
    }

    fn check(&mut self, stage: &CrowdRun) -> Result<()> {
        let ledger = &stage.crowd.ledger;
        if ledger.deliveries() > self.deliveries {
            *self = Self { deliveries: ledger.deliveries(), at: Instant::now() };
        } else if self.at.elapsed() > SILENCE {
            bail!(
                "LOST: {} deliveries of {} messages never arrived",
                ledger.missing(),
                ledger.outstanding()
            );
        }
        Ok(())
    }
}
