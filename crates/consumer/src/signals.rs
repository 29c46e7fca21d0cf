//! SIGTERM and SIGINT: the first ends the member after the batches in hand, the second at once.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::error::Error;

/// Both signals, heeded from the moment that this is made.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(crate) fn heed() -> Result<Signals, Error> {
        let heed = |kind| {
            signal(kind)
                .map_err(|error| Error::Invalid(format!("signals cannot be heeded: {error}")))
        };
        Ok(Signals {
            terminate: heed(SignalKind::terminate())?,
            interrupt: heed(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// Stops, then gives up.
    pub(crate) async fn pass_on(mut self, stop: CancellationToken, give_up: CancellationToken) {
        self.next().await;
        tracing::info!("told to stop: the batches in hand are finished first");
        stop.cancel();
        self.next().await;
        tracing::warn!("told again: the batches in hand are rolled back");
        give_up.cancel();
    }
}
