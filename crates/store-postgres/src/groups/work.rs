//! An open transaction that holds a partition.
//!
//! A batch whose handlers write nothing is two round trips: BEGIN goes with the claim, and COMMIT with the
//! advance. Savepoints cost none: they are sent ahead of a key's first statement and nobody waits for them, because
//! the server runs what is sent in order, and nothing after what failed.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::ClientWrapper;
use futures_util::FutureExt as _;
use futures_util::future::{join, try_join};
use serde_json::value::RawValue;
use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::{Client, Error, Row, Statement};

use super::super::error::{broken_commit, sort, text};
use super::super::query::Params;
use super::super::statements::{self, one_again, wrong};
use super::ending;
use super::sessions::{WorkSession, WorkSessions};
use super::step::{StepError, failed};
use tidewire_store::error::StoreError;
use tidewire_store::groups::{Begun, Claim, Ending, GroupError, Work};
use tidewire_store::offset::Position;
use tidewire_store::sql::{SqlAnswer, SqlError, SqlLimits};

/// Statements of handlers that a session keeps prepared. Past this all are forgotten: they were made with
/// values written into them.
const PREPARED_MAX: usize = 500;

/// Takes a partition.
pub(super) async fn begin(
    sessions: &Arc<WorkSessions>,
    claim: &Claim,
) -> Result<Begun, GroupError> {
    let Ok(partition) = i32::try_from(claim.partition) else { return Ok(Begun::Taken) };
    let mut session = sessions.take().await?;
    let mut rows = taken(&mut session, claim, partition).await;
    let is_of_session = |error: &Error| {
        sort("take a partition", error).temporary() || statements::is_of_session(&wrong(error))
    };
    if rows.as_ref().is_err_and(is_of_session) {
        // It broke while nobody used it, as far as anyone knows, or a handler took from it what was prepared
        // there; nothing was done in it.
        drop(session);
        session = sessions.take().await?;
        rows = taken(&mut session, claim, partition).await;
    }
    let row = match rows {
        Ok(rows) => rows.into_iter().next(),
        Err(error) => {
            sessions.end(session).await;
            return Err(transient(failed("take a partition", &error)));
        }
    };
    let read = |row: &Row| -> Result<(i64, i64, String), Error> {
        Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?))
    };
    let found = row.as_ref().map(read).transpose();
    let found = found.map_err(|error| failed("take a partition", &error))?;
    let Some((next, generation, xid)) = found else {
        sessions.end(session).await;
        return Ok(Begun::Taken);
    };
    let same = next == claim.next.to_sql() && u64::try_from(generation) == Ok(claim.generation);
    if !same {
        sessions.end(session).await;
        return Ok(Begun::Moved);
    }
    Ok(Begun::Work(Box::new(PostgresWork {
        session: Some(session),
        sessions: Arc::clone(sessions),
        claim: claim.clone(),
        partition,
        xid,
        run: KeyRun::default(),
        has_savepoint: false,
    })))
}

/// Begins a transaction and takes the partition, in one round trip.
async fn taken(
    session: &mut WorkSession,
    claim: &Claim,
    partition: i32,
) -> Result<Vec<Row>, Error> {
    let begin = session.begin(claim.timeout_ms);
    let (client, group) = (session.client(), &claim.group);
    let params: Params<'_> = &[group, &partition];
    let begun = client.batch_execute(&begin);
    let (begun, rows) = join(begun, client.query(session.claim(), params)).await;
    begun.and(rows)
}

/// A lost connection, a deadlock and the like are nobody's fault.
fn transient(error: GroupError) -> GroupError {
    match error {
        GroupError::Store(StoreError::Closed) => error,
        GroupError::Store(store) if store.temporary() => GroupError::Transient(store.to_string()),
        other => other,
    }
}

/// A key's turn.
#[derive(Debug, Default)]
struct KeyRun {
    /// It is to have a savepoint,
    wanted: bool,
    /// and has it.
    set: bool,
    /// Its handler used the session.
    touched: bool,
}

#[derive(Debug)]
pub struct PostgresWork {
    /// None once the transaction has ended.
    session: Option<WorkSession>,
    sessions: Arc<WorkSessions>,
    claim: Claim,
    partition: i32,
    /// The transaction, by the server's number. What has another is not the one that took the partition.
    xid: String,
    run: KeyRun,
    /// A savepoint of this turn or of one before is there.
    has_savepoint: bool,
}

impl PostgresWork {
    fn held(&self) -> Result<&ClientWrapper, GroupError> {
        let session = self.session.as_ref();
        let session = session.ok_or_else(|| {
            GroupError::Transient("the transaction of the batch has ended".to_owned())
        })?;
        Ok(session.client())
    }

    /// The session, behind the turn's savepoint if it is to have one.
    fn touch(&mut self) -> Result<&ClientWrapper, GroupError> {
        self.run.touched = true;
        if self.run.wanted && !self.run.set {
            let savepoint = match self.has_savepoint {
                true => "RELEASE SAVEPOINT tidewire_key; SAVEPOINT tidewire_key",
                false => "SAVEPOINT tidewire_key",
            };
            // Sent when it is first looked at; if it fails, so does what is sent after it.
            let _ = self.held()?.batch_execute(savepoint).now_or_never();
            self.run.set = true;
            self.has_savepoint = true;
        }
        let client = self.held()?;
        if client.statement_cache.size() > PREPARED_MAX {
            client.statement_cache.clear();
        }
        Ok(client)
    }

    /// Advances and commits, in one round trip.
    async fn commit(&self, ending: &Ending) -> Result<(), GroupError> {
        let Some(session) = &self.session else { return Err(GroupError::Moved) };
        let (Claim { group, member, next, .. }, client) = (&self.claim, session.client());
        let (from, to) = (next.to_sql(), ending.next.to_sql());
        let params: Params<'_> = &[group, &self.partition, &from, &to, member, &self.xid];
        let advance = client.execute(session.advance(), params);
        if ending::is_plain(ending) {
            let advance = advance.map(|done| done.map_err(|error| (false, error)));
            let commit = client.batch_execute("COMMIT");
            let commit = commit.map(|done| done.map_err(|error| (true, error)));
            let done = try_join(advance, commit).await;
            let (moved, ()) = done.map_err(|(of_commit, error)| ended(of_commit, &error))?;
            return if moved == 1 { Ok(()) } else { Err(GroupError::EndedByHandler) };
        }
        // The rest is not written unless this is still the transaction that took the partition.
        if advance.await.map_err(|error| ended(false, &error))? != 1 {
            return Err(GroupError::EndedByHandler);
        }
        let written = ending::write(client, group, self.partition, ending).await;
        written.map_err(|stop| match stop {
            StepError::Driver(error) => ended(false, &error),
            StepError::Group(error) => error,
        })?;
        client.batch_execute("COMMIT").await.map_err(|error| ended(true, &error))
    }
}

/// What it means that a batch could not be ended.
fn ended(of_commit: bool, error: &Error) -> GroupError {
    match error.code() {
        Some(code) if *code == SqlState::IN_FAILED_SQL_TRANSACTION => swallowed(),
        Some(code) if by_handler(code) => GroupError::EndedByHandler,
        // A constraint of the handler's that is checked at the end, for one.
        Some(code) if code.code().starts_with("23") || of_commit && is_refused(error) => {
            GroupError::Sql(super::super::statements::wrong(error))
        }
        _ => transient(match failed("end a batch", error) {
            GroupError::Store(_) => GroupError::Store(broken_commit(of_commit, error)),
            other => other,
        }),
    }
}

/// What the handler did is refused in the end, as by a deferred trigger: the statement is at fault, not the connection.
fn is_refused(error: &Error) -> bool {
    let severity = error.as_db_error().map(|said| said.parsed_severity());
    severity == Some(Some(Severity::Error))
        && matches!(sort("end a batch", error), StoreError::Broken { .. })
}

/// The server says that there is no transaction, or not the savepoint that was set in it.
fn by_handler(code: &SqlState) -> bool {
    let codes = [SqlState::NO_ACTIVE_SQL_TRANSACTION, SqlState::S_E_INVALID_SPECIFICATION];
    codes.contains(code)
}

/// A statement failed, and the handler went on as if it had not.
fn swallowed() -> GroupError {
    GroupError::Sql(super::super::statements::refused(
        "sql_failed",
        "a statement of the handler failed and its error was ignored, so nothing of the batch can be \
         committed",
        None,
        "return the error, or set a savepoint before a statement that may fail and roll back to it",
    ))
}

#[async_trait]
impl Work for PostgresWork {
    fn enter(&mut self, savepoint: bool) {
        self.run = KeyRun { wanted: savepoint, set: false, touched: false };
    }

    async fn sql(
        &mut self,
        sql: &str,
        params: &[Box<RawValue>],
        limits: SqlLimits,
    ) -> Result<SqlAnswer, SqlError> {
        let client = self
            .touch()
            .map_err(|error| SqlError::Store(StoreError::Unavailable(error.to_string())))?;
        let run = one_again(client, sql, params, &limits);
        match tokio::time::timeout(Duration::from_millis(limits.timeout_ms), run).await {
            Ok(done) => done,
            Err(_) => {
                // What it does is of no use to anyone, and the session waits for it.
                if let Some(session) = self.session.take() {
                    self.sessions.end_soon(session);
                }
                Err(super::super::statements::timeout(limits.timeout_ms))
            }
        }
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }

    async fn undo(&mut self) -> Result<(), GroupError> {
        if !self.run.touched {
            return Ok(());
        }
        if !self.run.set {
            let text = "what a key's handler did cannot be taken back alone: it had no savepoint";
            return Err(GroupError::Invalid(text.to_owned()));
        }
        let undone = self.held()?.batch_execute("ROLLBACK TO SAVEPOINT tidewire_key").await;
        undone.map_err(|error| match error.code() {
            Some(code) if by_handler(code) => GroupError::EndedByHandler,
            _ => transient(failed("take back what a handler did", &error)),
        })?;
        self.run.touched = false;
        Ok(())
    }

    async fn finish(mut self: Box<Self>, ending: &Ending) -> Result<Option<Position>, GroupError> {
        let done = self.commit(ending).await;
        if let Some(session) = self.session.take() {
            match &done {
                Ok(()) => self.sessions.give_back(session),
                Err(error) => {
                    tracing::debug!(%error, group = self.claim.group, "a batch was not committed");
                    self.sessions.end(session).await;
                }
            }
        }
        done.map(|()| None)
    }

    async fn abandon(mut self: Box<Self>) {
        if let Some(session) = self.session.take() {
            self.sessions.end(session).await;
        }
    }
}

/// A handler's own use of PostgreSQL's driver.
impl PostgresWork {
    /// The same work, where it is PostgreSQL's.
    pub fn of(work: &mut dyn Work) -> Option<&mut PostgresWork> {
        work.as_any().downcast_mut()
    }

    /// The session, inside the key's savepoint.
    pub fn client(&mut self) -> Result<&Client, GroupError> {
        self.touch().map(|client| &**client)
    }

    /// A statement that is prepared once for the session.
    pub async fn prepared(&mut self, sql: &str) -> Result<Statement, GroupError> {
        let client = self.touch()?;
        let prepared = client.prepare_cached(sql).await;
        prepared.map_err(|error| match error.as_db_error() {
            Some(_) => GroupError::Sql(super::super::statements::wrong(&error)),
            None => GroupError::Transient(text(&error)),
        })
    }
}

impl Drop for PostgresWork {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            self.sessions.end_soon(session);
        }
    }
}
