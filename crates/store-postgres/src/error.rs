//! What PostgreSQL's errors mean to a caller.
//!
//! | what happened | what the caller gets |
//! |---|---|
//! | the connection broke, or could not be made | `Unavailable` |
//! | the server is starting, stopping, overloaded or too slow | `Unavailable` |
//! | the server's disk is full | `Full` |
//! | the connection broke after COMMIT was sent | `Unknown` |
//! | anything else the server said | `Broken` |

use std::error::Error as _;

use tokio_postgres::Error;
use tokio_postgres::error::{Severity, SqlState};

use tidewire_store::error::StoreError;

/// Names the operation that failed and sorts the reason.
pub fn broken(operation: &'static str) -> impl Fn(Error) -> StoreError {
    move |error| sort(operation, &error)
}

/// The same of an error that stays with the caller.
pub(crate) fn sort(operation: &'static str, error: &Error) -> StoreError {
    let reason = text(error);
    let Some(code) = error.code() else {
        return if of_connection(error) {
            StoreError::Unavailable(reason)
        } else {
            StoreError::Broken { operation, reason }
        };
    };
    if *code == SqlState::DISK_FULL {
        StoreError::Full(reason)
    } else if passes(code) {
        StoreError::Unavailable(reason)
    } else {
        StoreError::Broken { operation, reason }
    }
}

/// What went wrong with a pipeline of statements that ends in COMMIT. `of_commit` says that COMMIT
/// itself failed, rather than a statement before it.
pub fn broken_commit(of_commit: bool, error: &Error) -> StoreError {
    match error.as_db_error().map(|error| error.parsed_severity()) {
        // The server answered: the transaction was over before COMMIT, or COMMIT undid it.
        Some(Some(Severity::Error)) => sort("commit", error),
        Some(_) if !of_commit => sort("commit", error),
        // COMMIT was sent, and what came of it was not said.
        Some(_) | None => StoreError::Unknown(text(error)),
    }
}

/// Whether the connection or the server failed, and not the statement.
fn passes(code: &SqlState) -> bool {
    // Connection exceptions, insufficient resources, operator intervention (shutdown, cancel,
    // timeouts) and transaction rollbacks (deadlock, serialisation).
    let classes = ["08", "53", "57", "40"];
    // A lock that was not granted in time, a server that became a standby, and a database that lets
    // nobody in for now.
    let others = [
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::READ_ONLY_SQL_TRANSACTION,
        SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
    ];
    let class = code.code().get(..2).unwrap_or_default();
    classes.contains(&class) || others.contains(code)
}

/// Whether the connection broke, rather than a value that could not be sent or understood.
fn of_connection(error: &Error) -> bool {
    let io = error.source().is_some_and(|cause| cause.is::<std::io::Error>());
    error.is_closed() || io
}

/// An error with its causes. PostgreSQL never sends a password back, and the driver's own errors
/// do not hold one.
pub fn text(error: &Error) -> String {
    if let Some(said) = error.as_db_error() {
        return format!("{} (SQLSTATE {})", said.message(), said.code().code());
    }
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
