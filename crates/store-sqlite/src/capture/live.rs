//! What live queries read: the shapes of tables, and rows with the log's end of the same snapshot.
//!
//! A query runs on a reader's connection with the guard in its narrowest mode. What it gives is told to
//! those who may not see the rest of a table, so that of errors while rows are read only a number is said:
//! the text may have a value of a row in it.

use std::time::{Duration, Instant};

use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::limits::Limit;
use rusqlite::{Batch, Connection, Error, ErrorCode, Statement};
use serde_json::value::RawValue;

use super::allowed;
use super::functions::TOO_LONG;
use super::guard::{Guard, Readable, Stopped};
use super::problem::wrong;
use super::table::{self, Named, Table, Watched};
use super::{image, watched};
use crate::error::broken;
use crate::load;
use crate::memory::{Budget, MemoryRefused};
use tidewire_store::error::StoreError;
use tidewire_store::queries::{
    CheckedQuery, LiveRead, LiveRows, ShapeColumnView, ShapeView, TableRef, WatchedShape,
};
use tidewire_store::sql::{SqlColumn, SqlError, SqlLimits, SqlProblem};
use tidewire_store::watch::ColumnView;

/// The only database that there is.
const MAIN: &str = "main";

const LOOK: &str = "look at the tables of a query";

/// However small a result may be, a value on the way to it may have so many bytes: rows have values that
/// are only looked at.
const VALUE_BYTES_MIN: usize = 1 << 20;

/// The memory that SQLite may take for one read, in values as large as they may be, and in any case. What it
/// keeps of pages and what it sorts before it writes it to a file are some of it.
const VALUES_HELD_MAX: usize = 8;
const MEMORY_BYTES_MIN: usize = 64 << 20;

/// What names stand for.
pub(crate) fn shapes(
    connection: &mut Connection,
    tables: &[TableRef],
) -> Result<Vec<ShapeView>, StoreError> {
    let snapshot = connection.transaction().map_err(broken("begin a read"))?;
    // The schema that SQLite remembers is as new as the snapshot once something was read in it.
    load::tip(&snapshot)?;
    let read = || -> rusqlite::Result<Vec<ShapeView>> {
        let stored = watched::stored(&snapshot)?;
        tables.iter().map(|table| shape_of(&snapshot, &stored, table)).collect()
    };
    read().map_err(broken(LOOK))
}

fn shape_of(
    connection: &Connection,
    stored: &[Watched],
    asked: &TableRef,
) -> rusqlite::Result<ShapeView> {
    let elsewhere = asked.schema.as_ref().is_some_and(|name| !name.eq_ignore_ascii_case(MAIN));
    if elsewhere || allowed::is_own(&asked.name) {
        return Ok(ShapeView::Unknown);
    }
    let Some(Named::Table(table)) = table::find(connection, &asked.name)? else {
        return Ok(ShapeView::Unknown);
    };
    match stored.iter().find(|known| known.table.name.eq_ignore_ascii_case(&table.name)) {
        Some(known) => Ok(ShapeView::Watched(Box::new(watched_shape(connection, known, &table)?))),
        None => Ok(ShapeView::NotWatched(table.event_name())),
    }
}

fn watched_shape(
    connection: &Connection,
    known: &Watched,
    table: &Table,
) -> rusqlite::Result<WatchedShape> {
    let shape = WatchedShape {
        name: known.name.clone(),
        sql_name: format!("\"main\".{}", table::quoted(&table.name)),
        columns: columns(connection, &table.name)?,
        key_columns: known.key_columns.clone(),
        host_column: known.host_column.clone(),
        fingerprint: 0,
        row_security: false,
        inherited: false,
    };
    Ok(shape.sealed(table.root_page))
}

/// All columns, generated ones too.
fn columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<ShapeColumnView>> {
    /// How SQLite marks a hidden column of a virtual table; generated ones have other numbers.
    const HIDDEN: i64 = 1;
    table::columns_by(connection, table, |row| {
        let name: String = row.get("name")?;
        let hidden: i64 = row.get("hidden")?;
        if hidden == HIDDEN {
            return Ok(None);
        }
        let (_, collation, ..) = connection.column_metadata(Some(MAIN), table, name.as_str())?;
        let collation = collation.map(|name| name.to_string_lossy().into_owned());
        Ok(Some(ShapeColumnView {
            column: ColumnView { name, type_name: row.get("type")?, collation },
            generated: hidden != 0,
            scale: None,
            json_text: false,
        }))
    })
}

/// Looks at a query without running it.
pub(crate) fn check(
    connection: &mut Connection,
    guard: &Guard,
    read: &LiveRead,
) -> Result<CheckedQuery, SqlError> {
    let snapshot = connection.transaction().map_err(broken("begin a read"))?;
    load::tip(&snapshot)?;
    let armed = LiveGuardArmed::new(guard, &snapshot, read)?;
    let mut batch = Batch::new(&snapshot, &read.sql);
    let statement = prepared(&mut batch, &armed, read)?;
    Ok(CheckedQuery { columns: columns_of(&statement), cost: None })
}

/// Runs a query in a snapshot of its own.
pub(crate) fn read(
    connection: &mut Connection,
    guard: &Guard,
    read: &LiveRead,
) -> Result<LiveRows, SqlError> {
    let snapshot = connection.transaction().map_err(broken("begin a read"))?;
    // The first read begins the snapshot, so the tip is that of what the query sees.
    let tip = load::tip(&snapshot)?;
    let armed = LiveGuardArmed::new(guard, &snapshot, read)?;
    let mut batch = Batch::new(&snapshot, &read.sql);
    let mut statement = prepared(&mut batch, &armed, read)?;
    let columns = columns_of(&statement);
    let rows = rows(&mut statement, columns.len(), &armed, &read.limits)?;
    Ok(LiveRows { columns, rows, tip, snapshot: None, settled: true })
}

/// Disarms the guard, however the work ends.
struct LiveGuardArmed<'a> {
    guard: &'a Guard,
    _values: ValueLimit<'a>,
    memory: Budget,
}

impl<'a> LiveGuardArmed<'a> {
    /// Refuses if one of the tables is not as it was when the query was made.
    fn new(
        guard: &'a Guard,
        connection: &'a Connection,
        read: &LiveRead,
    ) -> Result<LiveGuardArmed<'a>, SqlError> {
        let tables = tables(connection, &read.tables).map_err(broken(LOOK))?;
        let tables = tables.ok_or_else(shape_changed)?;
        let others = table::all_names(connection).map_err(broken(LOOK))?;
        let values = ValueLimit::set(connection, value_bytes_max(&read.limits));
        let values = values.map_err(broken("limit the values of a query"))?;
        let timeout = Duration::from_millis(read.limits.timeout_ms);
        guard.arm_live(Readable { tables, others }, timeout);
        let deadline = Instant::now().checked_add(timeout);
        let memory = Budget::new(memory_bytes_max(&read.limits), deadline);
        Ok(LiveGuardArmed { guard, _values: values, memory })
    }

    /// What it was that ended a statement, if it was a limit.
    fn stopped(&self) -> Option<LimitReached> {
        match (self.guard.stopped(), self.memory.refused()) {
            (Some(Stopped::TimeUp), _) | (_, Some(MemoryRefused::TimeUp)) => {
                Some(LimitReached::TimeUp)
            }
            (_, Some(MemoryRefused::TooMuch)) => Some(LimitReached::TooMuch),
            _ => None,
        }
    }
}

/// A limit that a statement came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LimitReached {
    TimeUp,
    TooMuch,
}

impl Drop for LiveGuardArmed<'_> {
    fn drop(&mut self) {
        self.guard.disarm();
    }
}

/// So many bytes a value may have while a query is read.
fn value_bytes_max(limits: &SqlLimits) -> usize {
    limits.bytes_max.max(VALUE_BYTES_MIN)
}

/// So many bytes SQLite may take for a query.
fn memory_bytes_max(limits: &SqlLimits) -> usize {
    value_bytes_max(limits).saturating_mul(VALUES_HELD_MAX).max(MEMORY_BYTES_MIN)
}

/// Bounds what one value may have, until it is dropped: a few words can make one that fills the memory,
/// and what a result has is seen only when a row of it is whole.
struct ValueLimit<'a> {
    connection: &'a Connection,
    before: i32,
}

impl<'a> ValueLimit<'a> {
    fn set(connection: &'a Connection, bytes_max: usize) -> rusqlite::Result<ValueLimit<'a>> {
        let bytes_max = i32::try_from(bytes_max).unwrap_or(i32::MAX);
        let before = connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, bytes_max)?;
        Ok(ValueLimit { connection, before })
    }
}

impl Drop for ValueLimit<'_> {
    fn drop(&mut self) {
        // SQLite refuses only a limit that it does not know, and it has said what this one was.
        let _ = self.connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, self.before);
    }
}

/// The tables' own names, if all are as they were.
fn tables(
    connection: &Connection,
    expected: &[(String, u64)],
) -> rusqlite::Result<Option<Vec<String>>> {
    let stored = watched::stored(connection)?;
    let mut names = Vec::with_capacity(expected.len());
    for (name, fingerprint) in expected {
        let Some(known) = stored.iter().find(|known| known.name == *name) else { return Ok(None) };
        let Some(Named::Table(table)) = table::find(connection, &known.table.name)? else {
            return Ok(None);
        };
        if watched_shape(connection, known, &table)?.fingerprint != *fingerprint {
            return Ok(None);
        }
        names.push(table.name);
    }
    Ok(Some(names))
}

fn shape_changed() -> SqlError {
    let message = "a table that the query reads has changed";
    wrong("shape_changed", message, "subscribe again".to_owned())
}

/// The text's only statement.
fn prepared<'c>(
    batch: &mut Batch<'c, '_>,
    armed: &LiveGuardArmed<'_>,
    read: &LiveRead,
) -> Result<Statement<'c>, SqlError> {
    let one = || wrong("sql_refused", "a live query is one SELECT", None);
    if read.sql.contains('\0') {
        return Err(one());
    }
    let prepared = batch.next().map_err(|error| explain(&error, armed, read))?;
    let statement =
        prepared.filter(|statement| statement.readonly() && statement.column_count() > 0);
    let statement = statement.ok_or_else(one)?;
    match batch.next() {
        Ok(None) => Ok(statement),
        _ => Err(one()),
    }
}

fn columns_of(statement: &Statement<'_>) -> Vec<SqlColumn> {
    let column = |column: rusqlite::Column<'_>| SqlColumn {
        name: column.name().to_owned(),
        type_name: column.decl_type().unwrap_or_default().to_owned(),
    };
    statement.columns().map(column).collect()
}

fn rows(
    statement: &mut Statement<'_>,
    width: usize,
    armed: &LiveGuardArmed<'_>,
    limits: &SqlLimits,
) -> Result<Vec<Vec<Box<RawValue>>>, SqlError> {
    let (mut kept, mut bytes) = (Vec::new(), 0);
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next().map_err(|error| failed(&error, armed, limits))? {
        if kept.len() == limits.rows_max {
            return Err(too_large(format!("the result has more than {} rows", limits.rows_max)));
        }
        let mut values = Vec::with_capacity(width);
        for place in 0..width {
            let value = row.get_ref(place).map_err(|error| failed(&error, armed, limits))?;
            let mut json = String::new();
            image::push_value(&mut json, value, false);
            bytes += json.len();
            // Not once a row: it may have many columns.
            if bytes > limits.bytes_max {
                let message = format!("the result has more than {} bytes", limits.bytes_max);
                return Err(too_large(message));
            }
            values.push(RawValue::from_string(json).map_err(|_| not_json())?);
        }
        kept.push(values);
    }
    Ok(kept)
}

fn too_large(message: String) -> SqlError {
    let hint = "ask for less, with WHERE or LIMIT";
    wrong("result_too_large", message, hint.to_owned())
}

fn not_json() -> SqlError {
    wrong("query_failed", "a value of the result cannot be written as JSON", None)
}

/// Why a query cannot be run, before a row of it was read.
fn explain(error: &Error, armed: &LiveGuardArmed<'_>, read: &LiveRead) -> SqlError {
    if armed.guard.denial().is_none()
        && armed.stopped().is_none()
        && let Error::SqlInputError { msg, sql, offset, .. } = error
    {
        let at = usize::try_from(*offset).unwrap_or(0) + read.sql.len().saturating_sub(sql.len());
        let position = read.sql.get(..at).map(|before| before.chars().count() + 1);
        let (code, message) = ("sql_syntax", msg.clone());
        return SqlError::Wrong(Box::new(SqlProblem { code, message, position, hint: None }));
    }
    failed(error, armed, &read.limits)
}

/// What may be said of an error that rows may have made.
fn failed(error: &Error, armed: &LiveGuardArmed<'_>, limits: &SqlLimits) -> SqlError {
    if let Some(denial) = armed.guard.denial() {
        return wrong("sql_refused", denial.message, denial.hint.to_owned());
    }
    let stopped = armed.stopped();
    if stopped == Some(LimitReached::TimeUp) {
        let hint = "ask for less, or add an index; the limit is the server's queries.timeout_ms";
        let message = format!("it took longer than {} ms", limits.timeout_ms);
        return wrong("query_too_slow", message, hint.to_owned());
    }
    if stopped == Some(LimitReached::TooMuch) {
        let message = format!("it takes more than {} bytes of memory", memory_bytes_max(limits));
        return wrong("result_too_large", message, "compute with smaller values".to_owned());
    }
    if matches!(error, Error::SqliteFailure(_, Some(said)) if said == TOO_LONG) {
        let message = "a computed text that is searched, or what it is searched for, is too long: \
                       1,048,576 characters, or 256 of a pattern";
        let hint = "search columns as they are stored, and for something shorter";
        return wrong("predicate_too_large", message, hint.to_owned());
    }
    if error.sqlite_error_code() == Some(ErrorCode::TooBig) {
        return too_large(format!("a value has more than {} bytes", value_bytes_max(limits)));
    }
    let code = error.sqlite_error().map_or(0, |error| error.extended_code);
    if let Some(failure) = broken_file(error) {
        return failure.into();
    }
    let hint = "the rest of what the database says may tell of rows that you may not see; whoever may \
                run SQL finds out more by running it";
    wrong(
        "query_failed",
        format!("the database gave it up (SQLite's error {code})"),
        hint.to_owned(),
    )
}

/// An error that is not the query's, but the file's.
fn broken_file(error: &Error) -> Option<StoreError> {
    use ErrorCode::{
        CannotOpen, DatabaseBusy, DatabaseCorrupt, DatabaseLocked, DiskFull, NotADatabase,
        SystemIoFailure,
    };
    let reason = error.to_string();
    match error.sqlite_error_code()? {
        DiskFull => Some(StoreError::Full(reason)),
        SystemIoFailure | DatabaseBusy | DatabaseLocked | CannotOpen => {
            Some(StoreError::Unavailable(reason))
        }
        DatabaseCorrupt | NotADatabase => {
            Some(StoreError::Broken { operation: "read for a live query", reason })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_values_ends_with_the_read() {
        let connection = Connection::open_in_memory().expect("a database in memory");
        let limit = || connection.limit(Limit::SQLITE_LIMIT_LENGTH).expect("a limit");
        let before = limit();
        let values = ValueLimit::set(&connection, VALUE_BYTES_MIN).expect("a limit can be set");
        assert_eq!(limit(), 1 << 20);
        drop(values);
        assert_eq!(limit(), before);
    }
}
