//! The user's own SQL.
//!
//! Statements run one by one in a transaction of a session of their own (`user_sessions`). Each is first
//! prepared, which says what types its columns have and makes sure that it is one statement, and then
//! run with its results as text, which PostgreSQL has for every type there is. After a transaction that
//! wrote something a mark is set; once the log has it, it has all that the transaction did.

mod ending;
mod errors;
mod form;
mod live;
mod marks;
mod parameter;
mod script;
mod user_sessions;
mod value;
mod written;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::ClientWrapper;
use futures_util::{StreamExt as _, pin_mut};
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, SimpleQueryMessage, Statement as Prepared};

use super::PostgresStore;
use super::error::{broken, broken_commit, text};
use super::load;
use super::pool::{Pool, PooledConnection};
use super::query::{query, query_one, sql};
use tidewire_store::command::Actor;
use tidewire_store::error::StoreError;
use tidewire_store::log::Log;
use tidewire_store::offset::Position;
use tidewire_store::sql::{Sql, SqlAnswer, SqlColumn, SqlError, SqlLimits, SqlProblem, Statements};

pub(super) use ending::Backend;
use errors::{StatementLocation, problem};
pub(super) use errors::{is_of_session, refused, timeout};
pub(crate) use live::{Live, make_role};
pub(crate) use marks::Marks;
use script::Statement;
use user_sessions::UserSession;
pub(crate) use user_sessions::UserSessions;

/// By which a statement with parameters is known while it runs.
const PREPARED: &str = "tidewire_statement";
/// Counts those that run in a transaction which goes on after them.
static ONES: AtomicU64 = AtomicU64::new(0);

/// How long past its limit a request may take before its session is given up: so long the server has to
/// end it by itself.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// How long a write waits for its place in the log. It is committed by then, so it is answered all the
/// same.
const MARK_WAIT: Duration = Duration::from_secs(5);

/// Stands for the transaction of a mark that could not be set.
const NO_MARK: i64 = 0;

/// How often to look for a mark when nothing says that the log has grown.
const MARK_POLL: Duration = Duration::from_millis(100);

#[async_trait]
impl Sql for PostgresStore {
    async fn run_sql(&self, statements: Statements) -> Result<SqlAnswer, SqlError> {
        let before = self.tip().await?;
        let user_session = self.user_sessions.take(statements.actor.account.as_ref()).await?;
        let used = user_session.used;
        match self.run_in(user_session, &statements, before).await {
            // Nothing of it was kept. Functions that somebody called before can take from a session what the
            // driver has prepared in it: in a new one it is known whose fault it is.
            Err(error) if used && errors::is_of_session(&error) => {
                let user_session =
                    self.user_sessions.take_new(statements.actor.account.as_ref()).await?;
                self.run_in(user_session, &statements, before).await
            }
            ran => ran,
        }
    }

    async fn caught_up(&self, timeout_ms: u64) -> Result<Position, StoreError> {
        let deadline = Instant::now() + Duration::from_millis(timeout_ms);
        let reached = self.marks.one_for_all(deadline, || self.reach_mark(deadline)).await?;
        reached.ok_or_else(|| {
            let text = format!("what is committed did not reach the log within {timeout_ms} ms");
            StoreError::Unavailable(text)
        })
    }
}

impl PostgresStore {
    /// Sets a mark, and waits until the log has it; none if it has not in time.
    async fn reach_mark(&self, deadline: Instant) -> Result<Option<Position>, StoreError> {
        let before = self.tip().await?;
        let mark = |client: PooledConnection| async move {
            let row = query_one(&client, sql!("mark"), &[]).await;
            row.and_then(|row| row.try_get(0)).map_err(broken("set a mark"))
        };
        let txid: i64 = self.pool.read(mark).await?;
        marked_by(&self.pool, self.grown(), txid, before, deadline).await
    }

    /// Runs statements in a session.
    async fn run_in(
        &self,
        user_session: UserSession,
        statements: &Statements,
        before: Position,
    ) -> Result<SqlAnswer, SqlError> {
        let limit = Duration::from_millis(statements.limits.timeout_ms) + GRACE;
        let client = &user_session.session.client;
        let done = match tokio::time::timeout(limit, transact(client, statements)).await {
            Ok(done) => done,
            Err(_) => {
                user_session.cancel();
                return Err(errors::timeout(statements.limits.timeout_ms));
            }
        };
        match done {
            Ok(Committed { answer, txid, stained }) => {
                if !stained {
                    self.user_sessions.give_back(user_session);
                }
                let offset = match txid {
                    None => Some(before),
                    Some(txid) => marked(&self.pool, self.grown(), txid, before).await?,
                };
                Ok(SqlAnswer { offset, ..answer })
            }
            Err(RolledBack { error, overflows }) => {
                if overflows {
                    // The rest of its rows is on the way, or yet to be made.
                    user_session.cancel();
                } else if errors::is_of_session(&error) {
                    drop(user_session);
                } else if client.batch_execute("ROLLBACK").await.is_ok() {
                    // Rolling back does not forget it, if it came to be.
                    if !statements.params.is_empty() {
                        let _ = client.batch_execute(&format!("DEALLOCATE {PREPARED}")).await;
                    }
                    self.user_sessions.give_back(user_session);
                }
                Err(error)
            }
        }
    }
}

/// Waits for the mark of a transaction that wrote something, in what comes into the log after a position.
pub(super) async fn marked(
    pool: &Pool,
    grown: watch::Receiver<u64>,
    txid: i64,
    after: Position,
) -> Result<Option<Position>, StoreError> {
    match txid {
        NO_MARK => Ok(None),
        txid => marked_by(pool, grown, txid, after, Instant::now() + MARK_WAIT).await,
    }
}

async fn marked_by(
    pool: &Pool,
    mut grown: watch::Receiver<u64>,
    txid: i64,
    after: Position,
    deadline: Instant,
) -> Result<Option<Position>, StoreError> {
    let mut searched = after;
    loop {
        grown.borrow_and_update();
        let found = pool.read(|client| find_mark(client, txid, searched)).await;
        match found {
            Ok((Some(mark), _)) => return Ok(Some(mark)),
            Ok((None, tip)) => searched = tip,
            // The write is committed: it is not said to have failed because this did.
            Err(error) if error.temporary() => {}
            Err(error) => return Err(error),
        }
        let wait = tokio::time::timeout(MARK_POLL, grown.changed());
        if tokio::time::timeout_at(deadline, wait).await.is_err() {
            return Ok(None);
        }
    }
}

/// Looks for a mark in what the log has past a position, and says how far that is.
async fn find_mark(
    client: PooledConnection,
    txid: i64,
    after: Position,
) -> Result<(Option<Position>, Position), StoreError> {
    let tip = load::tip(&client).await?;
    let number = |position: Position| i64::try_from(position.number()).unwrap_or(i64::MAX);
    let rows = query(&client, sql!("find_mark"), &[&number(after), &number(tip), &txid]).await;
    let rows = rows.map_err(broken("look for a mark"))?;
    let offset = rows.first().map(|row| row.try_get::<_, i64>(0)).transpose();
    let offset = offset.map_err(broken("look for a mark"))?;
    let mark = offset.and_then(|offset| u64::try_from(offset).ok()).map(Position::new);
    Ok((mark, tip))
}

/// A transaction that is committed.
struct Committed {
    answer: SqlAnswer,
    /// Of a transaction that wrote something: that of the mark after it.
    txid: Option<i64>,
    /// The session cannot be used again.
    stained: bool,
}

/// A transaction that is to be undone.
struct RolledBack {
    error: SqlError,
    /// There is more of its result than may be.
    overflows: bool,
}

impl RolledBack {
    /// Says which statement it was, where there are several.
    fn of_statement(self, number: usize, count: usize) -> RolledBack {
        match self.error {
            SqlError::Wrong(mut problem) if count > 1 => {
                problem.message = format!("statement {number}: {}", problem.message);
                RolledBack { error: SqlError::Wrong(problem), ..self }
            }
            error => RolledBack { error, ..self },
        }
    }
}

impl<E: Into<SqlError>> From<E> for RolledBack {
    fn from(error: E) -> RolledBack {
        RolledBack { error: error.into(), overflows: false }
    }
}

/// Runs all statements, and commits.
async fn transact(client: &Client, statements: &Statements) -> Result<Committed, RolledBack> {
    let Statements { sql, params, actor, limits } = statements;
    let script = checked(sql, !params.is_empty())?;
    begin(client, actor, limits).await?;
    let mut answer = SqlAnswer::default();
    for (index, statement) in script.iter().enumerate() {
        let ran = run(client, statement, PREPARED, params, limits).await;
        answer = ran.map_err(|failed| failed.of_statement(index + 1, script.len()))?;
    }
    let txid = commit(client).await?;
    Ok(Committed { answer, txid, stained: script.iter().any(Statement::stains) })
}

/// By which our savepoints in a transaction of users' are known.
pub(super) const SAVEPOINT: &str = "tidewire_key";

/// Runs one text of SQL in a transaction that is open and stays so.
pub(super) async fn one(
    client: &Client,
    sql: &str,
    params: &[Box<RawValue>],
    limits: &SqlLimits,
) -> Result<SqlAnswer, SqlError> {
    let script = checked(sql, !params.is_empty())?;
    if let Some(ours) = script.iter().find(|statement| statement.is_about_savepoint(SAVEPOINT)) {
        let message = format!("the savepoint {SAVEPOINT} is not the handler's");
        let hint = "give yours another name";
        return Err(refused("sql_refused", message, Some(ours.offset + 1), hint));
    }
    // One that failed stays in its session, as a transaction that failed cannot forget it: so each has its own name.
    let name = format!("{PREPARED}_{}", ONES.fetch_add(1, Ordering::Relaxed));
    let mut answer = SqlAnswer::default();
    for (index, statement) in script.iter().enumerate() {
        let ran = run(client, statement, &name, params, limits).await;
        let ran = ran.map_err(|failed| failed.of_statement(index + 1, script.len()));
        answer = ran.map_err(|failed| failed.error)?;
    }
    Ok(answer)
}

/// The same in a session that is used for the same texts again and again: one that gives no rows and has
/// parameters is prepared once, and is one round trip from then on.
pub(super) async fn one_again(
    client: &ClientWrapper,
    sql: &str,
    params: &[Box<RawValue>],
    limits: &SqlLimits,
) -> Result<SqlAnswer, SqlError> {
    if params.is_empty() {
        return one(client, sql, params, limits).await;
    }
    let script = checked(sql, true)?;
    let Some(statement) = script.first() else { return one(client, sql, params, limits).await };
    let place = StatementLocation::In { offset: statement.offset, before: 0 };
    let prepared = client.prepare_cached(statement.text).await;
    let prepared = prepared.map_err(|error| problem(&error, place))?;
    if !prepared.columns().is_empty() {
        return one(client, sql, params, limits).await;
    }
    let answer = without_rows(client, &prepared, params, place).await;
    if answer.is_err() {
        // It may be that what it was prepared for is not there any more.
        client.statement_cache.remove(statement.text, &[]);
    }
    answer
}

/// Runs a prepared statement that has parameters and gives no rows, so that there are no types to say how to
/// write.
async fn without_rows(
    client: &Client,
    prepared: &Prepared,
    params: &[Box<RawValue>],
    place: StatementLocation,
) -> Result<SqlAnswer, SqlError> {
    let values = values(params, prepared.params(), parameter::sent)?;
    let row_count = client.execute_raw(prepared, values).await;
    let row_count = row_count
        .map_err(|error| parameter::blame(problem(&error, place), params, prepared.params()))?;
    Ok(SqlAnswer { row_count, ..SqlAnswer::default() })
}

/// Whether a text of SQL may leave something in its session that cannot be cleared away.
pub(super) fn stains(sql: &str) -> bool {
    script::statements(sql).iter().any(Statement::stains)
}

/// An error of the server about a statement that is not in any text.
pub(super) fn wrong(error: &tokio_postgres::Error) -> SqlError {
    problem(error, StatementLocation::Nowhere)
}

/// The statements, if they can be run.
fn checked(sql: &str, with_params: bool) -> Result<Vec<Statement<'_>>, SqlError> {
    if let Some(at) = sql.find('\0') {
        let position = sql[..at].chars().count() + 1;
        return Err(SqlError::Wrong(Box::new(SqlProblem {
            code: "sql_syntax",
            message: "SQL has no character of code 0".to_owned(),
            position: Some(position),
            hint: Some("take it out".to_owned()),
        })));
    }
    let script = script::statements(sql);
    if script.is_empty() {
        return Err(refused("sql_syntax", "there is no statement", None, "write one"));
    }
    if with_params && script.len() > 1 {
        let second = script[1].offset + 1;
        return Err(refused(
            "sql_params",
            "only a single statement can have parameters",
            Some(second),
            "send the statements one by one, or write the values into them",
        ));
    }
    for statement in &script {
        if let Some((message, hint)) = statement.refusal() {
            return Err(refused("sql_refused", message, Some(statement.offset + 1), hint));
        }
    }
    Ok(script)
}

/// Begins the transaction, in the name of whoever asked.
pub(super) async fn begin(
    client: &Client,
    actor: &Actor,
    limits: &SqlLimits,
) -> Result<(), SqlError> {
    let quoted = |name: &Option<String>| match name {
        Some(name) => parameter::quote(name),
        None => Ok("NULL".to_owned()),
    };
    let names = quoted(&actor.user_id).and_then(|user| Ok((user, quoted(&actor.host_id)?)));
    let (user, host) = names.map_err(|why| {
        refused("sql_refused", format!("the caller's name cannot be used: {why}"), None, "")
    })?;
    let named = actor.user_id.is_some() || actor.host_id.is_some();
    let act =
        if named { format!("SELECT tidewire.set_actor({user}, {host});") } else { String::new() };
    let timeout_ms = limits.timeout_ms.max(1);
    let begin = format!("BEGIN; SET LOCAL statement_timeout = {timeout_ms}; {act}");
    client.batch_execute(&begin).await.map_err(|error| problem(&error, StatementLocation::Nowhere))
}

/// What a statement's parameters are, each as its type wants it.
fn values<T>(
    params: &[Box<RawValue>],
    wanted: &[Type],
    convert: impl Fn(&RawValue, &Type) -> Result<T, String>,
) -> Result<Vec<T>, SqlError> {
    if wanted.len() != params.len() {
        let message =
            format!("the statement has {} parameters, {} are given", wanted.len(), params.len());
        let hint = "params has a value for each of $1, $2 and so on";
        return Err(refused("sql_params", message, None, hint));
    }
    let value = |(index, (value, kind)): (usize, (&RawValue, &Type))| {
        convert(value, kind).map_err(|why| {
            let (number, what) = (index + 1, parameter::shown(value));
            let message = format!("${number} is {what}, which cannot be used: {why}");
            refused("sql_params", message, None, "send another value")
        })
    };
    params.iter().map(|value| &**value).zip(wanted).enumerate().map(value).collect()
}

/// Runs one statement, known by this name while it runs if it has parameters and gives rows.
async fn run(
    client: &Client,
    statement: &Statement<'_>,
    name: &str,
    params: &[Box<RawValue>],
    limits: &SqlLimits,
) -> Result<SqlAnswer, RolledBack> {
    let place = StatementLocation::In { offset: statement.offset, before: 0 };
    let prepared = client.prepare(statement.text).await;
    let prepared = prepared
        .map_err(|error| parameter::written(problem(&error, place), statement.text, params))?;
    let is_named = !params.is_empty();
    if is_named && prepared.columns().is_empty() {
        return Ok(without_rows(client, &prepared, params, place).await?);
    }
    let literals = values(params, prepared.params(), parameter::literal)?;
    let execute = if is_named {
        let prefix = format!("PREPARE {name} AS ");
        let place =
            StatementLocation::In { offset: statement.offset, before: prefix.chars().count() };
        let named = client.batch_execute(&format!("{prefix}{}", statement.text)).await;
        named.map_err(|error| problem(&error, place))?;
        format!("EXECUTE {name}({})", literals.join(", "))
    } else {
        statement.text.to_owned()
    };
    let place = if is_named { StatementLocation::Nowhere } else { place };
    let failed = |error| parameter::blame(problem(&error, place), params, prepared.params());
    let columns = prepared.columns();
    let mut answer = SqlAnswer {
        columns: columns
            .iter()
            .map(|column| SqlColumn {
                name: column.name().to_owned(),
                type_name: value::type_name(column.type_()),
            })
            .collect(),
        ..SqlAnswer::default()
    };
    let messages = client.simple_query_raw(&execute).await;
    let messages = messages.map_err(failed)?;
    let nowhere = |error| problem(&error, StatementLocation::Nowhere);
    let look = match columns.is_empty() {
        true => None,
        false => Some(form::look(client).await.map_err(nowhere)?),
    };
    pin_mut!(messages);
    let (mut bytes, mut is_readable) = (0, true);
    // Texts of the columns that the database is asked to write.
    let mut asked: Vec<Option<Vec<Option<String>>>> =
        columns.iter().map(|column| written::is_written(column.type_()).then(Vec::new)).collect();
    while let Some(message) = messages.next().await {
        match message.map_err(failed)? {
            SimpleQueryMessage::Row(row) => {
                let mut values = Vec::with_capacity(columns.len());
                for (index, column) in columns.iter().enumerate() {
                    let text = row.try_get(index).unwrap_or_else(|_| {
                        is_readable = false;
                        None
                    });
                    if let Some(texts) = &mut asked[index] {
                        texts.push(text.map(ToOwned::to_owned));
                    }
                    let json = value::to_json(text, column.type_());
                    bytes += json.len();
                    values.push(raw(json)?);
                }
                answer.rows.push(values);
                errors::within(answer.rows.len(), bytes, limits)
                    .map_err(|error| RolledBack { error, overflows: true })?;
            }
            SimpleQueryMessage::CommandComplete(count) => answer.row_count = count,
            _ => {}
        }
    }
    if let Some(look) = look {
        answer.row_count = answer.rows.len() as u64;
        let kinds = columns.iter().map(|column| column.type_());
        if let Some(refusal) = look.refuse_other_forms(kinds).await.map_err(nowhere)? {
            return Err(refusal.into());
        }
    }
    if !is_readable {
        let hint = "leave client_encoding as it is";
        return Err(refused("sql_refused", "a value is not UTF-8", None, hint).into());
    }
    for (index, texts) in asked.into_iter().enumerate() {
        let Some(texts) = texts.filter(|texts| !texts.is_empty()) else { continue };
        let written = written::written(client, columns[index].type_(), &texts).await?;
        for (row, json) in answer.rows.iter_mut().zip(written.unwrap_or_default()) {
            if let Some(json) = json {
                row[index] = raw(json)?;
            }
        }
    }
    if is_named {
        let forget = client.batch_execute(&format!("DEALLOCATE {name}")).await;
        forget.map_err(|error| problem(&error, StatementLocation::Nowhere))?;
    }
    Ok(answer)
}

fn raw(json: String) -> Result<Box<RawValue>, StoreError> {
    RawValue::from_string(json).map_err(|error| StoreError::Broken {
        operation: "write a value as JSON",
        reason: error.to_string(),
    })
}

/// Commits, and sets a mark if anything was written. The mark has a transaction of its own, so that the
/// last change of the caller's is the last event of theirs.
pub(super) async fn commit(client: &Client) -> Result<Option<i64>, SqlError> {
    let commit = "SELECT pg_catalog.pg_current_xact_id_if_assigned(); COMMIT";
    let committed =
        client.simple_query(commit).await.map_err(|error| match error.as_db_error() {
            // A constraint that is checked at the end, for one.
            Some(_) => problem(&error, StatementLocation::Nowhere),
            None => SqlError::Store(broken_commit(true, &error)),
        })?;
    if number(&committed).is_none() {
        return Ok(None);
    }
    match client.simple_query(sql!("mark")).await {
        Ok(marked) => Ok(Some(number(&marked).unwrap_or(NO_MARK))),
        Err(error) => {
            // What was asked for is done, and is not said to have failed because this did.
            tracing::warn!(error = text(&error), "no mark could be set after a write");
            Ok(Some(NO_MARK))
        }
    }
}

/// The number in the first row of an answer, if it is not NULL.
fn number(messages: &[SimpleQueryMessage]) -> Option<i64> {
    messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
        _ => None,
    })
}
