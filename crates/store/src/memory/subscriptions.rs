//! Subscriptions and shared secrets.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::{MemoryStore, Rows};
use crate::decide::{announcement, decide_change};
use crate::error::StoreError;
use crate::offset::Position;
use crate::source::{self, Source};
use crate::subscription::{
    Context, Ends, Interest, Link, Op, Reply, Subscription, Subscriptions, apply,
};

/// What is kept of subscriptions.
#[derive(Debug, Default)]
pub(super) struct StoredSubscriptions {
    /// By id. The ends of their streams are filled in when one is loaded.
    kept: BTreeMap<String, Subscription>,
    secrets: BTreeMap<String, Vec<u8>>,
    /// How many wakes may have begun: their ids are numbers, so that a simulation repeats itself.
    wakes: u64,
}

impl Rows {
    /// A subscription with its streams and their ends.
    fn subscription(&self, id: &str, now_ms: i64) -> Option<Subscription> {
        let kept = self.subscriptions.kept.get(id)?;
        let mut loaded = Subscription { links: BTreeMap::new(), ..kept.clone() };
        for (name, link) in &kept.links {
            let mut log = self.log.at(now_ms);
            let Ok(state) = log.stream(name);
            let state = state.filter(|state| !state.soft_deleted);
            let tail = state.as_ref().map_or(Position::START, |state| {
                let Ok(tail) = source::tail(&log, state);
                tail
            });
            loaded.put_link(name, Link { tail, ..*link }, state.is_some());
        }
        Some(loaded)
    }
}

impl MemoryStore {
    /// Applies an operation and keeps what changed.
    fn change(&self, rows: &mut Rows, id: &str, op: &Op, now_ms: i64) -> Reply {
        rows.subscriptions.wakes += 1;
        let wake_id = format!("{:032x}", rows.subscriptions.wakes);
        let current = rows.subscription(id, now_ms);
        let Ok(Ends { tails, starts }) = source::ends(&mut rows.log.at(now_ms), op);
        let change = apply(id, current, op, &Context { now_ms, wake_id, tails, starts });
        match &change.save {
            None => {}
            Some(None) => drop(rows.subscriptions.kept.remove(id)),
            Some(Some(kept)) => {
                rows.subscriptions.kept.insert(id.to_owned(), kept.clone());
            }
        }
        let commands = announcement(&change);
        let loaded = rows.log.at(now_ms).loaded(&commands);
        let plan = decide_change(loaded, id, &change, commands);
        self.save(rows, &plan, now_ms);
        change.reply
    }
}

#[async_trait]
impl Subscriptions for MemoryStore {
    async fn subscription(&self, id: &str) -> Result<Option<Subscription>, StoreError> {
        self.run(|rows, now_ms| rows.subscription(id, now_ms)).await
    }

    async fn interests(&self) -> Result<Vec<Interest>, StoreError> {
        let interest = |kept: &Subscription| {
            let explicit = kept.links.iter().filter(|(_, link)| link.explicit);
            let streams = explicit.map(|(name, _)| name.clone()).collect();
            Interest { id: kept.id.clone(), pattern: kept.config.pattern.clone(), streams }
        };
        self.run(|rows, _| rows.subscriptions.kept.values().map(interest).collect()).await
    }

    async fn change_subscription(&self, id: &str, op: Op) -> Result<Reply, StoreError> {
        self.run(|rows, now_ms| self.change(rows, id, &op, now_ms)).await
    }

    async fn due_subscriptions(&self, limit: usize) -> Result<Vec<String>, StoreError> {
        let due = |kept: &Subscription, now_ms: i64| {
            let lease_until_ms = kept.wake.as_ref().and_then(|wake| wake.lease_until_ms);
            [kept.next_attempt_at_ms, lease_until_ms].iter().flatten().any(|at_ms| *at_ms <= now_ms)
        };
        let find = |rows: &mut Rows, now_ms| {
            let due = rows.subscriptions.kept.values().filter(|kept| due(kept, now_ms));
            due.map(|kept| kept.id.clone()).take(limit).collect()
        };
        self.run(find).await
    }

    async fn secret(&self, name: &str, candidate: Vec<u8>) -> Result<Vec<u8>, StoreError> {
        let keep = |rows: &mut Rows, _| {
            rows.subscriptions.secrets.entry(name.to_owned()).or_insert(candidate).clone()
        };
        self.run(keep).await
    }
}
