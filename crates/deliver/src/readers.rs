//! Places among the readers that wait: those of streams, and workers who wait for a batch of a group. A node has so
//! many (`limits.live_readers_max`).

use std::sync::Arc;

use axum::http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::access::problem::Problem;

/// One permit for each reader that waits.
#[derive(Debug)]
pub(crate) struct LiveReaders {
    permits: Arc<Semaphore>,
    readers_max: usize,
}

impl LiveReaders {
    pub(crate) fn new(readers_max: usize) -> LiveReaders {
        LiveReaders { permits: Arc::new(Semaphore::new(readers_max)), readers_max }
    }

    /// A place. Given back when dropped.
    pub(crate) fn seat(&self) -> Result<OwnedSemaphorePermit, Problem> {
        Arc::clone(&self.permits).try_acquire_owned().map_err(|_| {
            Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "too_many_live_readers",
                format!("{} readers are waiting already", self.readers_max),
                "try again later, or raise limits.live_readers_max",
            )
            .retry_after_s(2)
        })
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.readers_max.saturating_sub(self.permits.available_permits())
    }
}
