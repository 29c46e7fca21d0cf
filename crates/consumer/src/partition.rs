//! One partition's loop: what is held of it, the next batch, its transaction, and again.
//!
//! What is known of the partition (its [`Holdings`]) is read once and kept while it holds: every commit compares
//! it under the row's lock. The next batch is put together while this one commits.

use std::sync::Arc;
use std::time::Duration;

use tidewire_store::groups::view::kept_error;
use tidewire_store::groups::{
    Assembled, Batch, Begun, Claim, Ending, Failure, GroupError, Holdings, Verdict, Wants, Work,
    retry_in,
};
use tidewire_store::{PageLimit, Position, SqlError};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::policy::{Reaction, reaction, sql_overran};
use crate::reading::assemble;
use crate::run::{Counts, Job, Plan, Ran, only_unit, run};
use crate::shared::Shared;
use crate::turn::first;

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

    /// A batch in its transaction.
    async fn work_off(&mut self, batch: Batch, wants: &Arc<Wants>) -> Result<Pause, Error> {
        let Some(held) = self.held.as_ref() else { return Ok(Pause::None) };
        let claim = self.shared.claim(held);
        let work = match self.shared.groups.begin(&claim).await? {
            Begun::Work(work) => work,
            Begun::Taken => {
                self.held = None;
                return Ok(Pause::While(jitter(TAKEN_WAIT)));
            }
            Begun::Moved => return Ok(self.moved()),
        };
        let job = Job {
            handler: &*self.shared.handler,
            batch: &batch,
            held,
            timeout: self.shared.settings.handler_timeout,
            epoch: self.shared.groups.log_epoch(),
        };
        match run(&job, &mut self.plan, work).await {
            Ran::Done(work, ending, counts) => {
                self.commit(&claim, batch, work, *ending, counts, wants).await
            }
            Ran::Failed { failures, after } => self.failed(&claim, &failures, after).await,
            Ran::Again => {
                self.keep(batch);
                Ok(Pause::None)
            }
            Ran::Weather(text) => Ok(self.storm(&text)),
            Ran::Overran(text) => self.unfit(&claim, batch, &text).await,
            Ran::Stop(text) => Err(Error::Stopped(text)),
        }
    }

    /// Somebody else was there. That is looked at again at once, unless it happens again and again.
    fn moved(&mut self) -> Pause {
        self.held = None;
        self.moves += 1;
        if self.moves > MOVES_MAX { Pause::While(jitter(TAKEN_WAIT)) } else { Pause::None }
    }

    /// A batch to be run again at once. Letters are read again.
    fn keep(&mut self, batch: Batch) {
        if batch.redrive.is_some() {
            self.letters_first = true;
        } else {
            self.ahead = Some(Assembled::Batch(batch));
        }
    }

    async fn commit(
        &mut self,
        claim: &Claim,
        batch: Batch,
        work: Box<dyn Work>,
        ending: Ending,
        counts: Counts,
        wants: &Arc<Wants>,
    ) -> Result<Pause, Error> {
        let Some(held) = self.held.as_mut() else { return Ok(Pause::None) };
        // Where nothing but the advance is written, what is held stays true.
        let plain = batch.redrive.is_none()
            && ending.dead.is_empty()
            && ending.park.is_empty()
            && ending.settled.is_empty();
        let (finished, ahead) = if plain {
            held.partition.next = ending.next;
            let ahead = assemble(self.shared, wants, held, ending.next, self.size, &mut self.grown);
            tokio::join!(work.finish(&ending), async { ahead.await.ok() })
        } else {
            (work.finish(&ending).await, None)
        };
        match finished {
            Ok(_) => {
                self.shared.tally.committed(counts);
                (self.plan, self.ahead, self.idle_since) = (Plan::default(), ahead, None);
                (self.moves, self.storms, self.unfits) = (0, 0, 0);
                self.size = self.size.saturating_mul(2).min(self.shared.settings.batch_size);
                self.known = Some((ending.next, claim.generation));
                self.seen = self.seen.max(ending.next);
                self.shared.tally.place(self.partition, ending.next, self.seen, None);
                self.forget_pages();
                if !plain {
                    self.held = None;
                }
                Ok(Pause::None)
            }
            Err(GroupError::Sql(error @ SqlError::Wrong(_))) => {
                if !sql_overran(&error) && self.plan.find_culprit() {
                    self.held = None;
                    return Ok(Pause::None);
                }
                self.unfit(claim, batch, &error.to_string()).await
            }
            Err(error) => {
                self.held = None;
                Err(error.into())
            }
        }
    }

    /// A batch cannot be committed, and nothing says whose fault that is. It is made smaller until it is one
    /// source transaction. If that is of one key, the key has failed; if not, the partition stands still and
    /// says why, for there is nobody to blame.
    async fn unfit(&mut self, claim: &Claim, batch: Batch, text: &str) -> Result<Pause, Error> {
        let Some(held) = self.held.as_ref() else { return Ok(Pause::None) };
        let attempts_max = held.group.max_attempts;
        if let Some(keys) = only_unit(&batch) {
            let tried = held.attempts.get(&keys.key).map_or(0, |(attempts, _)| *attempts);
            if tried.saturating_add(1) >= attempts_max {
                self.plan.doom(keys, text);
                self.keep(batch);
                return Ok(self.storm(text));
            }
            let (key, first, error) = (keys.key.clone(), first(&keys.events), kept_error(text));
            let failure = Failure { key, first, verdict: Verdict::Retry, error };
            return self.failed(claim, &[failure], None).await;
        }
        if self.size > 1 {
            self.size = (self.size / SHRINK).max(1);
            return Ok(self.storm(text));
        }
        self.unfits += 1;
        if self.unfits < attempts_max {
            return Ok(self.storm(text));
        }
        self.unfits = 0;
        let text = format!(
            "batch_not_committed: one source transaction, of {} hosts and users in this partition, \
             cannot be committed: {text}; mend the handler, then resume the group with `tidewire \
             groups resume {}`",
            batch.groups.len(),
            claim.group
        );
        tracing::error!(partition = self.partition, "{text}");
        self.held = None;
        self.shared.groups.set_trouble(claim, Some(&text)).await?;
        Ok(Pause::While(STANDING_WAIT))
    }

    /// Notes what failed, apart from the transaction that was rolled back.
    async fn failed(
        &mut self,
        claim: &Claim,
        failures: &[Failure],
        after: Option<Duration>,
    ) -> Result<Pause, Error> {
        let settings = &self.shared.settings;
        let attempts = self.held.as_ref().map(|held| &held.attempts);
        let tried = |failure: &Failure| {
            attempts.and_then(|all| all.get(&failure.key)).map_or(0, |(n, _)| *n)
        };
        let most = failures.iter().map(tried).max().unwrap_or(0).saturating_add(1);
        let wait = after.unwrap_or_else(|| {
            retry_in(most, settings.retry, settings.retry_max, &mut rand::rng())
        });
        for failure in failures {
            tracing::warn!(
                partition = self.partition,
                host = &*failure.key.host,
                user = &*failure.key.user,
                attempt = tried(failure) + 1,
                "the handler failed, to be tried again in {wait:?}: {}",
                failure.error
            );
        }
        self.shared.tally.failed(failures.len());
        self.held = None;
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        self.shared.groups.note_failures(claim, failures, wait_ms).await?;
        Ok(Pause::None)
    }

    /// What to do about an error of the store.
    fn react(&mut self, error: &GroupError) -> Pause {
        self.held = None;
        match reaction(error) {
            Reaction::Look => self.moved(),
            Reaction::Wait | Reaction::End => {
                if matches!(error, GroupError::NotFound) {
                    self.shared.look.notify_one();
                }
                self.storm(&error.to_string())
            }
        }
    }

    fn storm(&mut self, text: &str) -> Pause {
        self.held = None;
        self.storms = self.storms.saturating_add(1);
        let settings = &self.shared.settings;
        let wait = retry_in(self.storms, settings.retry, settings.retry_max, &mut rand::rng());
        tracing::warn!(partition = self.partition, "to be tried again in {wait:?}: {text}");
        Pause::While(wait)
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
