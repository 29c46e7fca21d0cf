//! One partition's loop: what is held of it, the next batch, its transaction, and again.
//!
//! What is known of the partition (its [`Holdings`]) is read once and kept while it holds: every commit compares
//! it under the row's lock. The next batch is put together while this one commits.

mod batch;

use std::sync::Arc;
use std::time::Duration;

use tidewire_store::groups::{Assembled, Batch, GroupError, Holdings, Wants, retry_in};
use tidewire_store::{PageLimit, Position};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::policy::{Reaction, reaction};
use crate::reading::assemble;
use crate::run::Plan;
use crate::shared::Shared;

/// A partition that somebody else holds is tried again after this.
const TAKEN_WAIT: Duration = Duration::from_millis(250);
/// A partition without events of its own writes down that it has passed others' when they are so many,
const IDLE_SKIP_OFFSETS: u64 = 10_000;
/// or when it has been behind for so long.
const IDLE_SKIP_AFTER: Duration = Duration::from_secs(5);
/// So often in a row a partition may have moved before it is left alone for a while.
const MOVES_MAX: u32 = 3;
/// What stands still is looked at again after this, even if nobody says that it moved.
const STANDING_WAIT: Duration = Duration::from_secs(1);
/// A transaction whose end does not come into the log for so long is told of, and again after as long.
const INCOMPLETE_TOLD_AFTER: Duration = Duration::from_secs(60);
/// A batch that cannot be committed whole is made so many times smaller, and grows again by doubling.
const SHRINK: usize = 4;

/// Why to wait, and for what.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Pause {
    /// Not at all.
    None,
    /// Until the log grows, for so long at most.
    Growth(Duration),
    /// For a while, or until somebody says that something changed.
    While(Duration),
}

/// Works on a partition until it is told to stop.
pub(crate) async fn work(
    shared: Arc<Shared>,
    partition: u32,
    stop: CancellationToken,
) -> Result<(), Error> {
    let mut worker = Worker::new(&shared, partition);
    let mut ended = Ok(());
    while !stop.is_cancelled() {
        let pause = match worker.step().await {
            Ok(pause) => pause,
            Err(Error::Group(error)) if reaction(&error) != Reaction::End => worker.react(&error),
            Err(error) => {
                ended = Err(error);
                break;
            }
        };
        worker.pause(pause, &stop).await;
    }
    shared.tally.left(partition);
    ended
}

struct Worker<'a> {
    shared: &'a Shared,
    partition: u32,
    grown: watch::Receiver<u64>,
    signals: watch::Receiver<u64>,
    wants: watch::Receiver<Option<Arc<Wants>>>,
    held: Option<Holdings>,
    held_since: Instant,
    /// The place and generation that what follows was found out for.
    known: Option<(Position, u64)>,
    /// Everything before this was looked at: there is nothing for the partition between `next` and here.
    seen: Position,
    /// What was put together beforehand, for what is held.
    ahead: Option<Assembled>,
    plan: Plan,
    /// The log and letters take turns.
    letters_first: bool,
    idle_since: Option<Instant>,
    /// Since when the end of a transaction is waited for, or when that was told.
    incomplete_since: Option<Instant>,
    /// Events that a batch is to have: fewer than the settings say after one that could not be committed.
    size: usize,
    /// Times in a row that the smallest of batches could not be.
    unfits: u32,
    /// Times in a row that the partition was not as it was known.
    moves: u32,
    /// Failures in a row that are nobody's fault.
    storms: u32,
}

impl<'a> Worker<'a> {
    fn new(shared: &'a Shared, partition: u32) -> Worker<'a> {
        Worker {
            shared,
            partition,
            grown: shared.groups.log_grown(),
            signals: shared.groups.group_signals(),
            wants: shared.wants.subscribe(),
            held: None,
            held_since: Instant::now(),
            known: None,
            seen: Position::START,
            ahead: None,
            plan: Plan::default(),
            letters_first: true,
            idle_since: None,
            incomplete_since: None,
            size: shared.settings.batch_size,
            unfits: 0,
            moves: 0,
            storms: 0,
        }
    }

    /// One batch, or the reason to wait.
    async fn step(&mut self) -> Result<Pause, Error> {
        self.look().await?;
        let Some(held) = self.held.as_ref() else { return Ok(Pause::None) };
        if let Some(pause) = standing(held) {
            self.held = None;
            return Ok(pause);
        }
        let at_barrier = held.group.barrier.is_some_and(|barrier| held.partition.next >= barrier);
        let Some(wants) = self.shared.wants(held).filter(|_| !at_barrier) else {
            // It is for the steward to end the change; or it knows the group otherwise than this partition
            // does, and one of both is older.
            self.shared.look.notify_one();
            self.held = None;
            return Ok(Pause::While(STANDING_WAIT));
        };
        if held.partition.redrive && self.letters_first {
            self.letters_first = false;
            if let Some(batch) = self.letters_due().await? {
                return self.work_off(batch, &wants).await;
            }
            self.held.iter_mut().for_each(|held| held.partition.redrive = false);
        }
        self.letters_first = true;
        let pause = self.read_on(&wants).await?;
        let redrives = self.held.as_ref().is_some_and(|held| held.partition.redrive);
        // Where the log has nothing, it is the letters' turn at once.
        Ok(if redrives && matches!(pause, Pause::Growth(_)) { Pause::None } else { pause })
    }

    /// Reads what must be known of the partition, unless that is known and nobody said that it changed.
    async fn look(&mut self) -> Result<(), GroupError> {
        let signalled = self.signals.has_changed().unwrap_or(false);
        let old = self.held_since.elapsed() > self.shared.settings.wait_period;
        if self.held.is_some() && !signalled && !old {
            return Ok(());
        }
        self.signals.mark_unchanged();
        let held = self.shared.groups.holdings(&self.shared.settings.group, self.partition).await?;
        let (next, generation) = (held.partition.next, held.partition.generation);
        if self.known != Some((next, generation)) {
            (self.known, self.seen) = (Some((next, generation)), next);
            (self.ahead, self.plan) = (None, Plan::default());
        }
        self.shared.tally.place(self.partition, next, self.seen, None);
        (self.held, self.held_since) = (Some(held), Instant::now());
        Ok(())
    }

    async fn letters_due(&self) -> Result<Option<Batch>, GroupError> {
        let settings = &self.shared.settings;
        let limit = PageLimit { events: self.size, bytes: settings.transaction_bytes_max };
        let groups = &self.shared.groups;
        Ok(groups.letters_due(&settings.group, self.partition, limit).await?)
    }

    /// The next batch of the log.
    async fn read_on(&mut self, wants: &Arc<Wants>) -> Result<Pause, Error> {
        let Some(held) = self.held.as_ref() else { return Ok(Pause::None) };
        let assembled = match self.ahead.take() {
            Some(assembled) => assembled,
            None => assemble(self.shared, wants, held, self.seen, self.size, &mut self.grown)
                .await
                .map_err(GroupError::from)?,
        };
        if !matches!(assembled, Assembled::Incomplete { .. }) {
            self.incomplete_since = None;
        }
        match assembled {
            Assembled::Batch(batch) => {
                let oldest = batch.groups.iter().flat_map(|keys| keys.events.first());
                let oldest = oldest.map(|event| event.created_at_ms).min();
                let next = held.partition.next;
                self.shared.tally.place(self.partition, next, self.seen, oldest);
                self.work_off(batch, wants).await
            }
            Assembled::Nothing { next } => self.idle(next).await,
            Assembled::Incomplete { txid } => {
                self.tell_incomplete(txid);
                Ok(Pause::Growth(self.shared.settings.wait_period))
            }
            Assembled::TooLarge { txid, events, bytes } => {
                let text = self.too_large(txid, events, bytes);
                tracing::error!(partition = self.partition, "{text}");
                let claim = self.shared.claim(held);
                self.shared.groups.set_trouble(&claim, Some(&text)).await?;
                self.held = None;
                Ok(Pause::While(STANDING_WAIT))
            }
        }
    }

    /// Mostly the end is there a moment later. It may also never come, if it was set aside or retired; the next
    /// transaction that is captured makes that known.
    fn tell_incomplete(&mut self, txid: Option<i64>) {
        let since = *self.incomplete_since.get_or_insert_with(Instant::now);
        if since.elapsed() >= INCOMPLETE_TOLD_AFTER {
            self.incomplete_since = None;
            tracing::warn!(
                partition = self.partition,
                txid,
                "waiting for the end of a transaction that is not in the log: if capture works \
                 (`tidewire capture`), the next change of a watched table goes on from here"
            );
        }
    }

    fn too_large(&self, txid: Option<i64>, events: usize, bytes: usize) -> String {
        let settings = &self.shared.settings;
        let (events_max, bytes_max) =
            (settings.transaction_events_max, settings.transaction_bytes_max);
        let which =
            txid.map_or_else(|| "an append".to_owned(), |txid| format!("transaction {txid}"));
        format!(
            "transaction_too_large: {which} has {events} events and {bytes} bytes or more in this \
             partition, and a batch may have {events_max} (transactionEventsMax) and {bytes_max} \
             (transactionBytesMax); raise the limit for all members, then resume the group with \
             `tidewire groups resume {}`",
            settings.group
        )
    }

    /// Nothing of its own up to a place.
    async fn idle(&mut self, next: Position) -> Result<Pause, Error> {
        let Some(held) = self.held.as_mut() else { return Ok(Pause::None) };
        self.seen = self.seen.max(next);
        self.shared.tally.place(self.partition, held.partition.next, self.seen, None);
        self.forget_pages();
        let Some(held) = self.held.as_mut() else { return Ok(Pause::None) };
        let wait = self.shared.settings.wait_period;
        let passed = next.number().saturating_sub(held.partition.next.number());
        if passed == 0 {
            self.idle_since = None;
            return Ok(Pause::Growth(wait));
        }
        let since = *self.idle_since.get_or_insert_with(Instant::now);
        let at_barrier = held.group.barrier.is_some_and(|barrier| next >= barrier);
        if passed < IDLE_SKIP_OFFSETS && !at_barrier && since.elapsed() < IDLE_SKIP_AFTER {
            return Ok(Pause::Growth(wait.min(IDLE_SKIP_AFTER - since.elapsed())));
        }
        let claim = self.shared.claim(held);
        if self.shared.groups.skip(&claim, next).await? {
            held.partition.next = next;
            self.known = Some((next, held.partition.generation));
            self.idle_since = None;
            return Ok(Pause::None);
        }
        self.held = None;
        Ok(Pause::While(jitter(TAKEN_WAIT)))
    }

    fn forget_pages(&self) {
        if let Some(from) = self.shared.tally.read_from() {
            self.shared.pages.forget_up_to(Position::new(from.number().saturating_sub(1)));
        }
    }

    async fn pause(&mut self, pause: Pause, stop: &CancellationToken) {
        match pause {
            Pause::None => {}
            Pause::Growth(wait) => {
                let before = *self.grown.borrow();
                tokio::select! {
                    () = stop.cancelled() => {}
                    changed = self.grown.changed() => {
                        // The same number again is a hint to look, as after a lost connection.
                        if changed.is_ok() && *self.grown.borrow() == before {
                            self.shared.doubt_tip().await;
                        }
                        self.grown.mark_changed();
                    }
                    _ = self.signals.changed() => self.signals.mark_changed(),
                    () = tokio::time::sleep(wait) => self.shared.doubt_tip().await,
                }
            }
            Pause::While(wait) => tokio::select! {
                () = stop.cancelled() => {}
                _ = self.signals.changed() => self.signals.mark_changed(),
                _ = self.wants.changed() => {}
                () = tokio::time::sleep(wait) => {}
            },
        }
    }
}

/// Why a partition must not be worked on now, and how long to wait before looking again.
fn standing(held: &Holdings) -> Option<Pause> {
    let partition = &held.partition;
    if held.group.stopped.is_some() || partition.trouble.is_some() {
        return Some(Pause::While(STANDING_WAIT));
    }
    if partition.lease_ms.is_some_and(|left| left > 0) {
        // Who has a lease mostly ends it long before its time, and on PostgreSQL without a word.
        return Some(Pause::While(jitter(STANDING_WAIT)));
    }
    let wait_ms = partition.retry_in_ms.filter(|left| *left > 0)?;
    Some(Pause::While(Duration::from_millis(wait_ms)))
}

fn jitter(wait: Duration) -> Duration {
    retry_in(1, wait, wait, &mut rand::rng())
}
