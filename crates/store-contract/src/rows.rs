//! Tables, rows and their changes, for the tests that run SQL.

use serde_json::Value;
use serde_json::value::RawValue;

use super::test_store::TestStore;
use tidewire_store::command::Actor;
use tidewire_store::event::Event;
use tidewire_store::row::Operation;
use tidewire_store::sql::{SqlAnswer, SqlError, SqlLimits, SqlProblem, Statements};
use tidewire_store::watch::{NewWatch, WatchView};

/// More than any test needs.
pub(super) const LIMITS: SqlLimits =
    SqlLimits { timeout_ms: 20_000, rows_max: 10_000, bytes_max: 8 << 20 };

pub(super) fn statements(sql: &str) -> Statements {
    let (params, actor) = (Vec::new(), Actor::default());
    Statements { sql: sql.to_owned(), params, actor, limits: LIMITS }
}

/// Parameters.
pub(super) fn values(values: &[Value]) -> Vec<Box<RawValue>> {
    let raw = |value: &Value| RawValue::from_string(value.to_string()).expect("JSON");
    values.iter().map(raw).collect()
}

/// Runs SQL that must succeed. Tidewire's functions are written as PostgreSQL calls them.
pub(super) async fn run(store: &TestStore, sql: &str) -> SqlAnswer {
    let outcome = store.run_sql(statements(&in_dialect(store, sql))).await;
    outcome.unwrap_or_else(|error| panic!("{sql}: {error:?}"))
}

fn in_dialect(store: &TestStore, sql: &str) -> String {
    if store.backend() == "SQLite" { sql.replace("tidewire.", "tidewire_") } else { sql.to_owned() }
}

/// Runs SQL that must be found wrong.
pub(super) async fn problem(store: &TestStore, sql: &str) -> SqlProblem {
    let outcome = store.run_sql(statements(&in_dialect(store, sql))).await;
    match outcome {
        Err(SqlError::Wrong(problem)) => *problem,
        other => panic!("{sql} should be found wrong, and gave {other:?}"),
    }
}

#[track_caller]
pub(super) fn wrong<T: std::fmt::Debug>(outcome: Result<T, SqlError>) -> SqlProblem {
    match outcome {
        Err(SqlError::Wrong(problem)) => *problem,
        other => panic!("expected wrong SQL, got {other:?}"),
    }
}

/// A result's values as they are written.
pub(super) fn raw(answer: &SqlAnswer) -> Vec<Vec<&str>> {
    answer.rows.iter().map(|row| row.iter().map(|value| value.get()).collect()).collect()
}

/// A table that many tests use.
pub(super) async fn orders(store: &TestStore) {
    run(store, "CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT, amount BIGINT)").await;
}

pub(super) async fn watch(store: &TestStore, table: &str) -> WatchView {
    watch_as(store, NewWatch { table: table.to_owned(), ..NewWatch::default() }).await
}

pub(super) async fn watch_as(store: &TestStore, watch: NewWatch) -> WatchView {
    let about = format!("{watch:?}");
    store.watch(watch).await.unwrap_or_else(|error| panic!("{about}: {error:?}"))
}

/// What tests look at of a change.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Seen {
    pub(super) operation: Operation,
    pub(super) entity_id: Option<String>,
    pub(super) before: Option<Value>,
    pub(super) after: Option<Value>,
}

pub(super) fn seen(event: &Event) -> Seen {
    let row = event.row.as_ref().expect("a change of a row");
    let image = |bytes: &Option<bytes::Bytes>| {
        bytes.as_ref().map(|bytes| serde_json::from_slice(bytes).expect("JSON"))
    };
    Seen {
        operation: row.operation,
        entity_id: row.entity_id.clone(),
        before: image(&row.before),
        after: image(&row.after),
    }
}

/// All changes of a table.
pub(super) async fn changes(store: &TestStore, table: &str) -> Vec<Seen> {
    store.events(&format!("table/{table}")).await.iter().map(seen).collect()
}

pub(super) fn inserted(id: &str, after: Value) -> Seen {
    let (operation, entity_id) = (Operation::Insert, Some(id.to_owned()));
    Seen { operation, entity_id, before: None, after: Some(after) }
}

pub(super) fn updated(id: &str, before: Value, after: Value) -> Seen {
    let (operation, entity_id) = (Operation::Update, Some(id.to_owned()));
    Seen { operation, entity_id, before: Some(before), after: Some(after) }
}

pub(super) fn deleted(id: &str, before: Value) -> Seen {
    let (operation, entity_id) = (Operation::Delete, Some(id.to_owned()));
    Seen { operation, entity_id, before: Some(before), after: None }
}
