//! What is done for groups that nobody works for here: measuring them, and moving along what has nothing to
//! do, so that retention need not wait for it.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use tidewire_store::groups::decide::{is_at_barrier, skip_in};
use tidewire_store::groups::{
    Assembled, Decision, GroupError, GroupView, Holdings, Pages, PartitionView, Source, decide,
};
use tidewire_store::{Position, StoreError};

use super::counters::Counts;
use super::dispatchers::GroupDispatchers;
use super::find;
use super::lag::{self, Lag};
use tidewire_wire::clock::now_ms;

/// A partition that nobody works on is looked at when it is so many offsets behind.
const BEHIND_OFFSETS: u64 = 10_000;
/// Offsets that are looked through at once to move a partition along.
const LOOK_OFFSETS: u64 = 50_000;
/// How long moving a partition along may take.
const PASS_TIMEOUT_MS: u64 = 5_000;
/// With a filter whole events must be read to count them: so many times fewer are looked through
/// unasked.
const FILTERED_COST: u64 = 10;

/// What was seen of a group.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) view: GroupView,
    pub(super) lag: Lag,
    /// What its workers did until then, and events a second since the look before.
    pub(super) counts: Counts,
    pub(super) rate: f64,
    at: Instant,
}

impl Measured {
    /// Whether it is of the same group, which has only moved on since.
    pub(super) fn fits(&self, view: &GroupView) -> bool {
        let mut places = self.view.partitions.iter().zip(&view.partitions);
        self.view.group == view.group
            && self.view.created_at_ms == view.created_at_ms
            && self.view.filter == view.filter
            && self.view.total == view.total
            && places.all(|(before, at)| before.next <= at.next)
    }
}

/// Looks at all groups now and then.
pub(crate) async fn keep(dispatchers: Arc<GroupDispatchers>, stop: CancellationToken) {
    let mut round = tokio::time::interval(dispatchers.hub.options.groups.metrics);
    round.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = round.tick() => {}
        }
        tokio::select! {
            () = stop.cancelled() => return,
            looked = look(&dispatchers) => {
                if let Err(error) = looked {
                    tracing::warn!(%error, "could not read the consumer groups; trying again");
                }
            }
        }
    }
}

async fn look(dispatchers: &GroupDispatchers) -> Result<(), StoreError> {
    let views = dispatchers.store.list_groups().await?;
    dispatchers.counters.hear(&views);
    let mut measured = Vec::with_capacity(views.len());
    for view in views {
        let all = dispatchers.hub.options.groups.lag_scan_max;
        let most = if view.filter.is_all() { all } else { all / FILTERED_COST };
        let lag = lag::measure(dispatchers, &view, most).await?;
        if let Err(error) = tend(dispatchers, &view, lag.tip()).await
            && !error.temporary()
        {
            tracing::warn!(group = view.group, %error, "could not advance a group");
        }
        let counts = dispatchers.counters.of(&view.group);
        let rate = rate(dispatchers, &view.group, counts);
        measured.push(Measured { view, lag, counts, rate, at: Instant::now() });
    }
    *dispatchers.measured.lock().unwrap_or_else(PoisonError::into_inner) = measured;
    Ok(())
}

fn rate(dispatchers: &GroupDispatchers, group: &str, counts: Counts) -> f64 {
    let measured = dispatchers.measured.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(before) = measured.iter().find(|one| one.view.group == group) else { return 0.0 };
    let events = u32::try_from(counts.events.saturating_sub(before.counts.events));
    let seconds = before.at.elapsed().as_secs_f64().max(0.001);
    f64::from(events.unwrap_or(u32::MAX)) / seconds
}

/// Moves along partitions that have nothing to do, where nobody works who would.
async fn tend(
    dispatchers: &GroupDispatchers,
    view: &GroupView,
    tip: Position,
) -> Result<(), GroupError> {
    if view.stopped.is_some() {
        return Ok(());
    }
    // Those who work move their partitions along themselves; but workers over HTTP count as members for
    // as long as their last lease lasts, and a change of partitions need not wait for that.
    let nobody = view.members.is_empty();
    let behind =
        |at: Position| nobody && tip.number().saturating_sub(at.number()) >= BEHIND_OFFSETS;
    let reads = |at: &PartitionView| match decide(view, at, false) {
        Decision::HandOut(sources) => sources.contains(&Source::Log),
        _ => false,
    };
    let due = view
        .partitions
        .iter()
        .filter(|at| reads(at) && (behind(at.next) || view.barrier.is_some_and(|to| at.next < to)));
    let due: Vec<_> = due.collect();
    if !due.is_empty() {
        let wants = find::wants(view, Some(due.iter().map(|at| at.partition).collect()));
        let pages = Pages::new(dispatchers.hub.options.groups.page_cache_bytes_max);
        for at in due {
            let held = find::holdings(dispatchers, view, at).await?;
            let up_to = tip.min(Position::new(at.next.number() + LOOK_OFFSETS));
            let limits = find::limits(&dispatchers.hub.options.groups, 1);
            let store = &*dispatchers.store;
            let read = pages.assemble(store, &wants, &held, limits, at.next, up_to);
            if let Assembled::Nothing { next } = read.await? {
                pass(dispatchers, &held, next).await?;
            }
        }
    }
    if is_at_barrier(view) {
        dispatchers.store.finish_change(&view.group).await?;
    }
    Ok(())
}

/// Moves a partition past what is not its own, if it is far enough behind to be worth a write.
pub(super) async fn pass(
    dispatchers: &GroupDispatchers,
    held: &Holdings,
    next: Position,
) -> Result<(), GroupError> {
    let at = &held.partition;
    let idle_ms = now_ms().saturating_sub(at.moved_at_ms.unwrap_or_default());
    let idle_for = Duration::from_millis(u64::try_from(idle_ms).unwrap_or(0));
    if skip_in(held, next, idle_for).is_some_and(|wait| wait.is_zero()) {
        let claim = held.claim(at.member.as_deref().unwrap_or("tidewire"), PASS_TIMEOUT_MS);
        dispatchers.store.skip(&claim, next).await?;
    }
    Ok(())
}
