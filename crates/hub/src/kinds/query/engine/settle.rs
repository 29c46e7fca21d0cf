//! Finds the log position of rows that were read: known once the log has everything that they may show.
//!
//! One look at that is under way at a time, and serves all reads that had ended when it began. What is
//! not settled in time is told without an offset.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use tidewire_query::AskId;
use tidewire_store::{Position, SharedStore, StoreError};

/// How long the log may take to have everything; then it is asked again.
const WAIT_MS: u64 = 10_000;
/// How long to wait after it could not be asked.
const RETRY: Duration = Duration::from_millis(200);

/// Reads whose places in the log are not known.
#[derive(Debug, Default)]
pub(super) struct UnsettledReads {
    /// For the next look.
    waiting: Vec<AskId>,
    /// For the one under way.
    asking: Vec<AskId>,
    look: JoinSet<Result<Position, StoreError>>,
    not_before: Option<Instant>,
    /// Until when each is waited for, the earliest first.
    deadlines: VecDeque<(Instant, AskId)>,
}

impl UnsettledReads {
    /// A read has ended whose place is to be found.
    pub(super) fn push(&mut self, ask: AskId, deadline: Instant) {
        self.waiting.push(ask);
        self.deadlines.push_back((deadline, ask));
    }

    /// Begins the next look, if there is one to begin. Returns when something is due.
    pub(super) fn begin(&mut self, store: &SharedStore, now: Instant) -> Option<Instant> {
        let due = self.not_before.is_none_or(|at| at <= now);
        if self.look.is_empty() && !self.waiting.is_empty() && due {
            self.asking.append(&mut self.waiting);
            let store = SharedStore::clone(store);
            self.look.spawn(async move { store.caught_up(WAIT_MS).await });
        }
        let retry = self.not_before.filter(|at| *at > now && !self.waiting.is_empty());
        let deadline = self.deadlines.front().map(|(deadline, _)| *deadline);
        retry.into_iter().chain(deadline).min()
    }

    /// The reads that are settled, and where. Waits for ever while no look is under way.
    pub(super) async fn next(&mut self) -> (Vec<AskId>, Position) {
        loop {
            match self.look.join_next().await {
                Some(Ok(Ok(position))) => {
                    let settled = std::mem::take(&mut self.asking);
                    let known: HashSet<_> = settled.iter().collect();
                    self.deadlines.retain(|(_, ask)| !known.contains(ask));
                    self.not_before = None;
                    return (settled, position);
                }
                Some(outcome) => {
                    if let Ok(Err(error)) = outcome {
                        tracing::debug!(%error, "could not read the log's position; trying again");
                    }
                    self.waiting.append(&mut self.asking);
                    self.not_before = Some(Instant::now() + RETRY);
                    return (Vec::new(), Position::START);
                }
                None => std::future::pending().await,
            }
        }
    }

    /// Those that are not waited for any longer. They settle all the same.
    pub(super) fn overdue(&mut self, now: Instant) -> Vec<AskId> {
        let count = self.deadlines.partition_point(|(deadline, _)| *deadline <= now);
        self.deadlines.drain(..count).map(|(_, ask)| ask).collect()
    }
}
