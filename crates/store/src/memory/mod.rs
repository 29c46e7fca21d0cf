//! The store in memory: a log, streams, subscriptions, sessions, nodes, keys, tickets and the control
//! channel, without a database. For tests, and for simulations.
//!
//! It has no tables, so there is no SQL, nothing is captured, there are no live queries, and there are
//! no consumer groups, whose work is transactions of SQL: `tables` and `groups` answer for what is
//! not there.
//!
//! # What holds
//!
//! - **The rules are those of the other stores**: the same pure code decides, and what is kept here is
//!   the same rows, in maps that are in order.
//! - **Nothing happens by itself.** There is no thread, no task and no clock but the one that is given,
//!   so that the same calls at the same times give the same answers, also in a simulation. Answers
//!   come at once, unless a [`Delay`] makes them late.
//! - **Data outlives a store.** [`MemoryData`] is the database: stores are opened on it, one after the
//!   other (a restart) or several at once (nodes that share it), and each is closed by itself.
//! - **A call is a commit.** It is made under one lock that is never held across an `await`; what can
//!   be refused is refused before anything is changed.
//! - **Commands that wait together share a commit**, as elsewhere: the first lets others run once, and
//!   then commits what waits.
//! - `access`: access control
//! - `control`: the control channel
//! - `entities`: subscriptions to entities, and what became of those
//! - `keys`: API keys
//! - `log`: the log's events, and the streams that are its subsequences
//! - `nodes`: nodes and their leases
//! - `delay`: how late answers come, for simulations
//! - `session_sweep`: upkeep of sessions
//! - `sessions`: sessions
//! - `subscriptions`: subscriptions and shared secrets
//! - `tickets`: tickets

mod access;
mod control;
mod delay;
mod entities;
mod groups;
mod keys;
mod log;
mod nodes;
mod session_sweep;
mod sessions;
mod subscriptions;
mod tables;
#[cfg(test)]
mod tests;
mod tickets;

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{broadcast, watch};

use crate::clock::Clock;
use crate::command::{Answer, Command};
use crate::decide::{NewEvent, Plan, decide};
use crate::error::StoreError;
use crate::event::TailEvent;
use crate::log::{Found, Log, PageLimit, Swept, WantsPayload};
use crate::offset::{Epoch, Position};
use crate::options::CommitOptions;
use crate::queue::{Next, Queue, QueueReceiver, QueuedCommand};
use crate::session::{SIGNALS_MAX, SessionSignal, SweepCursor};
use crate::source;
use crate::stats::{CommitStats, Counters};

pub use delay::Delay;

/// What is kept, for as long as someone holds on to it.
#[derive(Debug)]
pub struct MemoryData {
    clock: Clock,
    rows: Mutex<Rows>,
    grown: watch::Sender<u64>,
    sessions: broadcast::Sender<SessionSignal>,
    /// Counts what was said in the control channel.
    control: watch::Sender<u64>,
}

/// All rows.
#[derive(Debug, Default)]
struct Rows {
    log: log::Events,
    subscriptions: subscriptions::StoredSubscriptions,
    sessions: sessions::SessionTables,
    nodes: nodes::Leases,
    control: control::Messages,
    keys: keys::StoredKeys,
    tickets: tickets::StoredTickets,
    entities: entities::Followers,
}

impl MemoryData {
    /// Nothing yet, by a clock.
    pub fn new(clock: Clock) -> Arc<MemoryData> {
        Arc::new(MemoryData {
            clock,
            rows: Mutex::default(),
            grown: watch::Sender::new(0),
            sessions: broadcast::Sender::new(SIGNALS_MAX),
            control: watch::Sender::new(0),
        })
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A store over data in memory. Cheap to share.
#[derive(Debug)]
pub struct MemoryStore {
    data: Arc<MemoryData>,
    queue: Queue<Infallible>,
    /// What waits to be committed. Taken before the rows are.
    waiting: Mutex<QueueReceiver<Infallible>>,
    /// Someone is about to commit what waits.
    committing: AtomicBool,
    counters: Counters,
    /// Where the next sweep of sessions goes on.
    sweep_cursor: Mutex<SweepCursor>,
    delay: Delay,
    closed: AtomicBool,
}

impl MemoryStore {
    /// Opens a store. Any number may be open on the same data.
    pub fn open(data: &Arc<MemoryData>) -> Arc<MemoryStore> {
        MemoryStore::open_delayed(data, Delay::default())
    }

    /// Opens a store whose answers come late.
    pub fn open_delayed(data: &Arc<MemoryData>, delay: Delay) -> Arc<MemoryStore> {
        let (queue, taker) = Queue::new(&CommitOptions::default());
        Arc::new(MemoryStore {
            data: Arc::clone(data),
            queue,
            waiting: Mutex::new(taker),
            committing: AtomicBool::new(false),
            counters: Counters::default(),
            sweep_cursor: Mutex::default(),
            delay,
            closed: AtomicBool::new(false),
        })
    }

    /// Data of its own, by the system's clock.
    pub fn fresh() -> Arc<MemoryStore> {
        MemoryStore::open(&MemoryData::new(Clock::system()))
    }

    /// Makes one call of it, with the time. Nothing here ever waits, but a caller that asks in a loop
    /// must let others run.
    async fn run<T>(&self, work: impl FnOnce(&mut Rows, i64) -> T) -> Result<T, StoreError> {
        tokio::task::consume_budget().await;
        self.delay.wait().await;
        if self.closed.load(Ordering::Acquire) {
            return Err(StoreError::Closed);
        }
        let mut rows = self.data.rows();
        let now_ms = self.data.clock.now_ms();
        Ok(work(&mut rows, now_ms))
    }

    /// Keeps what was decided of the log, and says so to those who follow it.
    fn save(&self, rows: &mut Rows, plan: &Plan, now_ms: i64) {
        rows.log.save(plan, now_ms);
        if let Some(last) = plan.events.last() {
            let bytes = plan.events.iter().map(NewEvent::bytes).sum();
            // A commit takes no time by a clock that stands still meanwhile.
            let (commands, events) = (plan.answers.len(), plan.events.len());
            self.counters.committed(commands, events, bytes, Duration::ZERO);
            self.data.grown.send_replace(last.position.number());
        }
    }

    /// Commits whatever waits.
    fn commit_waiting(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(next) = waiting.next_waiting() {
            match next {
                Next::Commit(batch) => self.answer(batch),
                Next::Exclusive(none) => match none {},
            }
        }
    }

    fn answer(&self, batch: Vec<QueuedCommand>) {
        let (commands, replies): (Vec<Command>, Vec<_>) =
            batch.into_iter().map(|waiting| (waiting.command, waiting.reply)).unzip();
        let mut rows = self.data.rows();
        let now_ms = self.data.clock.now_ms();
        let plan = decide(rows.log.at(now_ms).loaded(&commands), &commands);
        self.save(&mut rows, &plan, now_ms);
        drop(rows);
        for (reply, answer) in replies.into_iter().zip(plan.answers) {
            // A client that went away does not undo its append.
            let _ = reply.send(Ok(answer));
        }
    }
}

/// The first of some that wait together. It commits for all when it goes on, and also if its caller
/// goes away: the others rely on it.
struct CommitLeader<'a>(&'a MemoryStore);

impl Drop for CommitLeader<'_> {
    fn drop(&mut self) {
        // Whoever comes after this is a first one again, so nobody is overlooked.
        self.0.committing.swap(false, Ordering::AcqRel);
        self.0.commit_waiting();
    }
}

#[async_trait]
impl Log for MemoryStore {
    fn epoch(&self) -> Epoch {
        Epoch::FIRST
    }

    fn backend(&self) -> &'static str {
        "memory"
    }

    async fn submit(&self, command: Command) -> Result<Answer, StoreError> {
        self.delay.wait().await;
        let answer = self.queue.enter(command)?;
        if !self.committing.swap(true, Ordering::AcqRel) {
            let _leader = CommitLeader(self);
            tokio::task::yield_now().await;
        }
        answer.get().await
    }

    async fn read(
        &self,
        stream: &str,
        after: Position,
        limit: PageLimit,
    ) -> Result<Found, StoreError> {
        let read = |rows: &mut Rows, now_ms| {
            let Ok(found) = source::read(&mut rows.log.at(now_ms), stream, after, limit);
            found
        };
        self.run(read).await
    }

    async fn follow(
        &self,
        after: Position,
        limit: PageLimit,
        wants_payload: WantsPayload,
    ) -> Result<Vec<TailEvent>, StoreError> {
        self.run(|rows, _| limit.follow(rows.log.after(after), &*wants_payload)).await
    }

    async fn tip(&self) -> Result<Position, StoreError> {
        self.run(|rows, _| rows.log.tip()).await
    }

    fn grown(&self) -> watch::Receiver<u64> {
        self.data.grown.subscribe()
    }

    async fn names(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        self.run(|rows, now_ms| rows.log.names(prefix, after, limit, now_ms)).await
    }

    async fn sweep(&self) -> Result<Swept, StoreError> {
        let expired = self.run(|rows, now_ms| rows.log.expired(now_ms)).await?;
        let streams_expired = expired.len();
        for stream in expired {
            self.submit(Command::Expire { stream }).await?;
        }
        let events_purged = self.run(|rows, now_ms| rows.log.purge(now_ms)).await?;
        Ok(Swept { streams_expired, events_purged })
    }

    fn commit_stats(&self) -> CommitStats {
        self.counters.snapshot()
    }

    async fn close(&self) {
        self.queue.close();
        self.commit_waiting();
        self.closed.store(true, Ordering::Release);
    }
}
