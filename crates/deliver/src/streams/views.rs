//! What streams are now, read once for all who ask at the same time.
//!
//! An answer must know everything that was there when its request came. So a read that began after the request
//! came serves it, whoever asked for it, and one that was under way does not: it may have looked a moment too
//! early. Those who ask for one stream therefore take turns, and the first of them reads for all who wait behind
//! it. A failure is an answer too: while a database is away, nobody waits for more than two reads.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidewire_store::{Found, StoreError};

/// Streams that are being asked for.
#[derive(Debug, Default)]
pub(crate) struct Views(Mutex<HashMap<String, Arc<Asked>>>);

/// One stream that is being asked for.
#[derive(Debug, Default)]
struct Asked {
    /// Reads that have begun.
    begun: AtomicU64,
    turn: tokio::sync::Mutex<Latest>,
}

/// What came of the latest read, unless it was given up.
#[derive(Debug, Default)]
struct Latest {
    read: u64,
    found: Option<Result<Found, StoreError>>,
}

/// Someone who asks for a stream.
struct Asking<'a> {
    views: &'a Views,
    stream: &'a str,
    asked: Arc<Asked>,
}

impl Views {
    /// A stream as it is at some moment from now on: by `read`, or by that of somebody else.
    pub(super) async fn find<R>(
        &self,
        stream: &str,
        read: impl FnOnce() -> R,
    ) -> Result<Found, StoreError>
    where
        R: Future<Output = Result<Found, StoreError>>,
    {
        let asked = Arc::clone(self.lock().entry(stream.to_owned()).or_default());
        let asking = Asking { views: self, stream, asked };
        asking.asked.find(read).await
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Asked>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Asking<'_> {
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

impl Asked {
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

#[cfg(test)]
mod tests {
    use std::future::ready;

    use tokio::sync::oneshot;
    use tokio::task::yield_now;

    use super::*;

    fn gone(read: u64) -> Result<Found, StoreError> {
        Ok(Found::Gone { host_id: Some(read.to_string()) })
    }

    /// Which read found this.
    fn read_of(found: &Result<Found, StoreError>) -> Option<&str> {
        match found {
            Ok(Found::Gone { host_id }) => host_id.as_deref(),
            _ => None,
        }
    }

    #[tokio::test]
    async fn a_read_that_began_later_serves_all_who_wait() {
        let views = Arc::new(Views::default());
        let (answer, answered) = oneshot::channel::<()>();
        let first = Arc::clone(&views);
        let first = tokio::spawn(async move {
            let read = || async {
                answered.await.expect("it is answered");
                gone(1)
            };
            first.find("s", read).await
        });
        yield_now().await;
        // These came while the first was under way, which may have looked before they came.
        let later = (2..10).map(|number| {
            let views = Arc::clone(&views);
            tokio::spawn(async move { views.find("s", || ready(gone(number))).await })
        });
        let later: Vec<_> = later.collect();
        yield_now().await;
        let other = views.find("t", || ready(gone(77))).await;
        assert_eq!(read_of(&other), Some("77"), "another stream does not wait");
        answer.send(()).expect("it waits");
        assert_eq!(read_of(&first.await.expect("no panic")), Some("1"));
        for later in later {
            assert_eq!(read_of(&later.await.expect("no panic")), Some("2"), "one read for all");
        }
        assert!(views.lock().is_empty(), "nobody asks any more");
    }

    #[tokio::test]
    async fn who_comes_after_a_read_reads_anew() {
        let views = Views::default();
        for number in 1..4 {
            let found = views.find("s", || ready(gone(number))).await;
            assert_eq!(read_of(&found), Some(number.to_string().as_str()));
        }
    }

    #[tokio::test]
    async fn a_read_that_is_given_up_serves_nobody_and_one_that_fails_all_who_wait() {
        let views = Arc::new(Views::default());
        let hanging = Arc::clone(&views);
        let hanging =
            tokio::spawn(async move { hanging.find("s", std::future::pending).await.is_ok() });
        yield_now().await;
        let waiting = [1, 2, 3].map(|number| {
            let views = Arc::clone(&views);
            let broken = StoreError::Unavailable(number.to_string());
            tokio::spawn(async move { views.find("s", || ready(Err(broken))).await })
        });
        yield_now().await;
        hanging.abort();
        for waiting in waiting {
            match waiting.await.expect("no panic") {
                Err(StoreError::Unavailable(number)) => assert_eq!(number, "1"),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(read_of(&views.find("s", || ready(gone(7))).await), Some("7"), "it is back");
        assert!(views.lock().is_empty(), "nobody asks any more");
    }
}
