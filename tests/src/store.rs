//! The two stores, and what can be seen of them from outside the server.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use crate::postgres::{Sql, fresh_database};

/// Questions with the same answer on both stores, as `(SQLite, PostgreSQL)`.
pub(crate) type Question<'a> = (&'a str, &'a str);

const EVENTS: Question<'_> = ("SELECT count(*) FROM log", "SELECT count(*) FROM tidewire.log");
const TIP: Question<'_> = (
    "SELECT coalesce(max(c_offset), 0) FROM log",
    "SELECT coalesce(max(c_offset), 0) FROM tidewire.log",
);
const SCHEMA_VERSION: Question<'_> = (
    "SELECT max(number) FROM tidewire_migrations",
    "SELECT max(number)::bigint FROM tidewire.migrations",
);
const MIGRATIONS: Question<'_> =
    ("SELECT count(*) FROM tidewire_migrations", "SELECT count(*) FROM tidewire.migrations");
const FUTURE: Question<'_> = (
    "INSERT INTO tidewire_migrations (number, name, applied_at) VALUES (9999, 'future', 0)",
    "INSERT INTO tidewire.migrations (number, name) VALUES (9999, 'future')",
);

/// Tells stories on both stores (I8): each is an `async fn(Store)`, named here.
#[macro_export]
macro_rules! on_both_stores {
    ($($story:ident),+ $(,)?) => {
        mod on_sqlite {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $story() {
                    Box::pin(super::$story($crate::Store::sqlite())).await;
                }
            )+
        }

        mod on_postgres {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $story() {
                    Box::pin(super::$story($crate::Store::postgres().await)).await;
                }
            )+
        }
    };
}

/// Where a server keeps its log.
#[derive(Debug)]
pub enum Store {
    /// A folder, gone when dropped unless it is someone else's.
    Sqlite { folder: PathBuf, owned: Option<TempDir> },
    /// A database.
    Postgres { url: String },
}

impl Store {
    /// The embedded store, in a folder of its own.
    pub fn sqlite() -> Store {
        let owned = tempfile::tempdir().expect("a temporary folder");
        Store::Sqlite { folder: owned.path().join("data"), owned: Some(owned) }
    }

    /// The embedded store in a given folder.
    pub fn sqlite_in(folder: impl Into<PathBuf>) -> Store {
        Store::Sqlite { folder: folder.into(), owned: None }
    }

    /// A fresh database of the cluster that `./test` started.
    pub async fn postgres() -> Store {
        Store::postgres_at(fresh_database().await)
    }

    /// This very database.
    pub fn postgres_at(url: impl Into<String>) -> Store {
        Store::Postgres { url: url.into() }
    }

    /// The server's arguments.
    pub(crate) fn arguments(&self) -> [String; 2] {
        match self {
            Store::Sqlite { folder, .. } => {
                ["--data".to_owned(), folder.to_string_lossy().into_owned()]
            }
            Store::Postgres { url } => ["--database".to_owned(), url.clone()],
        }
    }

    /// Checks that the log's offsets run from 1 to the tip without a hole. Holds for as long as
    /// nothing was deleted.
    pub async fn log_is_gapless(&self) {
        let (events, tip) = (self.number(EVENTS).await, self.number(TIP).await);
        assert!(tip > 0, "the log is empty");
        assert_eq!(events, tip, "the log has {events} events, but ends at {tip}");
    }

    /// The number of the last migration that was applied.
    pub async fn schema_version(&self) -> i64 {
        self.number(SCHEMA_VERSION).await
    }

    /// Checks that the schema was made in one go, not twice and not in part.
    pub async fn every_migration_was_applied_once(&self) {
        let (applied, version) = (self.number(MIGRATIONS).await, self.schema_version().await);
        assert_eq!(applied, version, "migrations that were applied, up to version {version}");
    }

    /// Makes the store look as if a newer binary had migrated it, to version 9999.
    pub async fn come_from_the_future(&self) {
        match self {
            Store::Sqlite { folder, .. } => {
                let connection = Connection::open(file(folder)).expect("the store's file");
                connection.execute(FUTURE.0, []).expect("a row more");
            }
            Store::Postgres { url } => {
                let sql = Sql::connect(url).await.expect("a connection");
                sql.execute(FUTURE.1, &[]).await.expect("a row more");
            }
        }
    }

    /// How many rows of a table about sessions or nodes meet a condition, as SQL of both stores.
    pub async fn count(&self, table: &str, condition: &str) -> i64 {
        let question =
            |schema: &str| format!("SELECT count(*) FROM {schema}{table} WHERE {condition}");
        self.number((&question("tidewire_"), &question("tidewire."))).await
    }

    /// Changes such a table behind the server's back. The statement has `{}` before the table's name.
    pub async fn tamper(&self, statement: &str) {
        match self {
            Store::Sqlite { folder, .. } => {
                let connection = Connection::open(file(folder)).expect("the store's file");
                connection.busy_timeout(crate::wait::PATIENCE).expect("a timeout");
                let statement = statement.replace("{}", "tidewire_");
                connection.execute(&statement, []).expect("a statement that is taken");
            }
            Store::Postgres { url } => {
                let sql = Sql::connect(url).await.expect("a connection");
                let statement = statement.replace("{}", "tidewire.");
                sql.execute(&statement, &[]).await.expect("a statement that is taken");
            }
        }
    }

    /// Puts a table's stream into the log behind the back of a server that does not run, with a change
    /// of a row for each age in seconds, and returns their positions.
    pub async fn capture(&self, table: &str, ages_s: &[u64]) -> Vec<i64> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = now.expect("a clock").as_secs();
        let created = self.number(TIP).await + 1;
        let mut statements = vec![
            format!(
                "INSERT INTO {{log}} (c_offset, stream_id, append_id, control, created_at)
                 VALUES ({created}, 'table/{table}', {created}, 'create', {{time}}{now}))"
            ),
            format!(
                "INSERT INTO {{}}streams (stream_id, created_offset, content_type)
                 VALUES ('table/{table}', {created}, 'application/json')"
            ),
        ];
        let mut positions = Vec::new();
        for (position, age) in (created + 1..).zip(ages_s) {
            let at = now - age;
            statements.push(format!(
                "INSERT INTO {{log}} (c_offset, stream_id, append_id, table_name, operation,
                     entity_id, after_data, txid, created_at)
                 VALUES ({position}, 'table/{table}', {position}, '{table}', 'INSERT', '{position}',
                     '{{\"id\":{position}}}', {position}, {{time}}{at}))"
            ));
            positions.push(position);
        }
        for statement in statements {
            let (log, time) = match self {
                Store::Sqlite { .. } => ("log", "(1000 * "),
                Store::Postgres { .. } => ("tidewire.log", "to_timestamp("),
            };
            self.tamper(&statement.replace("{log}", log).replace("{time}", time)).await;
        }
        positions
    }

    /// How many events of a stream are on disk.
    pub async fn on_disk(&self, stream: &str) -> i64 {
        let question = |log: &str| {
            format!("SELECT count(*) FROM {log} WHERE stream_id = '{stream}' AND control IS NULL")
        };
        self.number((&question("log"), &question("tidewire.log"))).await
    }

    /// The keys that the server signs with, by name.
    pub async fn signing_keys(&self) -> Vec<(String, Vec<u8>)> {
        match self {
            Store::Sqlite { folder, .. } => {
                let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
                let connection = Connection::open_with_flags(file(folder), flags);
                let connection = connection.expect("the store's file");
                let mut keys = connection
                    .prepare("SELECT name, value FROM tidewire_secrets")
                    .expect("a table");
                let keys = keys.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
                keys.and_then(Iterator::collect).expect("rows")
            }
            Store::Postgres { url } => {
                let sql = Sql::connect(url).await.expect("a connection");
                let keys = sql.query("SELECT name, value FROM tidewire.secrets", &[]).await;
                keys.expect("rows").iter().map(|row| (row.get(0), row.get(1))).collect()
            }
        }
    }

    pub(crate) async fn number(&self, (sqlite, postgres): Question<'_>) -> i64 {
        match self {
            Store::Sqlite { folder, .. } => {
                let connection =
                    Connection::open_with_flags(file(folder), OpenFlags::SQLITE_OPEN_READ_ONLY);
                connection
                    .and_then(|connection| connection.query_row(sqlite, [], |row| row.get(0)))
                    .unwrap_or_else(|error| panic!("{sqlite}: {error}"))
            }
            Store::Postgres { url } => {
                let sql = Sql::connect(url).await.expect("a connection");
                sql.number(postgres).await
            }
        }
    }
}

fn file(folder: &Path) -> PathBuf {
    folder.join("tidewire.db")
}
