//! What all request handlers of a node share.

use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use tidewire_store::{Offset, Position, SharedStore};

use crate::auth::gates::Gates;
use crate::auth::{Credentials, Identity, Who};
use crate::hub::Hub;
use crate::memory::Memory;
use crate::metrics::Metrics;
use crate::options::{Options, Tunable};
use crate::seats::Seats;
use crate::sessions::Sessions;
use crate::streams::Pages;
use crate::subscriptions::Signer;
use crate::tail::Tail;
use crate::tls::Keeper;

/// One node's parts.
#[derive(Debug)]
pub(crate) struct Node {
    /// Its name, which no other node has.
    pub(crate) id: String,
    pub(crate) options: Options,
    /// What may have changed since it started.
    pub(crate) tuned: RwLock<Arc<Tunable>>,
    pub(crate) store: SharedStore,
    pub(crate) credentials: Credentials,
    pub(crate) rates: Gates,
    /// Live connections by identity.
    pub(crate) places: Seats<Who>,
    /// Whoever reaches an open server.
    pub(crate) anyone: Identity,
    /// Whoever asks for what is public.
    pub(crate) stranger: Identity,
    pub(crate) tail: Tail,
    pub(crate) hub: Hub,
    pub(crate) sessions: Sessions,
    pub(crate) metrics: Metrics,
    pub(crate) memory: Memory,
    /// Pages that were read lately.
    pub(crate) pages: Pages,
    pub(crate) signer: Signer,
    /// What new connections are encrypted with, where they are.
    pub(crate) tls: Option<Keeper>,
    /// Where clients and webhook receivers reach this server, without a slash at the end.
    pub(crate) public_url: String,
    /// One permit for each reader that waits.
    pub(crate) live_readers: Arc<Semaphore>,
    /// Cancelled when the server begins to drain: live readers end, requests in flight finish.
    pub(crate) draining: CancellationToken,
}

impl Node {
    /// What can change while it runs, as it is.
    pub(crate) fn tunable(&self) -> Arc<Tunable> {
        Arc::clone(&self.tuned.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the configuration again, where it comes from somewhere.
    pub(crate) fn reload(&self) {
        let Some(reload) = &self.options.reload else { return };
        match (reload.0)() {
            Ok(tunable) => {
                self.rates.set(&tunable.rates);
                *self.tuned.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tunable);
                tracing::info!("read the configuration again");
            }
            Err(error) => tracing::warn!(error, "the configuration is wrong; it stays as it was"),
        }
    }

    /// A position as clients see it.
    pub(crate) fn offset(&self, position: Position) -> Offset {
        position.in_epoch(self.store.epoch())
    }
}

/// Milliseconds since the Unix epoch by this node's clock: for headers and hints, never for what is
/// stored.
pub(crate) fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}
