//! The stores that histories happen on, and the sessions that write there.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use tempfile::TempDir;
use tidewire_capture::{Capture, CaptureOptions, Source};
use tidewire_store::{
    Actor, CaptureMode, NewWatch, SharedStore, SqlAnswer, SqlError, SqlLimits, Statements,
};
use tidewire_store_postgres::PostgresOptions;
use tidewire_store_postgres::PostgresStore;
use tidewire_store_postgres::testing::{TestDatabase, fresh_database};
use tidewire_store_sqlite::SqliteOptions;
use tidewire_store_sqlite::SqliteStore;
use tokio_postgres::Client;

use super::case::{Step, TableSpec};
use super::columns::Sort;
use super::history::SESSIONS;

/// How long something may take that must happen in the end.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);
pub(crate) const LIMITS: SqlLimits =
    SqlLimits { timeout_ms: 10_000, rows_max: 10_000, bytes_max: 8 << 20 };
/// Fails in SQLite, whatever is in the tables: everything before it in the transaction is taken back.
const FAILS: &str = "SELECT abs(-9223372036854775808)";

/// A store with its writers.
pub(crate) struct Fixture {
    pub(crate) sort: Sort,
    pub(crate) store: SharedStore,
    site: Site,
}

enum Site {
    /// The statements of each session's transaction, until it ends: a transaction is written at a time.
    /// The last session is another process to the store.
    Sqlite {
        _folder: TempDir,
        foreign: Connection,
        waiting: Vec<Option<Vec<String>>>,
    },
    Postgres {
        database: TestDatabase,
        capture: Capture,
        sessions: Vec<Session>,
    },
}

struct Session {
    sql: Client,
    open: bool,
    saved: bool,
}

impl Fixture {
    pub(crate) async fn sqlite() -> Fixture {
        let folder = tempfile::tempdir().expect("a folder");
        let store: SharedStore =
            SqliteStore::open(SqliteOptions::new(folder.path())).await.expect("a store");
        let foreign = Connection::open(folder.path().join("tidewire.db")).expect("the file");
        foreign.busy_timeout(DEADLINE).expect("a timeout");
        let site = Site::Sqlite { _folder: folder, foreign, waiting: vec![None; SESSIONS] };
        Fixture { sort: Sort::Sqlite, store, site }
    }

    pub(crate) async fn postgres(source: Source) -> Fixture {
        let database = fresh_database().await;
        database.run("CREATE TYPE mood AS ENUM ('sad', 'fine', 'glad')").await;
        let store =
            PostgresStore::open(PostgresOptions::new(&database.url)).await.expect("a store");
        let options = CaptureOptions {
            source,
            election_poll: Duration::from_millis(50),
            ..CaptureOptions::new("oracle")
        };
        let capture = tidewire_capture::start(options, store.capture_link());
        let mode = if source == Source::Wal { CaptureMode::Wal } else { CaptureMode::Outbox };
        let store: SharedStore = store;
        let ready = tokio::time::timeout(DEADLINE, async {
            loop {
                let view = store.capture().await.expect("how changes are captured");
                if view.mode == mode && view.leader.is_some() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        ready.await.expect("someone captures");
        let mut sessions = Vec::new();
        for _ in 0..SESSIONS {
            let sql = database.connect().await;
            // Whoever meets another's lock gives way at once: one step is made at a time.
            sql.batch_execute("SET lock_timeout = '5ms'").await.expect("a setting");
            sessions.push(Session { sql, open: false, saved: false });
        }
        Fixture {
            sort: Sort::Postgres,
            store,
            site: Site::Postgres { database, capture, sessions },
        }
    }

    /// A connection for questions of our own.
    pub(crate) async fn connect(&self) -> Option<Client> {
        match &self.site {
            Site::Sqlite { .. } => None,
            Site::Postgres { database, .. } => Some(database.connect().await),
        }
    }

    /// Makes and watches tables.
    pub(crate) async fn set(&mut self, tables: &[TableSpec]) {
        for table in tables {
            self.must(&table.create(self.sort, "TABLE")).await;
            let watch = NewWatch {
                table: table.name.clone(),
                host_column: table.tenants.as_ref().map(|tenants| tenants.column.clone()),
                ..NewWatch::default()
            };
            self.store.watch(watch).await.unwrap_or_else(|error| panic!("watch: {error}"));
        }
    }

    /// Ends what is open, and removes the tables.
    pub(crate) async fn clear(&mut self, tables: &[TableSpec]) {
        for session in 0..SESSIONS {
            self.write(&Step::Abort(session)).await;
        }
        for table in tables {
            self.store.unwatch(&table.name).await.expect("it was watched");
            self.must(&format!("DROP TABLE {}", table.name)).await;
        }
    }

    async fn must(&self, sql: &str) {
        self.run(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// Runs SQL by the store.
    pub(crate) async fn run(&self, sql: &str) -> Result<SqlAnswer, SqlError> {
        let statements = Statements {
            sql: sql.to_owned(),
            params: Vec::new(),
            actor: Actor::default(),
            limits: LIMITS,
        };
        self.store.run_sql(statements).await
    }

    /// A step of a writer. What the database refuses ends its transaction, and is part of the history.
    pub(crate) async fn write(&mut self, step: &Step) {
        let text = match &mut self.site {
            Site::Sqlite { waiting, foreign, .. } => {
                let text = put_off(waiting, step);
                if session(step) == Some(SESSIONS - 1) {
                    if let Some(text) = text {
                        write_elsewhere(foreign, &text);
                    }
                    return;
                }
                text
            }
            Site::Postgres { sessions, .. } => {
                postgres(sessions, step).await;
                None
            }
        };
        if let Some(text) = text {
            let _ = self.run(&text).await;
        }
    }

    /// Removes everything.
    pub(crate) async fn strike(self) {
        let store = Arc::clone(&self.store);
        match self.site {
            Site::Sqlite { .. } => store.close().await,
            Site::Postgres { database, capture, sessions } => {
                drop(sessions);
                capture.stop().await;
                store.close().await;
                database.drop_database().await;
            }
        }
    }
}

/// Whose step it is.
fn session(step: &Step) -> Option<usize> {
    match step {
        Step::Begin(session)
        | Step::Run(session, _)
        | Step::Savepoint(session)
        | Step::Back(session)
        | Step::Commit(session)
        | Step::Abort(session) => Some(*session),
        _ => None,
    }
}

/// Writes without the store's knowledge.
fn write_elsewhere(foreign: &Connection, text: &str) {
    if foreign.execute_batch(&format!("BEGIN IMMEDIATE; {text}; COMMIT")).is_err() {
        foreign.execute_batch("ROLLBACK").expect("a transaction can be ended");
    }
}

/// What is to be run now that a step has come.
fn put_off(waiting: &mut [Option<Vec<String>>], step: &Step) -> Option<String> {
    match step {
        Step::Begin(session) => {
            waiting[*session] = Some(Vec::new());
            None
        }
        Step::Run(session, sql) => match &mut waiting[*session] {
            Some(statements) => {
                statements.push(sql.clone());
                None
            }
            None => Some(sql.clone()),
        },
        Step::Savepoint(session) => {
            waiting[*session].as_mut()?.push("SAVEPOINT s".to_owned());
            None
        }
        Step::Back(session) => {
            let statements = waiting[*session].as_mut()?;
            if statements.iter().any(|sql| sql == "SAVEPOINT s") {
                statements.push("ROLLBACK TO s".to_owned());
            }
            None
        }
        Step::Commit(session) => {
            let statements = waiting[*session].take()?;
            (!statements.is_empty()).then(|| statements.join("; "))
        }
        Step::Abort(session) => {
            let statements = waiting[*session].take()?;
            (!statements.is_empty()).then(|| format!("{}; {FAILS}", statements.join("; ")))
        }
        other => panic!("{other:?} is no step of a writer"),
    }
}

async fn postgres(sessions: &mut [Session], step: &Step) {
    let (session, text) = match step {
        Step::Begin(session) => (*session, "BEGIN"),
        Step::Run(session, sql) => (*session, sql.as_str()),
        Step::Savepoint(session) => (*session, "SAVEPOINT s"),
        Step::Back(session) => (*session, "ROLLBACK TO s"),
        Step::Commit(session) => (*session, "COMMIT"),
        Step::Abort(session) => (*session, "ROLLBACK"),
        other => panic!("{other:?} is no step of a writer"),
    };
    let session = &mut sessions[session];
    let fits = match step {
        Step::Begin(_) => !session.open,
        Step::Run(..) => true,
        Step::Back(_) => session.saved,
        _ => session.open,
    };
    if !fits {
        return;
    }
    let done = session.sql.batch_execute(text).await;
    if done.is_err() && session.open {
        session.sql.batch_execute("ROLLBACK").await.expect("a transaction can be ended");
        session.open = false;
    }
    match step {
        Step::Begin(_) => session.open = true,
        Step::Savepoint(_) => session.saved = done.is_ok(),
        Step::Commit(_) | Step::Abort(_) => session.open = false,
        _ => {}
    }
    session.saved &= session.open;
}
