//! Finding a batch for a partition: the log as the partition sees it, with what is parked set aside.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;

use tidewire_store::groups::{
    Assembled, Assembler, Batch, Claim, GroupError, GroupView, Holdings, Key, PAGE_BYTES_MAX,
    Pages, PartitionView, Spec, Verdict, Wants,
};
use tidewire_store::{Position, StoreError};

use crate::node::Node;

/// A partition, and what must be known to work on it: good for one generation.
#[derive(Debug, Clone)]
pub(super) struct Scene {
    pub(super) group: String,
    pub(super) at: PartitionView,
    pub(super) parked: BTreeMap<Key, Position>,
    pub(super) attempts: BTreeMap<Key, (u32, Verdict)>,
    /// Nothing at or past this is handed out.
    pub(super) barrier: Option<Position>,
    /// Events that became letters and were not passed yet: nobody is to work on them.
    pub(super) dead: BTreeSet<Position>,
}

impl Scene {
    /// Looks at a partition. What nothing is known of costs no look.
    pub(super) async fn of(
        node: &Node,
        view: &GroupView,
        at: &PartitionView,
    ) -> Result<Scene, GroupError> {
        if at.failing > 0 || at.parked > 0 || at.redrive || view.dead > 0 {
            let holdings = node.groups.store.holdings(&view.group, at.partition).await?;
            // The filter and the barrier are the view's: what is of another generation does not fit them.
            if holdings.partition.generation != at.generation {
                return Err(GroupError::Moved);
            }
            return Ok(Scene::held(view, holdings));
        }
        Ok(Scene {
            group: view.group.clone(),
            at: at.clone(),
            parked: BTreeMap::new(),
            attempts: BTreeMap::new(),
            barrier: view.barrier,
            dead: BTreeSet::new(),
        })
    }

    /// The same of what was looked at before.
    pub(super) fn held(view: &GroupView, holdings: Holdings) -> Scene {
        Scene {
            group: view.group.clone(),
            at: holdings.partition,
            parked: holdings.parked,
            attempts: holdings.attempts,
            barrier: view.barrier,
            dead: holdings.dead,
        }
    }

    /// A claim of the partition as it was seen.
    pub(super) fn claim(&self, member: &str, timeout_ms: u64) -> Claim {
        Claim {
            group: self.group.clone(),
            partition: self.at.partition,
            member: member.to_owned(),
            generation: self.at.generation,
            next: self.at.next,
            timeout_ms,
        }
    }

    /// Makes a batch of the log up to the tip. A transaction that has more than a usual batch is too large.
    pub(super) async fn assemble(
        &self,
        node: &Node,
        pages: &Pages,
        wants: &Arc<Wants>,
        tip: Position,
        batch_size: usize,
    ) -> Result<Assembled, StoreError> {
        let options = &node.options.groups;
        let spec = self.spec(
            batch_size,
            options.transaction_events_max.max(batch_size),
            options.batch_bytes.min(options.transaction_bytes_max),
        );
        self.assemble_as(node, pages, wants, tip, spec).await
    }

    /// Makes a batch of the next transaction alone, which may have more bytes than a usual batch.
    pub(super) async fn assemble_one(
        &self,
        node: &Node,
        pages: &Pages,
        wants: &Arc<Wants>,
        tip: Position,
        batch_size: usize,
    ) -> Result<Assembled, StoreError> {
        let options = &node.options.groups;
        let events_max = options.transaction_events_max.max(batch_size);
        let spec = self.spec(1, events_max, options.transaction_bytes_max);
        self.assemble_as(node, pages, wants, tip, spec).await
    }

    /// Makes a batch of everything up to a place, if it has no more bytes than these.
    pub(super) async fn assemble_all(
        &self,
        node: &Node,
        pages: &Pages,
        wants: &Arc<Wants>,
        up_to: Position,
        bytes_max: usize,
    ) -> Result<Assembled, StoreError> {
        let spec = self.spec(usize::MAX, usize::MAX, bytes_max);
        self.assemble_as(node, pages, wants, up_to, spec).await
    }

    fn spec(&self, batch_size: usize, events_max: usize, bytes_max: usize) -> Spec<'_> {
        Spec {
            partition: self.at.partition,
            batch_size,
            events_max,
            bytes_max,
            stop_at: self.barrier,
            parked: &self.parked,
        }
    }

    async fn assemble_as(
        &self,
        node: &Node,
        pages: &Pages,
        wants: &Arc<Wants>,
        tip: Position,
        spec: Spec<'_>,
    ) -> Result<Assembled, StoreError> {
        let mut assembler = Assembler::new(spec, self.at.next);
        let mut after = before(self.at.next);
        while after < tip {
            let page = pages.after(&*node.groups.store, wants, after, tip).await?;
            if !assembler.feed(&page) || page.scanned_to <= after {
                break;
            }
            after = page.scanned_to;
        }
        let mut assembled = assembler.finish();
        if let Assembled::Batch(batch) = &mut assembled {
            self.dress(batch);
        }
        Ok(assembled)
    }

    /// Says how often keys failed.
    pub(super) fn count_attempts(&self, batch: &mut Batch) {
        for key in &mut batch.groups {
            key.attempt = self.attempts.get(&key.key).map_or(0, |(attempts, _)| *attempts);
        }
    }

    /// The same, and what is a letter already is left out.
    fn dress(&self, batch: &mut Batch) {
        self.count_attempts(batch);
        for key in &mut batch.groups {
            key.events.retain(|event| !self.dead.contains(&event.position));
        }
        batch.groups.retain(|key| !key.events.is_empty());
    }
}

/// The last position before a `next`.
pub(super) fn before(next: Position) -> Position {
    Position::new(next.number().saturating_sub(1))
}

/// What all partitions of a group read.
pub(super) fn wants(view: &GroupView, partitions: Option<BTreeSet<u32>>) -> Arc<Wants> {
    let total = NonZeroU32::new(view.total).unwrap_or(NonZeroU32::MIN);
    Arc::new(Wants { filter: view.filter.clone(), total, partitions, page_bytes: PAGE_BYTES_MAX })
}

/// Why a partition cannot go on, when a transaction has too much for it.
pub(super) fn too_large(node: &Node, txid: Option<i64>, events: usize, bytes: usize) -> String {
    let options = &node.options.groups;
    let which = txid.map_or_else(|| "an append".to_owned(), |txid| format!("transaction {txid}"));
    format!(
        "transaction_too_large: {which} has {events} events and {bytes} bytes here, or more; \
         groups.transaction_events_max is {} and groups.transaction_bytes_max {}: raise them, restart, \
         then resume the group",
        options.transaction_events_max, options.transaction_bytes_max
    )
}

#[cfg(test)]
mod tests {
    use tidewire_store::groups::{GroupChange, GroupWish};

    use super::*;
    use crate::testing::Bench;

    /// A batch of what the group read before would be leased, and the rest never handed out.
    #[test]
    fn a_group_that_was_changed_since_is_looked_at_again() {
        let bench = Bench::start_on_sqlite();
        let node = bench.node();
        let wish = GroupWish { partitions: Some(1), ..GroupWish::default() };
        let made = bench.wait(node.groups.store.put_group("g", &wish)).expect("a group");
        let mut seen = made.0;
        seen.partitions[0].failing = 1;
        let scene = |view: &GroupView| bench.wait(Scene::of(node, view, &view.partitions[0]));
        assert!(scene(&seen).is_ok(), "nothing has changed");
        let filter = Some(tidewire_store::groups::Filter {
            tables: vec!["orders".to_owned()],
            ..tidewire_store::groups::Filter::default()
        });
        let change = GroupChange { filter, ..GroupChange::default() };
        bench.wait(node.groups.store.change_group("g", &change)).expect("a change");
        let scene = scene(&seen);
        assert!(matches!(scene, Err(GroupError::Moved)), "{scene:?}");
    }
}
