//! What is SQLite's own in running SQL and capturing what it changes.

mod foreign;
mod hostile;
mod live;
mod property;
mod refused;
mod shapes;

use std::sync::Arc;

use serde_json::Value;
use tempfile::TempDir;

use crate::SqliteStore;
use crate::options::SqliteOptions;
use tidewire_store::command::Actor;
use tidewire_store::event::Event;
use tidewire_store::log::{Found, Log, PageLimit};
use tidewire_store::offset::Position;
use tidewire_store::sql::{Sql, SqlAnswer, SqlError, SqlLimits, SqlProblem, Statements};
use tidewire_store::watch::{NewWatch, Watches};

/// A store in a folder of its own.
struct Subject {
    store: Arc<SqliteStore>,
    folder: TempDir,
}

impl Subject {
    async fn open() -> Subject {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let store = SqliteStore::open(SqliteOptions::new(folder.path())).await.expect("it opens");
        Subject { store, folder }
    }

    /// A store with tables in it, all of them watched.
    async fn watching(schema: &str, tables: &[&str]) -> Subject {
        let subject = Subject::open().await;
        subject.run(schema).await;
        for table in tables {
            subject.watch(table).await;
        }
        subject
    }

    async fn reopen(mut self) -> Subject {
        self.store.close().await;
        let options = SqliteOptions::new(self.folder.path());
        self.store = SqliteStore::open(options).await.expect("it opens again");
        self
    }

    async fn try_run(&self, sql: &str) -> Result<SqlAnswer, SqlError> {
        let limits = SqlLimits { timeout_ms: 20_000, rows_max: 100_000, bytes_max: 64 << 20 };
        let (params, actor) = (Vec::new(), Actor::default());
        self.store.run_sql(Statements { sql: sql.to_owned(), params, actor, limits }).await
    }

    async fn run(&self, sql: &str) -> SqlAnswer {
        self.try_run(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"))
    }

    async fn problem(&self, sql: &str) -> SqlProblem {
        match self.try_run(sql).await {
            Err(SqlError::Wrong(problem)) => *problem,
            other => panic!("{sql} should be refused, and gave {other:?}"),
        }
    }

    async fn watch(&self, table: &str) {
        let new = NewWatch { table: table.to_owned(), ..NewWatch::default() };
        self.store.watch(new).await.unwrap_or_else(|error| panic!("{table}: {error:?}"));
    }

    async fn events(&self, stream: &str) -> Vec<Event> {
        let limit = PageLimit { events: 1_000_000, bytes: 1 << 30 };
        match self.store.read(stream, Position::START, limit).await.expect("a page") {
            Found::Stream(page) => page.events,
            other => panic!("{stream} is not there: {other:?}"),
        }
    }

    /// The changes of a table, each as `INSERT key before→after`.
    async fn changes(&self, table: &str) -> Vec<String> {
        let text = |image: &Option<bytes::Bytes>| {
            image.as_ref().map_or("-".to_owned(), |b| String::from_utf8_lossy(b).into_owned())
        };
        let events = self.events(&format!("table/{table}")).await;
        let line = |event: &Event| {
            let row = event.row.as_ref().expect("a change of a row");
            let id = row.entity_id.clone().unwrap_or_default();
            format!("{} {id} {} {}", row.operation.as_str(), text(&row.before), text(&row.after))
        };
        events.iter().map(line).collect()
    }

    /// The rows of a query, each as a JSON object.
    async fn rows(&self, sql: &str) -> Vec<Value> {
        let answer = self.run(sql).await;
        let object = |row: &Vec<Box<serde_json::value::RawValue>>| {
            let values = row.iter().map(|v| serde_json::from_str(v.get()).expect("JSON"));
            Value::Object(answer.columns.iter().map(|c| c.name.clone()).zip(values).collect())
        };
        answer.rows.iter().map(object).collect()
    }

    /// Runs SQL as another process would, on a connection of its own.
    fn elsewhere(&self, sql: &str) {
        let path = self.folder.path().join("tidewire.db");
        let file = rusqlite::Connection::open(path).expect("the file is there");
        file.execute_batch(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}
