//! Many changes, one commit. What is asked for is committed as soon as the commit before it is done;
//! what is only noted waits a little for company, and where two notes are about the same pointer one
//! is kept, so that what waits is bounded by what is subscribed to.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use tidewire_store::{Position, SessionChange, SessionOutcome, SharedStore, StoreError};

use crate::batch_notify::BatchNotify;

/// How long a note waits for others.
const GATHER: Duration = Duration::from_millis(200);
/// Changes in one commit.
const CHANGES_MAX: usize = 2_000;
/// How long to wait before a failed commit of notes is tried again.
const RETRY: Duration = Duration::from_millis(500);

type Reply = oneshot::Sender<Result<SessionOutcome, StoreError>>;

/// What waits to be committed.
#[derive(Debug, Default)]
pub struct Batch {
    waiting: Mutex<PendingNotes>,
    notify: BatchNotify,
}

#[derive(Debug, Default)]
struct PendingNotes {
    asked: Vec<(SessionChange, Reply)>,
    /// Pointers by session and stream: the epoch and the furthest position.
    pointers: HashMap<(String, String), (u64, Position)>,
    /// Other notes, in order.
    others: Vec<SessionChange>,
}

impl PendingNotes {
    fn is_empty(&self) -> bool {
        self.asked.is_empty() && self.pointers.is_empty() && self.others.is_empty()
    }

    fn note(&mut self, change: SessionChange) {
        let SessionChange::Acknowledge { session, stream, epoch, position } = change else {
            self.others.push(change);
            return;
        };
        let pointer = self.pointers.entry((session, stream)).or_insert((epoch, position));
        // A newer subscription's pointer replaces an older one's, never the other way round.
        *pointer = (*pointer).max((epoch, position));
    }
}

impl Batch {
    fn waiting(&self) -> MutexGuard<'_, PendingNotes> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes changes in order, in one commit unless they are too many, and returns the last one's
    /// outcome.
    pub async fn ask(
        &self,
        changes: impl IntoIterator<Item = SessionChange>,
    ) -> Result<SessionOutcome, StoreError> {
        let mut outcomes = Vec::new();
        {
            let mut waiting = self.waiting();
            for change in changes {
                let (reply, outcome) = oneshot::channel();
                waiting.asked.push((change, reply));
                outcomes.push(outcome);
            }
        }
        self.notify.ask();
        let mut last = SessionOutcome::Done;
        for outcome in outcomes {
            last = outcome.await.map_err(|_| StoreError::Closed)??;
        }
        Ok(last)
    }

    pub fn note(&self, changes: Vec<SessionChange>) {
        if changes.is_empty() {
            return;
        }
        let mut waiting = self.waiting();
        for change in changes {
            waiting.note(change);
        }
        drop(waiting);
        self.notify.note();
    }

    /// Commits until `stop`, and then what is left.
    pub async fn run(&self, store: SharedStore, stop: CancellationToken) {
        loop {
            let stopping = self.notify.heard(GATHER, &stop).await;
            while !self.waiting().is_empty() {
                if self.commit(&store).await.is_err() {
                    if stopping {
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

    /// Commits some of what waits. Notes of a commit that failed wait again; those who asked are
    /// told.
    async fn commit(&self, store: &SharedStore) -> Result<(), StoreError> {
        let (changes, replies) = self.take();
        let result = store.change_sessions(changes.clone()).await;
        match result {
            Ok(outcomes) => {
                for (reply, outcome) in replies.into_iter().zip(outcomes) {
                    let _ = reply.send(Ok(outcome));
                }
                Ok(())
            }
            Err(error) => {
                tracing::warn!(%error, changes = changes.len(), "could not change sessions");
                let mut waiting = self.waiting();
                let asked = replies.len();
                for reply in replies {
                    let _ = reply.send(Err(error.clone()));
                }
                if error.temporary() {
                    for change in changes.into_iter().skip(asked) {
                        waiting.note(change);
                    }
                }
                drop(waiting);
                Err(error)
            }
        }
    }

    /// What goes into one commit: what was asked for first, in order, then notes.
    fn take(&self) -> (Vec<SessionChange>, Vec<Reply>) {
        let mut waiting = self.waiting();
        let count = waiting.asked.len().min(CHANGES_MAX);
        let (mut changes, replies): (Vec<_>, Vec<_>) = waiting.asked.drain(..count).unzip();
        let room = CHANGES_MAX - changes.len();
        let count = waiting.others.len().min(room);
        changes.extend(waiting.others.drain(..count));
        let room = CHANGES_MAX - changes.len();
        let keys: Vec<_> = waiting.pointers.keys().take(room).cloned().collect();
        for key in keys {
            if let Some((epoch, position)) = waiting.pointers.remove(&key) {
                let (session, stream) = key;
                changes.push(SessionChange::Acknowledge { session, stream, epoch, position });
            }
        }
        (changes, replies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(epoch: u64, position: u64) -> SessionChange {
        let (session, stream) = ("s".to_owned(), "a".to_owned());
        SessionChange::Acknowledge { session, stream, epoch, position: Position::new(position) }
    }

    #[test]
    fn notes_about_one_pointer_are_one_change() {
        let batch = Batch::default();
        batch.note(vec![ack(1, 5), ack(1, 9), ack(1, 7)]);
        assert_eq!(batch.take().0, [ack(1, 9)]);
        batch.note(vec![ack(2, 3), ack(1, 9)]);
        assert_eq!(batch.take().0, [ack(2, 3)], "the older subscription's pointer is gone");
    }

    #[test]
    fn what_was_asked_for_goes_first_and_a_commit_has_an_end() {
        let batch = Batch::default();
        for number in 0..CHANGES_MAX + 10 {
            let session = number.to_string();
            batch.note(vec![SessionChange::Heartbeat { session, ttl_ms: 1 }]);
        }
        let (reply, _outcome) = oneshot::channel();
        batch.waiting().asked.push((ack(1, 1), reply));
        let (changes, replies) = batch.take();
        assert_eq!((changes.len(), replies.len()), (CHANGES_MAX, 1));
        assert_eq!(changes[0], ack(1, 1));
        assert_eq!(batch.take().0.len(), 11);
    }
}
