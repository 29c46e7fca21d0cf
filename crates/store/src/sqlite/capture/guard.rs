//! What the user's SQL may do on a connection, and for how long.
//!
//! A guard belongs to a connection for life and is armed only while the user's statements are
//! prepared and run: setting SQLite's authorizer anew would throw away every prepared statement.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization, TransactionOperation};

use super::functions::PARTITION_OF;
use super::system::LIVE_QUERY_VIEW;

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
    deadline: Option<Instant>,
    denial: Option<Denial>,
    stop: Option<Stopped>,
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

/// Virtual machine instructions between two looks at the clock: some microseconds.
pub(crate) const STEPS_BETWEEN_LOOKS: i32 = 2_000;

/// Pragmas that only tell of the schema or the build. Full-text search asks for `data_version` itself.
const HARMLESS_PRAGMAS: [&str; 14] = [
    "collation_list",
    "compile_options",
    "data_version",
    "database_list",
    "foreign_key_check",
    "foreign_key_list",
    "function_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "module_list",
    "table_info",
    "table_list",
    "table_xinfo",
];

/// Whether a table, index, view or trigger of this name is Tidewire's own, or would be taken for it.
pub(crate) fn is_own(name: &str) -> bool {
    name.eq_ignore_ascii_case("log")
        || name.eq_ignore_ascii_case("log_counter")
        || name.eq_ignore_ascii_case("log_stream")
        || has_prefix(name)
}

fn has_prefix(name: &str) -> bool {
    const PREFIX: &str = "tidewire_";
    name.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}

impl Guard {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Guards what is prepared and run from here on.
    pub(crate) fn arm(&self, timeout: Duration) {
        let deadline = Instant::now().checked_add(timeout);
        *self.state() = State { armed: true, deadline, ..State::default() };
    }

    /// Guards a live query: it may read these tables and nothing else.
    pub(crate) fn arm_live(&self, readable: Readable, timeout: Duration) {
        self.arm(timeout);
        self.state().live = Some(readable);
    }

    /// Guards nothing more. What was found out can still be asked for.
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
        if !state.armed {
            return false;
        }
        if state.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
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
        match context.action {
            AuthAction::Function { function_name } if publishes(function_name) => {
                state.publishes = true;
            }
            // Analysing or indexing everything leaves out what is not the user's.
            AuthAction::Analyze { table_name: name } | AuthAction::Reindex { index_name: name }
                if is_own(name) || name.starts_with("sqlite_autoindex_tidewire_") =>
            {
                return Authorization::Ignore;
            }
            AuthAction::Savepoint { operation, savepoint_name } => {
                state.savepoint = savepoint(operation, savepoint_name);
            }
            action => state.alters |= alters(action),
        }
        if reads_live_queries(context) {
            return Authorization::Allow;
        }
        match denial(context.action) {
            None => Authorization::Allow,
            Some(denial) => {
                state.denial.get_or_insert(denial);
                Authorization::Deny
            }
        }
    }
}

/// Whether something is read by way of the view of live queries, which anyone who may run SQL may read.
fn reads_live_queries(context: &AuthContext<'_>) -> bool {
    let AuthAction::Read { table_name, .. } = context.action else { return false };
    table_name.eq_ignore_ascii_case(LIVE_QUERY_VIEW)
        || context.accessor.is_some_and(|name| name.eq_ignore_ascii_case(LIVE_QUERY_VIEW))
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
    has_prefix(function) && !function.eq_ignore_ascii_case(PARTITION_OF)
}

/// Functions that are tables, and read nothing but what they are given.
const HARMLESS_TABLES: [&str; 2] = ["json_each", "json_tree"];

/// Why a live query may not do something, if it may not. What it reads of its tables was decided when
/// its text was written; this holds if that went wrong.
fn live_denial(context: &AuthContext<'_>, readable: &Readable) -> Option<Denial> {
    let denied = |message: String| {
        let hint = "a live query is one SELECT over watched tables";
        Some(Denial { message, hint })
    };
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
            let own =
                may_be_its_own && !among(&readable.others, table_name) && !built_in(table_name);
            let named = among(&readable.tables, table_name) || among(&HARMLESS_TABLES, table_name);
            if own || named {
                return None;
            }
            denied("a live query reads only the tables that it names".to_owned())
        }
        _ => denied("a live query may only read".to_owned()),
    }
}

fn among<N: AsRef<str>>(names: &[N], name: &str) -> bool {
    names.iter().any(|known| known.as_ref().eq_ignore_ascii_case(name))
}

/// Whether a table may be one that SQLite has without anyone making it.
fn built_in(table: &str) -> bool {
    let begins =
        |with: &str| table.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with));
    ["sqlite_", "pragma_", "dbstat", "fts", "bytecode", "tables_used"].into_iter().any(begins)
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

fn alters(action: AuthAction<'_>) -> bool {
    matches!(
        action,
        AuthAction::CreateTable { .. }
            | AuthAction::CreateIndex { .. }
            | AuthAction::CreateTrigger { .. }
            | AuthAction::CreateView { .. }
            | AuthAction::CreateVtable { .. }
            | AuthAction::DropTable { .. }
            | AuthAction::DropIndex { .. }
            | AuthAction::DropTrigger { .. }
            | AuthAction::DropView { .. }
            | AuthAction::DropVtable { .. }
            | AuthAction::AlterTable { .. }
    )
}

/// Why something is denied, if it is.
fn denial(action: AuthAction<'_>) -> Option<Denial> {
    let denied = |message: String, hint| Some(Denial { message, hint });
    match action {
        AuthAction::Transaction { .. } => denied(
            "transactions cannot be begun or ended here".to_owned(),
            "the statements of one request are one transaction already: send them together, and \
             leave BEGIN, COMMIT and ROLLBACK out; SAVEPOINT and ROLLBACK TO work",
        ),
        AuthAction::Savepoint { savepoint_name, .. } if has_prefix(savepoint_name) => denied(
            format!("{savepoint_name} is reserved for Tidewire"),
            "give the savepoint a name that does not begin with tidewire_",
        ),
        AuthAction::Attach { .. } | AuthAction::Detach { .. } => denied(
            "other files cannot be attached or written here, nor can VACUUM be run".to_owned(),
            "use the sqlite3 shell on a copy of the file",
        ),
        AuthAction::Pragma { pragma_name, .. }
            if !HARMLESS_PRAGMAS.iter().any(|name| name.eq_ignore_ascii_case(pragma_name)) =>
        {
            denied(
                format!("PRAGMA {pragma_name} cannot be run here"),
                "pragmas that tell of the schema can, such as table_info and table_list; settings of \
                 the file belong to the server",
            )
        }
        AuthAction::Unknown { code, .. } => denied(
            format!("this cannot be run here (SQLite's action {code})"),
            "it is something that this version of Tidewire does not know",
        ),
        AuthAction::CreateTempTable { .. }
        | AuthAction::CreateTempIndex { .. }
        | AuthAction::CreateTempTrigger { .. }
        | AuthAction::CreateTempView { .. } => denied(
            "temporary tables, views and triggers cannot be made here".to_owned(),
            "a request has no connection of its own that they could belong to: use WITH, or an \
             ordinary table",
        ),
        AuthAction::Function { function_name }
            if function_name.eq_ignore_ascii_case("load_extension") =>
        {
            denied("extensions cannot be loaded here".to_owned(), "leave load_extension out")
        }
        action => {
            let name = name_of(action).filter(|name| is_own(name))?;
            denied(
                format!("{name} is reserved for Tidewire"),
                "read streams and their events over /v1/stream, and give tables of your own names that \
                 do not begin with tidewire_",
            )
        }
    }
}

/// The name of the table that an action is about, or of what it makes.
fn name_of<'a>(action: AuthAction<'a>) -> Option<&'a str> {
    let either = |made: &'a str, table: &'a str| if is_own(table) { table } else { made };
    Some(match action {
        AuthAction::CreateIndex { index_name: made, table_name }
        | AuthAction::DropIndex { index_name: made, table_name }
        | AuthAction::CreateTrigger { trigger_name: made, table_name }
        | AuthAction::DropTrigger { trigger_name: made, table_name } => either(made, table_name),
        AuthAction::CreateTable { table_name }
        | AuthAction::DropTable { table_name }
        | AuthAction::CreateVtable { table_name, .. }
        | AuthAction::DropVtable { table_name, .. }
        | AuthAction::AlterTable { table_name, .. }
        | AuthAction::Delete { table_name }
        | AuthAction::Insert { table_name }
        | AuthAction::Update { table_name, .. }
        | AuthAction::Read { table_name, .. } => table_name,
        AuthAction::CreateView { view_name } | AuthAction::DropView { view_name } => view_name,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_names_are_known_in_any_case() {
        for name in ["log", "LOG", "log_counter", "tidewire_streams", "TideWire_x"] {
            assert!(is_own(name), "{name}");
        }
        for name in ["logs", "tidewire", "my_log", "catalog", "ünïcödé_name"] {
            assert!(!is_own(name), "{name}");
        }
    }
}
