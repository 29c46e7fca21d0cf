//! Waiting for the lock that a change of capture needs on a table, beside those who use it.
//!
//! Whoever has written to the table holds it to the end of their transaction, and while we wait in line for it,
//! all who come later wait behind us. So we never wait for long, step back and try again; and when that does not
//! help, say who is in the way.

use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use tokio::time::Instant;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Error, Row};

use super::error::broken;
use super::query::{Params, query, query_one, sql};
use tidewire_store::error::StoreError;
use tidewire_store::sql::SqlProblem;

/// So long writers may have to wait behind us at a time.
const LOCK_WAIT: &str = "SET LOCAL lock_timeout = '200ms'; SET LOCAL statement_timeout = '30s'";
/// In between they go on.
const PAUSE: Duration = Duration::from_millis(300);
/// For so long it is tried.
const PATIENCE: Duration = Duration::from_secs(5);

const OPERATION: &str = "change what is watched";

/// What came of a statement: rows, or what the database said against it.
pub(super) type Outcome = Result<Vec<Row>, SqlProblem>;

/// Runs one statement in a transaction that may wait for those who use the table. What the database says against
/// it is a result like any other, so that it is not tried again; `said` puts it into words.
pub(super) async fn run(
    client: &ClientWrapper,
    table: &str,
    (statement, params): (&str, Params<'_>),
    said: impl Fn(&Error) -> Option<SqlProblem>,
) -> Result<Outcome, StoreError> {
    let deadline = Instant::now() + PATIENCE;
    let failed = broken(OPERATION);
    loop {
        client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED").await.map_err(&failed)?;
        client.batch_execute(LOCK_WAIT).await.map_err(&failed)?;
        let error = match query(client, statement, params).await {
            Ok(done) => {
                client.batch_execute("COMMIT").await.map_err(&failed)?;
                return Ok(Ok(done));
            }
            Err(error) => error,
        };
        client.batch_execute("ROLLBACK").await.map_err(&failed)?;
        if !is_in_use(&error) {
            return match (said(&error), failed(error)) {
                (Some(problem), StoreError::Broken { .. }) => Ok(Err(problem)),
                (_, error) => Err(error),
            };
        }
        if Instant::now() >= deadline {
            let found = query_one(client, sql!("table_found"), &[&table]).await.map_err(&failed)?;
            let tables: Vec<u32> =
                found.try_get::<_, Option<u32>>(0).map_err(&failed)?.into_iter().collect();
            let users = users(client, &tables, false).await?;
            return Ok(Err(in_use(&format!("the table {table}"), &users)));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Whether a lock was not to be had: in time, or because another waited for what we hold.
fn is_in_use(error: &Error) -> bool {
    let codes = [SqlState::LOCK_NOT_AVAILABLE, SqlState::T_R_DEADLOCK_DETECTED];
    error.code().is_some_and(|code| codes.contains(code))
}

/// Whether the text of an error says the same.
pub(super) fn says_in_use(text: &str) -> bool {
    text.contains(SqlState::LOCK_NOT_AVAILABLE.code())
}

/// A session that holds a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TableUser {
    /// None of a transaction that was prepared and not ended.
    pid: Option<i32>,
    role: Option<String>,
    application: Option<String>,
    state: Option<String>,
    /// How long its transaction has been open.
    open_s: Option<i64>,
    table: String,
}

/// Those who hold tables, the oldest first. `all` says that readers are in the way too.
pub(super) async fn users(
    client: &ClientWrapper,
    tables: &[u32],
    all: bool,
) -> Result<Vec<TableUser>, StoreError> {
    let of_row = |row: &Row| {
        Ok(TableUser {
            pid: row.try_get(0)?,
            role: row.try_get(1)?,
            application: row.try_get(2)?,
            state: row.try_get(3)?,
            open_s: row.try_get(4)?,
            table: row.try_get::<_, Option<String>>(5)?.unwrap_or_default(),
        })
    };
    let read = async {
        let rows = query(client, sql!("table_users"), &[&tables, &all]).await?;
        rows.iter().map(of_row).collect::<Result<Vec<_>, Error>>()
    };
    read.await.map_err(broken("look who uses a table"))
}

/// What is told to whoever asked, of something that is in use.
pub(super) fn in_use(what: &str, users: &[TableUser]) -> SqlProblem {
    let who: Vec<String> = users.iter().map(described).collect();
    let who = match &who[..] {
        [] => "which session it was is unknown: it has released the table by now".to_owned(),
        who => who.join("; "),
    };
    let pid = users.iter().find_map(|user| user.pid);
    let end = pid
        .map_or(String::new(), |pid| format!(", or end it by SELECT pg_terminate_backend({pid})"));
    SqlProblem {
        code: "table_in_use",
        message: format!("{what} is in use by a transaction that does not end: {who}"),
        position: None,
        hint: Some(format!("let that transaction end{end}; then ask again")),
    }
}

fn described(user: &TableUser) -> String {
    let TableUser { pid, role, application, state, open_s, table } = user;
    let who = pid
        .map_or("a prepared transaction".to_owned(), |pid| format!("the session with pid {pid}"));
    let known = [
        role.as_ref().map(|role| format!("role {role}")),
        application.as_ref().map(|application| format!("application {application}")),
        state.clone(),
        open_s.map(|seconds| format!("open for {seconds} s")),
    ];
    let known: Vec<String> = known.into_iter().flatten().collect();
    let known = if known.is_empty() { String::new() } else { format!(" ({})", known.join(", ")) };
    format!("{who}{known} holds {table}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user() -> TableUser {
        TableUser {
            pid: Some(42),
            role: Some("app".to_owned()),
            application: Some("psql".to_owned()),
            state: Some("idle in transaction".to_owned()),
            open_s: Some(95),
            table: "orders".to_owned(),
        }
    }

    #[test]
    fn whoever_is_in_the_way_is_named() {
        let said = in_use("the table orders", &[user()]);
        let who = "the session with pid 42 (role app, application psql, idle in transaction, open for 95 s) holds \
                   orders";
        assert!(said.message.ends_with(who), "{}", said.message);
        assert!(said.hint.is_some_and(|hint| hint.contains("pg_terminate_backend(42)")));
        let hidden =
            TableUser { role: None, application: None, state: None, open_s: None, ..user() };
        let said = in_use("the table orders", &[hidden]);
        assert!(said.message.ends_with("the session with pid 42 holds orders"), "{}", said.message);
        let said = in_use("the table orders", &[TableUser { pid: None, ..user() }]);
        assert!(said.message.contains("a prepared transaction"), "{}", said.message);
    }
}
