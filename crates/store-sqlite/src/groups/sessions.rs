//! The transaction of a handler, served on the writer's thread.
//!
//! ```text
//!   handler ── sql ──▶ Work ── Ask ──▶ │ writer's thread: BEGIN, the claim is looked at again,
//!           ◀─ rows ──      ◀─ reply ─ │ statements and savepoints one after the other,
//!           ── done ──      ── Finish ▶│ letters, advance, events of watched tables, COMMIT
//! ```
//!
//! It is opened when the handler first runs SQL, or at the end, because nothing else is written meanwhile:
//! appends wait. For the same reason it is given up after [`HOLD_MS_MAX`]. What the handler changes in watched
//! tables is gathered as for any other SQL, and is in the log by the same commit.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::ending::OwnedPartition;
use super::view::PartitionReadiness;
use crate::capture::{self, Capturing, Savepoint};
use crate::error::now_ms;
use crate::writer::Writer;
use tidewire_store::command::Actor;
use tidewire_store::error::StoreError;
use tidewire_store::groups::{Claim, Ending, GroupError, HELD_TOO_LONG};
use tidewire_store::offset::Position;
use tidewire_store::sql::{SqlAnswer, SqlError, SqlProblem, Statements};

/// For so long a handler's transaction may be open: appends wait for it.
pub(crate) const HOLD_MS_MAX: u64 = 5_000;

/// The savepoint of a key's turn. Names that begin like this are refused to users.
const SAVEPOINT: &str = "tidewire_key";

/// What a session is asked.
#[derive(Debug)]
pub(crate) enum SessionRequest {
    /// To run a statement.
    Sql {
        statements: Box<Statements>,
        /// It is the first of a key's turn.
        begins_turn: bool,
        /// The key's savepoint is to be set before it.
        savepoint: bool,
        reply: oneshot::Sender<Result<SqlAnswer, SqlError>>,
    },
    /// To go back to the key's savepoint.
    Undo { reply: oneshot::Sender<Result<(), GroupError>> },
    /// To end well.
    Finish { ending: Box<Ending> },
    /// To undo all.
    Abandon,
    /// The same, because the store closes.
    Close,
}

/// Why a session ended without having finished, where nobody asks.
pub(super) fn abandoned() -> GroupError {
    GroupError::Transient("the transaction of the batch was abandoned".to_owned())
}

/// Serves what is asked until it is finished, abandoned, or its time is over.
pub(super) fn serve(
    writer: &mut Writer,
    claim: &Claim,
    requests: &Receiver<SessionRequest>,
) -> Result<Position, GroupError> {
    // The session has a deadline of its own, before which the handler must have finished.
    let served = capture::transact(writer, &Actor::default(), None, |capturing| {
        ServedSession::begin(capturing, claim)?.serve(requests)
    });
    served.map(|((), reached)| reached).map_err(of_commit)
}

/// Rules that are checked only by the commit are broken by the handler's statements all the same.
pub(super) fn of_commit(error: GroupError) -> GroupError {
    match error {
        GroupError::Store(error) => match capture::deferred(error) {
            SqlError::Store(error) => error.into(),
            wrong => wrong.into(),
        },
        other => other,
    }
}

struct ServedSession<'a, 'b> {
    capturing: &'a mut Capturing<'b>,
    claim: &'a Claim,
    deadline: Instant,
    /// The lease of another was over, and is passed.
    over_lease: bool,
    /// A statement failed, and was not undone: nothing goes on from here.
    failed: Option<SqlError>,
    /// The savepoint that is there is of this turn, and not of a key before.
    has_savepoint: bool,
}

impl<'a, 'b> ServedSession<'a, 'b> {
    fn begin(
        capturing: &'a mut Capturing<'b>,
        claim: &'a Claim,
    ) -> Result<ServedSession<'a, 'b>, GroupError> {
        let hold = Duration::from_millis(claim.timeout_ms.min(HOLD_MS_MAX));
        let deadline = Instant::now() + hold;
        let readiness =
            PartitionReadiness::load(capturing.transaction(), &claim.group, claim.partition)?;
        let readiness = readiness.filter(|now| now.is_as(claim) && now.is_free(now_ms()));
        let over_lease = readiness.ok_or(GroupError::Moved)?.lease_until_ms.is_some();
        Ok(ServedSession {
            capturing,
            claim,
            deadline,
            over_lease,
            failed: None,
            has_savepoint: false,
        })
    }

    fn serve(mut self, requests: &Receiver<SessionRequest>) -> Result<(), GroupError> {
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            match requests.recv_timeout(left) {
                Ok(SessionRequest::Sql { statements, begins_turn, savepoint, reply }) => {
                    let answer = self.run(*statements, begins_turn, savepoint);
                    // Whoever does not wait any more has gone on to another ask.
                    let _ = reply.send(answer);
                    if self.capturing.transaction().is_autocommit() {
                        return Err(GroupError::EndedByHandler);
                    }
                }
                Ok(SessionRequest::Undo { reply }) => {
                    let _ = reply.send(self.undo());
                }
                Ok(SessionRequest::Finish { ending }) => return self.finish(&ending),
                Ok(SessionRequest::Abandon) | Err(RecvTimeoutError::Disconnected) => {
                    return Err(abandoned());
                }
                Ok(SessionRequest::Close) => return Err(StoreError::Closed.into()),
                Err(RecvTimeoutError::Timeout) => return Err(self.time_is_over().into()),
            }
        }
    }

    fn time_is_over(&self) -> SqlError {
        let Claim { group, partition, timeout_ms, .. } = self.claim;
        let held_ms = (*timeout_ms).min(HOLD_MS_MAX);
        tracing::warn!(group, partition, held_ms, "a handler's transaction was open for too long");
        SqlError::Wrong(Box::new(SqlProblem {
            code: HELD_TOO_LONG,
            message: format!(
                "the batch's transaction was open for {held_ms} ms and was rolled back: on SQLite all \
                 writers wait for it"
            ),
            position: None,
            hint: Some(
                "do what takes long before the first statement, or make the batches smaller"
                    .to_owned(),
            ),
        }))
    }

    fn run(
        &mut self,
        mut statements: Statements,
        begins_turn: bool,
        savepoint: bool,
    ) -> Result<SqlAnswer, SqlError> {
        self.has_savepoint &= !begins_turn;
        let goes_back = statements.sql.trim_start().get(..8);
        let goes_back = goes_back.is_some_and(|word| word.eq_ignore_ascii_case("rollback"));
        if let Some(failed) = self.failed.as_ref().filter(|_| !goes_back) {
            return Err(SqlError::Wrong(Box::new(SqlProblem {
                code: "sql_failed",
                message: format!("a statement of the same transaction failed before: {failed}"),
                position: None,
                hint: Some(
                    "let the handler return the error of the first one, or set a savepoint before what \
                     may fail and roll back to it"
                        .to_owned(),
                ),
            })));
        }
        let left = self.deadline.saturating_duration_since(Instant::now());
        let left_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        let is_cut_short = left_ms <= statements.limits.timeout_ms;
        statements.limits.timeout_ms = statements.limits.timeout_ms.min(left_ms);
        let mut answer = self.run_in_turn(&statements, begins_turn, savepoint);
        let is_late = |error: &SqlError| matches!(error, SqlError::Wrong(problem) if problem.code == "sql_timeout");
        if is_cut_short && answer.as_ref().is_err_and(is_late) {
            // Not it was slow: the other writers have waited for the batch.
            answer = Err(self.time_is_over());
        }
        self.failed =
            answer.as_ref().err().map(|error| self.failed.take().unwrap_or(error.clone()));
        answer
    }

    fn run_in_turn(
        &mut self,
        statements: &Statements,
        begins_turn: bool,
        savepoint: bool,
    ) -> Result<SqlAnswer, SqlError> {
        if begins_turn {
            // A savepoint that a handler left behind must not undo what was done for another key.
            self.capturing.release_all()?;
        }
        if savepoint {
            self.capturing.savepoint(Savepoint::Set(SAVEPOINT.to_owned()))?;
            self.has_savepoint = true;
        }
        self.capturing.run(statements)
    }

    fn undo(&mut self) -> Result<(), GroupError> {
        if !self.has_savepoint {
            // To go back further would take along what was done for another key.
            return Err(self.failed.clone().map_or_else(abandoned, GroupError::Sql));
        }
        self.has_savepoint = false;
        self.capturing.savepoint(Savepoint::RollBackTo(SAVEPOINT.to_owned()))?;
        self.capturing.savepoint(Savepoint::Release(SAVEPOINT.to_owned()))?;
        self.failed = None;
        Ok(())
    }

    fn finish(self, ending: &Ending) -> Result<(), GroupError> {
        if let Some(failed) = self.failed {
            return Err(failed.into());
        }
        let Claim { group, partition, member, .. } = self.claim;
        let connection = self.capturing.transaction();
        let owned = OwnedPartition { connection, group, partition: *partition };
        let other_keys = owned.settle(ending)?;
        let generations = u32::from(other_keys) + u32::from(self.over_lease);
        owned.advance(ending.next, generations, Some(member))
    }
}
