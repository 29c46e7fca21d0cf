//! Membership of a group: heartbeats, the share of partitions, and a task for each partition of the share.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::to_raw_value;
use tidewire_store::groups::decide::is_at_barrier;
use tidewire_store::groups::{
    GroupError, GroupView, LiveMember, MemberKind, MemberReport, Renewed, retry_in, shares,
};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::partition::work;
use crate::policy::{Reaction, reaction};
use crate::shared::Shared;
use crate::stats::Stats;

/// The time between two heartbeats.
const HEARTBEAT: Duration = Duration::from_millis(1_000);
/// The other members take a member for dead after this long without a heartbeat.
const MEMBER_LEASE_MS: u64 = 4_000;
/// The shortest time between two reads of a group that keeps changing.
const LOOKS_APART: Duration = Duration::from_millis(50);
/// How long a stopped member may finish its batches; then they are rolled back.
const STOP_MAX: Duration = Duration::from_secs(30);

/// How long a member tries to leave the group.
const LEAVE_MAX: Duration = Duration::from_secs(5);
const UNSIGNED: &str =
    "the member could not leave the group; the others take over when its lease expires";

/// The two ways to stop a member.
#[derive(Debug, Clone, Default)]
pub(crate) struct StopSignals {
    /// After the batches in hand.
    pub stop: CancellationToken,
    /// At once.
    pub give_up: CancellationToken,
}

/// Serves as a member until it is stopped or meets an error that ends it.
pub(crate) async fn own_partitions(
    shared: Arc<Shared>,
    stop_signals: StopSignals,
) -> Result<Stats, Error> {
    let mut owner = PartitionOwner {
        signals: shared.groups.group_signals(),
        shared: Arc::clone(&shared),
        tasks: JoinSet::new(),
        running: BTreeMap::new(),
        share: None,
        failures_in_a_row: 0,
    };
    let outcome = owner.serve(&stop_signals).await;
    owner.finish(&stop_signals).await;
    let group = &shared.settings.group;
    let leaving = shared.groups.remove_member(group, &shared.member);
    match tokio::time::timeout(LEAVE_MAX, leaving).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(group, "{UNSIGNED}: {error}"),
        Err(_) => tracing::warn!(group, "{UNSIGNED}: the database does not answer"),
    }
    outcome.map(|()| shared.tally.stats())
}

struct PartitionOwner {
    shared: Arc<Shared>,
    signals: watch::Receiver<u64>,
    tasks: JoinSet<(u32, Result<(), Error>)>,
    /// Partitions with a task, each with the token that stops it.
    running: BTreeMap<u32, CancellationToken>,
    share: Option<Vec<u32>>,
    failures_in_a_row: u32,
}

impl PartitionOwner {
    async fn serve(&mut self, stop_signals: &StopSignals) -> Result<(), Error> {
        while !stop_signals.stop.is_cancelled() {
            let looked = Instant::now();
            // Not cancelled at once: a heartbeat that arrives after the member left would add it again.
            let too_late = async {
                stop_signals.stop.cancelled().await;
                tokio::time::sleep(LEAVE_MAX).await;
            };
            let renewed = tokio::select! {
                renewed = self.renew() => renewed,
                () = too_late => break,
            };
            let wait = match renewed {
                Ok(group) => {
                    self.failures_in_a_row = 0;
                    self.assign(&group)?;
                    HEARTBEAT
                }
                Err(GroupError::NotFound) => return Err(GroupError::NotFound.into()),
                Err(error) if reaction(&error) == Reaction::End => return Err(error.into()),
                Err(error) => {
                    tracing::warn!("the heartbeat failed: {error}");
                    self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
                    retry_in(self.failures_in_a_row, HEARTBEAT / 4, HEARTBEAT, &mut rand::rng())
                }
            };
            self.wait(wait, stop_signals).await?;
            tokio::time::sleep_until(looked + LOOKS_APART).await;
        }
        Ok(())
    }

    /// Sends a heartbeat and returns the group.
    async fn renew(&mut self) -> Result<GroupView, GroupError> {
        self.signals.mark_unchanged();
        let shared = &self.shared;
        let counts = to_raw_value(&shared.tally.stats())
            .map_err(|error| GroupError::Invalid(format!("the report: {error}")))?;
        let report = MemberReport {
            group: shared.settings.group.clone(),
            member: shared.member.clone(),
            kind: MemberKind::Library,
            pinned: shared.settings.pinned,
            counts,
        };
        let Renewed { group, .. } = shared.groups.renew_member(&report, MEMBER_LEASE_MS).await?;
        if is_at_barrier(&group)
            && shared.groups.finish_change(&group.group).await?
            && let Some(group) = shared.groups.group(&group.group).await?
        {
            return Ok(group);
        }
        Ok(group)
    }

    /// Starts and stops tasks so that each partition of the share has one.
    fn assign(&mut self, group: &GroupView) -> Result<(), Error> {
        self.agree(group)?;
        let share = share_of(group, &self.shared.member);
        self.shared.want(group, &share);
        if self.share.as_ref().is_some_and(|known| *known != share) {
            self.shared.tally.rebalanced();
            tracing::info!(group = group.group, ?share, "the share changed");
        }
        for (partition, stop) in &self.running {
            if !share.contains(partition) {
                stop.cancel();
            }
        }
        for &partition in &share {
            // A task that is ending still holds the partition; its end calls this again.
            if let Entry::Vacant(place) = self.running.entry(partition) {
                let stop = place.insert(CancellationToken::new()).clone();
                let shared = Arc::clone(&self.shared);
                self.tasks.spawn(async move { (partition, work(shared, partition, stop).await) });
            }
        }
        self.share = Some(share);
        Ok(())
    }

    /// Checks the group against this member's settings.
    fn agree(&self, group: &GroupView) -> Result<(), Error> {
        let settings = &self.shared.settings;
        match settings.partitions {
            Some(wish) if wish != group.total => Err(Error::Group(GroupError::Differs(format!(
                "the group {} has {} partitions, but this member is set to {wish}: set all members to \
                     {}, or change the group with `tidewire groups change {} --partitions {wish}`",
                group.group, group.total, group.total, group.group
            )))),
            _ => match settings.pinned {
                Some(pinned) if pinned >= group.total => Err(Error::Invalid(format!(
                    "the group {} has {} partitions, 0 to {}, so no member can be pinned to {pinned}",
                    group.group,
                    group.total,
                    group.total - 1
                ))),
                _ => Ok(()),
            },
        }
    }

    async fn wait(&mut self, wait: Duration, stop_signals: &StopSignals) -> Result<(), Error> {
        let (shared, beat) = (&self.shared, Instant::now() + wait);
        tokio::select! {
            () = stop_signals.stop.cancelled() => Ok(()),
            () = stop_signals.give_up.cancelled() => Ok(()),
            () = tokio::time::sleep_until(beat) => Ok(()),
            _ = self.signals.changed() => Ok(()),
            () = shared.look.notified() => Ok(()),
            Some(ended) = self.tasks.join_next() => self.ended(ended),
        }
    }

    /// A task ended: because it was stopped, or by an error that ends the member.
    fn ended(&mut self, ended: Result<(u32, Result<(), Error>), JoinError>) -> Result<(), Error> {
        match ended {
            Ok((partition, outcome)) => {
                self.running.remove(&partition);
                outcome
            }
            Err(broken) => Err(Error::Broken(broken.to_string())),
        }
    }

    /// Lets the tasks finish their batches, for [`STOP_MAX`] at most.
    async fn finish(&mut self, stop_signals: &StopSignals) {
        for stop in self.running.values() {
            stop.cancel();
        }
        let all = async {
            while let Some(ended) = self.tasks.join_next().await {
                if let Ok((partition, Err(error))) = ended {
                    tracing::warn!(partition, "ended while stopping: {error}");
                }
            }
        };
        tokio::select! {
            () = all => {}
            () = stop_signals.give_up.cancelled() => {}
            () = tokio::time::sleep(STOP_MAX) => {
                tracing::warn!("batches in hand took longer than {STOP_MAX:?} and are rolled back");
            }
        }
        self.tasks.shutdown().await;
    }
}

/// The partitions of a member. Workers over HTTP take whatever is free, so they have no share.
fn share_of(group: &GroupView, member: &str) -> Vec<u32> {
    let sharers: Vec<LiveMember<'_>> = group
        .members
        .iter()
        .filter(|one| one.report.kind == MemberKind::Library)
        .map(|one| LiveMember {
            id: &one.report.member,
            joined_at_ms: one.joined_at_ms,
            pinned: one.report.pinned,
        })
        .collect();
    let mine = |who: Option<usize>| who.is_some_and(|who| sharers[who].id == member);
    (0..).zip(shares(&sharers, group.total)).filter(|(_, who)| mine(*who)).map(|(p, _)| p).collect()
}

#[cfg(test)]
mod tests {
    use tidewire_store::Position;
    use tidewire_store::groups::{Filter, MemberView, OnDead};

    use super::*;

    fn group(members: &[(&str, MemberKind, Option<u32>)]) -> GroupView {
        let member =
            |(joined_at_ms, (name, kind, pinned)): (i64, &(&str, MemberKind, Option<u32>))| {
                let counts = to_raw_value(&0).expect("JSON");
                let (group, member) = ("g".to_owned(), (*name).to_owned());
                let report = MemberReport { group, member, kind: *kind, pinned: *pinned, counts };
                MemberView { report, joined_at_ms, lease_ms: 1 }
            };
        GroupView {
            group: "g".to_owned(),
            total: 8,
            wanted: None,
            barrier: None,
            filter: Filter::default(),
            max_attempts: 5,
            on_dead: OnDead::Park,
            stopped: None,
            lost_to: Position::START,
            created_at_ms: 0,
            partitions: Vec::new(),
            members: (0..).zip(members).map(member).collect(),
            dead: 0,
            parked: 0,
        }
    }

    #[test]
    fn members_of_the_library_have_all_partitions_among_them() {
        use MemberKind::{Http, Library};
        let group = group(&[("a", Library, None), ("h", Http, None), ("b", Library, Some(5))]);
        assert_eq!(share_of(&group, "b"), [5]);
        assert_eq!(share_of(&group, "a"), [0, 1, 2, 3, 4, 6, 7]);
        assert!(share_of(&group, "h").is_empty(), "workers over HTTP take what is free");
        assert!(share_of(&group, "dead").is_empty());
    }
}
