//! Sessions that batches are worked off in.
//!
//! They have the database's own settings, not ours, because handlers' SQL is their users': its search path and
//! its planner. What a handler sets in a session stays there for the batches after it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::{Error, Statement};

use super::super::connect::{Connector, Session};
use super::super::query::sql;
use super::step::failed;
use tidewire_store::error::StoreError;
use tidewire_store::groups::GroupError;

/// A machine that is gone is noticed, because the session holds a lock.
const SETTINGS: &str = "
    SET tcp_keepalives_idle = 2;
    SET tcp_keepalives_interval = 1;
    SET tcp_keepalives_count = 3;
    SET tcp_user_timeout = '5s';
";

/// The server ends a session that stands still in a transaction for so much longer than the work may take.
const IDLE_GRACE_MS: u64 = 5_000;

/// How long a transaction that was left is given to end, before its session is closed.
const ROLLBACK_WAIT: Duration = Duration::from_secs(1);

/// The longest that work may take, by the server's integers.
const TIMEOUT_MS_MAX: u64 = 1 << 30;

/// The sessions, up to a number.
pub(super) struct WorkSessions {
    connector: Arc<Connector>,
    permits: Arc<Semaphore>,
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    sessions: Vec<PreparedSession>,
    closed: bool,
}

/// A session with what every batch needs prepared in it.
struct PreparedSession {
    session: Session,
    claim: Statement,
    advance: Statement,
    /// What the server was told of how long work may take.
    timeout_ms: u64,
}

/// A session in use. Closed when dropped, unless it is given back.
pub(super) struct WorkSession {
    ready: PreparedSession,
    permit: OwnedSemaphorePermit,
}

impl fmt::Debug for WorkSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkSessions")
            .field("idle", &self.idle().sessions.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for WorkSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkSession").finish_non_exhaustive()
    }
}

impl WorkSession {
    pub(super) fn client(&self) -> &deadpool_postgres::ClientWrapper {
        &self.ready.session.client
    }

    /// `group_claim.sql`.
    pub(super) fn claim(&self) -> &Statement {
        &self.ready.claim
    }

    /// `group_advance.sql`.
    pub(super) fn advance(&self) -> &Statement {
        &self.ready.advance
    }

    /// What begins a transaction that may take so long, besides what the server knows already.
    pub(super) fn begin(&mut self, timeout_ms: u64) -> String {
        let mut begin = String::new();
        let timeout_ms = timeout_ms.clamp(1, TIMEOUT_MS_MAX);
        if timeout_ms != self.ready.timeout_ms {
            let idle_ms = timeout_ms + IDLE_GRACE_MS;
            begin = format!(
                "SET statement_timeout = {timeout_ms}; \
                 SET idle_in_transaction_session_timeout = {idle_ms}; "
            );
            self.ready.timeout_ms = timeout_ms;
        }
        begin.push_str("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE");
        begin
    }
}

impl WorkSessions {
    pub(super) fn new(connector: &Arc<Connector>, count: usize) -> WorkSessions {
        WorkSessions {
            connector: Arc::clone(connector),
            permits: Arc::new(Semaphore::new(count.max(1))),
            idle: Mutex::default(),
        }
    }

    /// A session, waited for within the timeout of connections.
    pub(super) async fn take(&self) -> Result<WorkSession, GroupError> {
        let timeout = self.connector.timeout;
        let permit = Arc::clone(&self.permits).acquire_owned();
        let permit = match tokio::time::timeout(timeout, permit).await {
            Ok(Ok(permit)) => permit,
            Ok(Err(_)) => return Err(StoreError::Closed.into()),
            Err(_) => {
                let text = format!("all sessions for work were in use for {timeout:?}");
                return Err(GroupError::Transient(text));
            }
        };
        let kept = loop {
            match self.idle().sessions.pop() {
                Some(ready) if ready.session.ended.is_cancelled() => {}
                other => break other,
            }
        };
        let ready = match kept {
            Some(ready) => ready,
            None => self.open().await?,
        };
        Ok(WorkSession { ready, permit })
    }

    async fn open(&self) -> Result<PreparedSession, GroupError> {
        let session = self.connector.guest_in_time(SETTINGS).await?;
        let prepare = async {
            let claim = session.client.prepare(sql!("group_claim")).await?;
            let advance = session.client.prepare(sql!("group_advance")).await?;
            Ok::<_, Error>((claim, advance))
        };
        let (claim, advance) = prepare.await.map_err(|error| failed("prepare work", &error))?;
        Ok(PreparedSession { session, claim, advance, timeout_ms: 0 })
    }

    /// Gives back a session whose transaction has ended.
    pub(super) fn give_back(&self, session: WorkSession) {
        let WorkSession { ready, permit } = session;
        let mut idle = self.idle();
        if !idle.closed && !ready.session.ended.is_cancelled() {
            idle.sessions.push(ready);
        }
        drop(idle);
        drop(permit);
    }

    /// Ends the transaction of a session that was left in the middle of it, or closes the session.
    pub(super) async fn end(&self, mut session: WorkSession) {
        // What was set together with BEGIN is taken back with it.
        session.ready.timeout_ms = 0;
        let client = session.client();
        let rollback = client.batch_execute("ROLLBACK");
        if matches!(tokio::time::timeout(ROLLBACK_WAIT, rollback).await, Ok(Ok(()))) {
            self.give_back(session);
            return;
        }
        // A statement that goes on for nobody holds the partition for as long.
        let token = client.cancel_token();
        let cancelled = tokio::time::timeout(ROLLBACK_WAIT, self.connector.cancel(&token)).await;
        if !matches!(cancelled, Ok(Ok(()))) {
            tracing::debug!("a handler's statement could not be cancelled; its session is closed");
        }
    }

    /// The same without waiting for it.
    pub(super) fn end_soon(self: &Arc<Self>, session: WorkSession) {
        // Outside of a runtime the session is closed, which ends the transaction too.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let sessions = Arc::clone(self);
            let end = async move { sessions.end(session).await };
            self.connector.tasks().spawn_on(end, &runtime);
        }
    }

    /// Lets go of the database.
    pub(super) fn close(&self) {
        let mut idle = self.idle();
        idle.closed = true;
        idle.sessions.clear();
        self.permits.close();
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
