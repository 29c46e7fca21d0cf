//! The watched tables, as the store keeps them, and how they come and go.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use rusqlite::{Connection, Row, Transaction, params};

use super::problem::wrong;
use super::table::{self, Column, Named, Table, Watched};
use super::{allowed, foreign, known, transaction};
use crate::error::broken;
use crate::sql;
use crate::writer::Writer;
use tidewire_store::command::{Actor, Answer, Command};
use tidewire_store::decide::{NewEvent, TransactionStep, json_stream};
use tidewire_store::error::StoreError;
use tidewire_store::offset::Position;
use tidewire_store::row::TABLE_PREFIX;
use tidewire_store::sql::SqlError;
use tidewire_store::watch::{ColumnView, NewWatch, TableView, WatchView, WatchedName};
use tidewire_suggest::nearest;

/// The watched tables with their columns as they are.
pub(crate) fn load(connection: &Connection) -> rusqlite::Result<Vec<Arc<Watched>>> {
    let stored = stored(connection)?;
    let mut all = Vec::with_capacity(stored.len());
    for mut watched in stored {
        if let Some(Named::Table(table)) = table::find(connection, &watched.table.name)? {
            watched.table = table;
        }
        all.push(Arc::new(watched));
    }
    Ok(all)
}

/// The watched tables as subscribers were last told of them. Where a table lies is not known.
pub(crate) fn stored(connection: &Connection) -> rusqlite::Result<Vec<Watched>> {
    let of_row = |row: &Row<'_>| {
        Ok(Watched {
            name: row.get(0)?,
            table: Table {
                name: row.get(1)?,
                root_page: 0,
                columns: columns(&row.get::<_, String>(6)?),
            },
            key_columns: strings(&row.get::<_, String>(2)?),
            key_given: row.get(11)?,
            entity_code: row.get(3)?,
            host_column: row.get(4)?,
            user_column: row.get(5)?,
        })
    };
    connection.prepare_cached(sql!("watches"))?.query_map([], of_row)?.collect()
}

fn strings(json: &str) -> Vec<String> {
    serde_json::from_str(json).unwrap_or_default()
}

/// Columns from a table's shape.
fn columns(shape: &str) -> Vec<Column> {
    let shape: Vec<BTreeMap<String, String>> = serde_json::from_str(shape).unwrap_or_default();
    let column = |(number, mut column): (usize, BTreeMap<String, String>)| Column {
        number,
        name: column.remove("name").unwrap_or_default(),
        type_name: column.remove("type").unwrap_or_default(),
        in_key: 0,
        real: false,
    };
    shape.into_iter().enumerate().map(column).collect()
}

/// How SQL calls what is watched. There is one schema for tables, and all are found without it.
pub(crate) fn names(connection: &Connection) -> Result<Vec<WatchedName>, StoreError> {
    let named = |watched: Watched| WatchedName {
        table: watched.name,
        schema: "main".to_owned(),
        name: watched.table.name,
        bare: true,
        ancestors: Vec::new(),
    };
    let stored = stored(connection).map_err(broken("list what is watched"))?;
    Ok(stored.into_iter().map(named).collect())
}

/// What is watched, for people.
pub(crate) fn list(connection: &Connection) -> Result<Vec<WatchView>, StoreError> {
    let of_row = |row: &Row<'_>| {
        Ok(WatchView {
            table: row.get(0)?,
            stream: row.get(10)?,
            key_columns: strings(&row.get::<_, String>(2)?),
            entity_code: row.get(3)?,
            host_column: row.get(4)?,
            user_column: row.get(5)?,
            created_at_ms: row.get(9)?,
            events: row.get(7)?,
            last: row.get::<_, Option<i64>>(8)?.map(Position::from_sql),
            waiting: 0,
            waiting_ms: 0,
            notes: Vec::new(),
        })
    };
    let read = || -> rusqlite::Result<Vec<WatchView>> {
        connection.prepare_cached(sql!("watches"))?.query_map([], of_row)?.collect()
    };
    read().map_err(broken("list watched tables"))
}

/// What a table is made of, by the name that its events have.
pub(crate) fn describe(connection: &Connection, name: &str) -> Result<TableView, StoreError> {
    let read = || -> rusqlite::Result<TableView> {
        let Some(watched) = stored(connection)?.into_iter().find(|known| known.name == name) else {
            let named = parse_name(name).ok().filter(|name| !allowed::is_own(name));
            let found = named.map(|name| table::find(connection, &name)).transpose()?.flatten();
            return Ok(found.map_or(TableView::Unknown, |_| TableView::NotWatched));
        };
        let Some(Named::Table(table)) = table::find(connection, &watched.table.name)? else {
            return Ok(TableView::Unknown);
        };
        let view = |column: &Column| {
            let (table, column_name) = (table.name.as_str(), column.name.as_str());
            let (_, collation, ..) =
                connection.column_metadata(Some("main"), table, column_name)?;
            Ok(ColumnView {
                name: column.name.clone(),
                type_name: column.type_name.clone(),
                collation: collation.map(|name| name.to_string_lossy().into_owned()),
            })
        };
        let columns = table.columns.iter().map(view).collect::<rusqlite::Result<_>>()?;
        let Watched { key_columns, host_column, .. } = watched;
        Ok(TableView::Watched { columns, key_columns, host_column })
    };
    read().map_err(broken("look at a table's columns"))
}

/// Keeps how a table is watched; `created_at_ms` only where it was not watched before.
pub(crate) fn save(
    transaction: &Transaction<'_>,
    watched: &Watched,
    created_at_ms: Option<i64>,
) -> rusqlite::Result<()> {
    transaction.prepare_cached(sql!("watch_save"))?.execute(params![
        watched.name,
        watched.stream(),
        watched.table.name,
        serde_json::json!(watched.key_columns).to_string(),
        watched.entity_code,
        watched.host_column,
        watched.user_column,
        watched.table.shape(),
        created_at_ms,
        watched.key_given,
    ])?;
    Ok(())
}

/// Watches a table no more.
pub(crate) fn remove(transaction: &Transaction<'_>, watched: &Watched) -> rusqlite::Result<()> {
    transaction.prepare_cached(sql!("watch_remove"))?.execute([&watched.name])?;
    known::forget(transaction, watched)
}

/// Counts the changes of tables among a transaction's events.
pub(crate) fn count(transaction: &Transaction<'_>, events: &[NewEvent]) -> rusqlite::Result<()> {
    let mut counts: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
    for event in events {
        if let Some(row) = &event.row {
            let (count, last) = counts.entry(&row.table).or_default();
            (*count, *last) = (*count + 1, event.position.to_sql());
        }
    }
    for (table, (count, last)) in counts {
        transaction.prepare_cached(sql!("watch_count"))?.execute((table, count, last))?;
    }
    Ok(())
}

/// Watches a table, or changes how it is watched.
pub(crate) fn watch(writer: &mut Writer, wanted: &NewWatch) -> Result<WatchView, SqlError> {
    let name = foreign::undisturbed(writer, |writer| watch_once(writer, wanted))?;
    let listed = list(writer.connection())?.into_iter().find(|view| view.table == name);
    listed.ok_or_else(|| {
        let reason = format!("{name} is not listed");
        StoreError::Broken { operation: "watch a table", reason }.into()
    })
}

/// Gives the name by which the table's events are called.
fn watch_once(writer: &mut Writer, wanted: &NewWatch) -> Result<String, SqlError> {
    let capture = writer.capture();
    let (name, _) = writer.commit(|transaction, streams, now_ms| {
        foreign::check(&capture, transaction)?;
        let failed = broken("watch a table");
        let all = capture.watched(transaction).map_err(&failed)?;
        let table = find(transaction, &wanted.table)?;
        let before = all.iter().find(|known| known.table.name == table.name);
        let watched = resolve(table, wanted, before.map(|known| known.name.as_str()))?;
        if before.is_none() && all.iter().any(|known| known.name == watched.name) {
            return Err(name_taken(&watched.name));
        }
        capture.forget();
        let created_at_ms = before.is_none().then_some(now_ms);
        save(transaction, &watched, created_at_ms).map_err(&failed)?;
        let create = Command::Create(Box::new(json_stream(&watched.stream(), Actor::default())));
        let mut steps = vec![TransactionStep::Command(create)];
        if let Some(what) = before.and_then(|before| before.watched_otherwise(&watched)) {
            let what = Bytes::from(serde_json::json!({ "what": what }).to_string());
            steps.push(TransactionStep::Schema { stream: watched.stream(), what });
        }
        let (plan, reached) = transaction::log(transaction, streams, steps, now_ms)?;
        if let Some(Answer::Refused(refusal)) = plan.answers.first() {
            let message = format!("the stream {} cannot be made: {refusal:?}", watched.stream());
            let hint = "delete the stream, and the forks of it, first";
            return Err(wrong("table_not_watchable", message, hint.to_owned()));
        }
        if before.is_none_or(|before| before.key_columns != watched.key_columns) {
            known::remember(transaction, &watched, reached).map_err(&failed)?;
        }
        Ok::<_, SqlError>((watched.name, plan))
    })?;
    Ok(name)
}

fn name_taken(name: &str) -> SqlError {
    let message =
        format!("the stream table/{name} is that of another table, which was called {name} before");
    wrong("table_not_watchable", message, "unwatch that table first".to_owned())
}

/// Stops watching a table and ends its stream; false if it was not watched.
pub(crate) fn unwatch(writer: &mut Writer, table: &str) -> Result<bool, SqlError> {
    let capture = writer.capture();
    let (found, _) = writer.commit(|transaction, streams, now_ms| {
        let failed = broken("unwatch a table");
        let all = capture.watched(transaction).map_err(&failed)?;
        let name = parse_name(table)?;
        let is_it = |known: &&Arc<Watched>| {
            known.name == table
                || known.table.name.eq_ignore_ascii_case(&name)
                || known.name.eq_ignore_ascii_case(&name)
        };
        let watched = all.iter().find(is_it);
        let mut steps = Vec::new();
        if let Some(watched) = watched {
            capture.forget();
            remove(transaction, watched).map_err(&failed)?;
            let (stream, actor) = (watched.stream(), Actor::default());
            steps.push(TransactionStep::Command(Command::Delete { stream, actor }));
        }
        let (plan, _) = transaction::log(transaction, streams, steps, now_ms)?;
        Ok::<_, SqlError>((watched.is_some(), plan))
    })?;
    Ok(found)
}

/// The table of a name as one writes it in SQL.
fn find(connection: &Connection, text: &str) -> Result<Table, SqlError> {
    let name = parse_name(text)?;
    let not_watchable =
        |message: String, hint: &str| Err(wrong("table_not_watchable", message, hint.to_owned()));
    if allowed::is_own(&name) || name.to_ascii_lowercase().starts_with("sqlite_") {
        return not_watchable(format!("{name} is not a table of yours"), "watch one of your own");
    }
    match table::find(connection, &name).map_err(broken("find a table"))? {
        Some(Named::Table(table)) => Ok(table),
        Some(Named::View) => not_watchable(
            format!("{name} is a view, which has no rows of its own"),
            "watch the tables that it reads",
        ),
        Some(Named::Virtual) => not_watchable(
            format!("{name} is a virtual table, whose changes SQLite does not report"),
            "watch an ordinary table that you write beside it",
        ),
        None => {
            let names = table::names(connection).map_err(broken("list tables"))?;
            let close = nearest(&name, names.iter().map(String::as_str));
            let hint = close.map_or_else(
                || "make it first, by POST /v1/sql or `tidewire sql`".to_owned(),
                |close| format!("did you mean {close}?"),
            );
            Err(wrong("table_not_watchable", format!("there is no table {name}"), hint))
        }
    }
}

/// Checks the columns that were named.
fn resolve(table: Table, wanted: &NewWatch, name: Option<&str>) -> Result<Watched, SqlError> {
    let column = |name: &String| match table.column(name) {
        Some(column) => Ok(column.name.clone()),
        None => {
            let close = nearest(name, table.columns.iter().map(|column| column.name.as_str()));
            let hint = close.map_or_else(
                || {
                    let all: Vec<&str> = table.columns.iter().map(|c| c.name.as_str()).collect();
                    format!("it has {}; generated columns cannot be used", all.join(", "))
                },
                |close| format!("did you mean {close}?"),
            );
            Err(wrong("table_not_watchable", format!("{} has no column {name}", table.name), hint))
        }
    };
    let given = wanted.key_columns.as_ref().filter(|names| !names.is_empty());
    let key_columns = match given {
        None => table.primary_key(),
        Some(names) => names.iter().map(column).collect::<Result<Vec<String>, SqlError>>()?,
    };
    Ok(Watched {
        name: name.map_or_else(|| table.event_name(), str::to_owned),
        key_columns,
        key_given: given.is_some(),
        entity_code: wanted.entity_code.clone(),
        host_column: wanted.host_column.as_ref().map(column).transpose()?,
        user_column: wanted.user_column.as_ref().map(column).transpose()?,
        table,
    })
}

/// Reads a table's name: `orders`, `main.orders`, `"Odd Name"`, and `table/orders` as the stream has it.
fn parse_name(text: &str) -> Result<String, SqlError> {
    let text = text.trim();
    let text = text.strip_prefix(TABLE_PREFIX).unwrap_or(text);
    let (schema, name) = match parts(text).as_deref() {
        Some([name]) => (None, name.clone()),
        Some([schema, name]) => (Some(schema.clone()), name.clone()),
        _ => {
            let hint = "write it as in SQL: orders, or \"Odd Name\" in double quotes";
            return Err(wrong(
                "table_not_watchable",
                format!("{text:?} is not the name of a table"),
                hint.to_owned(),
            ));
        }
    };
    if schema.is_some_and(|schema| !schema.eq_ignore_ascii_case("main")) {
        let message = format!("{text} is not in the embedded store's file");
        return Err(wrong(
            "table_not_watchable",
            message,
            "tables there have no schema".to_owned(),
        ));
    }
    Ok(name)
}

/// The parts of a name, without their quotes.
fn parts(text: &str) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    let mut rest = text;
    loop {
        let (part, after) = if let Some(inside) = rest.strip_prefix('"') {
            let mut end = 0;
            loop {
                end += inside[end..].find('"')?;
                if !inside[end + 1..].starts_with('"') {
                    break;
                }
                end += 2;
            }
            (inside[..end].replace("\"\"", "\""), &inside[end + 1..])
        } else {
            let end = rest.find('.').unwrap_or(rest.len());
            let part = rest[..end].trim();
            if part.is_empty() || part.contains('"') {
                return None;
            }
            (part.to_owned(), &rest[end..])
        };
        parts.push(part);
        match after.strip_prefix('.') {
            Some(more) => rest = more,
            None if after.is_empty() => return Some(parts),
            None => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn names_are_read_as_in_sql() {
        let of = |parts: &[&str]| Some(parts.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>());
        for (text, expected) in [
            ("orders", of(&["orders"])),
            ("main.orders", of(&["main", "orders"])),
            ("Odd Name", of(&["Odd Name"])),
            ("\"Odd.Name\"", of(&["Odd.Name"])),
            ("\"a\"\"b\"", of(&["a\"b"])),
            ("main.\"x.y\"", of(&["main", "x.y"])),
            ("\"\"", of(&[""])),
            ("", None),
            ("a.", None),
            ("\"a", None),
            ("\"a\"b", None),
        ] {
            assert_eq!(parts(text), expected, "{text}");
        }
    }
}
