//! Sessions that nobody waits for any more, while the server may still work for them.
//!
//! PostgreSQL does not stop in the middle of some functions: neither a timeout, nor a cancel, nor that the
//! client is gone ends them. Such a session counts among those there may be until its process is gone, so
//! that one who starts many of them runs out of permits and the server does not run out of processes. One that
//! does not heed a cancel, because it catches it, is ended a little later.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::{CancelToken, SimpleQueryMessage};

use super::super::connect::{Connector, Session};
use super::super::query::{Param, query_one, sql};

/// How often it is looked whether a process is gone: at first, and at most.
const LOOK_FIRST: Duration = Duration::from_millis(10);
const LOOK_LAST: Duration = Duration::from_secs(1);

/// How long a process has to heed a cancel.
const GRACE: Duration = Duration::from_secs(1);

/// The process that serves a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Backend {
    pid: i32,
    /// When it began: numbers of processes come again.
    since: String,
}

impl Backend {
    /// Reads what the server says of the process, by `backend.sql`.
    pub(crate) fn of(messages: &[SimpleQueryMessage]) -> Option<Backend> {
        messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => {
                Some(Backend { pid: row.get(0)?.parse().ok()?, since: row.get(1)?.to_owned() })
            }
            _ => None,
        })
    }
}

/// Asks the server to stop what a session does.
pub(super) async fn cancel(connector: &Connector, token: &CancelToken) {
    let cancelled = tokio::time::timeout(connector.timeout, connector.cancel(token));
    if !matches!(cancelled.await, Ok(Ok(()))) {
        tracing::debug!("a statement could not be cancelled; its session is closed");
    }
}

/// Waits until the server is done with a session that is closed on this side, and asks it to stop.
pub(super) async fn end(connector: Arc<Connector>, token: CancelToken, backend: Option<Backend>) {
    cancel(&connector, &token).await;
    let Some(backend) = backend else { return };
    let (mut wait, mut grace) = (LOOK_FIRST, Some(Instant::now() + GRACE));
    let mut session: Option<Session> = None;
    loop {
        let open = match session.take() {
            Some(open) => open,
            None => Arc::clone(&connector).session_in_the_end(String::new()).await,
        };
        let params: &[Param<'_>] = &[&backend.pid, &backend.since];
        let runs = query_one(&open.client, sql!("backend_runs"), params).await;
        match runs.and_then(|row| row.try_get::<_, bool>(0)) {
            Ok(false) => return,
            Ok(true) => {
                if grace.is_some_and(|until| Instant::now() >= until) {
                    grace = None;
                    let ended = query_one(&open.client, sql!("backend_end"), params).await;
                    if let Err(error) = ended {
                        tracing::debug!(%error, "a session cannot be ended");
                    }
                }
                session = Some(open);
            }
            // The database was restarted, or is away: it is asked again once it is back.
            Err(error) => tracing::debug!(%error, "cannot see whether a session has ended"),
        }
        if wait == LOOK_LAST {
            tracing::warn!(
                pid = backend.pid,
                "a statement goes on past its end; its place stays taken"
            );
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(LOOK_LAST);
    }
}
