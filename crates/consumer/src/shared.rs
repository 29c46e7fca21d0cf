//! What the tasks of a member share: the store, the pages they read, and the log's end.

use std::num::NonZeroU32;
use std::sync::Arc;

use tidewire_store::groups::{
    Assembled, Claim, GroupView, Holdings, Limits, PAGE_BYTES_MAX, Pages, SharedGroups, Wants,
};
use tidewire_store::{Position, StoreError};
use tokio::sync::{Mutex, Notify, watch};

use crate::handler::Handler;
use crate::settings::Settings;
use crate::stats::SharedStats;

/// Bytes of pages that a member keeps for its partitions.
const PAGES_BYTES_MAX: usize = 64 << 20;

pub(crate) struct Shared {
    pub groups: SharedGroups,
    pub handler: Arc<dyn Handler>,
    pub settings: Settings,
    pub member: String,
    pub pages: Pages,
    pub tally: SharedStats,
    /// What pages are read for. Changes with the share.
    pub wants: watch::Sender<Option<Arc<Wants>>>,
    /// Asks the partition owner to look at the group now.
    pub look: Notify,
    tip: Mutex<Tip>,
}

/// The log's end as it was read last, and which sign of growth it was read after.
#[derive(Debug, Default)]
struct Tip {
    sign: Option<u64>,
    position: Position,
}

impl Shared {
    pub(crate) fn new(
        groups: SharedGroups,
        handler: Arc<dyn Handler>,
        settings: Settings,
        member: String,
    ) -> Shared {
        Shared {
            groups,
            handler,
            settings,
            member,
            pages: Pages::new(PAGES_BYTES_MAX),
            tally: SharedStats::new(),
            wants: watch::Sender::new(None),
            look: Notify::new(),
            tip: Mutex::default(),
        }
    }

    /// The log's end, which is read only if there was a sign of growth since: partitions that wake together
    /// ask once.
    pub(crate) async fn tip(&self, sign: u64) -> Result<Position, StoreError> {
        let mut tip = self.tip.lock().await;
        if tip.sign.is_none_or(|known| known < sign) {
            tip.position = self.groups.log_tip().await?;
            tip.sign = Some(sign);
            self.tally.tip(tip.position);
        }
        Ok(tip.position)
    }

    /// The batch of a partition that begins at `from`, a place at or past its `next`.
    pub(crate) async fn assemble(
        &self,
        wants: &Arc<Wants>,
        held: &Holdings,
        from: Position,
        limits: Limits,
        grown: &mut watch::Receiver<u64>,
    ) -> Result<Assembled, StoreError> {
        // Marked as seen before the end is read: what grows later is a new sign.
        let sign = *grown.borrow_and_update();
        let tip = self.tip(sign).await?;
        self.pages.assemble(&*self.groups, wants, held, limits, from, tip).await
    }

    /// The next to ask for the log's end reads it, sign or not.
    pub(crate) async fn doubt_tip(&self) {
        self.tip.lock().await.sign = None;
    }

    /// What pages are read for, if that is what a partition of the group needs, as it is known now.
    pub(crate) fn wants(&self, held: &Holdings) -> Option<Arc<Wants>> {
        let wants = self.wants.borrow().clone()?;
        let partition = held.partition.partition;
        let fits = wants.filter == held.group.filter
            && wants.total.get() == held.group.total
            && wants.partitions.as_ref().is_none_or(|all| all.contains(&partition));
        fits.then_some(wants)
    }

    /// Says what pages are read for from now on.
    pub(crate) fn want(&self, group: &GroupView, share: &[u32]) {
        let Some(total) = NonZeroU32::new(group.total) else { return };
        let all = share.len() == group.total as usize;
        let partitions = (!all).then(|| share.iter().copied().collect());
        let wants =
            Wants { filter: group.filter.clone(), total, partitions, page_bytes: PAGE_BYTES_MAX };
        self.wants.send_if_modified(|known| {
            let other = known.as_deref() != Some(&wants);
            if other {
                *known = Some(Arc::new(wants));
            }
            other
        });
    }

    /// A partition as it is known.
    pub(crate) fn claim(&self, held: &Holdings) -> Claim {
        let timeout = self.settings.handler_timeout.as_millis();
        held.claim(&self.member, u64::try_from(timeout).unwrap_or(u64::MAX))
    }
}
