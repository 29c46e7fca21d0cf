//! Many changes of subscriptions to entities, one commit, in the order in which the shards made them.
//!
//! What someone waits for is committed as soon as the commit before it is done; what is only noted
//! waits a little for company.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use tidewire_store::{EntityEdit, SharedStore, StoreError};

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

/// What a connection subscribes to, by code.
pub(crate) type Kept = Vec<(String, Vec<String>)>;

/// The word that something is committed, or why not.
pub(crate) type Committed = oneshot::Receiver<Result<(), StoreError>>;

/// The word on what is kept of a connection, with all that was asked for before.
pub(crate) type Looked = oneshot::Receiver<Result<Kept, StoreError>>;

#[derive(Debug)]
enum Work {
    Edit(EntityEdit, Option<oneshot::Sender<Result<(), StoreError>>>),
    Look(Look),
}

/// A look at what is kept of a connection.
#[derive(Debug)]
struct Look {
    connection_id: String,
    reply: oneshot::Sender<Result<Kept, StoreError>>,
}

impl Work {
    /// How much it is.
    fn ids(&self) -> usize {
        match self {
            Work::Edit(EntityEdit::Subscribe(subscription), _) => subscription.ids.len(),
            Work::Edit(EntityEdit::Unsubscribe { ids: Some(ids), .. }, _) => ids.len(),
            _ => 1,
        }
    }
}

/// What waits to be done.
#[derive(Debug, Default)]
pub(super) struct Batch {
    waiting: Mutex<Waiting>,
    asked: Notify,
    noted: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    queue: VecDeque<Work>,
    ids: usize,
}

impl Waiting {
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
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
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
            self.asked.notify_one();
        }
        committed
    }

    /// Looks at what is kept of a connection, after all changes before this.
    pub(super) fn look(&self, connection_id: &str) -> Looked {
        let (reply, looked) = oneshot::channel();
        let connection_id = connection_id.to_owned();
        self.waiting().push(Work::Look(Look { connection_id, reply }));
        self.asked.notify_one();
        looked
    }

    /// Makes a change some time soon, after all before it. It is always taken: what ends was begun, so
    /// there is no more of it than of what was asked for.
    pub(super) fn note(&self, edit: EntityEdit) {
        self.waiting().push(Work::Edit(edit, None));
        self.noted.notify_one();
    }

    /// Works until `stop`, and then does what is left.
    pub(super) async fn run(&self, store: &SharedStore, stop: CancellationToken) {
        loop {
            let stopping = tokio::select! {
                () = self.asked.notified() => false,
                () = self.noted.notified() => tokio::select! {
                    () = tokio::time::sleep(GATHER) => false,
                    () = self.asked.notified() => false,
                    () = stop.cancelled() => true,
                },
                () = stop.cancelled() => true,
            };
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

    /// Does some of what waits.
    async fn work(&self, store: &SharedStore) -> Result<(), StoreError> {
        let (edits, look) = self.take();
        if !edits.is_empty() {
            self.commit(store, edits).await?;
        }
        if let Some(Look { connection_id, reply }) = look {
            let kept = store.entities_of(&connection_id).await;
            let failed = kept.as_ref().err().cloned();
            let _ = reply.send(kept);
            if let Some(error) = failed {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Commits some changes. Notes of a commit that failed wait again; those who asked are told.
    async fn commit(&self, store: &SharedStore, edits: Vec<Work>) -> Result<(), StoreError> {
        let (mut asked, mut changes) = (Vec::new(), Vec::new());
        for work in edits {
            let Work::Edit(edit, reply) = work else { continue };
            changes.push(edit);
            asked.push(reply);
        }
        let Err(error) = store.edit_entities(changes.clone()).await else {
            for reply in asked.into_iter().flatten() {
                let _ = reply.send(Ok(()));
            }
            return Ok(());
        };
        tracing::warn!(%error, "subscriptions to entities could not be changed");
        let mut waiting = self.waiting();
        for (edit, reply) in changes.into_iter().zip(asked).rev() {
            match reply {
                Some(reply) => _ = reply.send(Err(error.clone())),
                None if error.temporary() => waiting.push_front(Work::Edit(edit, None)),
                None => {}
            }
        }
        drop(waiting);
        Err(error)
    }

    /// What goes into one commit, up to where someone wants to look.
    fn take(&self) -> (Vec<Work>, Option<Look>) {
        let mut waiting = self.waiting();
        let (mut edits, mut ids) = (Vec::new(), 0);
        while edits.len() < COMMIT_EDITS_MAX && ids < COMMIT_IDS_MAX {
            match waiting.pop() {
                Some(Work::Look(look)) => return (edits, Some(look)),
                Some(work) => {
                    ids += work.ids();
                    edits.push(work);
                }
                None => break,
            }
        }
        (edits, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gone(connection_id: &str) -> EntityEdit {
        EntityEdit::Disconnect { connection_id: connection_id.to_owned() }
    }

    fn names(edits: &[Work]) -> Vec<&str> {
        let mut names = Vec::new();
        for work in edits {
            if let Work::Edit(EntityEdit::Disconnect { connection_id }, _) = work {
                names.push(connection_id.as_str());
            }
        }
        names
    }

    #[test]
    fn whoever_looks_sees_what_came_before_and_nothing_that_came_after() {
        let batch = Batch::default();
        batch.note(gone("a"));
        let _committed = batch.ask(gone("b"));
        let _looked = batch.look("a");
        batch.note(gone("c"));
        let (edits, look) = batch.take();
        assert_eq!(names(&edits), ["a", "b"]);
        assert_eq!(look.map(|look| look.connection_id).as_deref(), Some("a"));
        assert_eq!(names(&batch.take().0), ["c"]);
        assert_eq!(batch.waiting().ids, 0);
    }

    #[test]
    fn a_commit_has_an_end() {
        let batch = Batch::default();
        for number in 0..=COMMIT_EDITS_MAX {
            batch.note(gone(&number.to_string()));
        }
        assert_eq!(batch.take().0.len(), COMMIT_EDITS_MAX);
        assert_eq!(batch.take().0.len(), 1);
    }
}
