//! What is counted of groups on this node: what workers did over HTTP here, and what members that use the
//! library report through the store.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;

use tidewire_store::groups::{GroupView, MemberKind};

/// What a group's workers did. All of them only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Counts {
    /// Events that were acknowledged.
    pub(super) events: u64,
    /// Runs of a key that failed and are tried again.
    pub(super) retries: u64,
    /// Events that became dead letters.
    pub(super) dead: u64,
    /// Changes of a member's share.
    pub(super) rebalances: u64,
    /// Leases that ran out, and whose batch went to another.
    #[serde(skip)]
    pub(super) lease_expirations: u64,
}

impl Counts {
    fn add(&mut self, more: Counts) {
        self.events += more.events;
        self.retries += more.retries;
        self.dead += more.dead;
        self.rebalances += more.rebalances;
        self.lease_expirations += more.lease_expirations;
    }

    /// What came since. A member that began anew counts from 0 again.
    fn since(self, before: Counts) -> Counts {
        let since = |now: u64, before: u64| if now >= before { now - before } else { now };
        Counts {
            events: since(self.events, before.events),
            retries: since(self.retries, before.retries),
            dead: since(self.dead, before.dead),
            rebalances: since(self.rebalances, before.rebalances),
            lease_expirations: 0,
        }
    }
}

/// Counts by group.
#[derive(Debug, Default)]
pub(super) struct Counters(Mutex<CountersByGroup>);

#[derive(Debug, Default)]
struct CountersByGroup {
    groups: HashMap<String, Counts>,
    /// What each living member of the library said last.
    reported: HashMap<(String, String), Counts>,
}

impl Counters {
    fn kept<T>(&self, then: impl FnOnce(&mut CountersByGroup) -> T) -> T {
        then(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Something happened in a group.
    pub(super) fn count(&self, group: &str, more: Counts) {
        self.kept(|kept| match kept.groups.get_mut(group) {
            Some(counts) => counts.add(more),
            None => {
                kept.groups.insert(group.to_owned(), more);
            }
        });
    }

    /// Takes in what members report. Groups and members that are gone are forgotten.
    pub(super) fn hear(&self, views: &[GroupView]) {
        self.kept(|kept| {
            kept.groups.retain(|group, _| views.iter().any(|view| view.group == *group));
            let before = std::mem::take(&mut kept.reported);
            for view in views {
                let counts = kept.groups.entry(view.group.clone()).or_default();
                let library = |kind| kind == MemberKind::Library;
                for member in view.members.iter().filter(|member| library(member.report.kind)) {
                    let said: Counts =
                        serde_json::from_str(member.report.counts.get()).unwrap_or_default();
                    let known = (view.group.clone(), member.report.member.clone());
                    // One that this node sees for the first time may have worked for long.
                    counts.add(said.since(before.get(&known).copied().unwrap_or(said)));
                    kept.reported.insert(known, said);
                }
            }
        });
    }

    /// What a group's workers did so far.
    pub(super) fn of(&self, group: &str) -> Counts {
        self.kept(|kept| kept.groups.get(group).copied().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_member_reports_is_counted_once() {
        let said = |events| Counts { events, ..Counts::default() };
        assert_eq!(said(7).since(said(5)), said(2));
        assert_eq!(said(3).since(said(5)), said(3), "it began anew");
    }
}
