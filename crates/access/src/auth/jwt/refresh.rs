//! The background task that keeps a key set fresh, and those who wait for it.
//!
//! Only the task reads the set. A request whose key is not known asks it to read again and waits for
//! the outcome; so there is one read at a time for all who ask, and one that goes away breaks none
//! off. Reads begin at least [`COOLDOWN`] after each other, whoever asks: a flood of bad tokens does
//! not become a flood of requests to the issuer.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::keys::KeySet;
use super::source::Source;
use crate::options::JwksSource;

/// From the beginning of one read to that of the next that is asked for.
const COOLDOWN: Duration = Duration::from_secs(10);
/// How long a read from a URL may take, and how long someone waits for it.
pub(super) const WAIT: Duration = Duration::from_secs(5);
/// How often a file is looked at.
const LOOK: Duration = Duration::from_secs(3);
/// After a read has failed, the next comes so soon.
const RETRY: Duration = Duration::from_secs(10);

/// When the set is read.
#[derive(Debug, Clone)]
pub(super) struct RefreshSchedule {
    pub(super) refresh: Duration,
    pub(super) retry: Duration,
    pub(super) cooldown: Duration,
    pub(super) wait: Duration,
}

impl RefreshSchedule {
    pub(super) fn of(source: &JwksSource, jwks_refresh: Duration) -> RefreshSchedule {
        let (refresh, retry) = match source {
            JwksSource::File(_) => (LOOK, LOOK),
            JwksSource::Url(_) => (jwks_refresh, RETRY.min(jwks_refresh)),
        };
        RefreshSchedule { refresh, retry, cooldown: COOLDOWN, wait: WAIT }
    }
}

/// What the task has come to.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The set of the last read that succeeded.
    pub(super) keys: Option<Arc<KeySet>>,
    /// When the last read began.
    begun: Option<Instant>,
    /// Someone waits for a read to begin.
    wanted: bool,
    reading: bool,
    /// Reads that have ended, well or not.
    pub(super) ended: u64,
}

/// Keeps a key set.
#[derive(Debug)]
pub(super) struct KeySetRefresher {
    source: Source,
    pace: RefreshSchedule,
    pub(super) progress: watch::Sender<Progress>,
}

impl KeySetRefresher {
    pub(super) fn new(
        source: &JwksSource,
        pace: RefreshSchedule,
    ) -> Result<KeySetRefresher, String> {
        Ok(KeySetRefresher {
            source: Source::new(source)?,
            pace,
            progress: watch::Sender::default(),
        })
    }

    /// The keys as they are known.
    pub(super) fn keys(&self) -> Option<Arc<KeySet>> {
        self.progress.borrow().keys.clone()
    }

    /// Other keys than these, which did not do; after reading the set again, if that may be.
    pub(super) async fn newer_than(&self, known: Option<&Arc<KeySet>>) -> Option<Arc<KeySet>> {
        let mut before = None;
        self.progress.send_if_modified(|now| {
            let resting = now.begun.is_some_and(|begun| begun.elapsed() < self.pace.cooldown);
            before = (now.reading || !resting).then_some(now.ended);
            let asks = !now.reading && !resting && !now.wanted;
            now.wanted |= asks;
            asks
        });
        if let Some(ended) = before {
            let mut progress = self.progress.subscribe();
            let read = async { progress.wait_for(|now| now.ended != ended).await.is_ok() };
            // Whether it was in time shows in the keys.
            let _ = timeout(self.pace.wait, read).await;
        }
        self.keys().filter(|keys| known.is_none_or(|known| !Arc::ptr_eq(known, keys)))
    }

    /// Reads the set and keeps it fresh, until it is told to stop.
    pub(super) async fn keep(&self, stop: CancellationToken) {
        let work = async {
            let mut last = LastRead::default();
            loop {
                let succeeded = self.read(&mut last).await;
                let pause = if succeeded { self.pace.refresh } else { self.pace.retry };
                tokio::select! {
                    () = sleep(pause) => {}
                    () = self.asked() => {}
                }
            }
        };
        stop.run_until_cancelled(work).await;
    }

    /// Waits until someone asks for a read, which they do only where one may begin.
    async fn asked(&self) {
        // The sender lives as long as this, so there is nothing that could fail.
        let _ = self.progress.subscribe().wait_for(|now| now.wanted).await;
    }

    /// Reads the set once. Where that fails, the keys stay as they are. Says whether it succeeded.
    async fn read(&self, last: &mut LastRead) -> bool {
        self.progress.send_modify(|now| {
            now.begun = Some(Instant::now());
            now.wanted = false;
            now.reading = true;
        });
        let read = match self.source.read().await {
            // The same text is the same keys, and those who wait need not try them again.
            Ok(text) if last.text.as_ref() == Some(&text) => Ok(self.keys()),
            Ok(text) => KeySet::parse(&text).map(|keys| {
                last.text = Some(text);
                Some(Arc::new(keys))
            }),
            Err(error) => Err(error),
        };
        last.note(match &read {
            Ok(keys) => keys.as_ref().and_then(|keys| keys.trouble()),
            Err(error) => Some(error.clone()),
        });
        let succeeded = read.is_ok();
        self.progress.send_modify(|now| {
            if let Ok(keys) = read {
                now.keys = keys;
            }
            now.reading = false;
            now.ended += 1;
        });
        succeeded
    }
}

/// What the last read brought, to see what has changed.
#[derive(Debug, Default)]
struct LastRead {
    text: Option<Vec<u8>>,
    trouble: Option<String>,
}

impl LastRead {
    /// Tells the operator of trouble once, and of its end.
    fn note(&mut self, trouble: Option<String>) {
        if !self.is_news(trouble.as_deref()) {
            return;
        }
        match &trouble {
            Some(reason) => tracing::warn!(
                reason,
                "the key set for tokens is not as it should be; keys known before stay in use \
                 while it cannot be read"
            ),
            None => tracing::info!("the key set for tokens is as it should be"),
        }
        self.trouble = trouble;
    }

    fn is_news(&self, trouble: Option<&str>) -> bool {
        self.trouble.as_deref() != trouble
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_told_once_and_so_is_its_end() {
        let mut last = LastRead::default();
        assert!(!last.is_news(None), "what is well from the beginning needs no telling");
        for (trouble, news) in [
            (Some("its server answered 500"), true),
            (Some("its server answered 500"), false),
            (Some("it is empty"), true),
            (None, true),
            (None, false),
            (Some("it is empty"), true),
        ] {
            assert_eq!(last.is_news(trouble), news, "{trouble:?}");
            last.note(trouble.map(ToOwned::to_owned));
        }
    }

    #[test]
    fn files_are_looked_at_often_and_urls_as_configured() {
        let refresh = Duration::from_secs(600);
        let url = RefreshSchedule::of(&JwksSource::Url(String::new()), refresh);
        assert_eq!((url.refresh, url.retry), (refresh, RETRY));
        let file = RefreshSchedule::of(&JwksSource::File("jwks.json".into()), refresh);
        assert_eq!((file.refresh, file.retry), (LOOK, LOOK));
    }
}
