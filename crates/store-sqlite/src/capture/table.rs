//! A watched table: its columns, its key, and how a row of it becomes an event.

use std::collections::HashMap;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row};
use serde_json::value::RawValue;

use super::image;
use tidewire_store::row::{TABLE_PREFIX, table_name};

/// A column that is shown. Generated ones are not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    /// Its number in the table, counted with those that are not shown.
    pub(crate) number: usize,
    pub(crate) name: String,
    /// As it was declared.
    pub(crate) type_name: String,
    /// Its place in the primary key, from 1; 0 outside.
    pub(crate) in_key: usize,
    /// Whether it holds reals: SQLite stores whole ones as integers.
    pub(crate) real: bool,
}

/// A table of the user's, as the schema has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) name: String,
    /// Where it lies in the file: stays the same when it is renamed.
    pub(crate) root_page: i64,
    pub(crate) columns: Vec<Column>,
}

/// How a table is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Watched {
    /// By which its events and its stream are called, whatever becomes of the table's own name.
    pub(crate) name: String,
    pub(crate) table: Table,
    /// Names of key columns; none if the whole row tells it from others.
    pub(crate) key_columns: Vec<String>,
    /// Whether those were asked for. Otherwise they are the primary key's.
    pub(crate) key_given: bool,
    pub(crate) entity_code: Option<String>,
    pub(crate) host_column: Option<String>,
    pub(crate) user_column: Option<String>,
}

/// A row in its canonical form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) json: String,
    pub(crate) entity_id: String,
    pub(crate) host_id: Option<String>,
    pub(crate) user_id: Option<String>,
}

/// What a name in the schema stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Named {
    Table(Table),
    View,
    Virtual,
}

/// A name in double quotes.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Whether a declared type makes reals of integers, by SQLite's rules of affinity.
fn is_real(type_name: &str) -> bool {
    let upper = type_name.to_ascii_uppercase();
    let has = |part: &str| upper.contains(part);
    let earlier = has("INT") || has("CHAR") || has("CLOB") || has("TEXT") || has("BLOB");
    !earlier && (has("REAL") || has("FLOA") || has("DOUB"))
}

/// What a name stands for in the schema, in any case of letters.
pub(crate) fn find(connection: &Connection, name: &str) -> rusqlite::Result<Option<Named>> {
    const FIND: &str = "SELECT type, name, rootpage FROM main.sqlite_schema
        WHERE type IN ('table', 'view') AND name = ?1 COLLATE NOCASE";
    let of_row =
        |row: &Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get(2)?));
    let found = connection.prepare_cached(FIND)?.query_row([name], of_row).optional()?;
    Ok(match found {
        None => None,
        Some((kind, _, _)) if kind == "view" => Some(Named::View),
        Some((_, _, 0)) => Some(Named::Virtual),
        Some((_, name, root_page)) => {
            let columns = columns(connection, &name)?;
            Some(Named::Table(Table { name, root_page, columns }))
        }
    })
}

/// The table that lies at a place in the file.
pub(crate) fn at_page(connection: &Connection, root_page: i64) -> rusqlite::Result<Option<String>> {
    const FIND: &str = "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND rootpage = ?1";
    connection.prepare_cached(FIND)?.query_row([root_page], |row| row.get(0)).optional()
}

/// The names of the user's tables.
pub(crate) fn names(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    const NAMES: &str = "SELECT name FROM main.sqlite_schema
        WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name";
    let names: Vec<String> = connection
        .prepare_cached(NAMES)?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(names.into_iter().filter(|name| !super::allowed::is_own(name)).collect())
}

/// The names of all tables and views, Tidewire's too.
pub(crate) fn all_names(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    const NAMES: &str = "SELECT name FROM main.sqlite_schema WHERE type IN ('table', 'view')";
    connection.prepare_cached(NAMES)?.query_map([], |row| row.get(0))?.collect()
}

fn columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<Column>> {
    let of_row = |row: &Row<'_>| {
        let type_name: String = row.get("type")?;
        Ok(Column {
            number: row.get("cid")?,
            name: row.get("name")?,
            in_key: row.get("pk")?,
            real: is_real(&type_name),
            type_name,
        })
    };
    columns_by(connection, table, |row| {
        (row.get::<_, i64>("hidden")? == 0).then(|| of_row(row)).transpose()
    })
}

/// What is to be known of a table's columns, in their order. The pragma itself is asked: a table function of
/// its name could be shadowed by a table that somebody has made.
pub(crate) fn columns_by<C>(
    connection: &Connection,
    table: &str,
    mut of_row: impl FnMut(&Row<'_>) -> rusqlite::Result<Option<C>>,
) -> rusqlite::Result<Vec<C>> {
    let list = format!("PRAGMA main.table_xinfo({})", quoted(table));
    let mut query = connection.prepare(&list)?;
    let mut rows = query.query([])?;
    let mut columns = Vec::new();
    while let Some(row) = rows.next()? {
        columns.extend(of_row(row)?);
    }
    Ok(columns)
}

impl Table {
    /// The columns of the primary key, in its order.
    pub(crate) fn primary_key(&self) -> Vec<String> {
        let mut key: Vec<&Column> = self.columns.iter().filter(|c| c.in_key > 0).collect();
        key.sort_by_key(|column| column.in_key);
        key.into_iter().map(|column| column.name.clone()).collect()
    }

    /// A column by its name, in any case of letters.
    pub(crate) fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name.eq_ignore_ascii_case(name))
    }

    /// The columns and their types as JSON, by which changes of them are noticed.
    pub(crate) fn shape(&self) -> String {
        let columns =
            self.columns.iter().map(|c| serde_json::json!({"name": c.name, "type": c.type_name}));
        serde_json::Value::from_iter(columns).to_string()
    }

    /// The name by which events and streams would be called.
    pub(crate) fn event_name(&self) -> String {
        table_name(None, &self.name)
    }
}

impl Watched {
    pub(crate) fn stream(&self) -> String {
        format!("{TABLE_PREFIX}{}", self.name)
    }

    /// A row in its canonical form, by the values of its columns, which are asked for by their place
    /// among those that are shown.
    pub(crate) fn image<'v, E>(
        &self,
        value: impl Fn(usize) -> Result<ValueRef<'v>, E>,
    ) -> Result<Image, E> {
        let columns = &self.table.columns;
        let mut json = String::with_capacity(32 * columns.len());
        for (place, column) in columns.iter().enumerate() {
            json.push(if place == 0 { '{' } else { ',' });
            image::push_text(&mut json, &column.name);
            json.push(':');
            image::push_value(&mut json, value(place)?, column.real);
        }
        json.push('}');
        let place = |name: &String| columns.iter().position(|c| c.name.eq_ignore_ascii_case(name));
        let plain = |name: Option<&String>| match name.and_then(place) {
            Some(place) => Ok(image::plain(value(place)?, columns[place].real)),
            None => Ok(None),
        };
        let entity_id = match self.key_columns.as_slice() {
            [] => json.clone(),
            [only] => plain(Some(only))?.unwrap_or_else(|| "null".to_owned()),
            several => {
                let mut array = String::new();
                for place in several.iter().filter_map(place) {
                    array.push_str(if array.is_empty() { "[" } else { ", " });
                    image::push_value(&mut array, value(place)?, columns[place].real);
                }
                array.push(']');
                array
            }
        };
        let host_id = plain(self.host_column.as_ref())?;
        let user_id = plain(self.user_column.as_ref())?;
        Ok(Image { json, entity_id, host_id, user_id })
    }

    /// A row from its canonical form.
    pub(crate) fn image_of_json(&self, json: String) -> Image {
        let values: HashMap<String, &RawValue> = serde_json::from_str(&json).unwrap_or_default();
        let raw = |name: &String| values.get(name).map_or("null", |value| value.get());
        let plain = |name: &String| -> Option<String> {
            match raw(name) {
                "null" => None,
                text if text.starts_with('"') => serde_json::from_str(text).ok(),
                number => Some(number.to_owned()),
            }
        };
        let entity_id = match self.key_columns.as_slice() {
            [] => json.clone(),
            [only] => plain(only).unwrap_or_else(|| "null".to_owned()),
            several => {
                let values: Vec<&str> = several.iter().map(raw).collect();
                format!("[{}]", values.join(", "))
            }
        };
        let host_id = self.host_column.as_ref().and_then(plain);
        let user_id = self.user_column.as_ref().and_then(plain);
        Image { json, entity_id, host_id, user_id }
    }

    /// Every row of the table, one after the other.
    pub(crate) fn rows(
        &self,
        connection: &Connection,
        mut each: impl FnMut(Image) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<()> {
        let columns: Vec<String> = self.table.columns.iter().map(|c| quoted(&c.name)).collect();
        let select =
            format!("SELECT {} FROM main.{}", columns.join(", "), quoted(&self.table.name));
        let mut query = connection.prepare(&select)?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            each(self.image(|place| row.get_ref(place))?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn affinity_follows_the_declared_type() {
        for (type_name, real) in [
            ("REAL", true),
            ("double precision", true),
            ("FLOAT", true),
            ("FLOATING POINT", false),
            ("NUMERIC", false),
            ("", false),
            ("INTEGER", false),
            ("TEXT", false),
        ] {
            assert_eq!(is_real(type_name), real, "{type_name}");
        }
    }
}
