//! What becomes of watched tables when the schema changes.
//!
//! Statements that change it are silent about rows: SQLite rewrites them without telling. So what is
//! told is that the columns changed, and readers read the table anew. A table that is renamed stays
//! watched, and so does one that is replaced by another of its name within one transaction, which is
//! how SQLite's own manual changes what `ALTER TABLE` cannot.

use std::sync::Arc;

use bytes::Bytes;
use rusqlite::{Connection, Transaction};

use super::problem::wrong;
use super::table::{self, Named, Table, Watched};
use super::{allowed, known, watched};
use crate::error::broken;
use tidewire_store::command::{Actor, Command};
use tidewire_store::decide::TransactionStep;
use tidewire_store::offset::Position;
use tidewire_store::sql::SqlError;

/// A watched table through the statements of a transaction.
#[derive(Debug)]
struct TrackedTable {
    /// As subscribers know it.
    known: Arc<Watched>,
    /// As it is; none while there is no such table.
    is: Option<Arc<Watched>>,
}

/// The watched tables through the statements of a transaction.
#[derive(Debug)]
pub(crate) struct TrackedTables(Vec<TrackedTable>);

impl TrackedTables {
    pub(crate) fn new(watched: &[Arc<Watched>]) -> TrackedTables {
        let tracked = |known: &Arc<Watched>| TrackedTable {
            known: Arc::clone(known),
            is: Some(Arc::clone(known)),
        };
        TrackedTables(watched.iter().map(tracked).collect())
    }

    /// Tables as subscribers know them, and as they are.
    pub(crate) fn of_pairs(pairs: Vec<(Arc<Watched>, Option<Arc<Watched>>)>) -> TrackedTables {
        TrackedTables(pairs.into_iter().map(|(known, is)| TrackedTable { known, is }).collect())
    }

    /// Looks where the tables are after a statement that changed the schema. A table keeps its place
    /// in the file when it is renamed, and one statement does not both remove and make one.
    pub(crate) fn follow(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        for tracked in &mut self.0 {
            let Some(was) = &tracked.is else { continue };
            let name = table::at_page(connection, was.table.root_page)?;
            let found = match name {
                Some(name) => table::find(connection, &name)?,
                None => None,
            };
            tracked.is = match found {
                Some(Named::Table(table)) => Some(Arc::new(was.changed(table))),
                _ => None,
            };
        }
        Ok(())
    }

    /// The tables that are there.
    pub(crate) fn watched(&self) -> Vec<Arc<Watched>> {
        self.0.iter().filter_map(|tracked| tracked.is.clone()).collect()
    }
}

/// What is left to be done when the transaction's events have their positions.
#[derive(Debug, Default)]
pub(crate) struct SchemaOutcome {
    /// Tables that have another name or another shape from here on.
    changed: Vec<Arc<Watched>>,
    /// Those of them whose rows look different, or may be others.
    reshaped: Vec<Arc<Watched>>,
    /// Tables that are watched no more.
    dropped: Vec<Arc<Watched>>,
    /// Tables whose rows look as they did, so that they can be compared.
    pub(crate) comparable: Vec<Arc<Watched>>,
}

impl SchemaOutcome {
    /// Takes a table's rows anew, whatever was known of them.
    pub(crate) fn reshape(&mut self, watched: Arc<Watched>) {
        self.reshaped.push(watched);
    }

    /// Keeps what became of the watched tables.
    pub(crate) fn finish(
        &self,
        transaction: &Transaction<'_>,
        reached: Position,
    ) -> rusqlite::Result<()> {
        for watched in &self.dropped {
            watched::remove(transaction, watched)?;
        }
        for watched in &self.changed {
            watched::save(transaction, watched, None)?;
        }
        for watched in &self.reshaped {
            known::remember(transaction, watched, reached)?;
        }
        Ok(())
    }
}

/// Decides what became of the tables at the end of a transaction, and adds the steps that tell of it.
pub(crate) fn settle(
    connection: &Connection,
    followed: TrackedTables,
    own_before: usize,
    steps: &mut Vec<TransactionStep>,
) -> Result<SchemaOutcome, SqlError> {
    check_names(connection, own_before)?;
    let mut outcome = SchemaOutcome::default();
    for TrackedTable { known, is } in followed.0 {
        let replaced = is.is_none();
        let is = match is {
            Some(is) => Some(is),
            None => successor(connection, &known).map_err(broken("look at the schema"))?,
        };
        let Some(is) = is else {
            tracing::warn!(table = known.name, "a watched table was dropped; its stream ends");
            let (stream, actor) = (known.stream(), Actor::default());
            steps.push(TransactionStep::Command(Command::Delete { stream, actor }));
            outcome.dropped.push(known);
            continue;
        };
        if let Some(what) = difference(&known, &is, replaced) {
            tracing::info!(table = known.name, what, "a watched table changed");
            let what = serde_json::json!({ "what": what }).to_string();
            steps.push(TransactionStep::Schema { stream: known.stream(), what: Bytes::from(what) });
        }
        let same_shape = known.table.shape() == is.table.shape();
        let same_rows = same_shape && known.key_columns == is.key_columns;
        let rows =
            if replaced || !same_rows { &mut outcome.reshaped } else { &mut outcome.comparable };
        rows.push(Arc::clone(&is));
        if known != is {
            outcome.changed.push(is);
        }
    }
    Ok(outcome)
}

/// The table that took the place of one that is gone, by its name.
fn successor(connection: &Connection, known: &Watched) -> rusqlite::Result<Option<Arc<Watched>>> {
    for name in [&known.table.name, &known.name] {
        if let Some(Named::Table(table)) = table::find(connection, name)? {
            return Ok(Some(Arc::new(known.changed(table))));
        }
    }
    Ok(None)
}

/// What changed, in words; none if nothing did that subscribers would notice.
fn difference(known: &Watched, is: &Watched, replaced: bool) -> Option<String> {
    let (before, after) = (&known.table, &is.table);
    let mut changes = Vec::new();
    if !before.name.eq_ignore_ascii_case(&after.name) {
        changes.push(format!("the table is called {} now", after.name));
    }
    for column in &after.columns {
        match before.column(&column.name) {
            None => changes.push(format!("column {} is new", column.name)),
            Some(was) if was.type_name != column.type_name => changes.push(format!(
                "column {} is of type {:?} instead of {:?}",
                column.name, column.type_name, was.type_name
            )),
            Some(_) => {}
        }
    }
    for column in before.columns.iter().filter(|column| after.column(&column.name).is_none()) {
        changes.push(format!("column {} is gone", column.name));
    }
    if known.key_columns != is.key_columns {
        let key = if is.key_columns.is_empty() {
            "the whole row".to_owned()
        } else {
            is.key_columns.join(", ")
        };
        changes.push(format!("its key is {key}"));
    }
    if replaced {
        changes.push("the table was replaced by another; read it anew".to_owned());
    }
    (!changes.is_empty()).then(|| changes.join("; "))
}

/// Checks what the authorizer cannot: it is not told the new name of a table that is renamed, nor what
/// a foreign key refers to.
fn check_names(connection: &Connection, own_before: usize) -> Result<(), SqlError> {
    let looked = broken("look at the schema");
    if own_names(connection).map_err(&looked)? != own_before {
        let hint = "give it a name that does not begin with tidewire_ or pragma_";
        let message = "the name is reserved for Tidewire or for SQLite";
        return Err(wrong("sql_refused", message, hint.to_owned()));
    }
    for table in table::names(connection).map_err(&looked)? {
        let referenced = references(connection, &table).map_err(&looked)?;
        if let Some(referenced) = referenced.iter().find(|name| allowed::is_own(name)) {
            let message = format!("{table} refers to {referenced}, which is Tidewire's own");
            let hint = "Tidewire's rows come and go by its own rules; leave the foreign key out";
            return Err(wrong("sql_refused", message, hint.to_owned()));
        }
    }
    Ok(())
}

/// The tables that a table's foreign keys refer to.
fn references(connection: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let list = format!("PRAGMA main.foreign_key_list({})", table::quoted(table));
    connection.prepare(&list)?.query_map([], |row| row.get("table"))?.collect()
}

/// How many tables, indexes and so on have names that nobody may give: Tidewire's own, and those of tables
/// that SQLite has by itself. Indexes that SQLite makes for a table come and go with it.
pub(crate) fn own_names(connection: &Connection) -> rusqlite::Result<usize> {
    const NAMES: &str =
        "SELECT name FROM main.sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
    let mut query = connection.prepare_cached(NAMES)?;
    let mut rows = query.query([])?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        count += usize::from(allowed::is_reserved(row.get_ref(0)?.as_str().unwrap_or_default()));
    }
    Ok(count)
}

impl Watched {
    /// In words, how the table is watched otherwise; none if it is not. What is seen of it depends on
    /// that.
    pub(crate) fn watched_otherwise(&self, becomes: &Watched) -> Option<String> {
        let differences = [
            ("its key is another", self.key_columns != becomes.key_columns),
            ("its tenants are in another column", self.host_column != becomes.host_column),
            ("its users are in another column", self.user_column != becomes.user_column),
            ("its entity is another", self.entity_code != becomes.entity_code),
        ];
        let said: Vec<&str> =
            differences.iter().filter(|(_, is_so)| *is_so).map(|(said, _)| *said).collect();
        (!said.is_empty())
            .then(|| format!("the table is watched in another way: {}", said.join("; ")))
    }

    /// The same with the table as it has become. Columns that were renamed are followed.
    pub(crate) fn changed(&self, table: Table) -> Watched {
        let was = &self.table;
        let now_called = |name: &String| -> Option<String> {
            if let Some(column) = table.column(name) {
                return Some(column.name.clone());
            }
            let place = was.columns.iter().position(|c| c.name.eq_ignore_ascii_case(name))?;
            let there =
                table.columns.get(place).filter(|_| was.columns.len() == table.columns.len())?;
            was.column(&there.name).is_none().then(|| there.name.clone())
        };
        let given: Option<Vec<String>> = self.key_columns.iter().map(now_called).collect();
        let given = given.filter(|_| self.key_given);
        Watched {
            name: self.name.clone(),
            key_given: given.is_some(),
            key_columns: given.unwrap_or_else(|| table.primary_key()),
            entity_code: self.entity_code.clone(),
            host_column: self.host_column.as_ref().and_then(now_called),
            user_column: self.user_column.as_ref().and_then(now_called),
            table,
        }
    }
}
