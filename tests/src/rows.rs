//! What a store has written, row by row.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};

use crate::postgres::Sql;
use crate::store::{Question, Store};
use crate::wait::eventually;

const GONE_LIVE: Question<'_> = (
    "SELECT count(*) FROM tidewire_session_subscriptions WHERE live_offset IS NOT NULL",
    "SELECT count(*) FROM tidewire.session_subscriptions WHERE live_offset IS NOT NULL",
);

/// Every table's rows, by the table's name without what sets it apart from others. A row of PostgreSQL
/// stands with the transaction that wrote it, so that writing it again shows even if it says the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows(BTreeMap<String, BTreeSet<String>>);

impl Store {
    /// All rows there are.
    pub async fn rows(&self) -> Rows {
        Rows(match self {
            Store::Sqlite { folder, .. } => rows_of_sqlite(&folder.join("tidewire.db")),
            Store::Postgres { url } => {
                rows_of_postgres(&Sql::connect(url).await.expect("a connection")).await
            }
        })
    }

    /// How many rows were ever written to a table of PostgreSQL, waiting until its sessions have
    /// reported at least so many: they do when they end. `None` on SQLite, which keeps no such count.
    pub async fn ever_written(&self, table: &str, at_least: i64) -> Option<i64> {
        self.ever(table, "n_tup_ins + n_tup_upd + n_tup_del", at_least).await
    }

    /// How often such a table was looked at, likewise.
    pub async fn ever_scanned(&self, table: &str, at_least: i64) -> Option<i64> {
        self.ever(table, "seq_scan + coalesce(idx_scan, 0)", at_least).await
    }

    async fn ever(&self, table: &str, count: &str, at_least: i64) -> Option<i64> {
        let Store::Postgres { url } = self else { return None };
        let sql = Sql::connect(url).await.expect("a connection");
        let question = format!(
            "SELECT sum({count})::bigint FROM pg_stat_user_tables \
             WHERE schemaname = 'tidewire' AND relname = '{table}'"
        );
        let what = format!("PostgreSQL reports that {count} of {table} is at least {at_least}");
        let counted = eventually(&what, async || {
            let counted = sql.number(&question).await;
            (counted >= at_least).then_some(counted)
        });
        Some(counted.await)
    }

    /// Who wrote each event of a stream, in order: the tenant and the user in the log's rows.
    pub async fn actors(&self, stream: &str) -> Vec<(Option<String>, Option<String>)> {
        let question = |log: &str| {
            format!(
                "SELECT host_id, user_id FROM {log} WHERE stream_id = '{stream}' \
                 AND control IS NULL ORDER BY c_offset"
            )
        };
        match self {
            Store::Sqlite { folder, .. } => {
                let connection = read_only(&folder.join("tidewire.db"));
                let mut rows = connection.prepare(&question("log")).expect("a question");
                let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
                rows.and_then(Iterator::collect).expect("the log's rows")
            }
            Store::Postgres { url } => {
                let sql = Sql::connect(url).await.expect("a connection");
                let rows = sql.query(&question("tidewire.log"), &[]).await.expect("the log's rows");
                rows.iter().map(|row| (row.get(0), row.get(1))).collect()
            }
        }
    }

    /// Waits until the store knows of so many subscriptions of sessions that they have gone live,
    /// which is noted a moment after the client is told.
    pub async fn have_gone_live(&self, count: i64) {
        eventually(&format!("{count} subscriptions have gone live"), async || {
            (self.number(GONE_LIVE).await == count).then_some(())
        })
        .await;
    }
}

impl Rows {
    /// How many rows of each table were written since then, where any were.
    pub fn written_since(&self, before: &Rows) -> BTreeMap<String, usize> {
        let mut written = BTreeMap::new();
        let none = BTreeSet::new();
        for table in self.0.keys().chain(before.0.keys()) {
            let (old, new) = (before.0.get(table), self.0.get(table));
            let (old, new) = (old.unwrap_or(&none), new.unwrap_or(&none));
            // A row that was changed is new, and the old one is gone.
            let count = new.difference(old).count().max(old.difference(new).count());
            written.insert(table.clone(), count);
        }
        written.retain(|_, count| *count != 0);
        written
    }
}

async fn rows_of_postgres(sql: &Sql) -> BTreeMap<String, BTreeSet<String>> {
    let tables = "SELECT relname::text FROM pg_class \
                  WHERE relnamespace = 'tidewire'::regnamespace AND relkind = 'r'";
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for table in sql.query(tables, &[]).await.expect("the tables' names") {
        let table: String = table.get(0);
        let rows =
            format!("SELECT t.xmin::text || t.ctid::text || t::text FROM tidewire.{table} t");
        let rows = sql.query(&rows, &[]).await.expect("a table's rows");
        // The log's partitions are the log.
        let name = if table.starts_with("log") { "log".to_owned() } else { table };
        all.entry(name).or_default().extend(rows.iter().map(|row| row.get::<_, String>(0)));
    }
    all
}

fn read_only(file: &std::path::Path) -> Connection {
    let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY);
    connection.expect("the store's file")
}

fn rows_of_sqlite(file: &std::path::Path) -> BTreeMap<String, BTreeSet<String>> {
    let connection = read_only(file);
    let tables: Vec<String> = connection
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        .and_then(|mut names| names.query_map([], |row| row.get(0))?.collect())
        .expect("the tables' names");
    let rows = |table: String| {
        let rows = connection.prepare(&format!("SELECT * FROM \"{table}\"")).and_then(|mut all| {
            let columns = all.column_count();
            all.query_map([], |row| {
                let values: Vec<Value> =
                    (0..columns).map(|column| row.get(column)).collect::<Result<_, _>>()?;
                Ok(format!("{values:?}"))
            })?
            .collect()
        });
        let rows = rows.unwrap_or_else(|error| panic!("{table}: {error}"));
        (table.trim_start_matches("tidewire_").to_owned(), rows)
    };
    tables.into_iter().map(rows).collect()
}
