//! The present state of streams, read once for all who ask at the same time.
//!
//! An answer must know everything that was there when its request came. So a read that began after the request
//! came serves it, whoever asked for it, and one that was under way does not: it may have looked a moment too
//! early. Those who ask for one stream therefore take turns, and the first of them reads for all who wait behind
//! it. A failure is an answer too: while a database is away, nobody waits for more than two reads.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidewire_store::{Found, StoreError};

/// Streams that are being asked for.
#[derive(Debug, Default)]
pub(crate) struct Views(Mutex<HashMap<String, Arc<PendingView>>>);

/// One stream that is being asked for.
#[derive(Debug, Default)]
struct PendingView {
    /// Reads that have begun.
    begun: AtomicU64,
    turn: tokio::sync::Mutex<CachedResult>,
}

/// What came of the latest read, unless it was given up.
#[derive(Debug, Default)]
struct CachedResult {
    read: u64,
    found: Option<Result<Found, StoreError>>,
}

/// Someone who asks for a stream.
struct ViewRequest<'a> {
    views: &'a Views,
    stream: &'a str,
    asked: Arc<PendingView>,
}

impl Views {
    /// A stream as it is at some moment from now on: by `read`, or by that of somebody else.
    pub(crate) async fn find<R>(
        &self,
        stream: &str,
        read: impl FnOnce() -> R,
    ) -> Result<Found, StoreError>
    where
        R: Future<Output = Result<Found, StoreError>>,
    {
        let asked = Arc::clone(self.lock().entry(stream.to_owned()).or_default());
        let asking = ViewRequest { views: self, stream, asked };
        asking.asked.find(read).await
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<PendingView>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ViewRequest<'_> {
    /// The last who asks takes the stream off the list, also if the answer is not waited for.
    fn drop(&mut self) {
        let mut all = self.views.lock();
        // Under the lock, so that of two who leave at once one is the last.
        self.asked = Arc::default();
        if all.get(self.stream).is_some_and(|asked| Arc::strong_count(asked) == 1) {
            all.remove(self.stream);
        }
    }
}

impl PendingView {
    async fn find<R>(&self, read: impl FnOnce() -> R) -> Result<Found, StoreError>
    where
        R: Future<Output = Result<Found, StoreError>>,
    {
        let begun_before = self.begun.load(Ordering::SeqCst);
        let mut latest = self.turn.lock().await;
        if latest.read > begun_before
            && let Some(found) = &latest.found
        {
            return found.clone();
        }
        // Until it is known, because this may be given up at any moment.
        latest.found = None;
        latest.read = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let found = read().await;
        latest.found.insert(found).clone()
    }
}
