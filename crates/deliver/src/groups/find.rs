//! Finds a batch for a partition: what it needs to know, and the limits of the batch.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;

use tidewire_store::groups::{
    GroupError, GroupView, Holdings, Limits, PAGE_BYTES_MAX, PartitionView, TooLarge, Wants,
};

use super::dispatchers::GroupDispatchers;
use tidewire_access::options::GroupOptions;

/// What must be known to work on a partition. What nothing is known of costs no look.
pub(super) async fn holdings(
    dispatchers: &GroupDispatchers,
    view: &GroupView,
    at: &PartitionView,
) -> Result<Holdings, GroupError> {
    if let Some(quiet) = Holdings::of_quiet(view, at) {
        return Ok(quiet);
    }
    let held = dispatchers.store.holdings(&view.group, at.partition).await?;
    // What is read and up to where is the view's: what is of another generation does not fit it.
    match held.partition.generation == at.generation {
        true => Ok(held),
        false => Err(GroupError::Moved),
    }
}

/// What a batch may have for a worker that asks for so many events.
pub(super) fn limits(options: &GroupOptions, batch_size: usize) -> Limits {
    Limits {
        batch_events: batch_size,
        batch_bytes: options.batch_bytes.min(options.transaction_bytes_max),
        transaction_events_max: options.transaction_events_max,
        transaction_bytes_max: options.transaction_bytes_max,
    }
}

/// What partitions of a group read; none: all of them.
pub(super) fn wants(view: &GroupView, partitions: Option<BTreeSet<u32>>) -> Arc<Wants> {
    let total = NonZeroU32::new(view.total).unwrap_or(NonZeroU32::MIN);
    Arc::new(Wants { filter: view.filter.clone(), total, partitions, page_bytes: PAGE_BYTES_MAX })
}

/// Why a partition cannot go on, and what to do.
pub(super) fn trouble(options: &GroupOptions, too_large: &TooLarge) -> String {
    format!(
        "{too_large}; groups.transaction_events_max is {} and groups.transaction_bytes_max {}: raise them, \
         restart, then resume the group",
        options.transaction_events_max, options.transaction_bytes_max
    )
}

#[cfg(test)]
mod tests {
    use tidewire_store::groups::{GroupChange, GroupSettings};

    use super::*;
    use crate::testing::Bench;

    /// A batch of what the group read before would be leased, and the rest never handed out.
    #[test]
    fn a_group_that_was_changed_since_is_looked_at_again() {
        let bench = Bench::start_on_sqlite();
        let dispatchers = &bench.node().groups;
        let wanted = GroupSettings { partitions: Some(1), ..GroupSettings::default() };
        let made = bench.wait(dispatchers.store.put_group("g", &wanted)).expect("a group");
        let mut seen = made.0;
        seen.partitions[0].failing = 1;
        let held = |view: &GroupView| bench.wait(holdings(dispatchers, view, &view.partitions[0]));
        assert!(held(&seen).is_ok(), "nothing has changed");
        let filter = Some(tidewire_store::groups::Filter {
            tables: vec!["orders".to_owned()],
            ..tidewire_store::groups::Filter::default()
        });
        let change = GroupChange { filter, ..GroupChange::default() };
        bench.wait(dispatchers.store.change_group("g", &change)).expect("a change");
        let held = held(&seen);
        assert!(matches!(held, Err(GroupError::Moved)), "{held:?}");
    }
}
