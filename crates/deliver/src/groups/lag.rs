//! How far groups are behind, counted in the log itself.
//!
//! One look through the headers from the partition that is furthest back. Where that is too far, only
//! offsets are told: to count is not worth more than to work.

use std::num::NonZeroU32;
use std::sync::Arc;

use tidewire_store::groups::{GroupView, PAGE_BYTES_MAX, PartitionView, Wants};
use tidewire_store::{Position, StoreError};

use super::dispatchers::GroupDispatchers;
use tidewire_wire::clock::now_ms;

/// How far a group is behind.
#[derive(Debug, Clone)]
pub(super) struct Lag {
    tip: Position,
    /// The first position that was not looked at.
    scanned_to: Position,
    now_ms: i64,
    partitions: Vec<PartitionBacklog>,
}

/// What was seen of a partition's events from its `next` on.
#[derive(Debug, Clone, Default)]
struct PartitionBacklog {
    next: Position,
    events: u64,
    /// When the first of them was made.
    since_ms: Option<i64>,
}

/// How far a partition is behind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PartitionLag {
    pub(super) offsets: u64,
    /// None if there was too much to look through.
    pub(super) events: Option<u64>,
    /// None if there was, and none of its events was among it.
    pub(super) seconds: Option<f64>,
}

impl Lag {
    /// The log's end when it was looked at.
    pub(super) fn tip(&self) -> Position {
        self.tip
    }

    fn is_whole(&self) -> bool {
        self.scanned_to >= self.tip
    }

    /// How far a partition is behind.
    pub(super) fn partition(&self, view: &PartitionView) -> PartitionLag {
        let found = self.partitions.get(view.partition as usize).cloned().unwrap_or_default();
        // A look may be older than the view.
        let offsets = (self.tip.number() + 1).saturating_sub(view.next.number());
        if offsets == 0 {
            return PartitionLag { offsets, events: Some(0), seconds: Some(0.0) };
        }
        let whole = self.is_whole();
        let seconds = match found.since_ms {
            Some(since_ms) => Some(seconds(self.now_ms, since_ms)),
            None => whole.then_some(0.0),
        };
        PartitionLag { offsets, events: whole.then_some(found.events), seconds }
    }

    /// Events that all partitions are behind.
    pub(super) fn events(&self, view: &GroupView) -> Option<u64> {
        view.partitions.iter().map(|at| self.partition(at).events).sum()
    }

    /// The age of the oldest event that is not consumed.
    pub(super) fn seconds(&self, view: &GroupView) -> Option<f64> {
        let partitions = view.partitions.iter().map(|at| self.partition(at).seconds);
        let most = partitions.clone().flatten().reduce(f64::max);
        // Where some could not be looked at, the oldest that was seen is told, if there is one.
        most.filter(|most| *most > 0.0 || partitions.clone().all(|one| one.is_some()))
    }
}

/// Clocks differ: an event of the future is of now.
fn seconds(now_ms: i64, since_ms: i64) -> f64 {
    let ms = u32::try_from(now_ms.saturating_sub(since_ms).max(0)).unwrap_or(u32::MAX);
    f64::from(ms) / 1000.0
}

/// Looks through the log, at most so many offsets of it.
pub(super) async fn measure(
    dispatchers: &GroupDispatchers,
    view: &GroupView,
    offsets_max: u64,
) -> Result<Lag, StoreError> {
    let store = &dispatchers.store;
    let tip = store.log_tip().await?;
    let mut partitions = vec![PartitionBacklog::default(); view.total as usize];
    for at in &view.partitions {
        if let Some(behind) = partitions.get_mut(at.partition as usize) {
            behind.next = at.next;
        }
    }
    let first = view.partitions.iter().map(|at| at.next).min().unwrap_or_else(|| tip.next());
    let mut lag = Lag { tip, scanned_to: first.before(), now_ms: now_ms(), partitions };
    if tip.number().saturating_sub(lag.scanned_to.number()) > offsets_max {
        // Enough to see how old the oldest is.
        scan(
            dispatchers,
            view,
            &mut lag,
            Position::new(first.before().number() + offsets_max.min(1_000)),
        )
        .await?;
        return Ok(lag);
    }
    scan(dispatchers, view, &mut lag, tip).await?;
    Ok(lag)
}

async fn scan(
    dispatchers: &GroupDispatchers,
    view: &GroupView,
    lag: &mut Lag,
    up_to: Position,
) -> Result<(), StoreError> {
    let Some(total) = NonZeroU32::new(view.total) else { return Ok(()) };
    // Without a filter headers are enough. With one, only whole events say which stream they are of.
    let all = view.filter.is_all();
    let partitions = all.then(Default::default);
    let wants = Arc::new(Wants {
        filter: view.filter.clone(),
        total,
        partitions,
        page_bytes: PAGE_BYTES_MAX,
    });
    while lag.scanned_to < up_to {
        let page = dispatchers.store.log_page(lag.scanned_to, up_to, &wants).await?;
        for entry in &page.entries {
            let Some(behind) = lag.partitions.get_mut(entry.partition as usize) else { continue };
            let own = !entry.control && (all || entry.event.is_some());
            if own && entry.position >= behind.next {
                behind.events += 1;
                behind.since_ms.get_or_insert(entry.created_at_ms);
            }
        }
        if page.scanned_to <= lag.scanned_to {
            break;
        }
        lag.scanned_to = page.scanned_to;
    }
    Ok(())
}
