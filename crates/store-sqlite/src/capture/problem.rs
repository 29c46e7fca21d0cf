//! What SQLite's errors mean to those who wrote the statement.

use rusqlite::{Connection, Error, ErrorCode};

use super::guard::{Denial, Guard, Stopped};
use super::table;
use tidewire_store::sql::{SqlError, SqlLimits, SqlProblem};
use tidewire_suggest::nearest;

/// Something wrong, as clients are told.
pub(crate) fn wrong(
    code: &'static str,
    message: impl Into<String>,
    hint: impl Into<Option<String>>,
) -> SqlError {
    let (message, hint) = (message.into(), hint.into());
    SqlError::Wrong(Box::new(SqlProblem { code, message, position: None, hint }))
}

/// That something took too long.
pub(crate) fn too_slow(timeout_ms: u64) -> SqlError {
    let hint = "do less at a time, or add an index; nothing was changed; the limit is the server's sql.timeout_ms";
    wrong("sql_timeout", format!("it took longer than {timeout_ms} ms"), hint.to_owned())
}

/// What is said of a transaction whose events do not fit memory.
pub(crate) const CHANGES_TOO_MUCH: &str =
    "it changes more rows of watched tables than one transaction may";

/// That more would come back, or be changed, than may.
pub(crate) fn too_large(what: &str) -> SqlError {
    let hint = "do less at a time, with WHERE or LIMIT; nothing was changed";
    wrong("sql_too_large", what, hint.to_owned())
}

/// Where a statement failed, and what is known of it.
pub(crate) struct Failed<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) guard: &'a Guard,
    pub(crate) limits: &'a SqlLimits,
    /// The whole text.
    pub(crate) sql: &'a str,
    /// Which of the text's statements, from 1.
    pub(crate) number: usize,
}

impl Failed<'_> {
    /// What to tell of an error.
    pub(crate) fn explain(&self, error: Error) -> SqlError {
        if let Some(denial) = self.guard.denial() {
            return self.refused(denial);
        }
        if self.guard.stopped().is_some() {
            return self.stopped();
        }
        if let Error::SqlInputError { msg, sql, offset, .. } = &error {
            let at =
                usize::try_from(*offset).unwrap_or(0) + self.sql.len().saturating_sub(sql.len());
            let position = self.sql.get(..at).map(|before| before.chars().count() + 1);
            let hint = self.hint(msg);
            let message = msg.clone();
            let problem = SqlProblem { code: "sql_syntax", message, position, hint };
            return self.numbered(SqlError::Wrong(Box::new(problem)));
        }
        let message = match &error {
            Error::SqliteFailure(_, Some(message)) => message.clone(),
            other => other.to_string(),
        };
        let code = match error.sqlite_error_code() {
            Some(
                ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
                | ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::CannotOpen
                | ErrorCode::DatabaseCorrupt
                | ErrorCode::NotADatabase,
            ) => return super::super::error::broken("run SQL")(error).into(),
            Some(ErrorCode::ConstraintViolation) => "sql_constraint",
            Some(ErrorCode::AuthorizationForStatementDenied | ErrorCode::ReadOnly) => "sql_refused",
            _ if message.contains("VACUUM") => "sql_refused",
            _ => "sql_failed",
        };
        let hint = self.hint(&message);
        self.numbered(wrong(code, message, hint))
    }

    /// That it may not be run.
    pub(crate) fn refused(&self, denial: Denial) -> SqlError {
        self.numbered(wrong("sql_refused", denial.message, denial.hint.to_owned()))
    }

    /// That it was stopped while it ran.
    pub(crate) fn stopped(&self) -> SqlError {
        self.numbered(match self.guard.stopped() {
            Some(Stopped::TooMuch) => too_large(CHANGES_TOO_MUCH),
            Some(Stopped::TimeUp) | None => too_slow(self.limits.timeout_ms),
        })
    }

    /// Says which statement it was, where there are several.
    pub(crate) fn numbered(&self, error: SqlError) -> SqlError {
        let several = self.sql.trim_end().trim_end_matches(';').contains(';');
        match error {
            SqlError::Wrong(mut problem) if several => {
                problem.message = format!("statement {}: {}", self.number, problem.message);
                SqlError::Wrong(problem)
            }
            other => other,
        }
    }

    /// What to do about some of SQLite's messages.
    fn hint(&self, message: &str) -> Option<String> {
        if let Some(name) = message.strip_prefix("no such table: ") {
            let names = table::names(self.connection).unwrap_or_default();
            let name = name.trim_start_matches("main.");
            return Some(match nearest(name, names.iter().map(String::as_str)) {
                Some(close) => format!("did you mean {close}?"),
                None => "SELECT name FROM sqlite_schema lists the tables".to_owned(),
            });
        }
        let publishing = message.starts_with("no such function: publish")
            || self.sql.contains("tidewire.publish")
            || self.sql.contains("tidewire.invalidate")
            || self.sql.contains("tidewire.set_actor");
        if publishing {
            let hint = "on SQLite these functions are tidewire_publish(stream, payload), \
                        tidewire_invalidate(code, id, action) and \
                        tidewire_set_actor(user_id, host_id)";
            return Some(hint.to_owned());
        }
        let function = message.strip_prefix("no such function: ");
        let is = |word: &str| function.is_some_and(|name| name.eq_ignore_ascii_case(word));
        // The other word is one of SQLite's own.
        let is_all = || {
            message.to_ascii_uppercase().starts_with("NEAR \"ALL\"") && !self.sql.contains("UNION")
        };
        if is("ANY") || is("SOME") || is_all() {
            let hint = "SQLite has no ANY and ALL: write id IN (SELECT value FROM json_each($1)) for an array in \
                        params, or IN ($1, $2) for values one by one";
            return Some(hint.to_owned());
        }
        if message.contains("VACUUM") {
            return Some("stop the server and use the sqlite3 shell".to_owned());
        }
        None
    }
}
