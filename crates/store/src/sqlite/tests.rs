//! Whether our queries fit our schema.

use super::SqliteStore;
use crate::log::Log;
use crate::options::SqliteOptions;
use crate::postgres::testing::queries_in_use;

#[tokio::test]
async fn every_query_can_be_prepared() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = SqliteStore::open(SqliteOptions::new(folder.path()))
        .await
        .expect("it opens");
    store.close().await;
    let file = folder.path().join("tidewire.db");
    let connection = rusqlite::Connection::open(file).expect("the file is there");
    for (name, sql) in queries_in_use("sqlite") {
        connection
            .prepare(&sql)
            .unwrap_or_else(|error| panic!("{name}.sql: {error}"));
    }
}
