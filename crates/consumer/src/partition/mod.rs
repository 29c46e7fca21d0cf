//! One partition's loop: read its state, take the next batch, run its transaction, repeat.
//!
//! The partition's state (its [`Holdings`]) is read once and kept while it is valid: every commit compares
//! it under the row's lock. The next batch is assembled while this one commits.
//!
//! - `batch`: the batch that the partition works on

mod batch;

use std::sync::Arc;
use std::time::Duration;

use tidewire_store::Position;
use tidewire_store::groups::decide::{TAKEN_WAIT, Unfinished, skip_in};
use tidewire_store::groups::{
    Assembled, Batch, Decision, GroupError, Holdings, Limits, Source, TooLarge, Wants, decide,
    retry_in,
};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::batch_run::NextRun;
use crate::error::Error;
use crate::policy::{Reaction, reaction};
use crate::shared::Shared;

/// So often in a row a partition may have moved before it is left alone for a while.
const MOVES_MAX: u32 = 3;
/// A stopped group is read again after this long, even without a notification.
const STANDING_WAIT: Duration = Duration::from_secs(1);
/// A batch that cannot be committed whole is made so many times smaller, and grows again by doubling.
const SHRINK: usize = 4;

/// Why to wait, and for what.
#[derive(Debug, Clone, Copy, PartialEq)]
enum WaitReason {
    /// Not at all.
    None,
    /// Until the log grows, for so long at most.
    Growth(Duration),
    /// For this long, or until a notification comes.
    While(Duration),
}

/// Works on a partition until it is told to stop.
pub(crate) async fn work(
    shared: Arc<Shared>,
    partition: u32,
    stop: CancellationToken,
) -> Result<(), Error> {
    let mut worker = PartitionLoop::new(&shared, partition);
    let mut ended = Ok(());
    while !stop.is_cancelled() {
        let wait = match worker.step().await {
            Ok(wait) => wait,
            Err(Error::Group(error)) if reaction(&error) != Reaction::End => worker.react(&error),
            Err(error) => {
                ended = Err(error);
                break;
            }
        };
        worker.pause(wait, &stop).await;
    }
    shared.tally.left(partition);
    ended
}

struct PartitionLoop<'a> {
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
    plan: NextRun,
    /// Whether the last turn was the letters'.
    letters_were_last: bool,
    idle_since: Option<Instant>,
    /// The transaction whose end is waited for.
    unfinished: Option<Unfinished>,
    /// Events that a batch is to have: fewer than the settings say after one that could not be committed.
    size: usize,
    /// Times in a row that the smallest of batches could not be.
    unfits: u32,
    /// Times in a row that the partition was not as it was known.
    moves: u32,
    /// Failures in a row that are nobody's fault.
    failures_in_a_row: u32,
}

impl<'a> PartitionLoop<'a> {
    fn new(shared: &'a Shared, partition: u32) -> PartitionLoop<'a> {
        PartitionLoop {
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
            plan: NextRun::default(),
            letters_were_last: false,
            idle_since: None,
            unfinished: None,
            size: shared.settings.batch_size,
            unfits: 0,
            moves: 0,
            failures_in_a_row: 0,
        }
    }

    /// One batch, or the reason to wait.
    async fn step(&mut self) -> Result<WaitReason, Error> {
        self.look().await?;
        let Some(held) = self.held.as_ref() else { return Ok(WaitReason::None) };
        let sources = match decide(&held.group, &held.partition, self.letters_were_last) {
            Decision::HandOut(sources) => sources,
            // Who has a lease mostly ends it long before its time, and on PostgreSQL without a word.
            Decision::Leased(_) => return Ok(self.leave_for(jitter(STANDING_WAIT))),
            Decision::Failed(wait) => return Ok(self.leave_for(wait)),
            Decision::Stopped => return Ok(self.leave_for(STANDING_WAIT)),
            Decision::AtBarrier => return Ok(self.leave_to_owner()),
        };
        let Some(wants) = self.shared.wants(held) else { return Ok(self.leave_to_owner()) };
        let mut wait = None;
        for source in sources {
            match source {
                Source::Letters => {
                    if let Some(batch) = self.letters_due().await? {
                        self.letters_were_last = true;
                        return self.work_off(batch, &wants).await;
                    }
                }
                Source::Log => match self.read_on(&wants).await? {
                    idle @ WaitReason::Growth(_) => wait = Some(idle),
                    other => return Ok(other),
                },
            }
        }
        // Without the log there was nothing to wait for but the barrier.
        Ok(wait.unwrap_or_else(|| self.leave_to_owner()))
    }

    /// Waits, then reads the partition's state again.
    fn leave_for(&mut self, wait: Duration) -> WaitReason {
        self.held = None;
        WaitReason::While(wait)
    }

    /// Leaves the next step to the partition owner: it ends a change, and reads the group again if this
    /// partition's state is older.
    fn leave_to_owner(&mut self) -> WaitReason {
        self.shared.look.notify_one();
        self.leave_for(STANDING_WAIT)
    }

    /// Reads the partition's state, unless it is known and no notification came.
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
            (self.ahead, self.plan) = (None, NextRun::default());
        }
        self.shared.tally.position(self.partition, next, self.seen, None);
        (self.held, self.held_since) = (Some(held), Instant::now());
        Ok(())
    }

    async fn letters_due(&self) -> Result<Option<Batch>, GroupError> {
        let (groups, group) = (&self.shared.groups, &self.shared.settings.group);
        Ok(groups.letters_due(group, self.partition, self.limits().letters()).await?)
    }

    /// The next batch of the log.
    async fn read_on(&mut self, wants: &Arc<Wants>) -> Result<WaitReason, Error> {
        let Some(held) = self.held.as_ref() else { return Ok(WaitReason::None) };
        let assembled = match self.ahead.take() {
            Some(assembled) => assembled,
            None => {
                let limits = self.limits();
                let read = self.shared.assemble(wants, held, self.seen, limits, &mut self.grown);
                read.await.map_err(GroupError::from)?
            }
        };
        match assembled {
            Assembled::Batch(batch) => {
                self.letters_were_last = false;
                let oldest = batch.groups.iter().flat_map(|keys| keys.events.first());
                let oldest = oldest.map(|event| event.created_at_ms).min();
                let next = held.partition.next;
                self.shared.tally.position(self.partition, next, self.seen, oldest);
                self.work_off(batch, wants).await
            }
            Assembled::Nothing { next } => self.idle(next).await,
            Assembled::Incomplete { txid } => {
                self.tell_incomplete(txid);
                Ok(WaitReason::Growth(self.shared.settings.wait_period))
            }
            Assembled::TooLarge(too_large) => {
                let text = self.too_large(&too_large);
                tracing::error!(partition = self.partition, "{text}");
                let claim = self.shared.claim(held);
                self.shared.groups.set_trouble(&claim, Some(&text)).await?;
                Ok(self.leave_for(STANDING_WAIT))
            }
        }
    }

    /// What a batch may have. All of it is in one transaction, so a usual one may have as much as a large one.
    fn limits(&self) -> Limits {
        let settings = &self.shared.settings;
        Limits {
            batch_events: self.size,
            batch_bytes: settings.transaction_bytes_max,
            transaction_events_max: settings.transaction_events_max,
            transaction_bytes_max: settings.transaction_bytes_max,
        }
    }

    fn tell_incomplete(&mut self, txid: Option<i64>) {
        let now = Instant::now().into_std();
        if Unfinished::is_to_be_told(&mut self.unfinished, self.seen, now) {
            tracing::warn!(
                partition = self.partition,
                txid,
                "waiting for the end of a transaction that is not in the log: if capture works \
                 (`tidewire capture`), the next change of a watched table goes on from here"
            );
        }
    }

    fn too_large(&self, too_large: &TooLarge) -> String {
        let settings = &self.shared.settings;
        format!(
            "{too_large}, and one may have {} (transactionEventsMax) and {} (transactionBytesMax); raise the \
             limit for all members, then resume the group with `tidewire groups resume {}`",
            settings.transaction_events_max, settings.transaction_bytes_max, settings.group
        )
    }

    /// Nothing of its own up to a place.
    async fn idle(&mut self, next: Position) -> Result<WaitReason, Error> {
        let Some(held) = self.held.as_mut() else { return Ok(WaitReason::None) };
        self.seen = self.seen.max(next);
        self.shared.tally.position(self.partition, held.partition.next, self.seen, None);
        self.forget_pages();
        let Some(held) = self.held.as_mut() else { return Ok(WaitReason::None) };
        let wait = self.shared.settings.wait_period;
        let since = *self.idle_since.get_or_insert_with(Instant::now);
        match skip_in(held, next, since.elapsed()) {
            None => {
                self.idle_since = None;
                return Ok(WaitReason::Growth(wait));
            }
            Some(later) if !later.is_zero() => return Ok(WaitReason::Growth(wait.min(later))),
            Some(_) => {}
        }
        let claim = self.shared.claim(held);
        if self.shared.groups.skip(&claim, next).await? {
            held.partition.next = next;
            self.known = Some((next, held.partition.generation));
            self.idle_since = None;
            return Ok(WaitReason::None);
        }
        Ok(self.leave_for(jitter(TAKEN_WAIT)))
    }

    fn forget_pages(&self) {
        if let Some(from) = self.shared.tally.read_from() {
            self.shared.pages.forget_up_to(from.before());
        }
    }

    async fn pause(&mut self, wait: WaitReason, stop: &CancellationToken) {
        match wait {
            WaitReason::None => {}
            WaitReason::Growth(wait) => {
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
            WaitReason::While(wait) => tokio::select! {
                () = stop.cancelled() => {}
                _ = self.signals.changed() => self.signals.mark_changed(),
                _ = self.wants.changed() => {}
                () = tokio::time::sleep(wait) => {}
            },
        }
    }
}

fn jitter(wait: Duration) -> Duration {
    retry_in(1, wait, wait, &mut rand::rng())
}
