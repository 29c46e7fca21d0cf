//! What wakes a task that does work in batches: at once for work that someone waits for, a little later
//! for work that is only noted, so that it finds company.

use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Two ways to ring. Rung before anyone listens, it is heard by who listens next.
#[derive(Debug, Default)]
pub(crate) struct BatchNotify {
    asked: Notify,
    noted: Notify,
}

impl BatchNotify {
    /// Someone waits.
    pub(crate) fn ask(&self) {
        self.asked.notify_one();
    }

    /// Nobody waits.
    pub(crate) fn note(&self) {
        self.noted.notify_one();
    }

    /// Waits until there is work, and for `gather` longer if nobody waits for it. Returns whether it is
    /// time to stop.
    pub(crate) async fn heard(&self, gather: Duration, stop: &CancellationToken) -> bool {
        tokio::select! {
            () = self.asked.notified() => false,
            () = self.noted.notified() => tokio::select! {
                () = tokio::time::sleep(gather) => false,
                () = self.asked.notified() => false,
                () = stop.cancelled() => true,
            },
            () = stop.cancelled() => true,
        }
    }
}
