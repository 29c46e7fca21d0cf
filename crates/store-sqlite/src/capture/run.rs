//! Running the user's statements on a connection whose guard is armed: one after the other, each
//! prepared only when those before it have run, because it may need what they made.

use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::types::Value;
use rusqlite::{Batch, Connection, Statement};
use serde_json::value::RawValue;

use super::guard::Guard;
use super::image;
use super::problem::{Failed, too_large, wrong};
use super::system::{self, LIVE_QUERY_VIEW};
use tidewire_store::sql::{SqlAnswer, SqlColumn, SqlError, SqlLimits, SqlProblem, Statements};

/// Runs all statements, and calls `after` when one is done. Gives the answer of the last, without a
/// place in the log.
pub(crate) fn run(
    connection: &Connection,
    guard: &Guard,
    statements: &Statements,
    mut after: impl FnMut() -> Result<(), SqlError>,
) -> Result<SqlAnswer, SqlError> {
    let Statements { sql, params, limits, .. } = statements;
    readable(sql)?;
    let mut batch = Batch::new(connection, sql);
    let mut last = None;
    for number in 1.. {
        let failed = Failed { connection, guard, limits, sql, number };
        let Some(mut statement) = prepared(&mut batch, &failed)? else { break };
        if number > 1 && !params.is_empty() {
            let hint = "send them one by one, or write the values into the text";
            let message = "only a single statement can have parameters";
            return Err(wrong("sql_params", message, hint.to_owned()));
        }
        bind(&mut statement, params).map_err(|error| failed.numbered(error))?;
        last = Some(step(&mut statement, connection, limits, &failed)?);
        drop(statement);
        // It may have come to its end before the progress handler looked.
        if guard.look() {
            return Err(failed.stopped());
        }
        after()?;
    }
    match last {
        Some(StatementResult::Whole(answer)) => Ok(answer),
        Some(StatementResult::TooLarge(what)) => Err(too_large(&what)),
        None => Err(wrong("sql_syntax", "there is no statement in the text", None)),
    }
}

/// Whether all statements only read, so that they can be run beside the writer. Prepares them without
/// running any: before the first that writes, none can need what another made.
pub(crate) fn only_read(
    connection: &Connection,
    guard: &Guard,
    statements: &Statements,
) -> Result<bool, SqlError> {
    let Statements { sql, limits, .. } = statements;
    readable(sql)?;
    let mut batch = Batch::new(connection, sql);
    for number in 1.. {
        let failed = Failed { connection, guard, limits, sql, number };
        match prepared(&mut batch, &failed)? {
            None => break,
            Some(statement) if !statement.readonly() || guard.publishes() => return Ok(false),
            Some(_) => {}
        }
    }
    Ok(true)
}

/// The next statement of the text, if it may be run.
fn prepared<'c>(
    batch: &mut Batch<'c, '_>,
    failed: &Failed<'_>,
) -> Result<Option<Statement<'c>>, SqlError> {
    failed.guard.next_statement();
    let next = batch.next().map_err(|error| failed.explain(error))?;
    match failed.guard.refusal() {
        None => Ok(next),
        Some(denial) => Err(failed.refused(denial)),
    }
}

/// Refuses texts that would not be understood as they look. SQLite would end at a zero byte, and leave what
/// follows unread.
fn readable(sql: &str) -> Result<(), SqlError> {
    if system::takes_the_views_name(sql) {
        let message = format!("{LIVE_QUERY_VIEW} is reserved for Tidewire");
        let hint = "give what WITH or WINDOW names another name";
        return Err(wrong("sql_refused", message, hint.to_owned()));
    }
    let Some(before) = sql.find('\0').and_then(|at| sql.get(..at)) else { return Ok(()) };
    Err(SqlError::Wrong(Box::new(SqlProblem {
        code: "sql_syntax",
        message: "there is a zero byte in the text".to_owned(),
        position: Some(before.chars().count() + 1),
        hint: None,
    })))
}

/// What came of one statement. Only the last one's rows come back, so only there they can be too many.
enum StatementResult {
    Whole(SqlAnswer),
    TooLarge(String),
}

fn step(
    statement: &mut Statement<'_>,
    connection: &Connection,
    limits: &SqlLimits,
    failed: &Failed<'_>,
) -> Result<StatementResult, SqlError> {
    let columns: Vec<SqlColumn> = statement
        .columns()
        .map(|column| SqlColumn {
            name: column.name().to_owned(),
            type_name: column.decl_type().unwrap_or_default().to_owned(),
        })
        .collect();
    let changed_before = connection.total_changes();
    let (mut kept, mut bytes, mut too_large) = (Vec::new(), 0, None);
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next().map_err(|error| failed.explain(error))? {
        if too_large.is_some() {
            continue;
        }
        let mut values = Vec::with_capacity(columns.len());
        for place in 0..columns.len() {
            let value = row.get_ref(place).map_err(|error| failed.explain(error))?;
            let mut json = String::new();
            image::push_value(&mut json, value, false);
            bytes += json.len();
            let raw = RawValue::from_string(json);
            values.push(raw.map_err(|error| wrong("sql_failed", error.to_string(), None))?);
        }
        kept.push(values);
        if kept.len() > limits.rows_max {
            too_large = Some(format!("the result has more than {} rows", limits.rows_max));
        } else if bytes > limits.bytes_max {
            too_large = Some(format!("the result has more than {} bytes", limits.bytes_max));
        }
        if too_large.is_some() {
            kept = Vec::new();
        }
    }
    drop(rows);
    if let Some(what) = too_large {
        return Ok(StatementResult::TooLarge(what));
    }
    // SQLite keeps the count of an earlier statement where one changes no rows.
    let changed =
        if connection.total_changes() == changed_before { 0 } else { connection.changes() };
    let row_count = if columns.is_empty() { changed } else { kept.len() as u64 };
    Ok(StatementResult::Whole(SqlAnswer { columns, rows: kept, row_count, offset: None }))
}

/// Gives a statement its parameters: `?`, `?1` and `$1` alike.
fn bind(statement: &mut Statement<'_>, params: &[Box<RawValue>]) -> Result<(), SqlError> {
    let count = statement.parameter_count();
    let mut used = 0;
    for index in 1..=count {
        let place = match statement.parameter_name(index) {
            None => index,
            Some(name) => name[1..].parse::<usize>().map_err(|_| {
                let hint = "write $1, $2 and so on, or ?1, ?2, in the order of params";
                wrong("sql_params", format!("the parameter {name} has no number"), hint.to_owned())
            })?,
        };
        let value = place.checked_sub(1).and_then(|place| params.get(place)).ok_or_else(|| {
            let given = params.len();
            let message = format!("the statement has a parameter {place}, but {given} were given");
            wrong("sql_params", message, "give a value in params for each".to_owned())
        })?;
        used = used.max(place);
        let value = value_of(value.get())?;
        let bound = statement.raw_bind_parameter(index, value);
        bound.map_err(|error| wrong("sql_params", error.to_string(), None))?;
    }
    if used < params.len() {
        let message =
            format!("{} parameters were given, but the statement uses {used}", params.len());
        return Err(wrong("sql_params", message, None));
    }
    Ok(())
}

/// A JSON value as SQLite takes it. Arrays and objects are JSON as text, as its own functions have it.
fn value_of(json: &str) -> Result<Value, SqlError> {
    let not_json = |error: serde_json::Error| wrong("sql_params", error.to_string(), None);
    Ok(match json.trim_start().as_bytes().first() {
        Some(b'n') => Value::Null,
        Some(b't') => Value::Integer(1),
        Some(b'f') => Value::Integer(0),
        Some(b'"') => Value::Text(serde_json::from_str(json).map_err(not_json)?),
        Some(b'[' | b'{') | None => Value::Text(json.to_owned()),
        Some(_) if json.contains(['.', 'e', 'E']) => {
            Value::Real(serde_json::from_str(json).map_err(not_json)?)
        }
        Some(_) => Value::Integer(json.trim().parse().map_err(|_| {
            let hint = "SQLite's integers have 64 bits; give it as a string to keep its digits";
            wrong("sql_params", format!("{json} does not fit an integer"), hint.to_owned())
        })?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_keep_every_digit() {
        for (json, value) in [
            ("null", Value::Null),
            ("true", Value::Integer(1)),
            ("false", Value::Integer(0)),
            ("9223372036854775807", Value::Integer(i64::MAX)),
            ("-1", Value::Integer(-1)),
            ("0.1", Value::Real(0.1)),
            ("1e3", Value::Real(1000.0)),
            ("\"a\\n\"", Value::Text("a\n".to_owned())),
            ("[1]", Value::Text("[1]".to_owned())),
        ] {
            assert_eq!(value_of(json).expect(json), value);
        }
        value_of("9223372036854775808").expect_err("too large for SQLite");
    }
}
