//! Many changes of subscriptions to entities, one commit, in the order in which the shards made them.
//!
//! What someone waits for is committed as soon as the commit before it is done; what is only noted
//! waits a little for company. If a commit fails and the store answers otherwise, something stands in
//! the way of one connection's part of it: then each connection is tried by itself ([`RetryQueue`]), and
//! the others go on. Order matters within a connection only.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use tidewire_store::{Entities, EntityEdit, StoreError};

use crate::batch_notify::BatchNotify;

use super::retry::RetryQueue;
use super::work::Work;

/// How long a note waits for others.
const GATHER: Duration = Duration::from_millis(100);
/// Entities in one commit: what several hundred pages ask for, and a statement takes in stride.
const COMMIT_IDS_MAX: usize = 20_000;
/// Changes in one commit.
const COMMIT_EDITS_MAX: usize = 1_000;
/// Entities that may wait before no more are taken: while the store does not answer, clients go on
/// to ask.
const WAITING_IDS_MAX: usize = 1_000_000;
/// How long to wait before a failed commit is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// How long a store that failed to commit is given to answer something else.
const ANSWER: Duration = Duration::from_secs(1);
/// Connections tried by themselves at once: each may wait for a lock, on a connection to the database.
const ALONE_AT_ONCE: usize = 3;
/// How long those get when the node stops. What is left is removed by others, as a dead node's.
const FAREWELL: Duration = Duration::from_secs(1);

/// What a connection subscribes to, by code.
pub type EntitiesByCode = Vec<(String, Vec<String>)>;

/// The word that something is committed, or why not.
pub type Committed = oneshot::Receiver<Result<(), StoreError>>;

/// What waits to be done.
#[derive(Debug, Default)]
pub(super) struct Batch {
    waiting: Mutex<PendingEdits>,
    notify: BatchNotify,
    set_aside: Notify,
}

#[derive(Debug, Default)]
struct PendingEdits {
    queue: VecDeque<Work>,
    /// Of the queue.
    ids: usize,
    aside: RetryQueue,
}

impl PendingEdits {
    fn push(&mut self, work: Work) {
        self.ids += work.ids();
        self.queue.push_back(work);
    }

    fn pop(&mut self) -> Option<Work> {
        let work = self.queue.pop_front()?;
        self.ids -= work.ids();
        Some(work)
    }

    fn push_front(&mut self, work: Work) {
        self.ids += work.ids();
        self.queue.push_front(work);
    }
}

impl Batch {
    fn waiting(&self) -> MutexGuard<'_, PendingEdits> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a change, after all before it.
    pub(super) fn ask(&self, edit: EntityEdit) -> Committed {
        let (reply, committed) = oneshot::channel();
        let mut waiting = self.waiting();
        if waiting.ids >= WAITING_IDS_MAX {
            let _ = reply.send(Err(StoreError::Overloaded(waiting.ids)));
        } else {
            waiting.push(Work::Edit(edit, Some(reply)));
            self.notify.ask();
        }
        committed
    }

    /// Says when all changes of a connection before this are committed.
    pub(super) fn settle(&self, connection_id: &str) -> Committed {
        let (reply, settled) = oneshot::channel();
        self.waiting().push(Work::Settle(connection_id.to_owned(), reply));
        self.notify.ask();
        settled
    }

    /// Makes a change some time soon, after all before it. It is always taken: what ends was begun, so
    /// there is no more of it than of what was asked for.
    pub(super) fn note(&self, edit: EntityEdit) {
        self.waiting().push(Work::Edit(edit, None));
        self.notify.note();
    }

    /// Works until `stop`, and then does what is left.
    pub(super) async fn run(&self, store: &(impl Entities + ?Sized), stop: CancellationToken) {
        let finished = CancellationToken::new();
        let together = async {
            self.run_together(store, &stop).await;
            finished.cancel();
        };
        tokio::join!(together, self.run_alone(store, &finished));
    }

    /// Does what can be done together.
    async fn run_together(&self, store: &(impl Entities + ?Sized), stop: &CancellationToken) {
        loop {
            let stopping = self.notify.heard(GATHER, stop).await;
            while !self.waiting().queue.is_empty() {
                if self.work(store).await.is_err() {
                    if stopping || stop.is_cancelled() {
                        return;
                    }
                    tokio::time::sleep(RETRY).await;
                }
            }
            if stopping {
                return;
            }
        }
    }

    /// Does what is set aside, each connection by itself, until no more can be.
    async fn run_alone(&self, store: &(impl Entities + ?Sized), finished: &CancellationToken) {
        let mut trying = FuturesUnordered::new();
        while !finished.is_cancelled() {
            while trying.len() < ALONE_AT_ONCE
                && let Some((connection_id, work)) = self.next_alone()
            {
                trying.push(self.work_alone(store, connection_id, work));
            }
            let next_at = self.waiting().aside.next_at().filter(|_| trying.len() < ALONE_AT_ONCE);
            tokio::select! {
                Some(()) = trying.next() => {}
                () = self.set_aside.notified() => {}
                () = tokio::time::sleep_until(next_at.unwrap_or_else(Instant::now)),
                    if next_at.is_some() => {}
                () = finished.cancelled() => {}
            }
        }
        let farewell = async {
            while trying.next().await.is_some() {}
            self.waiting().aside.hurry(Instant::now());
            while let Some((connection_id, work)) = self.next_alone() {
                self.work_alone(store, connection_id, work).await;
            }
        };
        let _ = tokio::time::timeout(FAREWELL, farewell).await;
    }

    fn next_alone(&self) -> Option<(String, Vec<Work>)> {
        self.waiting().aside.next(Instant::now())
    }

    /// Does some of what waits.
    async fn work(&self, store: &(impl Entities + ?Sized)) -> Result<(), StoreError> {
        let taken = self.take();
        let Err(error) = commit(store, &taken).await else {
            taken.into_iter().for_each(Work::done);
            return Ok(());
        };
        tracing::warn!(%error, "could not change subscriptions to entities; trying again");
        if blames_the_edits(&error) && answers(store).await {
            self.waiting().aside.enter(taken, Instant::now());
            self.set_aside.notify_one();
            return Ok(());
        }
        let mut waiting = self.waiting();
        for work in taken.into_iter().rev() {
            if let Some(note) = work.failed(&error) {
                waiting.push_front(note);
            }
        }
        drop(waiting);
        Err(error)
    }

    /// Does what one connection waits for.
    async fn work_alone(
        &self,
        store: &(impl Entities + ?Sized),
        connection_id: String,
        work: Vec<Work>,
    ) {
        let Err(error) = commit(store, &work).await else {
            self.waiting().aside.done(&connection_id, Instant::now());
            return work.into_iter().for_each(Work::done);
        };
        tracing::debug!(%error, connection_id, "could not change a connection's entities");
        let notes = work.into_iter().filter_map(|work| work.failed(&error)).collect();
        let (temporary, now) = (error.temporary(), Instant::now());
        let given_up = self.waiting().aside.failed(&connection_id, notes, temporary, now);
        if given_up > 0 {
            tracing::error!(
                %error,
                connection_id,
                "could not remove a connection's subscriptions; their rows stay until this node ends"
            );
        }
    }

    /// What goes into one commit.
    fn take(&self) -> Vec<Work> {
        let mut waiting = self.waiting();
        let (mut taken, mut ids) = (Vec::new(), 0);
        while taken.len() < COMMIT_EDITS_MAX && ids < COMMIT_IDS_MAX {
            let Some(work) = waiting.pop() else { break };
            if let Some(work) = waiting.aside.join(work) {
                ids += work.ids();
                taken.push(work);
            }
        }
        taken
    }
}

async fn commit(store: &(impl Entities + ?Sized), work: &[Work]) -> Result<(), StoreError> {
    let edits: Vec<EntityEdit> = work.iter().filter_map(Work::edit).cloned().collect();
    if edits.is_empty() { Ok(()) } else { store.edit_entities(edits).await }
}

/// Whether other edits might have gone through.
fn blames_the_edits(error: &StoreError) -> bool {
    !matches!(error, StoreError::Full(_) | StoreError::Closed | StoreError::Overloaded(_))
}

/// Whether the store answers at all.
async fn answers(store: &(impl Entities + ?Sized)) -> bool {
    let answer = tokio::time::timeout(ANSWER, store.entities_of("")).await;
    matches!(answer, Ok(Ok(_)))
}

#[cfg(test)]
mod tests;
