//! The contract on SQLite: every test has a folder of its own.

use async_trait::async_trait;
use rusqlite::types::Value;
use rusqlite::{Connection, Row};
use tempfile::TempDir;
use tidewire_store::SharedStore;
use tidewire_store_contract::Opener;
use tidewire_store_sqlite::SqliteOptions;
use tidewire_store_sqlite::SqliteStore;

struct Folder(TempDir);

#[async_trait]
impl Opener for Folder {
    async fn open(&self) -> SharedStore {
        SqliteStore::open(SqliteOptions::new(self.0.path())).await.expect("the folder opens")
    }

    // The log has no prefix here, and times are milliseconds.
    async fn run_sql(&self, sql: &str) -> Vec<String> {
        let file = Connection::open(self.0.path().join("tidewire.db")).expect("the file is there");
        let translated = sql
            .replace("tidewire.log ", "log ")
            .replace("tidewire.", "tidewire_")
            .replace("to_timestamp(", "(1000 * ");
        let mut statement = file.prepare(&translated).expect(sql);
        let text = |row: &Row<'_>| match row.get(0)? {
            Value::Null => Ok(String::new()),
            Value::Integer(number) => Ok(number.to_string()),
            Value::Text(text) => Ok(text),
            other => panic!("{sql} gives {other:?}"),
        };
        statement.query_map([], text).and_then(Iterator::collect).expect(sql)
    }
}

fn fresh() -> Folder {
    Folder(tempfile::tempdir().expect("a temporary folder"))
}

tidewire_store_contract::contract_suite!(fresh());
tidewire_store_contract::contract_suite!(sql: fresh());
