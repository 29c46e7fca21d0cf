//! Sessions that users' SQL runs in.
//!
//! They have the database's own settings, not ours: its search path and its planner. What a request
//! leaves behind is cleared away before the next one comes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_postgres::{CancelToken, Client, Error, SimpleQueryMessage};
use tokio_util::sync::CancellationToken;

use super::super::connect::{self, Connector, Session};
use super::ending::{self, Backend};
use tidewire_store::error::StoreError;
use tidewire_store::sql_permits::{SqlPermit, SqlPermits};

/// A session that stops in the middle of a transaction is ended by the server.
const SETTINGS: &str = "
    SET idle_in_transaction_session_timeout = '10s';
";

/// `DISCARD ALL`, but for statements that the driver has prepared for itself.
const CLEAN: &str = "
    CLOSE ALL;
    SET SESSION AUTHORIZATION DEFAULT;
    RESET ALL;
    UNLISTEN *;
    SELECT pg_catalog.pg_advisory_unlock_all();
    DISCARD TEMP;
    DISCARD SEQUENCES;
";
const DISCARD_PLANS: &str = "DISCARD PLANS;";

/// Statements that somebody has prepared by SQL, in a function perhaps. The driver gives its own statements
/// names, and would fail where one of them is taken: a session that has any is closed.
const PREPARED: &str = "
    SELECT pg_catalog.count(*) FROM pg_catalog.pg_prepared_statements WHERE from_sql;
";

/// Where plans are kept, they are not to be made for each value.
const KEEP_PLANS: &str = "SET plan_cache_mode = force_generic_plan;";

/// The sessions, up to a number. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct UserSessions {
    connector: Arc<Connector>,
    permits: SqlPermits,
    idle: Arc<Mutex<Idle>>,
    keep_plans: bool,
    closing: CancellationToken,
}

#[derive(Default)]
struct Idle {
    sessions: Vec<Session>,
    closed: bool,
}

impl std::fmt::Debug for Idle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Idle").field("sessions", &self.sessions.len()).finish_non_exhaustive()
    }
}

/// A session in use. One that is dropped, and not given back, is closed.
pub(crate) struct UserSession {
    pub(crate) session: Session,
    /// Others have used it before.
    pub(super) used: bool,
    lease: SessionLease,
}

/// What a session in use holds. Unless it is known that the server is done with it, its permit is not another's
/// before that is so ([`ending`](super::ending)).
struct SessionLease {
    permit: Option<SqlPermit>,
    connector: Arc<Connector>,
    token: CancelToken,
    backend: Option<Backend>,
    /// The store is closed: nothing is waited for.
    closing: CancellationToken,
}

impl UserSession {
    /// Ends what a session that is not answering in time still does, and closes it. Its permit is free once that
    /// has ended.
    pub(crate) fn cancel(self) {
        drop(self);
    }
}

impl SessionLease {
    /// The server is done with the session.
    fn give_back(mut self) {
        self.permit = None;
    }
}

impl Drop for SessionLease {
    fn drop(&mut self) {
        let Some(permit) = self.permit.take() else { return };
        let (connector, token) = (Arc::clone(&self.connector), self.token.clone());
        let (backend, closing) = (self.backend.take(), self.closing.clone());
        self.connector.tasks().spawn(async move {
            let ended = Box::pin(ending::end(connector, token, backend));
            closing.run_until_cancelled(ended).await;
            drop(permit);
        });
    }
}

impl UserSessions {
    pub(crate) fn new(connector: &Arc<Connector>, count: usize) -> UserSessions {
        UserSessions {
            connector: Arc::clone(connector),
            permits: SqlPermits::new(count),
            idle: Arc::default(),
            keep_plans: false,
            closing: CancellationToken::new(),
        }
    }

    /// For requests that are one SELECT each, prepared by nobody: the plans that a session has are then
    /// those of our own statements, and making them anew would take longer than the request.
    pub(crate) fn keeping_plans(self) -> UserSessions {
        UserSessions { keep_plans: true, ..self }
    }

    fn settings(&self) -> String {
        format!("{SETTINGS}{}", if self.keep_plans { KEEP_PLANS } else { "" })
    }

    /// A session on someone's account, waited for within the timeout of connections.
    pub(crate) async fn take(&self, account: Option<&Arc<str>>) -> Result<UserSession, StoreError> {
        let permit = self.permit(account).await?;
        let kept = self.idle().sessions.pop().filter(|session| !session.ended.is_cancelled());
        match kept {
            Some(session) if session.client.check_connection().await.is_ok() => {
                Ok(self.user_session(session, true, permit))
            }
            _ => self.open(permit).await,
        }
    }

    /// A session that nobody has used, likewise.
    pub(super) async fn take_new(
        &self,
        account: Option<&Arc<str>>,
    ) -> Result<UserSession, StoreError> {
        let permit = self.permit(account).await?;
        self.open(permit).await
    }

    async fn open(&self, permit: SqlPermit) -> Result<UserSession, StoreError> {
        let session = self.connector.guest_in_time(&self.settings()).await?;
        Ok(self.user_session(session, false, permit))
    }

    fn user_session(&self, session: Session, used: bool, permit: SqlPermit) -> UserSession {
        let lease = SessionLease {
            permit: Some(permit),
            connector: Arc::clone(&self.connector),
            token: session.client.cancel_token(),
            backend: session.backend.clone(),
            closing: self.closing.clone(),
        };
        UserSession { session, used, lease }
    }

    async fn permit(&self, account: Option<&Arc<str>>) -> Result<SqlPermit, StoreError> {
        let timeout = self.connector.timeout;
        match tokio::time::timeout(timeout, self.permits.take(account)).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) => Err(StoreError::Closed),
            Err(_) => {
                let text = format!("all sessions for SQL were in use for {timeout:?}");
                Err(StoreError::Unavailable(text))
            }
        }
    }

    /// Clears a session away behind a request, for the next one. The request need not wait for it. A session
    /// that cannot be cleared away, or not in time, is closed.
    pub(crate) fn give_back(&self, user_session: UserSession) {
        let idle = Arc::clone(&self.idle);
        let discard = if self.keep_plans { "" } else { DISCARD_PLANS };
        let (settings, timeout) = (self.settings(), self.connector.timeout);
        self.connector.tasks().spawn(async move {
            let cleaned = clean(&user_session.session.client, discard, &settings);
            let cleaned = tokio::time::timeout(timeout, cleaned).await;
            if matches!(cleaned, Ok(Ok(true))) {
                user_session.session.client.clear_type_cache();
                keep(&idle, user_session);
            }
        });
    }

    /// Gives back a session in which only our own statements ran, each by itself.
    pub(super) fn give_back_untouched(&self, user_session: UserSession) {
        keep(&self.idle, user_session);
    }

    /// Lets go of the database.
    pub(crate) fn close(&self) {
        let mut idle = self.idle();
        idle.closed = true;
        idle.sessions.clear();
        self.permits.close();
        self.closing.cancel();
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a session for the next request.
fn keep(idle: &Mutex<Idle>, user_session: UserSession) {
    let UserSession { session, lease, .. } = user_session;
    let mut idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
    if !idle.closed {
        idle.sessions.push(session);
    }
    drop(idle);
    lease.give_back();
}

/// Takes away what was left in a session, and says whether nothing is left.
async fn clean(client: &Client, discard: &str, settings: &str) -> Result<bool, Error> {
    let said = client.simple_query(&format!("{CLEAN}{discard}{PREPARED}")).await?;
    let prepared = said.iter().rev().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    if prepared != Some("0") {
        return Ok(false);
    }
    connect::welcome(client, settings).await?;
    Ok(true)
}
