//! Connections to the database: where it is, how sessions are set up, and who runs them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use deadpool_postgres::ClientWrapper;
use tokio::task::JoinHandle;
use tokio_postgres::config::{Host, TargetSessionAttrs};
use tokio_postgres::{CancelToken, Client, Config, Connection, Error, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::error::{broken, text};
use super::fence::Fence;
use super::query::sql;
use super::statements::Backend;
use super::url;
use crate::options::PostgresOptions;
use tidewire_store::error::StoreError;

/// By which our sessions are known in `pg_stat_activity`.
pub(super) const APPLICATION_NAME: &str = "tidewire";

/// A peer that does not answer is given up after at most five seconds: that long a dead node may
/// hold the offset lock, and a dead server our commands.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(2);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
const KEEPALIVE_RETRIES: u32 = 3;
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(5);

/// Waits between attempts to connect: doubled from the first to the last, with jitter, so that many
/// nodes do not come back as one.
const BACKOFF_FIRST: Duration = Duration::from_millis(50);
const BACKOFF_LAST: Duration = Duration::from_secs(2);

const CONNECT: &str = "connect to PostgreSQL";

/// Every session's settings. Whatever defaults the server, database or role have, these hold.
///
/// - Offsets are right only in READ COMMITTED; acknowledged means durable only with
///   `synchronous_commit`.
/// - A session that stops in the middle of a transaction is ended by the server, because it may
///   hold the offset lock.
/// - Our queries are all meant to walk an index in its order. Forcing that keeps a missing or stale
///   statistic from ever turning a page of ten events into a scan of the log.
pub(crate) const SETTINGS: &str = "
    SET search_path = '';
    SET default_transaction_isolation = 'read committed';
    SET synchronous_commit = on;
    SET idle_in_transaction_session_timeout = '5s';
    SET idle_session_timeout = 0;
    SET tcp_keepalives_idle = 2;
    SET tcp_keepalives_interval = 1;
    SET tcp_keepalives_count = 3;
    SET tcp_user_timeout = '5s';
    SET plan_cache_mode = force_generic_plan;
    SET enable_seqscan = off;
    SET enable_bitmapscan = off;
    SET enable_hashjoin = off;
    SET enable_mergejoin = off;
    SET max_parallel_workers_per_gather = 0;
    SET jit = off;
";

/// Knows how to connect, and owns the tasks that drive the connections.
#[derive(Clone)]
pub(crate) struct Connector {
    config: Config,
    tls: MakeRustlsConnect,
    pub(crate) protection: url::Protection,
    tasks: TaskTracker,
    pub(crate) timeout: Duration,
    /// The role that live queries run as.
    pub(crate) query_role: String,
    /// What every session is held to.
    pub(crate) fence: Arc<Fence>,
}

/// A session, and the token that is cancelled when it has ended, for whatever reason.
pub(crate) struct Session {
    pub(crate) client: ClientWrapper,
    pub(crate) ended: CancellationToken,
    /// What serves it, where that is asked for.
    pub(super) backend: Option<Backend>,
}

pub(crate) type RawConnection =
    Connection<Socket, <MakeRustlsConnect as tokio_postgres::tls::MakeTlsConnect<Socket>>::Stream>;

/// What holds for all statements that are not ours: values are always written in the same way, whatever
/// the database's defaults are, because their text is read.
const USER_SESSION: &str = "
    SET TimeZone = 'UTC';
    SET DateStyle = 'ISO';
    SET IntervalStyle = 'postgres';
    SET extra_float_digits = 1;
    SET bytea_output = 'hex';
    SET xmloption = 'content';
    SET client_encoding = 'UTF8';
    SET standard_conforming_strings = on;
    SET backslash_quote = safe_encoding;
    SET idle_session_timeout = 0;
";

/// Gives a session a user session's settings, and these besides.
pub(super) async fn welcome(client: &Client, settings: &str) -> Result<(), Error> {
    client.batch_execute(&format!("{USER_SESSION}{settings}")).await
}

impl Connector {
    pub(crate) fn new(options: &PostgresOptions) -> Result<Connector, StoreError> {
        let (mut config, tls, protection) = url::parse(&options.url)?;
        config
            .application_name(APPLICATION_NAME)
            .connect_timeout(options.connect_timeout)
            .keepalives(true)
            .keepalives_idle(KEEPALIVE_IDLE)
            .keepalives_interval(KEEPALIVE_INTERVAL)
            .keepalives_retries(KEEPALIVE_RETRIES)
            .tcp_user_timeout(TCP_USER_TIMEOUT)
            .target_session_attrs(TargetSessionAttrs::ReadWrite);
        let tasks = TaskTracker::new();
        let (timeout, query_role) = (options.connect_timeout, options.query_role.clone());
        let fence = Arc::new(Fence::new(options.failover));
        Ok(Connector { config, tls, protection, tasks, timeout, query_role, fence })
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Where the database is, for people.
    fn address(&self) -> String {
        let host = |host: &Host| match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(path) => path.display().to_string(),
        };
        let hosts: Vec<String> = self.config.get_hosts().iter().map(host).collect();
        let ports: Vec<String> = self.config.get_ports().iter().map(u16::to_string).collect();
        format!("host {}, port {}", hosts.join(" or "), ports.join(" or "))
    }

    /// Tasks that end when the store is closed.
    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    /// One attempt to connect; the caller drives the connection, and bounds the time.
    pub(crate) async fn raw(&self) -> Result<(Client, RawConnection), Error> {
        self.config.connect(self.tls.clone()).await
    }

    /// One attempt to connect, with the settings of every session, and `settings` besides.
    pub(crate) async fn open(
        &self,
        settings: &str,
    ) -> Result<(Client, JoinHandle<()>, CancellationToken), Error> {
        let (client, connection) = self.raw().await?;
        let ended = CancellationToken::new();
        let task = self.drive(connection, ended.clone());
        client.batch_execute(SETTINGS).await?;
        client.batch_execute(settings).await?;
        Ok((client, task, ended))
    }

    fn drive(&self, connection: RawConnection, ended: CancellationToken) -> JoinHandle<()> {
        // A guard, because the task is aborted when its client is dropped.
        let ended = ended.drop_guard();
        self.tasks.spawn(async move {
            let _ended = ended;
            if let Err(error) = connection.await {
                tracing::warn!(error = text(&error), "a connection to PostgreSQL broke");
            }
        })
    }

    /// One attempt to open a session, not longer than [`Connector::timeout`].
    async fn session(&self, settings: &str) -> Result<Session, StoreError> {
        let opened = async {
            let (client, task, ended) = self.open(settings).await.map_err(broken(CONNECT))?;
            let client = ClientWrapper::new(client, task);
            self.fence.admit(&client).await?;
            Ok(Session { client, ended, backend: None })
        };
        self.in_time(opened).await
    }

    async fn in_time(
        &self,
        opened: impl Future<Output = Result<Session, StoreError>>,
    ) -> Result<Session, StoreError> {
        match tokio::time::timeout(self.timeout, opened).await {
            Ok(Err(StoreError::Unavailable(reason))) => {
                Err(StoreError::Unavailable(format!("{reason} ({})", self.address())))
            }
            Ok(opened) => opened,
            Err(_) => Err(StoreError::Unavailable(format!("no answer in {:?}", self.timeout))),
        }
    }

    /// Whether another attempt may go better.
    fn may_mend(&self, error: &StoreError) -> bool {
        error.temporary() && !self.fence.is_replaced()
    }

    /// Opens a session. While the database is away it is tried again, within the timeout.
    pub(crate) async fn session_in_time(&self, settings: &str) -> Result<Session, StoreError> {
        let mut patience = Patience::new(self.timeout);
        loop {
            match self.session(settings).await {
                Err(error) if self.may_mend(&error) && patience.wait().await => {}
                other => return other,
            }
        }
    }

    /// Opens a session with a user session's settings and these, for statements that are not ours. While the
    /// database is away it is tried again, within the timeout.
    pub(crate) async fn guest_in_time(&self, settings: &str) -> Result<Session, StoreError> {
        let mut patience = Patience::new(self.timeout);
        loop {
            let opened = async {
                let (client, connection) = self.raw().await.map_err(broken(CONNECT))?;
                let ended = CancellationToken::new();
                let client = ClientWrapper::new(client, self.drive(connection, ended.clone()));
                // Before the role of a user session is taken, which may not look.
                self.fence.admit(&client).await?;
                welcome(&client, settings).await.map_err(broken(CONNECT))?;
                Ok(Session { client, ended, backend: None })
            };
            match self.in_time(opened).await {
                Err(error) if self.may_mend(&error) && patience.wait().await => {}
                Ok(session) => {
                    // Without an answer the session is broken, which whoever uses it finds out.
                    let said = session.client.simple_query(sql!("backend")).await;
                    let backend = said.ok().as_deref().and_then(Backend::of);
                    return Ok(Session { backend, ..session });
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Asks the server to end what a session does.
    pub(crate) async fn cancel(&self, token: &CancelToken) -> Result<(), Error> {
        token.cancel_query(self.tls.clone()).await
    }

    /// Opens a session, however long that takes.
    pub(crate) async fn session_in_the_end(self: Arc<Self>, settings: String) -> Session {
        let mut attempt = 0;
        loop {
            match self.session(&settings).await {
                Ok(session) => return session,
                Err(error) => tracing::warn!(%error, attempt, "cannot connect to PostgreSQL"),
            }
            tokio::time::sleep(backoff(attempt)).await;
            attempt += 1;
        }
    }
}

/// Attempts that stop after a while.
pub(crate) struct Patience {
    deadline: Instant,
    attempt: u32,
}

impl Patience {
    pub(crate) fn new(patience: Duration) -> Patience {
        Patience { deadline: Instant::now() + patience, attempt: 0 }
    }

    /// Waits before the next attempt, or says that there is no time for one.
    pub(crate) async fn wait(&mut self) -> bool {
        let wait = backoff(self.attempt);
        self.attempt += 1;
        let in_time = Instant::now() + wait < self.deadline;
        if in_time {
            tokio::time::sleep(wait).await;
        }
        in_time
    }
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The driver leaves the password out of its configuration's text.
        f.debug_struct("Connector").field("config", &self.config).finish_non_exhaustive()
    }
}

/// How long to wait after so many failed attempts.
pub(crate) fn backoff(attempt: u32) -> Duration {
    let doubled = BACKOFF_FIRST.saturating_mul(1 << attempt.min(10));
    rand::random_range(BACKOFF_FIRST / 2..=doubled.min(BACKOFF_LAST))
}
