//! One batch: its transaction, and what to do when that transaction fails.

use std::sync::Arc;
use std::time::Duration;

use tidewire_store::SqlError;
use tidewire_store::groups::decide::TAKEN_WAIT;
use tidewire_store::groups::{
    Assembled, Batch, Begun, Claim, Ending, Failure, GroupError, Verdict, Wants, Work, retry_in,
};

use super::{MOVES_MAX, PartitionLoop, SHRINK, STANDING_WAIT, WaitReason, jitter};
use crate::batch_run::{BatchOutcome, Counts, Job, NextRun, only_unit, run};
use crate::error::Error;
use crate::policy::{Reaction, reaction, sql_overran};

impl PartitionLoop<'_> {
    /// A batch in its transaction.
    pub(super) async fn work_off(
        &mut self,
        batch: Batch,
        wants: &Arc<Wants>,
    ) -> Result<WaitReason, Error> {
        let Some(held) = self.held.as_ref() else { return Ok(WaitReason::None) };
        let claim = self.shared.claim(held);
        let work = match self.shared.groups.begin(&claim).await? {
            Begun::Work(work) => work,
            Begun::Taken => return Ok(self.leave_for(jitter(TAKEN_WAIT))),
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
            BatchOutcome::Done(work, ending, counts) => {
                self.commit(&claim, batch, work, *ending, counts, wants).await
            }
            BatchOutcome::Failed { failures, after } => self.failed(&claim, &failures, after).await,
            BatchOutcome::Again => {
                self.keep(batch);
                Ok(WaitReason::None)
            }
            BatchOutcome::Transient(text) => Ok(self.back_off(&text)),
            BatchOutcome::Overran(text) => self.unfit(&claim, batch, &text).await,
            BatchOutcome::Stop(text) => Err(Error::Stopped(text)),
        }
    }

    /// Another member changed the partition. Its state is read again at once, or after a wait if that repeats.
    fn moved(&mut self) -> WaitReason {
        self.held = None;
        self.moves += 1;
        if self.moves > MOVES_MAX {
            WaitReason::While(jitter(TAKEN_WAIT))
        } else {
            WaitReason::None
        }
    }

    /// A batch to be run again at once. Letters are read again.
    fn keep(&mut self, batch: Batch) {
        if batch.redrive.is_some() {
            self.letters_were_last = false;
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
    ) -> Result<WaitReason, Error> {
        let limits = self.limits();
        let Some(held) = self.held.as_mut() else { return Ok(WaitReason::None) };
        // Where nothing but the advance is written, what is held stays true.
        let plain = batch.redrive.is_none()
            && ending.dead.is_empty()
            && ending.park.is_empty()
            && ending.settled.is_empty();
        let (finished, ahead) = if plain {
            held.partition.next = ending.next;
            let ahead = self.shared.assemble(wants, held, ending.next, limits, &mut self.grown);
            tokio::join!(work.finish(&ending), async { ahead.await.ok() })
        } else {
            (work.finish(&ending).await, None)
        };
        match finished {
            Ok(_) => {
                self.shared.tally.committed(counts);
                (self.plan, self.ahead, self.idle_since) = (NextRun::default(), ahead, None);
                (self.moves, self.failures_in_a_row, self.unfits) = (0, 0, 0);
                self.size = self.size.saturating_mul(2).min(self.shared.settings.batch_size);
                self.known = Some((ending.next, claim.generation));
                self.seen = self.seen.max(ending.next);
                self.shared.tally.position(self.partition, ending.next, self.seen, None);
                self.forget_pages();
                if !plain {
                    self.held = None;
                }
                Ok(WaitReason::None)
            }
            Err(GroupError::Sql(error @ SqlError::Wrong(_))) => {
                if !sql_overran(&error) && self.plan.find_culprit() {
                    self.held = None;
                    return Ok(WaitReason::None);
                }
                self.unfit(claim, batch, &error.to_string()).await
            }
            Err(error) => {
                self.held = None;
                Err(error.into())
            }
        }
    }

    /// The batch cannot be committed, and the error names no key. It is made smaller until it is one source
    /// transaction. If that has one key, the key has failed; if it has several, the partition stops with an
    /// error, because no single key can be set aside.
    async fn unfit(
        &mut self,
        claim: &Claim,
        batch: Batch,
        text: &str,
    ) -> Result<WaitReason, Error> {
        let Some(held) = self.held.as_ref() else { return Ok(WaitReason::None) };
        let attempts_max = held.group.max_attempts;
        if let Some(keys) = only_unit(&batch) {
            if held.is_for_good(&keys.key, Verdict::Retry) {
                self.plan.doom(keys, text);
                self.keep(batch);
                return Ok(self.back_off(text));
            }
            let failure = Failure::to_retry(&keys.key, &keys.events, Verdict::Retry, text);
            return self.failed(claim, &[failure], None).await;
        }
        if self.size > 1 {
            self.size = (self.size / SHRINK).max(1);
            return Ok(self.back_off(text));
        }
        self.unfits += 1;
        if self.unfits < attempts_max {
            return Ok(self.back_off(text));
        }
        self.unfits = 0;
        let text = format!(
            "batch_not_committed: one source transaction, of {} hosts and users in this partition, \
             cannot be committed: {text}; fix the handler, then resume the group with `tidewire \
             groups resume {}`",
            batch.groups.len(),
            claim.group
        );
        tracing::error!(partition = self.partition, "{text}");
        let wait = self.leave_for(STANDING_WAIT);
        self.shared.groups.set_trouble(claim, Some(&text)).await?;
        Ok(wait)
    }

    /// Notes what failed, apart from the transaction that was rolled back.
    async fn failed(
        &mut self,
        claim: &Claim,
        failures: &[Failure],
        after: Option<Duration>,
    ) -> Result<WaitReason, Error> {
        let Some(held) = self.held.take() else { return Ok(WaitReason::None) };
        let (base, cap) = (self.shared.settings.retry, self.shared.settings.retry_max);
        let wait = after.unwrap_or_else(|| held.wait_after(failures, base, cap, &mut rand::rng()));
        for failure in failures {
            tracing::warn!(
                partition = self.partition,
                host = &*failure.key.host,
                user = &*failure.key.user,
                attempt = held.attempts_of(&failure.key).saturating_add(1),
                "the handler failed and is tried again in {wait:?}: {}",
                failure.error
            );
        }
        self.shared.tally.failed(failures.len());
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        self.shared.groups.note_failures(claim, failures, wait_ms).await?;
        Ok(WaitReason::None)
    }

    /// What to do about an error of the store.
    pub(super) fn react(&mut self, error: &GroupError) -> WaitReason {
        self.held = None;
        match reaction(error) {
            Reaction::Look => self.moved(),
            Reaction::Wait | Reaction::End => {
                if matches!(error, GroupError::NotFound) {
                    self.shared.look.notify_one();
                }
                self.back_off(&error.to_string())
            }
        }
    }

    fn back_off(&mut self, text: &str) -> WaitReason {
        self.held = None;
        self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        let settings = &self.shared.settings;
        let wait =
            retry_in(self.failures_in_a_row, settings.retry, settings.retry_max, &mut rand::rng());
        tracing::warn!(partition = self.partition, "to be tried again in {wait:?}: {text}");
        WaitReason::While(wait)
    }
}
