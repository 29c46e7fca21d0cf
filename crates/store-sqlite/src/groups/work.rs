//! A partition that a member of this process works on.

use std::any::Any;
use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};

use async_trait::async_trait;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::runtime::{GroupRuntime, PartitionLock};
use super::sessions::{self, SessionRequest};
use crate::capture;
use crate::writer::Exclusive;
use tidewire_store::command::Actor;
use tidewire_store::error::StoreError;
use tidewire_store::groups::{Claim, Ending, GroupError, Work};
use tidewire_store::offset::Position;
use tidewire_store::queue::{Job, Queue};
use tidewire_store::sql::{SqlAnswer, SqlError, SqlLimits, SqlProblem, Statements};

/// See [`Work`].
#[derive(Debug)]
pub(super) struct SqliteWork {
    claim: Claim,
    runtime: Arc<GroupRuntime>,
    queue: Arc<Queue<Exclusive>>,
    session: HandlerSession,
    run: KeyRun,
    /// Let go of last, when the transaction is on its way out.
    _held: PartitionLock,
}

#[derive(Debug)]
enum HandlerSession {
    /// Nothing was written yet.
    Unopened,
    /// A transaction waits for the writer, or is open.
    Open { requests: Sender<SessionRequest>, over: oneshot::Receiver<Result<Position, GroupError>> },
    /// It was rolled back, and why.
    Over(GroupError),
}

/// A key's turn.
#[derive(Debug, Default)]
struct KeyRun {
    begins: bool,
    wants_savepoint: bool,
    has_savepoint: bool,
    did_something: bool,
}

impl SqliteWork {
    pub(super) fn new(
        claim: Claim,
        runtime: Arc<GroupRuntime>,
        queue: Arc<Queue<Exclusive>>,
        held: PartitionLock,
    ) -> SqliteWork {
        let (session, run) = (HandlerSession::Unopened, KeyRun::default());
        SqliteWork { claim, runtime, queue, session, run, _held: held }
    }

    /// Asks the session, which is opened first if need be.
    fn request(&mut self, request: SessionRequest) -> Result<(), GroupError> {
        if let HandlerSession::Unopened = self.session {
            self.session = self.open()?;
        }
        match &self.session {
            // One that is over has said why, which is found out by who waits for the answer.
            HandlerSession::Open { requests, .. } => {
                let _ = requests.send(request);
                Ok(())
            }
            HandlerSession::Over(why) => Err(why.clone()),
            HandlerSession::Unopened => Err(GroupError::Moved),
        }
    }

    fn open(&self) -> Result<HandlerSession, GroupError> {
        let (requests, receiver) = mpsc::channel();
        let (ended, over) = oneshot::channel();
        let number = self.runtime.open(requests.clone())?;
        let (claim, runtime) = (self.claim.clone(), Arc::clone(&self.runtime));
        let job = Exclusive::new(move |writer| {
            // Whatever a handler sends, the writer goes on.
            let serve = || sessions::serve(writer, &claim, &receiver);
            let served = catch_unwind(AssertUnwindSafe(serve)).unwrap_or_else(|_| {
                let reason = "it panicked; nothing was kept".to_owned();
                Err(StoreError::Broken { operation: "run a handler's SQL", reason }.into())
            });
            runtime.over(number);
            // The work may have been dropped, which ended the session.
            let _ = ended.send(served);
        });
        if let Err(error) = self.queue.push(Job::Exclusive(job)) {
            self.runtime.over(number);
            return Err(error.into());
        }
        Ok(HandlerSession::Open { requests, over })
    }

    /// Waits until the session is over.
    async fn over(&mut self) -> Result<Position, GroupError> {
        let ended = match &mut self.session {
            HandlerSession::Open { over, .. } => {
                over.await.unwrap_or(Err(StoreError::Closed.into()))
            }
            HandlerSession::Over(why) => return Err(why.clone()),
            HandlerSession::Unopened => return Err(sessions::abandoned()),
        };
        let why = ended.as_ref().err().cloned();
        self.session = HandlerSession::Over(why.unwrap_or(GroupError::Moved));
        ended
    }
}

/// What a handler is told whose transaction is not there any more.
fn told(why: GroupError) -> SqlError {
    match why {
        GroupError::Sql(error) => error,
        GroupError::Store(error) => error.into(),
        GroupError::Transient(message) => {
            let (code, position, hint) = ("sql_timeout", None, None);
            SqlError::Wrong(Box::new(SqlProblem { code, message, position, hint }))
        }
        other => StoreError::Unavailable(other.to_string()).into(),
    }
}

#[async_trait]
impl Work for SqliteWork {
    fn enter(&mut self, savepoint: bool) {
        self.run = KeyRun { begins: true, wants_savepoint: savepoint, ..KeyRun::default() };
    }

    async fn sql(
        &mut self,
        sql: &str,
        params: &[Box<RawValue>],
        limits: SqlLimits,
    ) -> Result<SqlAnswer, SqlError> {
        let sql = match capture::with_view(sql) {
            Cow::Owned(sql) => sql,
            Cow::Borrowed(sql) => sql.to_owned(),
        };
        let (params, actor) = (params.to_vec(), Actor::default());
        let statements = Box::new(Statements { sql, params, actor, limits });
        let begins_turn = std::mem::take(&mut self.run.begins);
        let savepoint = self.run.wants_savepoint && !self.run.has_savepoint;
        self.run.has_savepoint |= savepoint;
        self.run.did_something = true;
        let (reply, answer) = oneshot::channel();
        self.request(SessionRequest::Sql { statements, begins_turn, savepoint, reply })
            .map_err(told)?;
        match answer.await {
            Ok(answer) => answer,
            Err(_) => Err(told(self.over().await.err().unwrap_or(GroupError::Moved))),
        }
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }

    async fn undo(&mut self) -> Result<(), GroupError> {
        if !self.run.did_something {
            return Ok(());
        }
        if !self.run.has_savepoint {
            let what = "the key's run has no savepoint: all of the batch must be undone";
            return Err(GroupError::Invalid(what.to_owned()));
        }
        let (reply, answer) = oneshot::channel();
        self.request(SessionRequest::Undo { reply })?;
        match answer.await {
            Ok(undone) => undone?,
            Err(_) => return Err(self.over().await.err().unwrap_or(GroupError::Moved)),
        }
        (self.run.has_savepoint, self.run.did_something) = (false, false);
        Ok(())
    }

    async fn finish(mut self: Box<Self>, ending: &Ending) -> Result<Option<Position>, GroupError> {
        self.request(SessionRequest::Finish { ending: Box::new(ending.clone()) })?;
        self.over().await.map(Some)
    }

    async fn abandon(mut self: Box<Self>) {
        if let HandlerSession::Open { requests, .. } = &self.session {
            let _ = requests.send(SessionRequest::Abandon);
            let _ = self.over().await;
        }
    }
}

impl Drop for SqliteWork {
    fn drop(&mut self) {
        if let HandlerSession::Open { requests, .. } = &self.session {
            let _ = requests.send(SessionRequest::Abandon);
        }
    }
}
