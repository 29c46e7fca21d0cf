//! A node's state of consumer groups: a dispatcher for each group whose workers claim here, and measurements.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, mpsc};
use tokio_util::task::TaskTracker;

use tidewire_store::groups::{GroupView, SharedGroups};
use tidewire_store::{SharedStore, StoreError};

use super::batch_permits::BatchPermits;
use super::counters::Counters;
use super::dispatcher::WorkDispatcher;
use super::lag::{self, Lag};
use super::upkeep::Measured;
use super::waiting_claim::WaitingClaim;
use crate::readers::LiveReaders;
use crate::signer::Signer;
use tidewire_hub::Hub;

/// A node's part in consumer groups.
#[derive(Debug)]
pub(crate) struct GroupDispatchers {
    pub(super) hub: Arc<Hub>,
    /// Makes the tokens of leases.
    pub(super) signer: Arc<Signer>,
    /// Whoever waits for a batch is a reader that waits.
    pub(super) readers: Arc<LiveReaders>,
    pub(super) store: SharedGroups,
    pub(super) counters: Counters,
    /// What was seen of the groups when they were last looked at.
    pub(super) measured: Mutex<Vec<Measured>>,
    /// What the batches of this node may take in memory.
    pub(super) room: BatchPermits,
    /// Held while someone counts how far a group is behind, so that many who ask cost no more than one.
    pub(super) counting: tokio::sync::Mutex<()>,
    dispatchers_by_group: Mutex<HashMap<String, DispatcherHandle>>,
    /// The dispatchers. They end when the node drains.
    pub(crate) tasks: TaskTracker,
}

/// Where a dispatcher is reached.
#[derive(Debug)]
struct DispatcherHandle {
    asks: mpsc::UnboundedSender<WaitingClaim>,
    nudge: Arc<Notify>,
}

impl GroupDispatchers {
    pub(crate) fn new(
        hub: Arc<Hub>,
        signer: Arc<Signer>,
        readers: Arc<LiveReaders>,
    ) -> GroupDispatchers {
        GroupDispatchers {
            store: SharedStore::clone(&hub.store).groups(),
            counters: Counters::default(),
            measured: Mutex::default(),
            room: BatchPermits::new(hub.options.groups.batch_memory_bytes_max),
            counting: tokio::sync::Mutex::default(),
            dispatchers_by_group: Mutex::default(),
            tasks: TaskTracker::new(),
            hub,
            signer,
            readers,
        }
    }

    /// Hands a claim to the group's dispatcher, who is made if there is none. Not more claims wait than
    /// there are seats for readers.
    pub(super) fn ask(self: &Arc<GroupDispatchers>, group: &str, ask: WaitingClaim) {
        let mut dispatchers_by_group =
            self.dispatchers_by_group.lock().unwrap_or_else(PoisonError::into_inner);
        let unheard = match dispatchers_by_group.get(group) {
            Some(handle) => handle.asks.send(ask).map_err(|unheard| unheard.0),
            None => Err(ask),
        };
        // Nobody is there, or one that broke off.
        if let Err(ask) = unheard {
            let (asks, heard) = mpsc::unbounded_channel();
            let nudge = Arc::new(Notify::new());
            let dispatcher =
                WorkDispatcher::new(Arc::clone(self), group, heard, Arc::clone(&nudge));
            let _ = asks.send(ask);
            dispatchers_by_group.insert(group.to_owned(), DispatcherHandle { asks, nudge });
            self.tasks.spawn(dispatcher.run());
        }
    }

    /// Has the dispatcher look for work, if there is one who waits for some.
    pub(super) fn look_again(&self, group: &str) {
        let dispatchers_by_group =
            self.dispatchers_by_group.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = dispatchers_by_group.get(group) {
            handle.nudge.notify_one();
        }
    }

    /// A dispatcher has had nothing to do for long. Says whether it may go: not if someone asks just now.
    pub(super) fn leave(&self, group: &str, asks: &mpsc::UnboundedReceiver<WaitingClaim>) -> bool {
        let mut dispatchers_by_group =
            self.dispatchers_by_group.lock().unwrap_or_else(PoisonError::into_inner);
        if !asks.is_empty() {
            return false;
        }
        dispatchers_by_group.remove(group);
        true
    }

    /// How far a group is behind, as it was measured lately, or else now.
    pub(super) async fn lag_of(&self, view: &GroupView) -> Result<Lag, StoreError> {
        let measured = {
            let measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
            measured.iter().find(|one| one.fits(view)).map(|one| one.lag.clone())
        };
        match measured {
            Some(lag) => Ok(lag),
            None => self.measure_lag(view).await,
        }
    }

    /// How far a group is behind now.
    pub(super) async fn measure_lag(&self, view: &GroupView) -> Result<Lag, StoreError> {
        let _alone = self.counting.lock().await;
        lag::measure(self, view, self.hub.options.groups.lag_scan_max).await
    }
}
