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
use super::sessions::{self, Ask};
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
    session: Session,
    turn: Turn,
    /// Let go of last, when the transaction is on its way out.
    _held: PartitionLock,
}

#[derive(Debug)]
enum Session {
    /// Nothing was written yet.
    Unopened,
    /// A transaction waits for the writer, or is open.
    Open { asks: Sender<Ask>, over: oneshot::Receiver<Result<Position, GroupError>> },
    /// It was rolled back, and why.
    Over(GroupError),
}

/// A key's turn.
#[derive(Debug, Default)]
struct Turn {
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
        let (session, turn) = (Session::Unopened, Turn::default());
        SqliteWork { claim, runtime, queue, session, turn, _held: held }
    }

    /// Asks the session, which is opened first if need be.
    fn ask(&mut self, ask: Ask) -> Result<(), GroupError> {
        if let Session::Unopened = self.session {
            self.session = self.open()?;
        }
        match &self.session {
            // One that is over has said why, which is found out by who waits for the answer.
            Session::Open { asks, .. } => {
                let _ = asks.send(ask);
                Ok(())
            }
            Session::Over(why) => Err(why.clone()),
            Session::Unopened => Err(GroupError::Moved),
        }
    }

    fn open(&self) -> Result<Session, GroupError> {
        let (asks, receiver) = mpsc::channel();
        let (ended, over) = oneshot::channel();
        let number = self.runtime.open(asks.clone())?;
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
        Ok(Session::Open { asks, over })
    }

    /// Waits until the session is over.
    async fn over(&mut self) -> Result<Position, GroupError> {
        let ended = match &mut self.session {
            Session::Open { over, .. } => over.await.unwrap_or(Err(StoreError::Closed.into())),
            Session::Over(why) => return Err(why.clone()),
            Session::Unopened => return Err(sessions::abandoned()),
        };
        let why = ended.as_ref().err().cloned();
        self.session = Session::Over(why.unwrap_or(GroupError::Moved));
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
        self.turn = Turn { begins: true, wants_savepoint: savepoint, ..Turn::default() };
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
        let begins_turn = std::mem::take(&mut self.turn.begins);
        let savepoint = self.turn.wants_savepoint && !self.turn.has_savepoint;
        self.turn.has_savepoint |= savepoint;
        self.turn.did_something = true;
        let (reply, answer) = oneshot::channel();
        self.ask(Ask::Sql { statements, begins_turn, savepoint, reply }).map_err(told)?;
        match answer.await {
            Ok(answer) => answer,
            Err(_) => Err(told(self.over().await.err().unwrap_or(GroupError::Moved))),
        }
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }

    async fn undo(&mut self) -> Result<(), GroupError> {
        if !self.turn.did_something {
            return Ok(());
        }
        if !self.turn.has_savepoint {
            let what = "the key's turn has no savepoint: all of the batch must be undone";
            return Err(GroupError::Invalid(what.to_owned()));
        }
        let (reply, answer) = oneshot::channel();
        self.ask(Ask::Undo { reply })?;
        match answer.await {
            Ok(undone) => undone?,
            Err(_) => return Err(self.over().await.err().unwrap_or(GroupError::Moved)),
        }
        (self.turn.has_savepoint, self.turn.did_something) = (false, false);
        Ok(())
    }

    async fn finish(mut self: Box<Self>, ending: &Ending) -> Result<Option<Position>, GroupError> {
        self.ask(Ask::Finish { ending: Box::new(ending.clone()) })?;
        self.over().await.map(Some)
    }

    async fn abandon(mut self: Box<Self>) {
        if let Session::Open { asks, .. } = &self.session {
            let _ = asks.send(Ask::Abandon);
            let _ = self.over().await;
        }
    }
}

impl Drop for SqliteWork {
    fn drop(&mut self) {
        if let Session::Open { asks, .. } = &self.session {
            let _ = asks.send(Ask::Abandon);
        }
    }
}
