//! Which tables our own queries mean: those of the file, whatever else has their names.

use std::sync::{Arc, Mutex};

use rusqlite::Connection;
use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::hooks::{AuthContext, Authorization};

use crate::options::SqliteOptions;
use crate::{SqliteStore, capture};
use tidewire_store::log::Log;
use tidewire_store::testing::queries_in_use;

/// On a connection where every table and view has a temporary one beside it, which would be found first.
#[tokio::test]
async fn every_query_names_the_database_it_means() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = SqliteStore::open(SqliteOptions::new(folder.path())).await.expect("it opens");
    store.close().await;
    let mut connection = Connection::open(folder.path().join("tidewire.db")).expect("the file");
    let names: Vec<String> = connection
        .prepare("SELECT name FROM main.sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite%'")
        .and_then(|mut names| names.query_map([], |row| row.get(0))?.collect())
        .expect("the names");
    assert!(names.len() > 20, "{names:?}");
    for name in &names {
        let shadow =
            format!("CREATE TEMP TABLE \"{name}\" AS SELECT * FROM main.\"{name}\" LIMIT 0");
        connection.execute_batch(&shadow).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    capture::prepare(&mut connection, None, &Arc::default()).expect("functions of our own");
    let elsewhere: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = Arc::clone(&elsewhere);
    let note = move |context: AuthContext<'_>| {
        if context.database_name.is_some_and(|name| name != "main") {
            noted.lock().expect("no panic").push(format!("{:?}", context.action));
        }
        Authorization::Allow
    };
    connection.authorizer(Some(note)).expect("an authorizer");
    for (name, sql) in queries_in_use(env!("CARGO_MANIFEST_DIR")) {
        let mut statements = rusqlite::Batch::new(&connection, &sql);
        while statements.next().unwrap_or_else(|error| panic!("{name}.sql: {error}")).is_some() {}
        let elsewhere = std::mem::take(&mut *elsewhere.lock().expect("no panic"));
        assert!(elsewhere.is_empty(), "{name}.sql does not say main.: {elsewhere:?}");
        let code = sql.lines().map(|line| line.split("--").next().unwrap_or_default());
        let words: Vec<String> =
            code.flat_map(str::split_whitespace).map(str::to_ascii_lowercase).collect();
        for pair in words.windows(2) {
            let reads = matches!(pair[0].as_str(), "from" | "join" | "into" | "update");
            let table = pair[1].trim_matches(['(', ')', ',', ';']);
            assert!(
                !reads || !names.iter().any(|name| name == table),
                "{name}.sql does not say main.{table}"
            );
        }
    }
}
