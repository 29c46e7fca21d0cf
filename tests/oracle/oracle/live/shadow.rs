//! What the tables held at any place of the log, by the images of its events alone, and what the
//! database answers to a query then.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rusqlite::Connection;
use rusqlite::types::Value;
use tidewire_query::Position;
use tidewire_store::{Operation, TailEvent};
use tokio_postgres::{Client, SimpleQueryMessage};

use super::case::TableSpec;
use super::columns::{Kind, Sort, named};
use super::fixture::Fixture;
use super::row::{Canonical, Members, canonical, canonical_members, value_text};
use crate::sqlite::value as sqlite_value;

/// Tables as they were at a place of the log.
pub(crate) struct Shadow<'a> {
    tables: &'a [TableSpec],
    /// The images of the rows of each table.
    rows: BTreeMap<String, Vec<String>>,
    /// Tables that the database has otherwise.
    stale: BTreeSet<String>,
    /// Events up to here are in it.
    taken: usize,
    database: Database,
}

enum Database {
    Sqlite(Connection),
    /// The tables are temporary ones, which are found before those that they are copies of.
    Postgres(Client),
}

impl<'a> Shadow<'a> {
    pub(crate) async fn new(fixture: &Fixture, tables: &'a [TableSpec]) -> Shadow<'a> {
        let database = match fixture.connect().await {
            None => {
                let memory = Connection::open_in_memory().expect("a database");
                for table in tables {
                    let create = table.create(Sort::Sqlite, "TABLE");
                    memory.execute_batch(&create).expect("a table");
                }
                Database::Sqlite(memory)
            }
            Some(sql) => {
                let settings = "SET TimeZone = 'UTC'; SET max_parallel_workers_per_gather = 0";
                sql.batch_execute(settings).await.expect("settings");
                for table in tables {
                    let create = table.create(Sort::Postgres, "TEMPORARY TABLE");
                    sql.batch_execute(&create).await.expect("a table");
                }
                Database::Postgres(sql)
            }
        };
        let rows = tables.iter().map(|table| (table.name.clone(), Vec::new())).collect();
        Shadow { tables, rows, stale: BTreeSet::new(), taken: 0, database }
    }

    /// Goes on to a place.
    pub(crate) async fn advance(
        &mut self,
        events: &[TailEvent],
        to: Position,
    ) -> Result<(), String> {
        while let Some(event) = events.get(self.taken).filter(|it| it.position.number() <= to.0) {
            self.taken += 1;
            self.take(event)?;
        }
        for name in std::mem::take(&mut self.stale) {
            let table = self.tables.iter().find(|table| table.name == name).expect("a table");
            self.fill(table).await;
        }
        Ok(())
    }

    fn take(&mut self, event: &TailEvent) -> Result<(), String> {
        let Some(change) = &event.row else { return Ok(()) };
        let Some(rows) = self.rows.get_mut(&change.table) else { return Ok(()) };
        let text = |image: &bytes::Bytes| String::from_utf8_lossy(image).into_owned();
        if change.operation == Operation::Truncate {
            rows.clear();
        }
        if let Some(before) = change.before.as_ref().map(text) {
            let found = rows.iter().position(|row| same(row, &before));
            let found = found.ok_or_else(|| {
                format!(
                    "an event at {} is of a row that is not there: {before}",
                    event.position.number()
                )
            })?;
            rows.remove(found);
        }
        rows.extend(change.after.as_ref().map(text));
        self.stale.insert(change.table.clone());
        Ok(())
    }

    async fn fill(&self, table: &TableSpec) {
        let name = &table.name;
        let seen = table.seen();
        let hide = seen.map(|seen| format!("DELETE FROM {name} WHERE ({seen}) IS NOT TRUE"));
        let rows = &self.rows[name];
        match &self.database {
            Database::Sqlite(memory) => {
                memory.execute_batch(&format!("DELETE FROM {name}")).expect("an empty table");
                let marks = vec!["?"; table.columns.len()].join(", ");
                let columns = table.columns.join(", ");
                let insert = format!("INSERT INTO {name} ({columns}) VALUES ({marks})");
                let mut insert = memory.prepare_cached(&insert).expect("a statement");
                for row in rows {
                    let values = rusqlite::params_from_iter(sqlite_row(table, row));
                    insert.execute(values).unwrap_or_else(|error| panic!("{row}: {error}"));
                }
                if let Some(hide) = hide {
                    memory.execute_batch(&hide).unwrap_or_else(|error| panic!("{hide}: {error}"));
                }
            }
            Database::Postgres(sql) => {
                let rows: Vec<String> = rows.iter().map(|row| postgres_row(table, row)).collect();
                let all = format!("[{}]", rows.join(",")).replace('\'', "''");
                let fill = format!(
                    "DELETE FROM pg_temp.{name}; INSERT INTO pg_temp.{name}
                     SELECT * FROM jsonb_populate_recordset(NULL::pg_temp.{name}, '{all}'::jsonb);
                     {}",
                    hide.unwrap_or_default()
                );
                let done = sql.batch_execute(&fill).await;
                done.unwrap_or_else(|error| panic!("{fill}: {error:?}"));
            }
        }
    }

    /// What the database answers now, in order. An error is its own.
    pub(crate) async fn answer(&self, query: &str) -> Result<Vec<Canonical>, String> {
        match &self.database {
            Database::Sqlite(memory) => {
                let mut select = memory.prepare_cached(query).map_err(|error| error.to_string())?;
                let names: Vec<String> = select.column_names().map(ToOwned::to_owned).collect();
                let row = |row: &rusqlite::Row<'_>| {
                    let mut members = Vec::new();
                    for (at, name) in names.iter().enumerate() {
                        members.push((name.clone(), sqlite_value(row.get_ref(at)?)));
                    }
                    Ok(canonical_members(members))
                };
                let rows = select.query_map([], row).map_err(|error| error.to_string())?;
                rows.map(|row| row.map_err(|error| error.to_string())).collect()
            }
            Database::Postgres(sql) => {
                let wrapped = format!("SELECT to_jsonb(q)::text FROM ({query}) AS q");
                let messages = sql.simple_query(&wrapped).await;
                let messages = messages.map_err(|error| match error.as_db_error() {
                    Some(error) => error.message().to_owned(),
                    None => format!("{error:?}"),
                })?;
                let rows = messages.iter().filter_map(|message| match message {
                    SimpleQueryMessage::Row(row) => row.get(0),
                    _ => None,
                });
                Ok(rows.map(canonical).collect())
            }
        }
    }

    /// Whether the tables are what the events made of them.
    pub(crate) async fn compare_with_tables(&self, fixture: &Fixture) -> Result<(), String> {
        for table in self.tables {
            let select = format!("SELECT {} FROM {}", table.columns.join(", "), table.name);
            let answer = fixture.run(&select).await.map_err(|error| error.to_string())?;
            let real = answer.rows.iter().map(|row| {
                let values = row.iter().map(|value| value_text(value.get()));
                canonical_members(table.columns.iter().cloned().zip(values).collect())
            });
            let mut real: Vec<Canonical> = real.collect();
            let mut made: Vec<Canonical> =
                self.rows[&table.name].iter().map(|row| canonical(row)).collect();
            real.sort();
            made.sort();
            if real != made {
                return Err(format!(
                    "the log made of {}\n  {}\n  and it has\n  {}",
                    table.name,
                    made.join("\n  "),
                    real.join("\n  ")
                ));
            }
        }
        Ok(())
    }
}

fn same(one: &str, other: &str) -> bool {
    one == other || canonical(one) == canonical(other)
}

/// The values of an image, aligned with the columns.
fn sqlite_row(table: &TableSpec, image: &str) -> Vec<Value> {
    let members: Members = serde_json::from_str(image).expect("an image");
    let value = |name: &String| {
        let json = members.0.iter().find(|(known, _)| known == name).expect("the column").1.get();
        if json == "null" {
            return Value::Null;
        }
        if let Ok(text) = serde_json::from_str::<String>(json) {
            return match named(Sort::Sqlite, name).kind {
                Kind::Bytes => Value::Blob(STANDARD.decode(text).expect("base64")),
                _ => Value::Text(text),
            };
        }
        match json.parse::<i64>() {
            Ok(number) => Value::Integer(number),
            Err(_) => Value::Real(json.parse().expect("a number")),
        }
    };
    table.columns.iter().map(value).collect()
}

/// An image with its bytes as PostgreSQL reads them.
fn postgres_row(table: &TableSpec, image: &str) -> String {
    let members: Members = serde_json::from_str(image).expect("an image");
    let member = |(name, value): &(String, Box<serde_json::value::RawValue>)| {
        let is_bytes =
            table.columns.contains(name) && named(Sort::Postgres, name).kind == Kind::Bytes;
        let value = match serde_json::from_str::<String>(value.get()) {
            Ok(text) if is_bytes => {
                let bytes = STANDARD.decode(text).expect("base64");
                let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("\"\\\\x{digits}\"")
            }
            _ => value.get().to_owned(),
        };
        format!("{}: {value}", serde_json::json!(name))
    };
    let members: Vec<String> = members.0.iter().map(member).collect();
    format!("{{{}}}", members.join(", "))
}
