//! A batch in hand: its transaction, and what becomes of it when that does not end well.

use std::sync::Arc;
use std::time::Duration;

use tidewire_store::SqlError;
use tidewire_store::groups::decide::TAKEN_WAIT;
use tidewire_store::groups::{
    Assembled, Batch, Begun, Claim, Ending, Failure, GroupError, Verdict, Wants, Work, retry_in,
};

use super::{MOVES_MAX, Pause, SHRINK, STANDING_WAIT, Worker, jitter};
use crate::error::Error;
use crate::policy::{Reaction, reaction, sql_overran};
use crate::run::{Counts, Job, Plan, Ran, only_unit, run};

impl Worker<'_> {
    /// A batch in its transaction.
    pub(super) async fn work_off(
        &mut self,
        batch: Batch,
        wants: &Arc<Wants>,
    ) -> Result<Pause, Error> {
        let Some(held) = self.held.as_ref() else { return Ok(Pause::None) };
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
    ) -> Result<Pause, Error> {
        let limits = self.limits();
        let Some(held) = self.held.as_mut() else { return Ok(Pause::None) };
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
            if held.is_for_good(&keys.key, Verdict::Retry) {
                self.plan.doom(keys, text);
                self.keep(batch);
                return Ok(self.storm(text));
            }
            let failure = Failure::to_retry(&keys.key, &keys.events, Verdict::Retry, text);
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
        let pause = self.leave_for(STANDING_WAIT);
        self.shared.groups.set_trouble(claim, Some(&text)).await?;
        Ok(pause)
    }

    /// Notes what failed, apart from the transaction that was rolled back.
    async fn failed(
        &mut self,
        claim: &Claim,
        failures: &[Failure],
        after: Option<Duration>,
    ) -> Result<Pause, Error> {
        let Some(held) = self.held.take() else { return Ok(Pause::None) };
        let (base, cap) = (self.shared.settings.retry, self.shared.settings.retry_max);
        let wait = after.unwrap_or_else(|| held.wait_after(failures, base, cap, &mut rand::rng()));
        for failure in failures {
            tracing::warn!(
                partition = self.partition,
                host = &*failure.key.host,
                user = &*failure.key.user,
                attempt = held.attempts_of(&failure.key).saturating_add(1),
                "the handler failed, to be tried again in {wait:?}: {}",
                failure.error
            );
        }
        self.shared.tally.failed(failures.len());
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        self.shared.groups.note_failures(claim, failures, wait_ms).await?;
        Ok(Pause::None)
    }

    /// What to do about an error of the store.
    pub(super) fn react(&mut self, error: &GroupError) -> Pause {
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
}
