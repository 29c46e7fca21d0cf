//! What the user's statements may touch: a list of what is allowed, by database and by object. Whatever is
//! not on it is refused.
//!
//! SQLite asks for each thing that a statement does, while it prepares the statement. It also asks for what
//! it does by itself: `DROP TABLE` removes a row of `sqlite_sequence`, `ANALYZE` rewrites `sqlite_stat1`,
//! `ALTER TABLE` looks through the temporary schema. That cannot be told from the same done by the user
//! until the statement is known for what it is, so some of it is decided only when all was asked
//! ([`Doing::refusal`]).

use rusqlite::hooks::{AuthAction, AuthContext};

use super::guard::{Denial, among};
use super::system::LIVE_QUERY_VIEW;

/// The only database that there is for users.
const MAIN: &str = "main";

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

/// Functions that are tables, and read nothing but what they are given.
pub(super) const JSON_TABLES: [&str; 2] = ["json_each", "json_tree"];

/// Modules of virtual tables whose content is in tables of the user's.
const MODULES: [&str; 9] = [
    "fts3",
    "fts4",
    "fts4aux",
    "fts3tokenize",
    "fts5",
    "fts5vocab",
    "rtree",
    "rtree_i32",
    "geopoly",
];

/// The schema, under both of its names. SQLite itself keeps users from writing it.
const SCHEMA: [&str; 2] = ["sqlite_master", "sqlite_schema"];
/// The same of the temporary database.
const TEMP_SCHEMA: [&str; 2] = ["sqlite_temp_master", "sqlite_temp_schema"];
/// Tables of SQLite's own that anyone may read besides: they count rows and keys.
const COUNTS: [&str; 2] = ["sqlite_sequence", "sqlite_stat1"];
/// Samples of values, those of Tidewire's tables among them if somebody has analysed the whole file.
const SAMPLES: &str = "sqlite_stat4";

/// What is read of Tidewire's own tables by way of the view of live queries.
const BEHIND_THE_VIEW: [(&str, &[&str]); 2] = [
    (
        "tidewire_live_queries",
        &[
            "",
            "live_id",
            "connection_id",
            "query_id",
            "user_id",
            "query",
            "created_at",
            "updated_at",
            "changes",
            "node",
            "plan",
            "lag_ms",
            "queue_depth",
            "user_agent",
            "address",
        ],
    ),
    ("tidewire_nodes", &["node_id", "lease_until"]),
];

/// What a statement does, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct Doing {
    /// It changes the schema, or statistics or indexes of it: SQLite then writes tables of its own.
    maintains: bool,
    /// It is an `ALTER TABLE`.
    alters_table: bool,
    /// It is an `ANALYZE`.
    analyzes: bool,
    /// A table of SQLite's own that is written.
    writes_internal: Option<String>,
}

impl Doing {
    pub(super) fn note(&mut self, context: &AuthContext<'_>) {
        let action = context.action;
        self.alters_table |= matches!(action, AuthAction::AlterTable { .. });
        self.analyzes |= matches!(action, AuthAction::Analyze { .. });
        self.maintains |= alters(action) || self.analyzes;
        self.maintains |= matches!(action, AuthAction::Reindex { .. });
        if let AuthAction::Insert { table_name }
        | AuthAction::Update { table_name, .. }
        | AuthAction::Delete { table_name } = action
            && is_internal(table_name)
            && !among(&SCHEMA, table_name)
            && self.writes_internal.is_none()
        {
            self.writes_internal = Some(table_name.to_owned());
        }
    }

    /// Why the whole is refused, if it is.
    pub(super) fn refusal(&self) -> Option<Denial> {
        let table = self.writes_internal.as_ref().filter(|_| !self.maintains)?;
        Some(Denial {
            message: format!("{table} is SQLite's own and cannot be written here"),
            hint: "SQLite keeps it by itself: CREATE, ALTER, DROP, ANALYZE and AUTOINCREMENT work; keep what \
                   is yours in tables of your own",
        })
    }
}

/// Whether a table, index, view or trigger of this name is Tidewire's own, or would be taken for it.
pub(crate) fn is_own(name: &str) -> bool {
    name.eq_ignore_ascii_case("log")
        || name.eq_ignore_ascii_case("log_counter")
        || name.eq_ignore_ascii_case("log_stream")
        || has_prefix(name)
}

/// Whether a name may not be given to anything: it is Tidewire's, or that of a table that SQLite has without
/// anyone making it, which would then be taken for it.
pub(crate) fn is_reserved(name: &str) -> bool {
    is_own(name) || built_in(name)
}

pub(super) fn has_prefix(name: &str) -> bool {
    begins(name, "tidewire_")
}

fn is_internal(name: &str) -> bool {
    begins(name, "sqlite_")
}

/// Whether a table may be one that SQLite has without anyone making it.
pub(super) fn built_in(table: &str) -> bool {
    const EXACTLY: [&str; 10] = [
        "json_each",
        "json_tree",
        "jsonb_each",
        "jsonb_tree",
        "dbstat",
        "bytecode",
        "tables_used",
        "fts3tokenize",
        "fts4aux",
        "fts5vocab",
    ];
    is_internal(table) || begins(table, "pragma_") || among(&EXACTLY, table)
}

fn begins(name: &str, with: &str) -> bool {
    name.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with))
}

/// Whether something is done in another database than the only one.
pub(super) fn is_elsewhere(context: &AuthContext<'_>) -> bool {
    let database = match context.action {
        // Where others have the database, this has the column that is dropped.
        AuthAction::AlterTable { database_name, .. } => Some(database_name),
        _ => context.database_name,
    };
    database.is_some_and(|name| !name.eq_ignore_ascii_case(MAIN))
}

pub(super) fn alters(action: AuthAction<'_>) -> bool {
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

/// Why something is refused, if it is.
pub(super) fn denial(context: &AuthContext<'_>, doing: &Doing) -> Option<Denial> {
    let denied = |message: String, hint| Some(Denial { message, hint });
    if is_temporary(context.action)
        || is_elsewhere(context) && !looks_through_temporary(context, doing)
    {
        return denied(
            "only the database main can be used here, and nothing temporary can be made".to_owned(),
            "a request has no connection of its own that temporary tables, views and triggers could belong \
             to: use WITH, or an ordinary table",
        );
    }
    match context.action {
        AuthAction::Select
        | AuthAction::Recursive
        | AuthAction::Analyze { .. }
        | AuthAction::Reindex { .. } => None,
        AuthAction::Savepoint { savepoint_name, .. } if has_prefix(savepoint_name) => denied(
            format!("{savepoint_name} is reserved for Tidewire"),
            "give the savepoint a name that does not begin with tidewire_",
        ),
        AuthAction::Savepoint { .. } => None,
        AuthAction::Transaction { .. } => denied(
            "transactions cannot be begun or ended here".to_owned(),
            "the statements of one request are one transaction already: send them together, and \
             leave BEGIN, COMMIT and ROLLBACK out; SAVEPOINT and ROLLBACK TO work",
        ),
        AuthAction::Attach { .. } | AuthAction::Detach { .. } => denied(
            "other files cannot be attached or written here, nor can VACUUM be run".to_owned(),
            "use the sqlite3 shell on a copy of the file",
        ),
        AuthAction::Pragma { pragma_name, pragma_value } => {
            let is = |name: &str| pragma_name.eq_ignore_ascii_case(name);
            // A new rule of a table is tried on its rows.
            let tries = doing.alters_table && is("quick_check");
            // Full-text search and the R*Tree ask for it, to size what they write.
            let measures = is("page_size") && pragma_value.is_none();
            if tries || measures || among(&HARMLESS_PRAGMAS, pragma_name) {
                return None;
            }
            denied(
                format!("PRAGMA {pragma_name} cannot be run here"),
                "pragmas that tell of the schema can, such as table_info and table_list; settings of \
                 the file belong to the server",
            )
        }
        AuthAction::Function { function_name } => {
            if !function_name.eq_ignore_ascii_case("load_extension") {
                return None;
            }
            denied("extensions cannot be loaded here".to_owned(), "leave load_extension out")
        }
        AuthAction::CreateVtable { module_name, .. } if !among(&MODULES, module_name) => denied(
            format!("virtual tables of {module_name} cannot be made here"),
            "those of full-text search and of the R*Tree can: fts5, fts4, fts3, rtree, geopoly",
        ),
        action => object(action, context.accessor, doing),
    }
}

/// Why an object is out of reach, if it is.
fn object(action: AuthAction<'_>, accessor: Option<&str>, doing: &Doing) -> Option<Denial> {
    let denied = |message: String, hint| Some(Denial { message, hint });
    let reserved = |name: &str| {
        denied(
            format!("{name} is reserved for Tidewire"),
            "read streams and their events over /v1/stream, and give tables of your own names that \
             do not begin with tidewire_",
        )
    };
    let both = |made: &str, table: &str| {
        let own = [table, made].into_iter().find(|name| is_own(name))?;
        reserved(own)
    };
    match action {
        AuthAction::CreateIndex { index_name: made, table_name }
        | AuthAction::DropIndex { index_name: made, table_name }
        | AuthAction::CreateTrigger { trigger_name: made, table_name }
        | AuthAction::DropTrigger { trigger_name: made, table_name } => both(made, table_name),
        AuthAction::CreateTable { table_name: name }
        | AuthAction::CreateView { view_name: name }
        | AuthAction::CreateVtable { table_name: name, .. } => {
            if is_own(name) {
                return reserved(name);
            }
            // Tables of SQLite's own are made only by itself.
            if !built_in(name) || is_internal(name) {
                return None;
            }
            denied(
                format!("{name} is the name of a table that SQLite has by itself"),
                "give it another name",
            )
        }
        AuthAction::DropTable { table_name: name }
        | AuthAction::DropView { view_name: name }
        | AuthAction::DropVtable { table_name: name, .. }
        | AuthAction::AlterTable { table_name: name, .. }
        | AuthAction::Insert { table_name: name }
        | AuthAction::Update { table_name: name, .. }
        | AuthAction::Delete { table_name: name } => {
            if is_own(name) {
                reserved(name)
            } else {
                None
            }
        }
        AuthAction::Read { table_name, column_name } => {
            if is_own(table_name) {
                let seen = is_behind_view(table_name, column_name, accessor);
                return if seen { None } else { reserved(table_name) };
            }
            if may_be_read(table_name, column_name, doing) {
                return None;
            }
            denied(
                format!("{table_name} is SQLite's own and cannot be read here"),
                "sqlite_schema and the pragmas that tell of the schema can",
            )
        }
        AuthAction::Unknown { code, .. } => denied(
            format!("this cannot be run here (SQLite's action {code})"),
            "it is something that this version of Tidewire does not know",
        ),
        _ => denied("this cannot be run here".to_owned(), "leave it out"),
    }
}

/// Whether something is made or removed in the temporary database.
fn is_temporary(action: AuthAction<'_>) -> bool {
    matches!(
        action,
        AuthAction::CreateTempTable { .. }
            | AuthAction::CreateTempIndex { .. }
            | AuthAction::CreateTempTrigger { .. }
            | AuthAction::CreateTempView { .. }
            | AuthAction::DropTempTable { .. }
            | AuthAction::DropTempIndex { .. }
            | AuthAction::DropTempTrigger { .. }
            | AuthAction::DropTempView { .. }
    )
}

/// Whether SQLite looks for temporary views and triggers of a table that is altered. There are none.
fn looks_through_temporary(context: &AuthContext<'_>, doing: &Doing) -> bool {
    let table = match context.action {
        AuthAction::Read { table_name, .. } | AuthAction::Update { table_name, .. } => table_name,
        _ => return false,
    };
    doing.alters_table && among(&TEMP_SCHEMA, table)
}

/// Whether a column is what the view of live queries shows, and read by way of it. A query's own name (WITH)
/// could stand in for the view; [`super::system::takes_the_views_name`] keeps that out.
fn is_behind_view(table: &str, column: &str, accessor: Option<&str>) -> bool {
    let is_the_view = |name: &str| name.eq_ignore_ascii_case(LIVE_QUERY_VIEW);
    let shown = |(name, columns): &(&str, &[&str])| {
        name.eq_ignore_ascii_case(table) && among(columns, column)
    };
    is_the_view(table) || accessor.is_some_and(is_the_view) && BEHIND_THE_VIEW.iter().any(shown)
}

/// Whether a table that is not Tidewire's may be read.
fn may_be_read(table: &str, column: &str, doing: &Doing) -> bool {
    if table.eq_ignore_ascii_case(SAMPLES) {
        // By these SQLite finds what is to be removed of a table that is dropped or analysed.
        return doing.analyzes || among(&["tbl", "idx"], column);
    }
    if doing.alters_table && among(&TEMP_SCHEMA, table) {
        return true;
    }
    if is_internal(table) {
        return among(&SCHEMA, table) || among(&COUNTS, table);
    }
    // A pragma that is read as a table is asked for by its own name when it is run.
    !built_in(table)
        || begins(table, "pragma_")
        || among(&JSON_TABLES, table)
        || begins(table, "jsonb_")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever gets something to be taken for the view sees no more by it than the view shows.
    #[test]
    fn by_way_of_the_view_only_what_it_shows_is_read() {
        let view = Some("Tidewire_Live_Query");
        for (table, column) in [("tidewire_live_queries", "query"), ("TIDEWIRE_nodes", "NODE_ID")] {
            assert!(is_behind_view(table, column, view), "{table}.{column}");
            assert!(!is_behind_view(table, column, None), "{table}.{column} by itself");
            assert!(!is_behind_view(table, column, Some("mine")), "{table}.{column} by another");
        }
        for (table, column) in [
            ("tidewire_secrets", "value"),
            ("tidewire_secrets", ""),
            ("tidewire_nodes", "address"),
            ("tidewire_api_keys", "query"),
        ] {
            assert!(!is_behind_view(table, column, view), "{table}.{column}");
        }
    }

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
