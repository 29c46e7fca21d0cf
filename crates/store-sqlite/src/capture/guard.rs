//! What the user's SQL may do on a connection, and for how long.
//!
//! A guard belongs to a connection for life and is armed only while the user's statements are
//! prepared and run: setting SQLite's authorizer anew would throw away every prepared statement. What it
//! allows stands in `allowed`; what it allows live queries stands here.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization, TransactionOperation};

use super::allowed::{self, Doing};
use super::functions::{PARTITION_OF, WITHIN};

/// What is said of a statement that may not be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Denial {
    pub(crate) message: String,
    pub(crate) hint: &'static str,
}

/// Why a statement was stopped while it ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// Its time was up.
    TimeUp,
    /// It changed more than one transaction may.
    TooMuch,
}

#[derive(Debug, Default)]
struct State {
    armed: bool,
    /// Until when the user's statements may run.
    deadline: Option<Instant>,
    /// Until when all that is done for them may take, our own statements too.
    clock: Option<Instant>,
    denial: Option<Denial>,
    stop: Option<Stopped>,
    /// What the statement does that is being prepared or run.
    doing: Doing,
    /// A statement was prepared that changes the schema.
    alters: bool,
    /// A statement was prepared that publishes, or does something else for which it must be alone.
    publishes: bool,
    /// A statement was prepared that sets, releases or goes back to a savepoint.
    savepoint: Option<Savepoint>,
    /// The statement is a live query, and may only read these tables.
    live: Option<Readable>,
}

/// What a live query may read.
#[derive(Debug, Default)]
pub(crate) struct Readable {
    /// These tables.
    pub(crate) tables: Vec<String>,
    /// Not these, which are all the others. A query's own names (WITH) are neither.
    pub(crate) others: Vec<String>,
}

/// What a statement does to a savepoint, by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Savepoint {
    /// Sets it.
    Set(String),
    /// Lets go of it, and of those set since.
    Release(String),
    /// Undoes what was done since it was set.
    RollBackTo(String),
}

/// A connection's guard. See the [module documentation](self).
#[derive(Debug, Default)]
pub(crate) struct Guard(Mutex<State>);

/// Virtual machine instructions between two looks at the clock. About a microsecond where rows are small; where
/// each has megabytes, a few of them.
pub(crate) const STEPS_BETWEEN_LOOKS: i32 = 50;

impl Guard {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Guards what is prepared and run from here on.
    pub(crate) fn arm(&self, timeout: Duration) {
        let mut state = self.state();
        let deadline = Instant::now().checked_add(timeout);
        *state = State { armed: true, deadline, clock: state.clock, ..State::default() };
    }

    /// Starts the clock for all that follows, our own statements too, until it is stopped.
    pub(crate) fn start_clock(&self, timeout: Duration) {
        let clock = Instant::now().checked_add(timeout);
        *self.state() = State { clock, ..State::default() };
    }

    pub(crate) fn stop_clock(&self) {
        self.state().clock = None;
    }

    /// Looks at the clock, and says whether the time is up.
    pub(crate) fn time_is_up(&self) -> bool {
        self.look() && self.stopped() == Some(Stopped::TimeUp)
    }

    /// A statement is about to be prepared.
    pub(crate) fn next_statement(&self) {
        self.state().doing = Doing::default();
    }

    /// Why the statement that was prepared is not to be run, though each thing that it does may be done by
    /// one or another.
    pub(crate) fn refusal(&self) -> Option<Denial> {
        let mut state = self.state();
        let refusal = state.doing.refusal()?;
        Some(state.denial.get_or_insert(refusal).clone())
    }

    /// Guards a live query: it may read these tables and nothing else.
    pub(crate) fn arm_live(&self, readable: Readable, timeout: Duration) {
        self.arm(timeout);
        self.state().live = Some(readable);
    }

    /// Guards nothing more. What was found out can still be asked for, and a clock that was started before
    /// goes on.
    pub(crate) fn disarm(&self) {
        self.state().armed = false;
    }

    /// Stops the statement that runs.
    pub(crate) fn stop(&self, why: Stopped) {
        self.state().stop.get_or_insert(why);
    }

    pub(crate) fn denial(&self) -> Option<Denial> {
        self.state().denial.clone()
    }

    pub(crate) fn stopped(&self) -> Option<Stopped> {
        self.state().stop
    }

    /// Whether a statement was prepared, since this was last asked, that changes the schema.
    pub(crate) fn take_alters(&self) -> bool {
        std::mem::take(&mut self.state().alters)
    }

    /// What the statement does to a savepoint that was prepared since this was last asked.
    pub(crate) fn take_savepoint(&self) -> Option<Savepoint> {
        self.state().savepoint.take()
    }

    pub(crate) fn publishes(&self) -> bool {
        self.state().publishes
    }

    /// SQLite's progress handler: whether to stop.
    pub(crate) fn look(&self) -> bool {
        let mut state = self.state();
        if !state.armed && state.clock.is_none() {
            return false;
        }
        let deadline = state.deadline.filter(|_| state.armed);
        if deadline.into_iter().chain(state.clock).min().is_some_and(|due| Instant::now() >= due) {
            state.stop.get_or_insert(Stopped::TimeUp);
        }
        state.stop.is_some()
    }

    /// SQLite's authorizer.
    pub(crate) fn authorize(&self, context: &AuthContext<'_>) -> Authorization {
        let mut state = self.state();
        if !state.armed {
            return Authorization::Allow;
        }
        if let Some(readable) = &state.live {
            let Some(denial) = live_denial(context, readable) else {
                return Authorization::Allow;
            };
            state.denial.get_or_insert(denial);
            return Authorization::Deny;
        }
        state.doing.note(context);
        state.alters |= allowed::alters(context.action);
        match context.action {
            AuthAction::Function { function_name } if publishes(function_name) => {
                state.publishes = true;
            }
            // Analysing or indexing everything leaves out what is not the user's.
            AuthAction::Analyze { table_name: name } | AuthAction::Reindex { index_name: name }
                if allowed::is_own(name) || name.starts_with("sqlite_autoindex_tidewire_") =>
            {
                return Authorization::Ignore;
            }
            AuthAction::Savepoint { operation, savepoint_name } => {
                state.savepoint = savepoint(operation, savepoint_name);
            }
            _ => {}
        }
        match allowed::denial(context, &state.doing) {
            None => Authorization::Allow,
            Some(denial) => {
                state.denial.get_or_insert(denial);
                Authorization::Deny
            }
        }
    }
}

/// What becomes of a savepoint. Names are compared without regard to case, as SQLite does.
fn savepoint(operation: TransactionOperation, name: &str) -> Option<Savepoint> {
    let name = name.to_ascii_lowercase();
    match operation {
        TransactionOperation::Begin => Some(Savepoint::Set(name)),
        TransactionOperation::Release => Some(Savepoint::Release(name)),
        TransactionOperation::Rollback => Some(Savepoint::RollBackTo(name)),
        _ => None,
    }
}

/// Whether a function writes, though a `SELECT` that calls it does not look like it.
fn publishes(function: &str) -> bool {
    allowed::has_prefix(function)
        && ![PARTITION_OF, WITHIN].iter().any(|it| function.eq_ignore_ascii_case(it))
}

/// Why a live query may not do something, if it may not. What it reads of its tables was decided when
/// its text was written; this holds if that went wrong.
fn live_denial(context: &AuthContext<'_>, readable: &Readable) -> Option<Denial> {
    let denied = |message: String| {
        let hint = "a live query is one SELECT over watched tables";
        Some(Denial { message, hint })
    };
    if allowed::is_elsewhere(context) {
        return denied("a live query reads only the tables that it names".to_owned());
    }
    match context.action {
        AuthAction::Select | AuthAction::Recursive => None,
        AuthAction::Function { function_name }
            if publishes(function_name) || among(&LIVE_DENIED, function_name) =>
        {
            denied(format!("the function {function_name} cannot be called by a live query"))
        }
        AuthAction::Function { .. } => None,
        AuthAction::Read { column_name, .. } if column_name.eq_ignore_ascii_case("rowid") => {
            denied("a live query cannot read the rowid of a table".to_owned())
        }
        AuthAction::Read { table_name, column_name } => {
            // Of what a query names itself SQLite asks only if no column of it is used, and does not
            // say that it is no table.
            let may_be_its_own = column_name.is_empty() && context.database_name.is_none();
            let own = may_be_its_own
                && !among(&readable.others, table_name)
                && !allowed::built_in(table_name);
            let named =
                among(&readable.tables, table_name) || among(&allowed::JSON_TABLES, table_name);
            if own || named {
                return None;
            }
            denied("a live query reads only the tables that it names".to_owned())
        }
        _ => denied("a live query may only read".to_owned()),
    }
}

pub(super) fn among<N: AsRef<str>>(names: &[N], name: &str) -> bool {
    names.iter().any(|known| known.as_ref().eq_ignore_ascii_case(name))
}

/// Functions that reach out of the query, or give another answer each time.
const LIVE_DENIED: [&str; 12] = [
    "load_extension",
    "readfile",
    "writefile",
    "edit",
    "fts3_tokenizer",
    "random",
    "randomblob",
    "changes",
    "total_changes",
    "last_insert_rowid",
    "sqlite_log",
    "sqlite_offset",
];
