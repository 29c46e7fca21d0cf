//! What decides who comes in, what they may do and how much they may take: one of each for the node.

use std::sync::{Arc, PoisonError, RwLock};

use tidewire_store::SharedStore;

use super::auth::audit::Counts;
use super::auth::names::TableNames;
use super::auth::rate_limiters::RateLimiters;
use super::auth::{Credentials, Identity, Who};
use super::budget::{Budget, Reclaimable};
use super::memory::Memory;
use super::options::{Options, Tunable};
use super::start_error::StartError;
use tidewire_wire::keyed_permits::KeyedPermits;

/// See the [module documentation](self).
#[derive(Debug)]
pub struct AccessControl {
    pub options: Arc<Options>,
    /// What may have changed since it started.
    tuned: RwLock<Arc<Tunable>>,
    pub store: SharedStore,
    pub credentials: Credentials,
    pub rates: RateLimiters,
    /// Live connections by identity.
    pub(super) places: KeyedPermits<Who>,
    /// Whoever reaches an open server.
    pub anyone: Identity,
    /// Whoever asks for what is public.
    pub stranger: Identity,
    /// What tables are called.
    pub names: TableNames,
    pub memory: Memory,
    /// For requests and answers under way.
    pub budget: Budget,
    /// What makes room in the budget.
    pub(super) spare: Arc<dyn Reclaimable>,
    pub counts: Counts,
}

impl AccessControl {
    /// With names of tables that were read just now.
    pub fn new(
        options: Arc<Options>,
        store: SharedStore,
        names: TableNames,
        spare: Arc<dyn Reclaimable>,
    ) -> Result<AccessControl, StartError> {
        Ok(AccessControl {
            tuned: RwLock::new(Arc::new(options.tunable.clone())),
            credentials: Credentials::new(&options, &store, &names)?,
            rates: RateLimiters::new(&options.tunable.rates),
            places: KeyedPermits::default(),
            anyone: Identity::of_this_machine(),
            stranger: Identity::stranger(),
            names,
            memory: Memory::new(options.live.memory_bytes_max),
            budget: Budget::new(options.limits.inflight_bytes_max),
            spare,
            counts: Counts::default(),
            options,
            store,
        })
    }

    /// What can change while it runs, as it is.
    pub fn tunable(&self) -> Arc<Tunable> {
        Arc::clone(&self.tuned.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts what has changed in the place of what was.
    pub fn tune(&self, tunable: Tunable) {
        self.rates.set(&tunable.rates);
        *self.tuned.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tunable);
    }
}
