//! What a writer counts about its commits.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Counters that a store keeps about its commits.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CommitStats {
    /// Commits that put events into the log.
    pub commits: u64,
    /// Commands answered from those commits.
    pub commands: u64,
    /// Events that got an offset.
    pub events: u64,
    /// Payload bytes of those events.
    pub bytes: u64,
    /// Commits that failed.
    pub failures: u64,
    /// Times that another process was seen to have written to the embedded store's file.
    pub foreign_writes: u64,
    /// Seconds from beginning a commit to its being durable.
    pub commit_seconds: Distribution,
    /// Events of one commit.
    pub commit_events: Distribution,
}

/// A histogram: how many values fell under which bound.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Distribution {
    /// Upper bounds, rising. One more count than bounds: the last is for what exceeds them all.
    bounds: &'static [f64],
    counts: Vec<u64>,
    /// All values added up.
    pub sum: f64,
    /// How many values there were.
    pub count: u64,
}

impl Distribution {
    /// For each bound, how many values were at most that; `None` is the bound that all are under.
    pub fn cumulative(&self) -> impl Iterator<Item = (Option<f64>, u64)> + '_ {
        let bounds = self.bounds.iter().copied().map(Some).chain([None]);
        let running = self.counts.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        bounds.zip(running)
    }
}

const SECONDS: &[f64] =
    &[0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 4.096];
const EVENTS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 4096.0];

/// Buckets that are counted into without a lock. The sum is kept in millionths, as an integer.
#[derive(Debug)]
struct Buckets {
    bounds: &'static [f64],
    counts: Vec<AtomicU64>,
    sum_millionths: AtomicU64,
}

impl Buckets {
    fn new(bounds: &'static [f64]) -> Buckets {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Buckets { bounds, counts, sum_millionths: AtomicU64::new(0) }
    }

    fn observe(&self, value: f64, millionths: u64) {
        let index = self.bounds.partition_point(|bound| *bound < value);
        self.counts[index].fetch_add(1, Ordering::Relaxed);
        self.sum_millionths.fetch_add(millionths, Ordering::Relaxed);
    }

    #[expect(clippy::cast_precision_loss, reason = "a metric; 53 bits of it are enough")]
    fn snapshot(&self) -> Distribution {
        let counts: Vec<u64> = self.counts.iter().map(|c| c.load(Ordering::Relaxed)).collect();
        Distribution {
            bounds: self.bounds,
            count: counts.iter().sum(),
            counts,
            sum: self.sum_millionths.load(Ordering::Relaxed) as f64 / 1e6,
        }
    }
}

/// Counters of the writer, shared with whoever reads them.
#[derive(Debug)]
pub struct Counters {
    commits: AtomicU64,
    commands: AtomicU64,
    events: AtomicU64,
    bytes: AtomicU64,
    failures: AtomicU64,
    foreign_writes: AtomicU64,
    commit_seconds: Buckets,
    commit_events: Buckets,
}

impl Default for Counters {
    fn default() -> Counters {
        Counters {
            commits: AtomicU64::new(0),
            commands: AtomicU64::new(0),
            events: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            foreign_writes: AtomicU64::new(0),
            commit_seconds: Buckets::new(SECONDS),
            commit_events: Buckets::new(EVENTS),
        }
    }
}

impl Counters {
    #[expect(clippy::cast_precision_loss, reason = "a commit has far fewer than 2^53 events")]
    pub fn committed(&self, commands: usize, events: usize, bytes: usize, took: Duration) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.commands.fetch_add(commands as u64, Ordering::Relaxed);
        self.events.fetch_add(events as u64, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.commit_seconds.observe(took.as_secs_f64(), took_us);
        self.commit_events.observe(events as f64, (events as u64).saturating_mul(1_000_000));
    }

    pub fn failed(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    pub fn disturbed(&self) {
        self.foreign_writes.fetch_add(1, Ordering::Relaxed);
    }

    pub fn snapshot(&self) -> CommitStats {
        CommitStats {
            commits: self.commits.load(Ordering::Relaxed),
            commands: self.commands.load(Ordering::Relaxed),
            events: self.events.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            foreign_writes: self.foreign_writes.load(Ordering::Relaxed),
            commit_seconds: self.commit_seconds.snapshot(),
            commit_events: self.commit_events.snapshot(),
        }
    }
}

/// What a node counted while it brought captured changes into the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CaptureStats {
    /// Whether it is this node that does so.
    pub leads: bool,
    /// Times that it began to.
    pub elections: u64,
    /// Events that it brought.
    pub events: u64,
    /// Transactions in which it did.
    pub batches: u64,
    /// Looks at what there is to bring.
    pub rounds: u64,
    /// Rows that could not be published, at each attempt.
    pub failures: u64,
    /// Rows that were given up.
    pub dead: u64,
    /// Rows that waited when it last looked.
    pub waiting: u64,
    /// For how long the oldest of them had been waiting.
    pub lag_ms: u64,
    /// Rows that failed and wait for their next attempt.
    pub failed_waiting: u64,
    /// What the database keeps of its write-ahead log for us, in bytes.
    pub retained_wal_bytes: u64,
    /// What was written to it and not read yet, in bytes.
    pub unread_wal_bytes: u64,
}

/// Counters of capture, shared with whoever reads them.
#[derive(Debug, Default)]
pub struct CaptureCounters {
    leads: AtomicBool,
    elections: AtomicU64,
    events: AtomicU64,
    batches: AtomicU64,
    rounds: AtomicU64,
    failures: AtomicU64,
    dead: AtomicU64,
    waiting: AtomicU64,
    lag_ms: AtomicU64,
    failed_waiting: AtomicU64,
    retained_wal_bytes: AtomicU64,
    unread_wal_bytes: AtomicU64,
}

impl CaptureCounters {
    /// This node began to bring changes, or stopped.
    pub fn leads(&self, leads: bool) {
        self.leads.store(leads, Ordering::Relaxed);
        if leads {
            self.elections.fetch_add(1, Ordering::Relaxed);
        } else {
            self.waiting(0, 0);
            self.wal(0, 0);
            self.failed_waiting.store(0, Ordering::Relaxed);
        }
    }

    /// A look found so many rows that wait, the oldest for so long.
    pub fn looked(&self, waiting: u64, lag_ms: u64) {
        self.rounds.fetch_add(1, Ordering::Relaxed);
        self.waiting(waiting, lag_ms);
    }

    fn waiting(&self, waiting: u64, lag_ms: u64) {
        self.waiting.store(waiting, Ordering::Relaxed);
        self.lag_ms.store(lag_ms, Ordering::Relaxed);
    }

    /// So many events came into the log with one commit.
    pub fn appended(&self, events: u64) {
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.events.fetch_add(events, Ordering::Relaxed);
    }

    /// So many rows could not be published, and so many of them were given up.
    pub fn failed(&self, failures: u64, dead: u64) {
        self.failures.fetch_add(failures, Ordering::Relaxed);
        self.dead.fetch_add(dead, Ordering::Relaxed);
    }

    /// So many rows that failed wait for their next attempt.
    pub fn failed_waiting(&self, rows: u64) {
        self.failed_waiting.store(rows, Ordering::Relaxed);
    }

    /// The database keeps so much of its write-ahead log for us, and so much was not read yet.
    pub fn wal(&self, retained_bytes: u64, unread_bytes: u64) {
        self.retained_wal_bytes.store(retained_bytes, Ordering::Relaxed);
        self.unread_wal_bytes.store(unread_bytes, Ordering::Relaxed);
    }

    /// All of them at once.
    pub fn snapshot(&self) -> CaptureStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CaptureStats {
            leads: self.leads.load(Ordering::Relaxed),
            elections: read(&self.elections),
            events: read(&self.events),
            batches: read(&self.batches),
            rounds: read(&self.rounds),
            failures: read(&self.failures),
            dead: read(&self.dead),
            waiting: read(&self.waiting),
            lag_ms: read(&self.lag_ms),
            failed_waiting: read(&self.failed_waiting),
            retained_wal_bytes: read(&self.retained_wal_bytes),
            unread_wal_bytes: read(&self.unread_wal_bytes),
        }
    }
}
