//! A member of a consumer group: claims a batch, runs the handler, reports the result, and repeats.
//!
//! A lease holds the batch; it is extended at each third of its time while the handler runs. If the lease is lost
//! all the same, the handler's future is dropped, because another member has the batch. So a handler must be safe
//! to cancel, and must accept the same events again.

use std::time::Duration;

use rand::Rng;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::backoff::{Backoff, jitter};
use crate::client::{Client, ms};
use crate::error::ClientError;
use crate::groups::{ClaimRequest, Claimed, FAILED_MAX, Failed, Statement};

/// The first wait after something went wrong is at most this,
const WAIT_BASE: Duration = Duration::from_millis(200);
/// and no wait is longer.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// No wait is doubled more often; long before that it is at its cap.
const DOUBLINGS_MAX: u32 = 20;
/// Extensions in a lease, so that two may be lost on the way.
const EXTENSIONS_A_LEASE: u32 = 3;

/// Bytes of the keys that one nack names, and their errors. JSON may write six for one, and the server takes a body of 16 MiB.
const FAILED_BYTES_MAX: usize = 2 << 20;

/// How to work.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// The group.
    pub group: String,
    /// The name by which the group knows the member.
    pub member: Option<String>,
    /// A batch ends with the first whole transaction at or past so many events; as the server has it.
    pub batch_size: Option<u32>,
    /// How long others wait for us if we fall silent.
    pub lease: Duration,
    /// How long the server holds a question for work.
    pub wait: Duration,
    /// The one partition to work on.
    pub partition: Option<u32>,
    /// The wait before a batch that failed is tried again, and the longest; as the server has it.
    pub retry: Option<(Duration, Duration)>,
}

impl WorkerOptions {
    /// The usual ones, for a group.
    pub fn new(group: impl Into<String>) -> WorkerOptions {
        WorkerOptions {
            group: group.into(),
            member: None,
            batch_size: None,
            lease: Duration::from_secs(30),
            wait: Duration::from_secs(20),
            partition: None,
            retry: None,
        }
    }
}

/// How a batch went.
#[derive(Debug)]
pub enum Outcome {
    /// It is done. The statements are run in the transaction that says so, once.
    Done(Vec<Statement>),
    /// These keys failed, and the batch comes again.
    Failed(Vec<Failed>),
    /// Nobody should go on: the batch is given back, nothing is counted, and the worker ends with the reason.
    Stop(String),
}

/// What a worker did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkerStats {
    /// Batches that were done,
    pub batches: u64,
    /// with so many events.
    pub events: u64,
    /// Batches in which something failed.
    pub failed: u64,
    /// Batches whose lease was lost while they were worked on.
    pub lost: u64,
}

/// Why a worker ended.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The server does not let it go on.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The handler said so.
    #[error("{0}")]
    Stopped(String),
}

/// A member at work.
#[derive(Debug)]
pub struct Worker {
    client: Client,
    options: WorkerOptions,
    stats: WorkerStats,
    backoff: Backoff,
    /// What was said last, so that a server that is away is told of once.
    said: String,
}

impl Worker {
    /// One that works for a group of the client's server.
    pub fn new(client: Client, options: WorkerOptions) -> Worker {
        let backoff = Backoff::new(WAIT_BASE, WAIT_MAX);
        Worker { client, options, stats: WorkerStats::default(), backoff, said: String::new() }
    }

    /// Works until `stop` says true (or is dropped), and then finishes the batch in hand.
    pub async fn run<H: AsyncFn(&Claimed) -> Outcome>(
        mut self,
        mut stop: watch::Receiver<bool>,
        handler: H,
    ) -> Result<WorkerStats, WorkerError> {
        let mut stopping = std::pin::pin!(async move {
            let _ = stop.wait_for(|stop| *stop).await;
        });
        loop {
            let claimed = tokio::select! {
                biased;
                () = &mut stopping => return Ok(self.stats),
                claimed = self.claim() => claimed?,
            };
            let outcome = self.hold(&claimed, &handler).await?;
            match outcome {
                None => self.stats.lost += 1,
                Some(Outcome::Done(statements)) => self.done(&claimed, &statements).await?,
                Some(Outcome::Failed(failed)) => self.failed(&claimed, &failed).await?,
                Some(Outcome::Stop(why)) => {
                    self.failed(&claimed, &[]).await?;
                    return Err(WorkerError::Stopped(why));
                }
            }
        }
    }

    /// The next batch, whenever there is one.
    async fn claim(&mut self) -> Result<Claimed, ClientError> {
        let request = ClaimRequest {
            member: self.options.member.clone(),
            batch_size: self.options.batch_size,
            lease_ms: Some(ms(self.options.lease)),
            wait_ms: Some(ms(self.options.wait)),
            partition: self.options.partition,
        };
        loop {
            match self.client.claim(&self.options.group, &request).await {
                Ok(claimed) => {
                    self.backoff.reset();
                    self.said.clear();
                    if let Some(claimed) = claimed {
                        return Ok(claimed);
                    }
                }
                // What stopped it is for a person to end, who should not have to start us again then.
                Err(error) if error.temporary() || error.is("group_stopped") => {
                    self.wait_after(&error).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Has the batch worked off while its lease is extended. None: the lease was lost.
    async fn hold<H: AsyncFn(&Claimed) -> Outcome>(
        &mut self,
        claimed: &Claimed,
        handler: &H,
    ) -> Result<Option<Outcome>, ClientError> {
        let lease = Duration::from_millis(claimed.lease_ms);
        let period = (lease / EXTENSIONS_A_LEASE).max(Duration::from_millis(1));
        let mut extensions = interval_at(Instant::now() + period, period);
        extensions.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut work = std::pin::pin!(handler(claimed));
        let extend = async {
            loop {
                extensions.tick().await;
                let group = &self.options.group;
                match self.client.extend(group, &claimed.token, claimed.lease_ms).await {
                    Ok(()) => {}
                    // While nobody else takes the batch, it can still be finished.
                    Err(error) if error.temporary() => tracing::debug!("not extended: {error}"),
                    Err(error) => return error,
                }
            }
        };
        tokio::select! {
            biased;
            outcome = &mut work => Ok(Some(outcome)),
            error = extend => self.lost(claimed, error).map(|()| None),
        }
    }

    /// How long to try to say how a batch went: then the lease is over, and the batch comes again anyway.
    fn patience(&self) -> Instant {
        Instant::now() + self.options.lease
    }

    /// A lease that is lost costs a repetition; anything else that cannot pass ends the worker.
    fn lost(&self, claimed: &Claimed, error: ClientError) -> Result<(), ClientError> {
        if !error.is("lease_lost") && !error.temporary() {
            return Err(error);
        }
        let Claimed { partition, from, to, .. } = claimed;
        tracing::warn!(partition, from, to, "the batch will be handed out again: {error}");
        Ok(())
    }

    async fn done(
        &mut self,
        claimed: &Claimed,
        statements: &[Statement],
    ) -> Result<(), ClientError> {
        let until = self.patience();
        loop {
            let acked = self.client.ack(&self.options.group, &claimed.token, statements).await;
            match acked {
                Ok(_) => {
                    self.stats.batches += 1;
                    self.stats.events += claimed.events() as u64;
                    return Ok(());
                }
                Err(error) if error.temporary() && Instant::now() < until => {
                    self.wait_after(&error).await;
                }
                // The statements are at fault, and came to nothing: the batch failed.
                Err(error) if !statements.is_empty() && !error.is("lease_lost") => {
                    let failed = claimed.all_failed(&error.to_string(), None);
                    return self.failed(claimed, &failed).await;
                }
                Err(error) => {
                    self.stats.lost += 1;
                    return self.lost(claimed, error);
                }
            }
        }
    }

    async fn failed(&mut self, claimed: &Claimed, failed: &[Failed]) -> Result<(), ClientError> {
        self.stats.failed += 1;
        let attempt = claimed.groups.iter().map(|group| group.attempt).max().unwrap_or_default();
        let retry_in =
            self.options.retry.map(|(base, cap)| retry_in(attempt, base, cap, &mut rand::rng()));
        let (failed, until) = (nameable(failed), self.patience());
        loop {
            let group = &self.options.group;
            match self.client.nack(group, &claimed.token, failed, retry_in).await {
                Ok(()) => return Ok(()),
                Err(error) if error.temporary() && Instant::now() < until => {
                    self.wait_after(&error).await;
                }
                Err(error) => return self.lost(claimed, error),
            }
        }
    }

    async fn wait_after(&mut self, error: &ClientError) {
        let wait = self.backoff.next_wait(&mut rand::rng());
        let text = error.to_string();
        if self.said != text {
            tracing::warn!("{text}; trying again");
            self.said = text;
        }
        tokio::time::sleep(wait).await;
    }
}

/// From half to all of `base` doubled with each attempt: failures of many come back spread out, and none at
/// once.
fn retry_in(attempt: u32, base: Duration, cap: Duration, rng: &mut impl Rng) -> Duration {
    let whole = base.saturating_mul(1 << attempt.min(DOUBLINGS_MAX)).min(cap);
    whole / 2 + jitter(whole / 2, rng)
}

/// As many of them as one nack names, and one at least: a batch is not stuck because too much of it failed.
fn nameable(failed: &[Failed]) -> &[Failed] {
    let mut bytes = 0;
    let fits = |failed: &&Failed| {
        let Failed { host_id, user_id, error, .. } = failed;
        bytes += [host_id, user_id].into_iter().flatten().map(String::len).sum::<usize>();
        bytes += error.len();
        bytes <= FAILED_BYTES_MAX
    };
    let count = failed.iter().take(FAILED_MAX).take_while(fits).count();
    &failed[..count.max(1).min(failed.len())]
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand::rngs::StdRng;

    use super::*;

    #[test]
    fn a_nack_names_no_more_than_the_server_takes() {
        let failed = |count: usize, bytes: usize| -> Vec<Failed> {
            let one = Failed { error: "x".repeat(bytes), ..Failed::default() };
            vec![one; count]
        };
        for (count, bytes, named) in [
            (0, 0, 0),
            (1_000, 1, 1_000),
            (1_001, 1, 1_000),
            (100, FAILED_BYTES_MAX / 10, 10),
            (2, FAILED_BYTES_MAX + 1, 1),
        ] {
            assert_eq!(nameable(&failed(count, bytes)).len(), named, "{count} of {bytes} bytes");
        }
    }

    #[test]
    fn repetitions_come_later_each_time_up_to_the_cap() {
        let (base, cap) = (Duration::from_millis(100), Duration::from_secs(30));
        let mut rng = StdRng::seed_from_u64(3);
        for (attempt, whole) in [(0, 100), (1, 200), (5, 3_200), (9, 30_000), (u32::MAX, 30_000)] {
            let whole = Duration::from_millis(whole);
            for _ in 0..100 {
                let wait = retry_in(attempt, base, cap, &mut rng);
                assert!(wait >= whole / 2 && wait <= whole, "{attempt}: {wait:?}");
            }
        }
    }
}
