//! The embedded store: one SQLite file, one writer thread, readers beside it.
//!
//! WAL mode with `synchronous=FULL`: a commit is synced before SQLite shows it to any reader, which
//! is what makes visible mean durable. All writes go through the writer thread, so the offset lock
//! of other stores is here simply the fact that there is one writer.
//!
//! - `access`: access control
//! - `backup`: a copy of the store as it is at one moment, while a server goes on writing to it
//! - `cache`: streams' rows in the writer's memory
//! - `capture`: the user's own SQL, and the capture of what it changes
//! - `checkpoint`: copying the write-ahead log into the file, beside the writer
//! - `control`: the control channel, and the upkeep of it and of tickets
//! - `entities`: subscriptions to entities, and what became of those
//! - `error`: what SQLite's errors mean to a caller
//! - `groups`: consumer groups in the embedded store, for workers in the server's own process and
//!   for leases
//! - `keys`: API keys
//! - `live_queries`: the list of live queries
//! - `load`: loading what commands are decided against
//! - `memory`: how much memory SQLite takes for one read
//! - `nodes`: nodes and their leases
//! - `options`: how the store is opened
//! - `open`: opening the file
//! - `queries`: reading for live queries, and the list of them
//! - `read`: reading streams, and following the log
//! - `recent`: the newest events in memory, for the follower of the log
//! - `restore`: putting a backup in the place of a store
//! - `retention`: giving up what is past its limits, and removing it
//! - `save`: saving what was decided
//! - `session_sweep`: upkeep of sessions
//! - `sessions`: sessions
//! - `statements`: the user's own SQL
//! - `subscriptions`: subscriptions and shared secrets
//! - `sweep`: upkeep
//! - `tickets`: tickets
//! - `watches`: watched tables
//! - `writer`: the writer thread

mod access;
mod backup;
mod cache;
mod capture;
mod checkpoint;
mod control;
mod entities;
mod error;
mod groups;
mod keys;
mod live_queries;
mod load;
mod memory;
mod nodes;
mod open;
mod options;
mod queries;
mod read;
mod recent;
mod restore;
mod retention;
mod save;
mod session_sweep;
mod sessions;
mod statements;
mod subscriptions;
mod sweep;
#[cfg(test)]
mod tests;
mod tickets;
mod watches;
mod writer;

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures_util::future::try_join_all;
use tokio::sync::{broadcast, oneshot, watch};

use tidewire_store::command::{Answer, Command};
use tidewire_store::error::StoreError;
use tidewire_store::event::TailEvent;
use tidewire_store::log::{Found, Log, PageLimit, Swept, WantsPayload};
use tidewire_store::nodes::{NodeReport, NodeView, Nodes};
use tidewire_store::offset::{Epoch, Position};
use tidewire_store::queue::{Account, Job, Queue};
use tidewire_store::retention::{Retained, Retention, RetentionRules};
use tidewire_store::session::{
    SIGNALS_MAX, Session, SessionChange, SessionOutcome, SessionRules, SessionSignal, Sessions,
    SweepCursor, SweptSessions,
};
use tidewire_store::stats::{CommitStats, Counters};
use tidewire_store::subscription::{Interest, Op, Reply, Subscription, Subscriptions};

pub use backup::backup;
pub use options::SqliteOptions;
pub use restore::restore;

use checkpoint::Checkpoints;
use open::{FolderLock, Readers};
use recent::Recent;
use writer::{Exclusive, WriterThread};

/// The steps of this store's schema.
pub(crate) const MIGRATIONS: &[tidewire_store::migration::Migration] =
    tidewire_store::migrations!();

/// One query, from its own file.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/", $name, ".sql"))
    };
}
pub(crate) use sql;

/// The embedded store. Cheap to share; close it to release the folder.
#[derive(Debug)]
pub struct SqliteStore {
    epoch: Epoch,
    queue: Arc<Queue<Exclusive>>,
    readers: Arc<Readers>,
    grown: watch::Receiver<u64>,
    recent: Arc<Recent>,
    counters: Arc<Counters>,
    signals: sessions::Signals,
    /// Counts what was said in the control channel, and may have been.
    control: watch::Sender<u64>,
    /// Who works on which partition of which group.
    runtime: Arc<groups::GroupRuntime>,
    /// Where the next sweep of sessions goes on. Only the writer thread holds it.
    sweep_cursor: Arc<Mutex<SweepCursor>>,
    writer: WriterThread,
    /// Held for as long as the store is open, so that no second process opens the folder.
    lock: Mutex<Option<FolderLock>>,
}

impl SqliteStore {
    /// Opens the store in a folder, making it or bringing its schema up to date as needed.
    pub async fn open(options: SqliteOptions) -> Result<Arc<SqliteStore>, StoreError> {
        tokio::task::spawn_blocking(move || Self::open_blocking(&options))
            .await
            .map_err(|error| StoreError::Refused(format!("opening the store failed: {error}")))?
    }

    fn open_blocking(options: &SqliteOptions) -> Result<Arc<SqliteStore>, StoreError> {
        let lock = FolderLock::take(&options.folder)?;
        let (mut connection, epoch) = open::writer(&options.folder)?;
        let checkpoints = Checkpoints::start(&mut connection, &options.folder)?;
        let readers = Arc::new(Readers::open(&options.folder, options.read_connections)?);
        let (queue, taker) = Queue::new(&options.commit);
        let counters = Arc::new(Counters::default());
        let (signal, grown) = watch::channel(0);
        let recent = Arc::new(Recent::new(load::tip(&connection)?));
        let writer = WriterThread::start(
            (connection, checkpoints),
            taker,
            Arc::clone(&counters),
            Arc::clone(&recent),
            signal,
            lock.untouched,
        )?;
        Ok(Arc::new(SqliteStore {
            epoch,
            queue: Arc::new(queue),
            readers,
            grown,
            recent,
            counters,
            signals: broadcast::Sender::new(SIGNALS_MAX),
            control: watch::Sender::new(0),
            runtime: Arc::default(),
            sweep_cursor: Arc::default(),
            writer,
            lock: Mutex::new(Some(lock)),
        }))
    }

    /// Before an answer from memory: the store must be open, and a caller that asks in a loop must
    /// let others run, though nothing here ever waits.
    async fn ready(&self) -> Result<(), StoreError> {
        tokio::task::consume_budget().await;
        self.readers.check_open()
    }

    /// Runs work on the writer's connection, between commits.
    async fn exclusively<T, E, F>(&self, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
        F: FnOnce(&mut writer::Writer) -> Result<T, E> + Send + 'static,
    {
        let (work, answer) = answered(work);
        self.queue.push(Job::Exclusive(work))?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// The same with what a caller wants done, on their account: they take turns, and everything else comes in
    /// between.
    async fn exclusively_for<T, E, F>(&self, account: Account, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
        F: FnOnce(&mut writer::Writer) -> Result<T, E> + Send + 'static,
    {
        let (work, answer) = answered(work);
        self.queue.push_of_caller(account, work)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }
}

/// Work for the writer, and what comes of it.
fn answered<T, E, F>(work: F) -> (Exclusive, oneshot::Receiver<Result<T, E>>)
where
    T: Send + 'static,
    E: Send + 'static,
    F: FnOnce(&mut writer::Writer) -> Result<T, E> + Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    let work = Exclusive::new(move |writer| {
        // The caller may have gone away; the work is done all the same.
        let _ = reply.send(work(writer));
    });
    (work, answer)
}

#[async_trait]
impl Log for SqliteStore {
    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn backend(&self) -> &'static str {
        "SQLite"
    }

    async fn submit(&self, command: Command) -> Result<Answer, StoreError> {
        self.queue.submit(command).await
    }

    async fn read(
        &self,
        stream: &str,
        after: Position,
        limit: PageLimit,
    ) -> Result<Found, StoreError> {
        let stream = stream.to_owned();
        self.readers.run(move |connection| read::read(connection, &stream, after, limit)).await
    }

    async fn follow(
        &self,
        after: Position,
        limit: PageLimit,
        wants_payload: WantsPayload,
    ) -> Result<Vec<TailEvent>, StoreError> {
        self.ready().await?;
        if let Some(events) = self.recent.after(after, limit, &*wants_payload) {
            return Ok(events);
        }
        self.readers
            .run(move |connection| read::follow(connection, after, limit, &*wants_payload))
            .await
    }

    async fn tip(&self) -> Result<Position, StoreError> {
        self.ready().await?;
        Ok(self.recent.tip())
    }

    fn grown(&self) -> watch::Receiver<u64> {
        self.grown.clone()
    }

    async fn names(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        let (prefix, after) = (prefix.to_owned(), after.to_owned());
        self.readers.run(move |connection| read::names(connection, &prefix, &after, limit)).await
    }

    async fn sweep(&self) -> Result<Swept, StoreError> {
        let expired = self.readers.run(|connection| sweep::expired(connection)).await?;
        let streams_expired = expired.len();
        try_join_all(expired.into_iter().map(|stream| self.submit(Command::Expire { stream })))
            .await?;
        self.exclusively(capture::notice).await?;
        let events_purged = self.exclusively(sweep::purge).await?;
        Ok(Swept { streams_expired, events_purged })
    }

    fn commit_stats(&self) -> CommitStats {
        self.counters.snapshot()
    }

    async fn close(&self) {
        // Before the queue: the writer ends with it, but not while a handler's transaction is open.
        self.runtime.close();
        self.queue.close();
        // The readers go first: the last connection to go tidies up the write-ahead log, and only
        // the writer's may.
        self.readers.close().await;
        self.writer.join().await;
        let lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(lock) = lock {
            lock.release();
        }
    }
}

#[async_trait]
impl Subscriptions for SqliteStore {
    async fn subscription(&self, id: &str) -> Result<Option<Subscription>, StoreError> {
        let id = id.to_owned();
        self.readers.run(move |connection| subscriptions::load(connection, &id)).await
    }

    async fn interests(&self) -> Result<Vec<Interest>, StoreError> {
        self.readers.run(|connection| subscriptions::interests(connection)).await
    }

    async fn change_subscription(&self, id: &str, op: Op) -> Result<Reply, StoreError> {
        let id = id.to_owned();
        self.exclusively(move |writer| subscriptions::change(writer, &id, &op)).await
    }

    async fn due_subscriptions(&self, limit: usize) -> Result<Vec<String>, StoreError> {
        self.readers.run(move |connection| subscriptions::due(connection, limit)).await
    }

    async fn secret(&self, name: &str, candidate: Vec<u8>) -> Result<Vec<u8>, StoreError> {
        let name = name.to_owned();
        self.exclusively(move |writer| subscriptions::secret(writer, &name, &candidate)).await
    }
}

#[async_trait]
impl Sessions for SqliteStore {
    async fn change_sessions(
        &self,
        changes: Vec<SessionChange>,
    ) -> Result<Vec<SessionOutcome>, StoreError> {
        let (epoch, signals) = (self.epoch, self.signals.clone());
        self.exclusively(move |writer| sessions::change(writer, epoch, &changes, &signals)).await
    }

    async fn session(&self, id: &str) -> Result<Option<Session>, StoreError> {
        let (epoch, id) = (self.epoch, id.to_owned());
        self.readers.run(move |connection| sessions::session(connection, epoch, &id)).await
    }

    async fn session_revisions(&self, ids: &[String]) -> Result<Vec<(String, u64)>, StoreError> {
        let ids = ids.to_vec();
        self.readers.run(move |connection| sessions::revisions(connection, &ids)).await
    }

    fn session_signals(&self) -> broadcast::Receiver<SessionSignal> {
        self.signals.subscribe()
    }

    async fn sweep_sessions(&self, rules: SessionRules) -> Result<SweptSessions, StoreError> {
        let (epoch, signals) = (self.epoch, self.signals.clone());
        let cursor = Arc::clone(&self.sweep_cursor);
        let sweep = move |writer: &mut writer::Writer| {
            let mut cursor = cursor.lock().unwrap_or_else(PoisonError::into_inner);
            session_sweep::sweep(writer, epoch, &rules, &mut cursor, &signals)
        };
        self.exclusively(sweep).await
    }

    async fn subscriber_count(&self, stream: &str) -> Result<u64, StoreError> {
        let stream = stream.to_owned();
        self.readers.run(move |connection| sessions::subscriber_count(connection, &stream)).await
    }
}

#[async_trait]
impl Nodes for SqliteStore {
    async fn renew_node(&self, report: &NodeReport, lease_ms: u64) -> Result<(), StoreError> {
        let report = report.clone();
        self.exclusively(move |writer| nodes::renew(writer, &report, lease_ms)).await
    }

    async fn nodes(&self) -> Result<Vec<NodeView>, StoreError> {
        self.readers.run(|connection| nodes::list(connection)).await
    }

    async fn remove_node(&self, id: &str, session_ttl_ms: u64) -> Result<(), StoreError> {
        let remove = || {
            let (epoch, id) = (self.epoch, id.to_owned());
            self.exclusively(move |writer| nodes::remove(writer, epoch, &id, session_ttl_ms))
        };
        while !remove().await? {}
        Ok(())
    }
}

#[async_trait]
impl Retention for SqliteStore {
    async fn retain(&self, rules: &RetentionRules, from: &str) -> Result<Retained, StoreError> {
        retention::retain(self, rules, from).await
    }
}
