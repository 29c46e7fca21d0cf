//! The state of groups in memory: locks on partitions, open transactions of handlers, and signals of change.
//!
//! One process has the file, so a set in memory locks as well as the database would.

use std::collections::{HashMap, HashSet};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::sessions::SessionRequest;
use tidewire_store::error::StoreError;

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(crate) struct GroupRuntime {
    signals: watch::Sender<u64>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    held: HashSet<(String, u32)>,
    /// Where sessions are told that the store closes, by number.
    sessions: HashMap<u64, Sender<SessionRequest>>,
    numbers: u64,
    closed: bool,
}

impl GroupRuntime {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a partition; none if somebody has it.
    pub(super) fn hold(self: &Arc<Self>, group: &str, partition: u32) -> Option<PartitionLock> {
        let partition = (group.to_owned(), partition);
        let taken = self.state().held.insert(partition.clone());
        taken.then(|| PartitionLock { runtime: Arc::clone(self), partition })
    }

    /// Whether somebody works on a partition in a transaction.
    pub(super) fn is_held(&self, group: &str, partition: u32) -> bool {
        self.state().held.contains(&(group.to_owned(), partition))
    }

    /// Notes a session that is about to be opened.
    pub(super) fn open(&self, requests: Sender<SessionRequest>) -> Result<u64, StoreError> {
        let mut state = self.state();
        if state.closed {
            return Err(StoreError::Closed);
        }
        state.numbers += 1;
        let number = state.numbers;
        state.sessions.insert(number, requests);
        Ok(number)
    }

    /// Forgets a session that is over.
    pub(super) fn over(&self, number: u64) {
        self.state().sessions.remove(&number);
    }

    /// Ends all sessions, and lets none begin.
    pub(crate) fn close(&self) {
        let sessions = {
            let mut state = self.state();
            state.closed = true;
            std::mem::take(&mut state.sessions)
        };
        for requests in sessions.into_values() {
            // One that is over does not listen any more.
            let _ = requests.send(SessionRequest::Close);
        }
    }

    /// Says that something may have changed.
    pub(crate) fn signal(&self) {
        self.signals.send_modify(|count| *count += 1);
    }

    pub(super) fn signals(&self) -> watch::Receiver<u64> {
        self.signals.subscribe()
    }
}

/// A partition that is held until this is dropped.
#[derive(Debug)]
pub(super) struct PartitionLock {
    runtime: Arc<GroupRuntime>,
    partition: (String, u32),
}

impl Drop for PartitionLock {
    fn drop(&mut self) {
        self.runtime.state().held.remove(&self.partition);
    }
}
