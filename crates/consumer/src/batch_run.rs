//! One batch: the handler runs for every key in turn, in one transaction.
//!
//! If a key fails, the batch is rolled back and all of it is tried again later. In the key's last attempt, or
//! when no further attempt can help, the key runs *carefully*: one source transaction at a time, each with a
//! savepoint, until one fails. That one becomes dead letters, the events behind it are parked, and the rest of
//! the batch commits with them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tidewire_store::groups::{
    Batch, DeadEvents, Ending, Failure, GroupError, GroupEvent, Holdings, Key, KeyEvents,
    SAVEPOINTS_MAX, Verdict, Work,
};
use tidewire_store::{Epoch, Position};
use tidewire_store_postgres::PostgresWork;
use tokio::time::Instant;

use crate::context::limits;
use crate::handler::{Group, Handler};
use crate::handler_run::{HandlerFailure, first, run_handler};
use crate::policy::sql_is_transient;

/// Between two turns the server is shown that the transaction is alive, at most so often: it ends one that
/// stands still for longer than a single turn may take, and handlers need not run any SQL.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);

/// What a rolled-back run of a batch taught, for the next run of it. It is kept in memory only: the next
/// owner of the partition learns it again.
#[derive(Debug, Default)]
pub(crate) struct NextRun {
    /// Keys to go through carefully.
    careful: BTreeSet<Key>,
    /// Source transactions that failed for good, by their first event: not tried again.
    doomed: BTreeMap<Position, String>,
    /// Constraints are checked after each key: the commit failed by one, and it must be known whose it is.
    check_each: bool,
}

impl NextRun {
    /// The commit was refused for what a handler wrote. Says whether another run can find out whose it was.
    pub(crate) fn find_culprit(&mut self) -> bool {
        !std::mem::replace(&mut self.check_each, true)
    }

    /// Nothing of a key is tried again: it is set aside in the next run.
    pub(crate) fn doom(&mut self, keys: &KeyEvents, error: &str) {
        self.careful.insert(keys.key.clone());
        self.doomed.extend(keys.units().map(|unit| (first(unit), error.to_owned())));
    }
}

/// What a batch is run with.
pub(crate) struct Job<'a> {
    pub handler: &'a dyn Handler,
    pub batch: &'a Batch,
    pub held: &'a Holdings,
    pub timeout: Duration,
    pub epoch: Epoch,
}

/// How a batch went.
#[derive(Debug)]
pub(crate) enum BatchOutcome {
    /// All is done but the commit.
    Done(Box<dyn Work>, Box<Ending>, Counts),
    /// Rolled back, because these must be tried again.
    Failed { failures: Vec<Failure>, after: Option<Duration> },
    /// Rolled back, to be run again at once with the changed [`NextRun`].
    Again,
    /// Rolled back, for a reason that passes.
    Transient(String),
    /// Rolled back, because the batch was too much for one transaction.
    Overran(String),
    /// Rolled back: nobody should go on.
    Stop(String),
}

/// What a committed batch did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub events: u64,
    pub keys: u64,
    pub dead: u64,
    pub parked: u64,
    pub redriven: u64,
}

/// Why a run of a batch cannot go on in its transaction.
enum RunError {
    Again,
    Transient(String),
    Overran(String),
    Stop(String),
}

/// Runs a batch in the transaction that holds its partition.
pub(crate) async fn run(
    job: &Job<'_>,
    plan: &mut NextRun,
    mut work: Box<dyn Work>,
) -> BatchOutcome {
    let mut run = Run::new(job, plan, work.as_mut());
    let halted = run.all().await.err();
    let Run { dead, counts, failures, after, .. } = run;
    match halted {
        None if failures.is_empty() => {
            let ending = job.batch.done_but(job.held, &dead);
            let counts = Counts {
                dead: ending.dead.len() as u64,
                parked: ending.park.len() as u64,
                redriven: ending.redriven.len() as u64,
                ..counts
            };
            BatchOutcome::Done(work, Box::new(ending), counts)
        }
        None => {
            work.abandon().await;
            BatchOutcome::Failed { failures, after }
        }
        Some(error) => {
            work.abandon().await;
            match error {
                // What failed before is counted first; what was learned since is in the plan.
                RunError::Again | RunError::Overran(_) if !failures.is_empty() => {
                    BatchOutcome::Failed { failures, after }
                }
                RunError::Again => BatchOutcome::Again,
                RunError::Overran(text) => BatchOutcome::Overran(text),
                RunError::Transient(text) => BatchOutcome::Transient(text),
                RunError::Stop(text) => BatchOutcome::Stop(text),
            }
        }
    }
}

struct Run<'a, 'w> {
    job: &'a Job<'a>,
    plan: &'a mut NextRun,
    work: &'w mut dyn Work,
    dead: Vec<DeadEvents<'a>>,
    counts: Counts,
    failures: Vec<Failure>,
    after: Option<Duration>,
    savepoints: usize,
    /// When the server was last shown that the transaction is alive.
    sign: Instant,
}

impl<'a, 'w> Run<'a, 'w> {
    fn new(job: &'a Job<'a>, plan: &'a mut NextRun, work: &'w mut dyn Work) -> Run<'a, 'w> {
        let (dead, counts) = (Vec::new(), Counts::default());
        let (failures, after, savepoints) = (Vec::new(), None, 0);
        let sign = Instant::now();
        Run { job, plan, work, dead, counts, failures, after, savepoints, sign }
    }

    async fn all(&mut self) -> Result<(), RunError> {
        for keys in &self.job.batch.groups {
            let attempts = self.job.held.attempts.get(&keys.key);
            let last_time = attempts.is_some_and(|&(_, verdict)| self.is_for_good(keys, verdict));
            if last_time || self.plan.careful.contains(&keys.key) {
                self.carefully(keys).await?;
            } else {
                self.usually(keys).await?;
            }
        }
        Ok(())
    }

    /// All events of a key at once.
    async fn usually(&mut self, keys: &'a KeyEvents) -> Result<(), RunError> {
        let several = self.job.batch.groups.len() > 1;
        let savepoint = self.job.held.attempts.contains_key(&keys.key)
            || self.plan.check_each
            || (several && self.savepoints < SAVEPOINTS_MAX);
        let Err(failure) = self.run_handler(&keys.key, &keys.events, savepoint).await else {
            self.done(&keys.events);
            return Ok(());
        };
        let verdict = self.verdict_of(&failure)?;
        if self.is_for_good(keys, verdict) {
            self.plan.careful.insert(keys.key.clone());
            if let Some(culprit) = culprit(keys, failure.named) {
                self.plan.doomed.insert(culprit, failure.text.clone());
            }
            self.undo(&failure).await?;
            return self.carefully(keys).await;
        }
        self.after = self.after.max(failure.after);
        self.failures.push(Failure::to_retry(&keys.key, &keys.events, verdict, &failure.text));
        // Where keys failed before, the others are tried too before all is rolled back: so that several bad
        // ones are counted together, and not one after the other.
        match self.job.held.attempts.is_empty() {
            true => Err(RunError::Again),
            false => self.undo(&failure).await,
        }
    }

    /// Source transaction by source transaction, until one fails.
    async fn carefully(&mut self, keys: &'a KeyEvents) -> Result<(), RunError> {
        for unit in keys.units() {
            let doomed = self.plan.doomed.get(&first(unit)).cloned();
            let error = match doomed {
                Some(error) => Some(error),
                None => match self.run_handler(&keys.key, unit, true).await {
                    Ok(()) => None,
                    Err(failure) => {
                        self.verdict_of(&failure)?;
                        self.plan.careful.insert(keys.key.clone());
                        self.plan.doomed.insert(first(unit), failure.text.clone());
                        self.undo(&failure).await?;
                        Some(failure.text)
                    }
                },
            };
            match error {
                None => self.done(unit),
                Some(error) => {
                    self.dead.push(DeadEvents { key: &keys.key, events: unit, error });
                    if self.job.batch.stops_behind_dead(self.job.held) {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    async fn run_handler(
        &mut self,
        key: &Key,
        events: &[Arc<GroupEvent>],
        savepoint: bool,
    ) -> Result<(), HandlerFailure> {
        self.show_life().await?;
        self.savepoints += usize::from(savepoint);
        let group = Group {
            host: &key.host,
            user: &key.user,
            events,
            partition: self.job.held.partition.partition,
            attempt: self.job.held.attempts_of(key),
            redrive: self.job.batch.redrive.is_some(),
            epoch: self.job.epoch,
        };
        run_handler(self.job.handler, self.work, &group, self.job.timeout, savepoint).await?;
        if self.plan.check_each && PostgresWork::of(self.work).is_some() {
            for sql in ["SET CONSTRAINTS ALL IMMEDIATE", "SET CONSTRAINTS ALL DEFERRED"] {
                let checked = self.work.sql(sql, &[], limits(self.job.timeout)).await;
                checked.map_err(|error| HandlerFailure::of_statement(&error))?;
            }
        }
        Ok(())
    }

    /// Keeps the server from ending a transaction in which handlers do other things than SQL.
    async fn show_life(&mut self) -> Result<(), HandlerFailure> {
        if self.sign.elapsed() < SIGN_OF_LIFE || PostgresWork::of(self.work).is_none() {
            return Ok(());
        }
        let shown = self.work.sql("SELECT 1", &[], limits(self.job.timeout)).await;
        self.sign = Instant::now();
        match shown {
            // A connection that is lost is known before the next handler does what it does elsewhere.
            Err(error) if sql_is_transient(&error) => {
                Err(HandlerFailure::transient(error.to_string()))
            }
            // What else is wrong with the transaction was some turn's doing, and is found by its rules.
            _ => Ok(()),
        }
    }

    /// Takes back what a key's turn did, or has all of it rolled back and run again.
    async fn undo(&mut self, failure: &HandlerFailure) -> Result<(), RunError> {
        if failure.busy {
            return Err(RunError::Again);
        }
        match self.work.undo().await {
            Ok(()) => Ok(()),
            Err(error @ GroupError::EndedByHandler) => Err(RunError::Stop(error.to_string())),
            Err(_) => Err(RunError::Again),
        }
    }

    fn done(&mut self, events: &[Arc<GroupEvent>]) {
        self.counts.keys += 1;
        self.counts.events += events.len() as u64;
    }

    /// What is to be done about a key; an error where the whole batch is concerned.
    fn verdict_of(&self, failure: &HandlerFailure) -> Result<Verdict, RunError> {
        match failure.verdict {
            None => Err(RunError::Transient(failure.text.clone())),
            Some(Verdict::Stop) => Err(RunError::Stop(failure.text.clone())),
            // Those before it in the batch took their part of the time.
            Some(_) if failure.overran && only_unit(self.job.batch).is_none() => {
                Err(RunError::Overran(failure.text.clone()))
            }
            Some(verdict) => Ok(verdict),
        }
    }

    fn is_for_good(&self, keys: &KeyEvents, verdict: Verdict) -> bool {
        self.job.held.is_for_good(&keys.key, verdict)
    }
}

/// The key of a batch that is one source transaction of one key: whatever is wrong with it is wrong with that.
pub(crate) fn only_unit(batch: &Batch) -> Option<&KeyEvents> {
    let [keys] = batch.groups.as_slice() else { return None };
    (keys.units().count() == 1).then_some(keys)
}

/// The source transaction that failed, where that is known: the only one, or that of the event that was named.
fn culprit(keys: &KeyEvents, named: Option<Position>) -> Option<Position> {
    let mut units = keys.units();
    let only = units.next().filter(|_| units.next().is_none());
    only.or_else(|| keys.unit_of(named?)).map(first)
}

#[cfg(test)]
mod tests;
