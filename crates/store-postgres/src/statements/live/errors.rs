//! What is said of errors of live queries.
//!
//! Whoever asks may not see all rows, and an error's text may have a value of one in it. So the database's
//! own words are said only of errors that it finds in the words of the query, before it reads anything.
//!
//! Names of roles, schemas and tables, and what to grant, are for administrators. They stand only in the hint
//! of `query_role_missing`, so that whoever tells others of a problem knows what to leave out.

use tokio_postgres::Error;
use tokio_postgres::error::{ErrorPosition, SqlState};

use super::super::errors::refused;
use crate::error::sort;
use tidewire_store::error::StoreError;
use tidewire_store::sql::{SqlError, SqlLimits, SqlProblem};

/// Why a read came to no end.
pub(super) enum ReadFailure {
    /// For this.
    Sql(SqlError),
    /// There is more of its result than may be.
    Overflow(SqlError),
    /// The role may not do something.
    Denied,
    /// We may not act as the role.
    NoRole,
    /// We may not read these tables ourselves.
    Unread(String),
}

impl<E: Into<SqlError>> From<E> for ReadFailure {
    fn from(error: E) -> ReadFailure {
        ReadFailure::Sql(error.into())
    }
}

const READ: &str = "read for a live query";

/// Characters that a computed pattern may have. The query says so too.
const PATTERN_CHARS_MAX: usize = 256;

/// An error in a query's words: no row has been read.
pub(super) fn of_words(error: &Error, limits: &SqlLimits) -> ReadFailure {
    let Some(said) = error.as_db_error() else { return of_rows(error, limits) };
    if let Some(what) = measured(error) {
        return too_long(what).into();
    }
    let class = said.code().code().get(..2).unwrap_or_default();
    if !matches!(class, "42" | "22") || *said.code() == SqlState::INSUFFICIENT_PRIVILEGE {
        return of_rows(error, limits);
    }
    let position = match said.position() {
        Some(ErrorPosition::Original(at)) => usize::try_from(*at).ok(),
        _ => None,
    };
    ReadFailure::Sql(SqlError::Wrong(Box::new(SqlProblem {
        code: "sql_syntax",
        message: format!("{} (SQLSTATE {})", said.message(), said.code().code()),
        position,
        hint: said.hint().map(ToOwned::to_owned),
    })))
}

/// An error that rows may have made.
pub(super) fn of_rows(error: &Error, limits: &SqlLimits) -> ReadFailure {
    let Some(code) = error.code() else { return sort(READ, error).into() };
    if let Some(what) = measured(error) {
        return too_long(what).into();
    }
    if *code == SqlState::QUERY_CANCELED {
        return too_slow(limits.timeout_ms).into();
    }
    if *code == SqlState::INSUFFICIENT_PRIVILEGE {
        return ReadFailure::Denied;
    }
    if *code == SqlState::READ_ONLY_SQL_TRANSACTION {
        return not_one_select().into();
    }
    match sort(READ, error) {
        StoreError::Broken { .. } => {
            let hint = "what else the database says may tell of rows that you may not see; whoever may \
                        run SQL finds out more by running it";
            let message = format!("the database gave it up (SQLSTATE {})", code.code());
            refused("query_failed", message, None, hint).into()
        }
        transient => transient.into(),
    }
}

/// What was too long, if that is what the error says: computed texts are measured by the assignment of a
/// `varchar`, which a cast of the client's would not fail at, and other values by an error with words of ours
/// in it.
fn measured(error: &Error) -> Option<&'static str> {
    let said = error.as_db_error()?;
    if *said.code() == SqlState::STRING_DATA_RIGHT_TRUNCATION {
        let is_pattern = said.message().contains(&format!("({})", PATTERN_CHARS_MAX + 1));
        return Some(match is_pattern {
            true => "a computed pattern has more than 256 characters",
            false => {
                "a computed text has more than 1,048,576 characters, or many of them together have \
                 more than 64 MiB"
            }
        });
    }
    if *said.code() != SqlState::INVALID_TEXT_REPRESENTATION {
        return None;
    }
    let words = [
        (
            "tidewire: a collection has too many bytes: ",
            "a computed array or document that is compared part by part has more than 64 KiB",
        ),
        (
            "tidewire: a computed value has too many bytes: ",
            "a computed value has more than 1 MiB, or many of them together have more than 64 MiB",
        ),
        (
            "tidewire: a computed number has too many bytes: ",
            "a computed number has more than about a thousand digits",
        ),
        (
            "tidewire: aggregates have gathered too many bytes: ",
            "aggregates have gathered more than 64 MiB",
        ),
    ];
    words.into_iter().find(|(own, _)| said.message().contains(own)).map(|(_, what)| what)
}

fn too_long(what: &str) -> SqlError {
    let hint =
        "use columns as they are stored, look for something shorter, and compute less at once";
    refused("predicate_too_large", what, None, hint)
}

/// An error of the statements that begin a read.
pub(super) fn of_lock(error: &Error, lock: &str) -> ReadFailure {
    let Some(code) = error.code() else { return sort(READ, error).into() };
    if *code == SqlState::INSUFFICIENT_PRIVILEGE {
        let tables = lock.trim_start_matches("LOCK TABLE ");
        return ReadFailure::Unread(tables.trim_end_matches(" IN ACCESS SHARE MODE").to_owned());
    }
    let gone = [SqlState::UNDEFINED_TABLE, SqlState::INVALID_SCHEMA_NAME];
    if gone.contains(code) {
        return shape_changed().into();
    }
    sort(READ, error).into()
}

pub(super) fn shape_changed() -> SqlError {
    let message = "a table that the query reads has changed";
    refused("shape_changed", message, None, "subscribe again")
}

pub(super) fn not_one_select() -> SqlError {
    refused("sql_refused", "a live query is one SELECT", None, "")
}

pub(super) fn other_table() -> SqlError {
    let message = "a live query reads only the tables that it names";
    refused("sql_refused", message, None, "a live query is one SELECT over watched tables")
}

pub(super) fn not_json() -> SqlError {
    refused("query_failed", "a value of the result cannot be written as JSON", None, "")
}

pub(super) fn too_slow(timeout_ms: u64) -> SqlError {
    let hint = "ask for less, or add an index; the limit is the server's queries.timeout_ms";
    refused("query_too_slow", format!("it took longer than {timeout_ms} ms"), None, hint)
}

/// We may not act as the role until this was run.
pub(super) fn no_role(needs: &[String]) -> SqlError {
    let message = "the server cannot act as the role that live queries run as";
    let hint = match needs {
        // Someone has run it meanwhile.
        [] => "try again".to_owned(),
        needs => format!("let a superuser, or who may make roles, run this: {}", needs.join("; ")),
    };
    role_missing(message, &hint)
}

/// We may not read tables ourselves.
pub(super) fn unread(tables: &str, user: &str) -> SqlError {
    let message = "the role that the server connects as may not read a table of the query";
    role_missing(
        message,
        &format!(
            "let a superuser, or the table's owner, run this: GRANT SELECT ON {tables} TO {user}"
        ),
    )
}

/// The role may not read the tables, and we may not let it.
pub(super) fn lacking(statements: &[String]) -> SqlError {
    let message = "the role that live queries run as may not read a table of the query";
    let hint = format!(
        "let a superuser, or the owner of what is named, run this: {}",
        statements.join("; ")
    );
    role_missing(message, &hint)
}

/// A role is not there, or lacks a right. The message is for everyone, so names are only in the hint.
fn role_missing(message: &'static str, hint: &str) -> SqlError {
    refused("query_role_missing", message, None, hint)
}

/// Refuses a result that is too large.
pub(super) fn within(rows: usize, bytes: usize, limits: &SqlLimits) -> Result<(), SqlError> {
    let hint = "ask for less, with WHERE or LIMIT";
    if rows > limits.rows_max {
        let message = format!("the result has more than {} rows", limits.rows_max);
        return Err(refused("result_too_large", message, None, hint));
    }
    if bytes > limits.bytes_max {
        let message = format!("the result has more than {} bytes", limits.bytes_max);
        return Err(refused("result_too_large", message, None, hint));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_only_in_the_hint_of_a_missing_role() {
        let grant = "GRANT SELECT ON secret.accounts TO secret_role".to_owned();
        let needs = ["GRANT \"secret_role\" TO \"app\"".to_owned()];
        let unread = unread("secret.accounts", "\"secret_role\"");
        for error in [no_role(&needs), lacking(&[grant]), unread] {
            let SqlError::Wrong(problem) = error else { panic!("not a problem: {error:?}") };
            assert_eq!(problem.code, "query_role_missing");
            assert!(!problem.message.contains("secret"), "{problem:?}");
            let hint = problem.hint.expect("what to do");
            assert!(hint.contains("GRANT") && hint.contains("secret_role"), "{hint}");
        }
    }
}
