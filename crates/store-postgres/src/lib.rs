//! The shared store: one PostgreSQL database, any number of nodes.
//!
//! Whoever gives offsets holds an advisory lock in a short transaction, reads the tip in a fresh
//! statement after it, and commits before letting go: so offsets are gapless and what anyone sees
//! is a prefix, whatever the number of nodes. PostgreSQL shows a commit only once it is durable.
//! All clocks are the database's.
//!
//! A node has one connection that writes, one that listens, a small pool for the rest, a few
//! sessions for users' own SQL, and a few for live queries.
//!
//! - `access`: access control
//! - `batch`: commands that share a commit, and who waits for their answers
//! - `captured`: what `tidewire-capture` needs of this store
//! - `columns`: what is to be saved, by column
//! - `compat`: other systems' names for what Tidewire has
//! - `connect`: connections to the database
//! - `control`: the control channel, and the upkeep of it and of tickets
//! - `entities`: subscriptions to entities, and what became of those
//! - `error`: what PostgreSQL's errors mean to a caller
//! - `failover`: what becomes of the log when its database is not the one that is noted
//! - `fence`: keeps a node from giving offsets in a database that is not the one it opened, and
//!   from reading it under an epoch that is not its own
//! - `pipeline`: statements that are sent together, so that they cost one round trip however many
//!   they are
//! - `groups`: consumer groups in the shared store, for a node and for workers that have nothing
//!   else of it
//! - `identity`: which database this is
//! - `keys`: API keys
//! - `listener`: receives notifications of all nodes' commits
//! - `live_queries`: the list of live queries
//! - `load`: loading what commands are decided against, under the offset lock
//! - `nodes`: nodes and their leases
//! - `options`: how the store is opened
//! - `open`: opening the database
//! - `partitions`: the log's partitions
//! - `pool`: connections for reads, and for the short transactions of upkeep and subscriptions
//! - `queries`: reading for live queries, and the list of them
//! - `query`: running the queries of `sql/postgres`, each prepared once a connection
//! - `read`: reading streams, and following the log
//! - `restore`: what is left to do after a database was restored with PostgreSQL's own tools
//! - `retention`: giving up what is past its limits, and removing it
//! - `save`: saving what was decided
//! - `session_columns`: what is to be saved of sessions, by column, as `columns` does it for the
//!   log
//! - `session_sweep`: upkeep of sessions
//! - `sessions`: sessions
//! - `statements`: the user's own SQL
//! - `subscriptions`: subscriptions and shared secrets
//! - `sweep`: upkeep
//! - `table_lock`: waiting for the lock that a change of capture needs on a table, beside those who
//!   use it
//! - `testing`: databases for tests, here and in other crates
//! - `tickets`: tickets
//! - `tls`: TLS as `sslmode` in the URL asks for it, with libpq's meanings
//! - `url`: reading the database's URL
//! - `wal`: the write-ahead log as the source of changes
//! - `wal_obstacles`: what stands in the way of capture from the write-ahead log
//! - `wal_slot`: the replication slot
//! - `wal_switch`: the switch between the two sources of changes
//! - `watches`: watched tables
//! - `writer`: the writer

mod access;
mod batch;
pub mod captured;
mod columns;
mod compat;
mod connect;
mod control;
mod entities;
mod error;
mod failover;
mod fence;
pub mod groups;
mod identity;
mod keys;
mod listener;
mod live_queries;
mod load;
mod nodes;
mod open;
mod options;
mod partitions;
mod pipeline;
mod pool;
mod queries;
mod query;
mod read;
mod restore;
mod retention;
mod save;
mod session_columns;
mod session_sweep;
mod sessions;
mod statements;
mod subscriptions;
mod sweep;
mod table_lock;
#[doc(hidden)]
pub mod testing;
mod tickets;
mod tls;
mod url;
pub mod wal;
mod wal_obstacles;
mod wal_slot;
mod wal_switch;
mod watches;
mod writer;

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures_util::future::try_join_all;
use tokio::sync::{broadcast, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use tidewire_store::command::{Answer, Command};
use tidewire_store::error::StoreError;
use tidewire_store::event::TailEvent;
use tidewire_store::log::{Found, Log, PageLimit, Swept, WantsPayload};
use tidewire_store::nodes::{NodeReport, NodeView, Nodes};
use tidewire_store::offset::{Epoch, Position};
use tidewire_store::queue::Queue;
use tidewire_store::retention::{Retained, Retention, RetentionRules};
use tidewire_store::session::{
    SIGNALS_MAX, Session, SessionChange, SessionOutcome, SessionRules, SessionSignal, Sessions,
    SweepCursor, SweptSessions,
};
use tidewire_store::stats::{CaptureCounters, CommitStats, Counters};
use tidewire_store::subscription::{Interest, Op, Reply, Subscription, Subscriptions};

pub use groups::PostgresWork;
/// The driver, for handlers that speak to an open transaction themselves.
pub use tokio_postgres as driver;

pub use compat::{CompatName, CompatSchemas, compat};
pub use fence::Replaced;
pub use options::{Failover, PostgresOptions};
pub use restore::restore;

use captured::CaptureLink;
use connect::Connector;
use error::broken;
use partitions::Partitions;
use pool::{Pool, PooledConnection};
use writer::{CommitEffects, Writer};

const HALT: &str = "note that the log ends too early";

/// The steps of this store's schema.
pub(crate) const MIGRATIONS: &[tidewire_store::migration::Migration] =
    tidewire_store::migrations!();

/// The shared store. Cheap to share; close it to finish what waits and let go of the database.
#[derive(Debug)]
pub struct PostgresStore {
    epoch: Epoch,
    queue: Queue<Infallible>,
    pool: Pool,
    user_sessions: statements::UserSessions,
    marks: statements::Marks,
    live: statements::Live,
    groups: Arc<groups::PostgresGroups>,
    effects: Arc<CommitEffects>,
    connector: Arc<Connector>,
    capture: Arc<CaptureCounters>,
    /// Held by the one transaction of this node that changes sessions. The database lets one of them
    /// proceed at a time, and those that waited for it there would keep connections from reads.
    session_turn: tokio::sync::Mutex<()>,
    /// Where the next sweep of sessions goes on. Held for a moment only, never across a wait.
    sweep_cursor: Mutex<SweepCursor>,
    stop_listening: CancellationToken,
    /// Ends the listener of a store that is dropped without being closed. (The writer ends with
    /// its queue, and connections with their clients.)
    _stop: DropGuard,
}

impl PostgresStore {
    /// Opens the store in a database, making its schema or bringing it up to date as needed. Waits
    /// for a database that is away, for as long as the options say.
    pub async fn open(options: PostgresOptions) -> Result<Arc<PostgresStore>, StoreError> {
        let connector = Arc::new(Connector::new(&options)?);
        let session = open::prepare(&connector).await?;
        let epoch = open::settle(&connector, &session).await?;
        drop(session);
        let pool = Pool::new(&connector, options.read_connections)?;
        let user_sessions = statements::UserSessions::new(&connector, options.sql_connections);
        let live = statements::Live::new(&connector, options.query_connections);
        let (queue, taker) = Queue::new(&options.commit);
        let effects = Arc::new(CommitEffects {
            counters: Counters::default(),
            fence: Arc::clone(&connector.fence),
            partitions: Partitions::default(),
            grown: watch::Sender::new(0),
            session_signals: broadcast::Sender::new(SIGNALS_MAX),
            control_signals: watch::Sender::new(0),
            group_signals: watch::Sender::new(0),
        });
        let stop = CancellationToken::new();
        let writer = Writer::new(Arc::clone(&connector), taker, Arc::clone(&effects));
        connector.tasks().spawn(writer.run());
        let listener = listener::run(Arc::clone(&connector), Arc::clone(&effects), stop.clone());
        connector.tasks().spawn(listener);
        let groups = groups::PostgresGroups::of_store(&connector, &pool, &user_sessions, &effects);
        Ok(Arc::new(PostgresStore {
            epoch,
            queue,
            pool,
            user_sessions,
            marks: statements::Marks::default(),
            live,
            groups: Arc::new(groups),
            effects,
            connector,
            capture: Arc::default(),
            session_turn: tokio::sync::Mutex::default(),
            sweep_cursor: Mutex::default(),
            stop_listening: stop.clone(),
            _stop: stop.drop_guard(),
        }))
    }

    /// What brings captured changes into the log works through this.
    pub fn capture_link(&self) -> CaptureLink {
        CaptureLink {
            connector: Arc::clone(&self.connector),
            effects: Arc::clone(&self.effects),
            counters: Arc::clone(&self.capture),
            closing: self.stop_listening.clone(),
        }
    }

    /// Returns when this store cannot go on with its database, and why. Where the log is shorter than it
    /// was, that is noted first, so that no node goes on from there.
    pub async fn replaced(&self) -> Replaced {
        let why = match self.connector.fence.replaced().await {
            Replaced::Stop(why) => why,
            reopen @ Replaced::Reopen(_) => return reopen,
        };
        let note = async {
            let (client, connection) = self.connector.raw().await.map_err(broken(HALT))?;
            tokio::select! {
                ended = connection => ended.map_err(broken(HALT)),
                halted = failover::halt(&client, &why) => halted,
            }
        };
        match tokio::time::timeout(self.connector.timeout, note).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "other nodes were not notified"),
            Err(_) => {
                tracing::error!("the database does not answer; other nodes were not notified")
            }
        }
        Replaced::Stop(failover::halted(&why))
    }

    /// Runs a transaction that changes sessions, when it is its turn.
    async fn change_in_turn<T, F>(
        &self,
        work: impl Fn(PooledConnection) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let timeout = self.connector.timeout;
        let turn = tokio::time::timeout(timeout, self.session_turn.lock()).await;
        let Ok(_turn) = turn else {
            let text = format!("other changes of sessions took longer than {timeout:?}");
            return Err(StoreError::Unavailable(text));
        };
        self.pool.write(work).await
    }
}

#[async_trait]
impl Log for PostgresStore {
    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn backend(&self) -> &'static str {
        "PostgreSQL"
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
        self.pool
            .read(|client| async move { read::read(&client, stream, after, limit).await })
            .await
    }

    async fn follow(
        &self,
        after: Position,
        limit: PageLimit,
        wants_payload: WantsPayload,
    ) -> Result<Vec<TailEvent>, StoreError> {
        let wants_payload = &wants_payload;
        let events = self
            .pool
            .read(
                |client| async move { read::follow(&client, after, limit, &**wants_payload).await },
            )
            .await?;
        if let Some(last) = events.last() {
            self.effects.fence.saw(last.position);
        }
        Ok(events)
    }

    async fn tip(&self) -> Result<Position, StoreError> {
        self.pool.read(|client| async move { load::tip(&client).await }).await
    }

    fn grown(&self) -> watch::Receiver<u64> {
        self.effects.grown.subscribe()
    }

    async fn names(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        self.pool
            .read(|client| async move { read::names(&client, prefix, after, limit).await })
            .await
    }

    async fn sweep(&self) -> Result<Swept, StoreError> {
        let expired = self.pool.read(|client| async move { sweep::expired(&client).await }).await?;
        let streams_expired = expired.len();
        try_join_all(expired.into_iter().map(|stream| self.submit(Command::Expire { stream })))
            .await?;
        let events_purged =
            self.pool.write(|client| async move { sweep::purge(&client).await }).await?;
        let partitions = &self.effects.partitions;
        self.pool.read(|client| async move { sweep::partition(&client, partitions).await }).await?;
        Ok(Swept { streams_expired, events_purged })
    }

    fn commit_stats(&self) -> CommitStats {
        self.effects.counters.snapshot()
    }

    async fn close(&self) {
        self.queue.close();
        self.stop_listening.cancel();
        self.pool.close();
        self.user_sessions.close();
        self.live.close();
        self.groups.close();
        // The writer, once it has answered what waits; the listener; and the tasks of connections,
        // once those who use them are done.
        self.connector.tasks().close();
        self.connector.tasks().wait().await;
    }
}

#[async_trait]
impl Subscriptions for PostgresStore {
    async fn subscription(&self, id: &str) -> Result<Option<Subscription>, StoreError> {
        self.pool.read(|client| async move { subscriptions::load(&client, id).await }).await
    }

    async fn interests(&self) -> Result<Vec<Interest>, StoreError> {
        self.pool.read(|client| async move { subscriptions::interests(&client).await }).await
    }

    async fn change_subscription(&self, id: &str, op: Op) -> Result<Reply, StoreError> {
        let op = &op;
        let change = |client: PooledConnection| async move {
            subscriptions::change(&client, &self.effects, id, op).await
        };
        self.pool.write(change).await
    }

    async fn due_subscriptions(&self, limit: usize) -> Result<Vec<String>, StoreError> {
        self.pool.read(|client| async move { subscriptions::due(&client, limit).await }).await
    }

    async fn secret(&self, name: &str, candidate: Vec<u8>) -> Result<Vec<u8>, StoreError> {
        let candidate = &candidate;
        self.pool
            .read(|client| async move { subscriptions::secret(&client, name, candidate).await })
            .await
    }
}

#[async_trait]
impl Sessions for PostgresStore {
    async fn change_sessions(
        &self,
        changes: Vec<SessionChange>,
    ) -> Result<Vec<SessionOutcome>, StoreError> {
        let changes = &changes;
        let change = |client: PooledConnection| async move {
            sessions::change(&client, self.epoch, changes).await
        };
        self.change_in_turn(change).await
    }

    async fn session(&self, id: &str) -> Result<Option<Session>, StoreError> {
        self.pool
            .read(|client| async move { sessions::session(&client, self.epoch, id).await })
            .await
    }

    async fn session_revisions(&self, ids: &[String]) -> Result<Vec<(String, u64)>, StoreError> {
        self.pool.read(|client| async move { sessions::revisions(&client, ids).await }).await
    }

    fn session_signals(&self) -> broadcast::Receiver<SessionSignal> {
        self.effects.session_signals.subscribe()
    }

    async fn sweep_sessions(&self, rules: SessionRules) -> Result<SweptSessions, StoreError> {
        let held = || self.sweep_cursor.lock().unwrap_or_else(PoisonError::into_inner);
        let (cursor, rules) = (&held().clone(), &rules);
        let sweep = |client: PooledConnection| async move {
            session_sweep::sweep(&client, self.epoch, rules, cursor).await
        };
        let (swept, next) = self.change_in_turn(sweep).await?;
        *held() = next;
        Ok(swept)
    }

    async fn subscriber_count(&self, stream: &str) -> Result<u64, StoreError> {
        self.pool
            .read(|client| async move { sessions::subscriber_count(&client, stream).await })
            .await
    }
}

#[async_trait]
impl Nodes for PostgresStore {
    async fn renew_node(&self, report: &NodeReport, lease_ms: u64) -> Result<(), StoreError> {
        self.pool.read(|client| async move { nodes::renew(&client, report, lease_ms).await }).await
    }

    async fn nodes(&self) -> Result<Vec<NodeView>, StoreError> {
        self.pool.read(|client| async move { nodes::list(&client).await }).await
    }

    async fn remove_node(&self, id: &str, session_ttl_ms: u64) -> Result<(), StoreError> {
        let remove = |client: PooledConnection| async move {
            nodes::remove(&client, self.epoch, id, session_ttl_ms).await
        };
        while !self.change_in_turn(remove).await? {}
        Ok(())
    }
}

#[async_trait]
impl Retention for PostgresStore {
    async fn retain(&self, rules: &RetentionRules, from: &str) -> Result<Retained, StoreError> {
        retention::retain(self, rules, from).await
    }
}
