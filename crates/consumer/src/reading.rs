//! Batches made of what the log holds: pages from memory or the store, until there is enough.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidewire_store::groups::{Assembled, Assembler, Batch, Holdings, Spec, Wants};
use tidewire_store::{Position, StoreError};
use tokio::sync::watch;

use crate::shared::Shared;

/// Makes the batch of so many events that begins at `from`, a place at or past the partition's `next`.
pub(crate) async fn assemble(
    shared: &Shared,
    wants: &Arc<Wants>,
    held: &Holdings,
    from: Position,
    size: usize,
    grown: &mut watch::Receiver<u64>,
) -> Result<Assembled, StoreError> {
    let settings = &shared.settings;
    let spec = Spec {
        partition: held.partition.partition,
        batch_size: size,
        events_max: settings.transaction_events_max,
        bytes_max: settings.transaction_bytes_max,
        stop_at: held.group.barrier,
        parked: &held.parked,
    };
    let mut assembler = Assembler::new(spec, from);
    let mut after = Position::new(from.number().saturating_sub(1));
    // Marked as seen before the end is read: what grows later is a new sign.
    let sign = *grown.borrow_and_update();
    let tip = shared.tip(sign).await?;
    while after < tip && held.group.barrier.is_none_or(|barrier| after.next() < barrier) {
        let page = shared.pages.after(&*shared.groups, wants, after, tip).await?;
        let more = assembler.feed(&page);
        if !more || page.scanned_to <= after {
            break;
        }
        after = page.scanned_to;
    }
    let mut assembled = assembler.finish();
    if let Assembled::Batch(batch) = &mut assembled {
        leave_out(batch, &held.dead);
    }
    Ok(assembled)
}

/// Leaves out what is a letter already, by the word of a worker that did not move the partition on. What is left
/// may be no events at all, and a place to move to.
fn leave_out(batch: &mut Batch, dead: &BTreeSet<Position>) {
    if dead.is_empty() {
        return;
    }
    for keys in &mut batch.groups {
        keys.events.retain(|event| !dead.contains(&event.position));
    }
    batch.groups.retain(|keys| !keys.events.is_empty());
    batch.park.retain(|event| !dead.contains(&event.position));
}
