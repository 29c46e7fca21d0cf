//! Counts what was sent for each live query, for `system.live_queries`.
//!
//! Counting takes no lock, because it is done for each follower of each change. Who was told something
//! since the counts were last taken is noted once, in a queue that the list empties.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;

use tidewire_query::PlanName;
use tidewire_store::LiveQueryEdit;

use super::registry::Registry;

/// No lag is known.
const UNKNOWN: u64 = u64::MAX;

/// What one follower was told. Written by its shard alone.
#[derive(Debug)]
pub struct Counts {
    live_id: Box<str>,
    /// It is in the queue of those who were told something.
    noted: AtomicBool,
    changes: AtomicU64,
    /// How long the last change was under way.
    lag_ms: AtomicU64,
    /// What waited for its connection then.
    queue_depth: AtomicU64,
    /// The plan by which it was found, as a number.
    plan: AtomicU64,
}

/// Those who were told something since the counts were last taken.
#[derive(Debug)]
pub(super) struct ChangedCounts {
    told: mpsc::UnboundedSender<Arc<Counts>>,
    /// Locked by whoever takes the counts, and nobody else.
    taken: Mutex<mpsc::UnboundedReceiver<Arc<Counts>>>,
}

impl Default for ChangedCounts {
    fn default() -> ChangedCounts {
        // Without a bound but the number of subscriptions: each is in it once.
        let (told, taken) = mpsc::unbounded_channel();
        ChangedCounts { told, taken: Mutex::new(taken) }
    }
}

impl ChangedCounts {
    /// What was counted since it was last taken.
    pub(super) fn take(&self) -> Vec<LiveQueryEdit> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let mut edits = Vec::new();
        while let Ok(counts) = taken.try_recv() {
            edits.push(counts.take());
        }
        edits
    }
}

impl Counts {
    pub(super) fn new(live_id: &str) -> Counts {
        Counts {
            live_id: live_id.into(),
            noted: AtomicBool::new(false),
            changes: AtomicU64::new(0),
            lag_ms: AtomicU64::new(UNKNOWN),
            queue_depth: AtomicU64::new(0),
            plan: AtomicU64::new(0),
        }
    }

    /// One more change was told, which was under way for so long, and so much waits for its connection.
    pub fn count(
        self: &Arc<Counts>,
        lag_ms: Option<u64>,
        queue_depth: usize,
        plan: PlanName,
        registry: &Registry,
    ) {
        self.changes.fetch_add(1, Ordering::Relaxed);
        if let Some(lag_ms) = lag_ms {
            self.lag_ms.store(lag_ms, Ordering::Relaxed);
        }
        self.queue_depth.store(queue_depth as u64, Ordering::Relaxed);
        self.plan.store(plan as u64, Ordering::Relaxed);
        if !self.noted.swap(true, Ordering::AcqRel) {
            // A list that is gone belongs to a server that stops.
            let _ = registry.counted.told.send(Arc::clone(self));
        }
    }

    fn take(&self) -> LiveQueryEdit {
        // Before the counts: what comes from here on is noted anew.
        self.noted.store(false, Ordering::Release);
        let lag_ms = self.lag_ms.swap(UNKNOWN, Ordering::Relaxed);
        let plan = self.plan.load(Ordering::Relaxed);
        let plan = PlanName::ALL.into_iter().find(|known| *known as u64 == plan);
        LiveQueryEdit::Count {
            live_id: self.live_id.to_string(),
            changes: self.changes.swap(0, Ordering::Relaxed),
            lag_ms: (lag_ms != UNKNOWN).then_some(lag_ms),
            queue_depth: self.queue_depth.load(Ordering::Relaxed),
            plan: plan.unwrap_or(PlanName::Filter).as_str().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use tidewire_store::LiveQueryRow;

    use super::*;

    #[test]
    fn counts_are_summed() {
        let registry = Registry::default();
        let counts = registry.opened(LiveQueryRow {
            live_id: "c-a".to_owned(),
            connection_id: "c".to_owned(),
            query_id: "a".to_owned(),
            user_id: String::new(),
            query: "SELECT 1".to_owned(),
            node: "n".to_owned(),
            plan: "filter".to_owned(),
            user_agent: None,
            address: None,
        });
        counts.count(Some(5), 1, PlanName::Filter, &registry);
        counts.count(None, 2, PlanName::Requery, &registry);
        let told = |changes, lag_ms, plan: &str| LiveQueryEdit::Count {
            live_id: "c-a".to_owned(),
            changes,
            lag_ms,
            queue_depth: 2,
            plan: plan.to_owned(),
        };
        assert_eq!(registry.counted.take(), [told(2, Some(5), "requery")]);
        assert_eq!(registry.counted.take(), [], "nothing was told since");
        counts.count(None, 2, PlanName::Filter, &registry);
        assert_eq!(registry.counted.take(), [told(1, None, "filter")]);
    }
}
