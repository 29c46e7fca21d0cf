//! What is wrong with SQL, as its caller is told.
//!
//! | SQLSTATE | code |
//! |---|---|
//! | class 42: it is not understood, or names what is not there | `sql_syntax` |
//! | class 23 | `sql_constraint` |
//! | 57014, canceled | `sql_timeout` |
//! | 42501, and what cannot run in a transaction | `sql_refused` |
//! | class 40, 55P03: conflicts with others | `sql_conflict` |
//! | a lost connection, a server that starts, stops or is overloaded | the store's error |
//! | everything else | `sql_failed` |

use tokio_postgres::Error;
use tokio_postgres::error::{DbError, ErrorPosition, SqlState};

use super::super::error::sort;
use tidewire_store::sql::{SqlError, SqlLimits, SqlProblem};

/// Where in the caller's text a statement stands that was sent.
#[derive(Debug, Clone, Copy)]
pub(super) enum StatementLocation {
    /// After so many characters, and with so many of our own put before it.
    In { offset: usize, before: usize },
    /// It is not the caller's, or not as they wrote it.
    Nowhere,
}

/// An error of the server, or of the way to it.
pub(super) fn problem(error: &Error, place: StatementLocation) -> SqlError {
    let Some(said) = error.as_db_error() else {
        return SqlError::Store(sort("run SQL", error));
    };
    let state = said.code();
    let class = state.code().get(..2).unwrap_or_default();
    let code = match class {
        _ if *state == SqlState::QUERY_CANCELED => "sql_timeout",
        _ if *state == SqlState::INSUFFICIENT_PRIVILEGE => "sql_refused",
        _ if *state == SqlState::ACTIVE_SQL_TRANSACTION => "sql_refused",
        _ if *state == SqlState::LOCK_NOT_AVAILABLE => "sql_conflict",
        "42" => "sql_syntax",
        "23" => "sql_constraint",
        "40" => "sql_conflict",
        "08" | "53" | "57" => return SqlError::Store(sort("run SQL", error)),
        _ => "sql_failed",
    };
    let hint = said.hint().or(said.detail()).map(ToOwned::to_owned);
    let hint = hint.or_else(|| usual_hint(code).map(ToOwned::to_owned));
    SqlError::Wrong(Box::new(SqlProblem {
        code,
        message: with_state(said.message(), state),
        position: position(said, place),
        hint,
    }))
}

/// Whether an error may come of what somebody left in the session: a statement that the driver has prepared is
/// gone, or the name that it gave one is taken.
pub(crate) fn is_of_session(error: &SqlError) -> bool {
    let states = [SqlState::INVALID_SQL_STATEMENT_NAME, SqlState::DUPLICATE_PSTATEMENT];
    let SqlError::Wrong(problem) = error else { return false };
    states.iter().any(|state| problem.message.ends_with(&with_state("", state)))
}

fn with_state(message: &str, state: &SqlState) -> String {
    format!("{message} (SQLSTATE {})", state.code())
}

/// Where in the caller's text the error is, in characters from 1.
fn position(said: &DbError, place: StatementLocation) -> Option<usize> {
    let (Some(ErrorPosition::Original(at)), StatementLocation::In { offset, before }) =
        (said.position(), place)
    else {
        return None;
    };
    usize::try_from(*at).ok()?.checked_sub(before).map(|at| at + offset)
}

fn usual_hint(code: &str) -> Option<&'static str> {
    match code {
        "sql_timeout" => Some("make it do less at a time, or raise sql.timeout_ms"),
        "sql_conflict" => Some("send it again"),
        _ => None,
    }
}

/// Something that we do not let be done.
pub(crate) fn refused(
    code: &'static str,
    message: impl Into<String>,
    position: Option<usize>,
    hint: &str,
) -> SqlError {
    let hint = Some(hint.to_owned()).filter(|hint| !hint.is_empty());
    SqlError::Wrong(Box::new(SqlProblem { code, message: message.into(), position, hint }))
}

/// The time is up.
pub(crate) fn timeout(timeout_ms: u64) -> SqlError {
    let message = format!("the statements took longer than sql.timeout_ms, {timeout_ms} ms");
    refused("sql_timeout", message, None, usual_hint("sql_timeout").unwrap_or_default())
}

/// Refuses a result that is too large.
pub(super) fn within(rows: usize, bytes: usize, limits: &SqlLimits) -> Result<(), SqlError> {
    let hint = "ask for less, with LIMIT or fewer columns, and read on from there";
    if rows > limits.rows_max {
        let message = format!("there are more rows than sql.rows_max, {}", limits.rows_max);
        return Err(refused("sql_too_large", message, None, hint));
    }
    if bytes > limits.bytes_max {
        let message = format!("the rows have more bytes than sql.bytes_max, {}", limits.bytes_max);
        return Err(refused("sql_too_large", message, None, hint));
    }
    Ok(())
}
