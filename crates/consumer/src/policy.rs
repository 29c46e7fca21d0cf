//! How a member reacts to each error, in one place.
//!
//! | what happened | what the member does |
//! |---|---|
//! | the connection broke, a deadlock, a full disk (*transient*) | rolls back, waits, retries; the attempt does not count |
//! | the handler's error, a panic, its timeout, a wrong statement | counts the attempt and retries after a wait, until the attempts are used up |
//! | on SQLite, the batch held the only writer for too long | retries with a smaller batch; if it has one source transaction and one key, the attempt counts |
//! | `HandlerError::dead` | writes a dead letter |
//! | `HandlerError::stop`, COMMIT in the handler, missing rights, settings that differ from the group's, a closed store | ends |
//! | the partition moved, or another member has it | reads the group again |
//! | the group is stopped, or its dead letters are full | waits until someone acts |

use tidewire_store::groups::{GroupError, HELD_TOO_LONG};
use tidewire_store::{SqlError, StoreError};
use tidewire_store_postgres::driver;

/// What a member does about an error of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reaction {
    /// Reads what it holds again.
    Look,
    /// Waits a while first.
    Wait,
    /// Ends.
    End,
}

/// What to do about an error of the store while working on a partition.
pub(crate) fn reaction(error: &GroupError) -> Reaction {
    match error {
        GroupError::Moved | GroupError::Fenced => Reaction::Look,
        GroupError::EndedByHandler
        | GroupError::Rights(_)
        | GroupError::Differs(_)
        | GroupError::Invalid(_)
        | GroupError::Store(StoreError::Closed) => Reaction::End,
        // The partition owner ends the member if the group is gone: a single partition goes when their number
        // is changed.
        GroupError::NotFound
        | GroupError::Stopped { .. }
        | GroupError::Changing
        | GroupError::TooMany { .. }
        | GroupError::Transient(_)
        | GroupError::Sql(_)
        | GroupError::Store(_) => Reaction::Wait,
    }
}

/// Whether a statement failed for a reason that passes without anyone's help.
pub(crate) fn sql_is_transient(error: &SqlError) -> bool {
    match error {
        SqlError::Wrong(problem) => problem.code == "sql_conflict",
        SqlError::Store(error) => error.temporary(),
    }
}

/// The same of the driver's own errors.
pub(crate) fn driver_is_transient(error: &driver::Error) -> bool {
    let Some(code) = error.code() else {
        return error.is_closed()
            || std::error::Error::source(error)
                .is_some_and(<dyn std::error::Error>::is::<std::io::Error>);
    };
    let code = code.code();
    // Connections, resources, conflicts; a lock that was not granted; a server that stops or starts.
    ["08", "53", "40"].iter().any(|class| code.starts_with(class))
        || code == "55P03"
        || code.starts_with("57P0")
}

/// Whether the whole batch ran out of time, in any of its statements or at its end.
pub(crate) fn sql_overran(error: &SqlError) -> bool {
    matches!(error, SqlError::Wrong(problem) if problem.code == HELD_TOO_LONG)
}

#[cfg(test)]
mod tests {
    use tidewire_store::SqlProblem;

    use super::*;

    #[test]
    fn a_transient_error_never_ends_a_member() {
        for error in [
            GroupError::Transient("lost".to_owned()),
            GroupError::Changing,
            GroupError::NotFound,
            GroupError::Store(StoreError::Unknown("lost".to_owned())),
            GroupError::TooMany { limit: "dead_max", max: 1 },
        ] {
            assert_eq!(reaction(&error), Reaction::Wait, "{error}");
        }
        assert_eq!(reaction(&GroupError::Moved), Reaction::Look);
        assert_eq!(reaction(&GroupError::EndedByHandler), Reaction::End);
        assert_eq!(reaction(&GroupError::Store(StoreError::Closed)), Reaction::End);
        assert_eq!(reaction(&GroupError::Rights("GRANT".to_owned())), Reaction::End);
    }

    #[test]
    fn a_deadlock_is_transient_and_a_wrong_statement_is_not() {
        let wrong = |code| {
            let message = String::new();
            SqlError::Wrong(Box::new(SqlProblem { code, message, position: None, hint: None }))
        };
        assert!(sql_is_transient(&wrong("sql_conflict")));
        assert!(!sql_is_transient(&wrong("sql_syntax")));
        assert!(sql_is_transient(&SqlError::Store(StoreError::Unavailable(String::new()))));
    }
}
