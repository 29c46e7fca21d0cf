//! How a worker of a group is configured and started.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidewire_store::SharedStore;
use tidewire_store::groups::{GroupSettings, Groups, OnDead, SharedGroups, Start, retry_in};
use tidewire_store_postgres::PostgresStore;
use tidewire_store_postgres::groups::PostgresGroups;
use tidewire_store_sqlite::SqliteStore;
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use crate::error::Error;
use crate::handler::Handler;
use crate::partition_owner::{StopSignals, own_partitions};
use crate::settings::Settings;
use crate::shared::Shared;
use crate::signals::Signals;
use crate::stats::Stats;

/// How often joining is tried while the reason why it failed may pass.
const JOIN_ATTEMPTS_MAX: u32 = 10;

/// Where the log is.
#[derive(Clone)]
pub enum Source {
    /// A database of PostgreSQL, by its URL: the worker connects by itself.
    Url(String),
    /// A store that this process has open. On SQLite there is no other way.
    Groups(SharedGroups),
}

impl fmt::Debug for Source {
    /// Leaves out the URL: it may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::Url(_) => "Url(hidden)",
            Source::Groups(_) => "Groups",
        })
    }
}

impl From<&str> for Source {
    fn from(url: &str) -> Source {
        Source::Url(url.to_owned())
    }
}

impl From<String> for Source {
    fn from(url: String) -> Source {
        Source::Url(url)
    }
}

impl From<Arc<SqliteStore>> for Source {
    fn from(store: Arc<SqliteStore>) -> Source {
        Source::Groups(store)
    }
}

impl From<Arc<PostgresStore>> for Source {
    fn from(store: Arc<PostgresStore>) -> Source {
        Source::Groups(tidewire_store::groups::Grouped::groups(store))
    }
}

impl From<SharedStore> for Source {
    fn from(store: SharedStore) -> Source {
        Source::Groups(store.groups())
    }
}

/// A member of a group, as it shall be.
#[derive(Debug, Clone)]
pub struct Builder {
    source: Source,
    settings: Settings,
}

impl Builder {
    /// The group's name.
    #[must_use]
    pub fn group(mut self, name: impl Into<String>) -> Builder {
        self.settings.group = name.into();
        self
    }

    /// A batch ends with the first whole transaction at or past so many events; 100.
    #[must_use]
    pub fn batch_size(mut self, events: usize) -> Builder {
        self.settings.batch_size = events;
        self
    }

    /// How many partitions the group has; 8. All members of a group say the same.
    #[must_use]
    pub fn partitions(mut self, total: u32) -> Builder {
        self.settings.partitions = Some(total);
        self
    }

    /// Works on one partition only.
    #[must_use]
    pub fn pin(mut self, partition: u32) -> Builder {
        self.settings.pinned = Some(partition);
        self
    }

    /// Reads these watched tables (and the streams that are named); default: everything.
    #[must_use]
    pub fn tables<T: Into<String>>(mut self, tables: impl IntoIterator<Item = T>) -> Builder {
        self.settings.tables = tables.into_iter().map(Into::into).collect();
        self
    }

    /// Reads streams by these patterns (and the tables that are named); default: everything.
    #[must_use]
    pub fn streams<T: Into<String>>(mut self, patterns: impl IntoIterator<Item = T>) -> Builder {
        self.settings.streams = patterns.into_iter().map(Into::into).collect();
        self
    }

    /// Where a group begins that is not there yet; at the beginning.
    #[must_use]
    pub fn starting(mut self, start: Start) -> Builder {
        self.settings.start = start;
        self
    }

    /// Runs of a key's events before they are set aside; 5.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Builder {
        self.settings.max_attempts = Some(attempts);
        self
    }

    /// What becomes of events of the same host and user behind those; they are parked.
    #[must_use]
    pub fn on_dead(mut self, choice: OnDead) -> Builder {
        self.settings.on_dead = Some(choice);
        self
    }

    /// The wait before the first repetition, and the longest; 100 ms and 30 s.
    #[must_use]
    pub fn retry(mut self, base: Duration, cap: Duration) -> Builder {
        (self.settings.retry, self.settings.retry_max) = (base, cap);
        self
    }

    /// How long the handler may take for one host and user; 60 s.
    #[must_use]
    pub fn handler_timeout(mut self, timeout: Duration) -> Builder {
        self.settings.handler_timeout = timeout;
        self
    }

    /// How often to look for work when no notification arrives; 10 s.
    #[must_use]
    pub fn wait_period(mut self, period: Duration) -> Builder {
        self.settings.wait_period = period;
        self
    }

    /// The largest source transaction, in events of one partition and in their bytes; 10,000 and 64 MiB.
    /// A larger one stops the partition, with an error that says so: half of it would tear it apart.
    #[must_use]
    pub fn transaction_max(mut self, events: usize, bytes: usize) -> Builder {
        (self.settings.transaction_events_max, self.settings.transaction_bytes_max) =
            (events, bytes);
        self
    }

    /// Connections for work, where the worker connects by itself; 8. So many partitions are worked on at once.
    #[must_use]
    pub fn connections(mut self, connections: usize) -> Builder {
        self.settings.connections = connections;
        self
    }

    /// The member's name, for people; the default is a different name each time.
    #[must_use]
    pub fn member(mut self, name: impl Into<String>) -> Builder {
        self.settings.member = Some(name.into());
        self
    }

    /// Whether SIGTERM and SIGINT stop it after the batch in hand; they do.
    #[must_use]
    pub fn signals(mut self, heed: bool) -> Builder {
        self.settings.signals = heed;
        self
    }

    /// All of these at once, from a settings file.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Builder {
        self.settings = settings;
        self
    }

    /// Works until it is stopped, by a signal or because it must not go on.
    pub async fn run(self, handler: impl Handler) -> Result<Stats, Error> {
        self.start(handler).await?.ended().await
    }

    /// Begins to work, beside whatever else the process does. The group is made if it is not there.
    pub async fn start(self, handler: impl Handler) -> Result<Consumer, Error> {
        let settings = self.settings;
        settings.check().map_err(Error::Invalid)?;
        let groups: SharedGroups = match self.source {
            Source::Url(url) => PostgresGroups::connect(&url, settings.connections).await?,
            Source::Groups(groups) => groups,
        };
        join(&*groups, &settings).await?;
        let signals = settings.signals.then(Signals::heed).transpose()?;
        let member = settings.member.clone().unwrap_or_else(|| Uuid::new_v4().to_string());
        let shared = Arc::new(Shared::new(groups, Arc::new(handler), settings, member));
        let stop_signals = StopSignals::default();
        let heeding = signals.map(|signals| {
            let (stop, give_up) = (stop_signals.stop.clone(), stop_signals.give_up.clone());
            AbortOnDropHandle::new(tokio::spawn(signals.pass_on(stop, give_up)))
        });
        let working = tokio::spawn(own_partitions(Arc::clone(&shared), stop_signals.clone()));
        Ok(Consumer {
            shared,
            stop_signals,
            working: Some(AbortOnDropHandle::new(working)),
            _heeding: heeding,
        })
    }
}

/// The group is there, and is as it is wished.
async fn join(groups: &dyn Groups, settings: &Settings) -> Result<(), Error> {
    let wish = GroupSettings {
        partitions: settings.partitions,
        filter: settings.filter(),
        start: settings.start,
        max_attempts: settings.max_attempts,
        on_dead: settings.on_dead,
    };
    let mut attempt = 0;
    loop {
        attempt += 1;
        match groups.put_group(&settings.group, &wish).await {
            Ok((_, made)) => {
                tracing::debug!(group = settings.group, made, "joined");
                return Ok(());
            }
            Err(error) if error.temporary() && attempt < JOIN_ATTEMPTS_MAX => {
                tracing::warn!(group = settings.group, "to be tried again: {error}");
                let (base, cap) = (settings.retry, settings.retry_max);
                let wait = retry_in(attempt, base, cap, &mut rand::rng());
                tokio::time::sleep(wait).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// A member of a group at work. Dropped, it stops without waiting; nothing is half done.
pub struct Consumer {
    shared: Arc<Shared>,
    stop_signals: StopSignals,
    /// None once it was seen to end.
    working: Option<AbortOnDropHandle<Result<Stats, Error>>>,
    _heeding: Option<AbortOnDropHandle<()>>,
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer")
            .field("group", &self.shared.settings.group)
            .field("member", &self.shared.member)
            .finish_non_exhaustive()
    }
}

impl Consumer {
    /// Describes one, for the log at `source`.
    pub fn builder(source: impl Into<Source>) -> Builder {
        Builder { source: source.into(), settings: Settings::default() }
    }

    /// Its name in the group.
    pub fn member(&self) -> &str {
        &self.shared.member
    }

    /// What it has done so far.
    pub fn stats(&self) -> Stats {
        self.shared.tally.stats()
    }

    /// Finishes the batches in hand and leaves the group.
    pub async fn stop(mut self) -> Result<Stats, Error> {
        self.stop_signals.stop.cancel();
        self.ended().await
    }

    /// Waits until it ends: by a signal, or because it must not go on.
    pub async fn ended(&mut self) -> Result<Stats, Error> {
        let Some(working) = self.working.as_mut() else { return Ok(self.stats()) };
        let ended = working.await;
        self.working = None;
        ended.unwrap_or_else(|broken| Err(Error::Broken(broken.to_string())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_of_the_database_is_not_shown() {
        let url = "postgres://worker:hunter2@localhost/app";
        let settings = Settings { database: Some(url.to_owned()), ..Settings::default() };
        let builder = Consumer::builder(url).settings(settings.clone());
        let shown = format!("{builder:?} {builder:#?} {settings:?} {:?}", Source::from(url));
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
