//! The writer: takes what waits, commits it, answers.
//!
//! One task on one connection. A batch is two round trips: begin, lock and load; save and commit. When
//! the connection breaks, a batch of which nothing can have been written is tried once more; one
//! whose COMMIT was sent but not answered is `Unknown`. Reconnecting goes on for ever, and commands
//! wait for it as long as they may.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::{BoxFuture, FutureExt};
use tokio::sync::{broadcast, watch};

use super::batch::Batch;
use super::connect::{Connector, Session};
use super::error::broken;
use super::fence::Fence;
use super::partitions::Partitions;
use super::{load, save};
use crate::options::Failover;
use tidewire_store::command::Command;
use tidewire_store::decide::{Plan, decide};
use tidewire_store::error::StoreError;
use tidewire_store::queue::{Next, QueueReceiver};
use tidewire_store::session::SessionSignal;
use tidewire_store::stats::Counters;

/// What a commit brings about besides what is in the database.
#[derive(Debug)]
pub(crate) struct CommitEffects {
    pub(crate) counters: Counters,
    pub(crate) fence: Arc<Fence>,
    pub(crate) partitions: Partitions,
    pub(crate) grown: watch::Sender<u64>,
    pub(crate) session_signals: broadcast::Sender<SessionSignal>,
    pub(crate) control_signals: watch::Sender<u64>,
    pub(crate) group_signals: watch::Sender<u64>,
}

impl CommitEffects {
    /// Counts a commit and wakes those who follow the log.
    pub(crate) fn committed(&self, plan: &Plan, started: Instant) {
        let Some(last) = plan.events.last() else {
            return;
        };
        let bytes = plan.events.iter().filter_map(|event| event.payload.as_ref()).map(|p| p.len());
        let (answers, events) = (plan.answers.len(), plan.events.len());
        self.counters.committed(answers, events, bytes.sum(), started.elapsed());
        self.fence.saw(last.position);
        self.announce(last.position.number());
    }

    /// Says that the log has grown to a position, if that is news: a node's own commits are heard
    /// of twice.
    pub(crate) fn announce(&self, position: u64) {
        self.grown.send_if_modified(|known| {
            let news = position > *known;
            *known = position.max(*known);
            news
        });
    }

    /// Says that something happened to sessions, here or on another node.
    pub(crate) fn signal(&self, signal: SessionSignal) {
        // Nobody may be listening.
        let _ = self.session_signals.send(signal);
    }

    /// Says that something may have happened in a group of consumers.
    pub(crate) fn signal_groups(&self) {
        self.group_signals.send_modify(|count| *count += 1);
    }

    /// Says that something may be in the control channel.
    pub(crate) fn signal_control(&self) {
        self.control_signals.send_modify(|count| *count += 1);
    }
}

/// The connection, or the attempt to get one.
enum Link {
    Up(Session),
    Down(BoxFuture<'static, Session>),
}

impl Link {
    fn down(connector: &Arc<Connector>) -> Link {
        // A command that waits longer than this for the offset lock is refused.
        let lock_timeout_ms = connector.timeout.as_millis().max(1);
        let settings =
            format!("SET lock_timeout = {lock_timeout_ms}; SET statement_timeout = '30s'");
        Link::Down(Arc::clone(connector).session_in_the_end(settings).boxed())
    }

    /// Waits until the connection breaks, or is there again.
    async fn turn(&mut self, connector: &Arc<Connector>) {
        *self = match self {
            Link::Up(session) => {
                session.ended.cancelled().await;
                Link::down(connector)
            }
            Link::Down(connecting) => Link::Up(connecting.await),
        };
    }
}

/// What the writer's task owns.
pub(crate) struct Writer {
    connector: Arc<Connector>,
    link: Link,
    taker: QueueReceiver<Infallible>,
    effects: Arc<CommitEffects>,
}

impl Writer {
    pub(crate) fn new(
        connector: Arc<Connector>,
        taker: QueueReceiver<Infallible>,
        effects: Arc<CommitEffects>,
    ) -> Writer {
        let link = Link::down(&connector);
        Writer { connector, link, taker, effects }
    }

    /// Works until the queue is closed and empty.
    pub(crate) async fn run(mut self) {
        loop {
            tokio::select! {
                biased;
                next = self.taker.next() => match next {
                    None => return,
                    Some(Next::Exclusive(never)) => match never {},
                    Some(Next::Commit(batch)) => self.serve(Batch::new(batch)).await,
                },
                () = self.link.turn(&self.connector) => {}
            }
        }
    }

    async fn serve(&mut self, batch: Batch) {
        let Err((error, batch)) = self.try_serve(batch).await else {
            return;
        };
        if !matches!(error, StoreError::Broken { .. }) || batch.commands.len() == 1 {
            return batch.refuse(&error);
        }
        // One command that the database does not take must not take its neighbours down.
        for alone in batch.split() {
            if let Err((error, alone)) = self.try_serve(alone).await {
                alone.refuse(&error);
            }
        }
    }

    /// Commits a batch and answers it, or returns what is left of it.
    async fn try_serve(&mut self, mut batch: Batch) -> Result<(), (StoreError, Batch)> {
        let mut retried = false;
        loop {
            let effects = Arc::clone(&self.effects);
            let Some(session) = self.session(&mut batch).await else {
                return Ok(());
            };
            let started = Instant::now();
            let error = match commit(session, &batch.commands, &effects).await {
                Ok(plan) => {
                    effects.committed(&plan, started);
                    batch.answer(plan.answers);
                    return Ok(());
                }
                Err(error) => error,
            };
            effects.counters.failed();
            tracing::error!(%error, commands = batch.commands.len(), "commit failed");
            let mut alive = self.roll_back().await;
            let nothing_written = match &error {
                StoreError::Unavailable(_) => true,
                StoreError::Replaced(_) => {
                    // A session that is opened anew is looked at, and may be admitted.
                    self.link = Link::down(&self.connector);
                    alive = false;
                    effects.fence.failover() == Failover::Lossless
                }
                _ => false,
            };
            if alive || retried || !nothing_written {
                return Err((error, batch));
            }
            retried = true;
        }
    }

    /// The connection, once it is there. Commands that have waited too long are refused meanwhile;
    /// `None` if none is left.
    async fn session(&mut self, batch: &mut Batch) -> Option<&Session> {
        while let Link::Down(_) = self.link {
            let oldest = batch.queued_at()?;
            let deadline = oldest + self.connector.timeout;
            tokio::select! {
                biased;
                () = self.link.turn(&self.connector) => {}
                () = tokio::time::sleep_until(deadline.into()) => {
                    batch.expire(self.connector.timeout);
                }
            }
        }
        match &self.link {
            Link::Up(session) => Some(session),
            Link::Down(_) => None,
        }
    }

    /// Ends what may be left of a transaction. A connection that cannot even do that is given up.
    async fn roll_back(&mut self) -> bool {
        let alive = match &self.link {
            Link::Up(session) => session.client.batch_execute("ROLLBACK").await.is_ok(),
            Link::Down(_) => false,
        };
        if !alive {
            self.link = Link::down(&self.connector);
        }
        alive
    }
}

/// One transaction: decides the commands and makes what was decided durable.
async fn commit(
    session: &Session,
    commands: &[Command],
    effects: &CommitEffects,
) -> Result<Plan, StoreError> {
    let client = &session.client;
    let mut loaded = load::begin(client, &effects.fence, commands).await?;
    load::complete(client, &mut loaded, commands).await?;
    let now_ms = loaded.now_ms;
    let plan = decide(loaded, commands);
    if plan.is_empty() {
        client.batch_execute("ROLLBACK").await.map_err(broken("end a transaction"))?;
    } else {
        save::commit(client, &plan, now_ms, &effects.partitions).await?;
    }
    Ok(plan)
}
