//! Whatever statements do: the rows that there were, and the log's changes applied to them, are the
//! rows that there are.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::Value;

use super::Subject;
use tidewire_store::log::Log;
use tidewire_store::row::{Operation, RowChange};

const SCHEMA: &str = "
    CREATE TABLE parent (id INTEGER PRIMARY KEY, code TEXT UNIQUE, n REAL CHECK (n < 50));
    CREATE TABLE child (a INTEGER, b TEXT, parent INTEGER
            REFERENCES parent (id) ON DELETE CASCADE ON UPDATE CASCADE,
        PRIMARY KEY (b, a)) WITHOUT ROWID;
    CREATE TABLE leaf (child_b TEXT, child_a INTEGER, note TEXT,
        FOREIGN KEY (child_b, child_a) REFERENCES child (b, a) ON DELETE SET NULL ON UPDATE CASCADE);
    CREATE TRIGGER parent_noted AFTER UPDATE OF n ON parent WHEN new.n > old.n BEGIN
        INSERT INTO leaf VALUES (NULL, NULL, 'parent ' || new.id || ' grew'); END;
    CREATE TRIGGER leaf_limit BEFORE INSERT ON leaf WHEN (SELECT count(*) FROM leaf) > 6 BEGIN
        DELETE FROM leaf WHERE note IS NOT NULL; END;
    INSERT INTO parent VALUES (1, 'a', 1), (2, 'b', 2);
    INSERT INTO child VALUES (1, 'x', 1), (2, 'x', 1), (3, 'y', 2);
    INSERT INTO leaf VALUES ('x', 1, 'first'), ('x', 1, 'first');";

const TABLES: [&str; 3] = ["parent", "child", "leaf"];

/// One statement over small domains, so that they meet.
fn statement() -> impl Strategy<Value = String> {
    let id = 1..6_i64;
    let code = prop::sample::select(vec!["'a'", "'b'", "'c'", "NULL"]);
    let conflict = prop::sample::select(vec![
        "",
        "OR REPLACE",
        "OR IGNORE",
        "OR FAIL",
        "OR ABORT",
        "OR ROLLBACK",
    ]);
    let word = prop::sample::select(vec!["'x'", "'y'", "'z'"]);
    prop_oneof![
        (conflict.clone(), id.clone(), code.clone(), -5..60_i64).prop_map(
            |(or, id, code, n)| format!("INSERT {or} INTO parent VALUES ({id}, {code}, {n})")
        ),
        (id.clone(), code.clone(), id.clone()).prop_map(|(id, code, n)| format!(
            "INSERT INTO parent VALUES ({id}, {code}, {n})
             ON CONFLICT (id) DO UPDATE SET n = n + excluded.n, code = excluded.code"
        )),
        (conflict.clone(), id.clone(), id.clone()).prop_map(|(or, to, from)| format!(
            "UPDATE {or} parent SET id = {to} WHERE id = {from}"
        )),
        (conflict.clone(), code.clone())
            .prop_map(|(or, code)| format!("UPDATE {or} parent SET code = {code}, n = n * 3")),
        Just("UPDATE parent SET id = -id".to_owned()),
        Just("UPDATE parent SET n = 1 WHERE n IS NULL OR n > 9 RETURNING id".to_owned()),
        id.clone().prop_map(|id| format!("DELETE FROM parent WHERE id <= {id} AND id > 2")),
        (conflict.clone(), id.clone(), word.clone(), id.clone())
            .prop_map(|(or, a, b, p)| format!("INSERT {or} INTO child VALUES ({a}, {b}, {p})")),
        (conflict, word.clone(), id.clone())
            .prop_map(|(or, b, a)| format!("UPDATE {or} child SET b = {b} WHERE a = {a}")),
        word.clone().prop_map(|b| format!("DELETE FROM child WHERE b = {b}")),
        (word, id).prop_map(|(b, a)| format!("INSERT INTO leaf VALUES ({b}, {a}, 'x{a}')")),
        Just("INSERT INTO leaf SELECT b, a, 'copied' FROM child".to_owned()),
        Just("DELETE FROM leaf".to_owned()),
        Just("DELETE FROM parent".to_owned()),
        Just("SELECT count(*) FROM child".to_owned()),
        Just("SELECT nothing".to_owned()),
    ]
}

/// Rows with how many there are of each, by their text.
type Rows = BTreeMap<String, i64>;

async fn rows(store: &Subject, table: &str) -> Rows {
    let mut rows = Rows::new();
    for row in store.rows(&format!("SELECT * FROM {table}")).await {
        *rows.entry(row.to_string()).or_default() += 1;
    }
    rows
}

fn apply(rows: &mut Rows, change: &RowChange) -> Result<(), String> {
    let image = |bytes: &Option<bytes::Bytes>| -> Option<String> {
        let value: Value = serde_json::from_slice(bytes.as_ref()?).expect("JSON");
        Some(value.to_string())
    };
    let (before, after) = (image(&change.before), image(&change.after));
    let fits = match change.operation {
        Operation::Insert => before.is_none() && after.is_some(),
        Operation::Update => before.is_some() && after.is_some(),
        Operation::Delete => before.is_some() && after.is_none(),
        Operation::Truncate => false,
    };
    if !fits {
        return Err(format!("{change:?} has the wrong images"));
    }
    if let Some(before) = before {
        let count = rows.entry(before.clone()).or_default();
        *count -= 1;
        match *count {
            0 => drop(rows.remove(&before)),
            count if count < 0 => return Err(format!("{before} was not there: {change:?}")),
            _ => {}
        }
    }
    if let Some(after) = after {
        *rows.entry(after).or_default() += 1;
    }
    Ok(())
}

async fn the_log_tells_the_tables(requests: Vec<Vec<String>>, elsewhere: Vec<String>) {
    let store = Subject::watching(SCHEMA, &TABLES).await;
    let mut told = BTreeMap::new();
    for table in TABLES {
        told.insert(table, (rows(&store, table).await, 0));
    }
    for (number, request) in requests.iter().enumerate() {
        if let Some(sql) = elsewhere.get(number) {
            let path = store.folder.path().join("tidewire.db");
            let file = rusqlite::Connection::open(path).expect("the file");
            // It may fail like any other.
            let _ = file.execute_batch(sql);
        }
        // A request of several statements is undone as a whole when one of them fails.
        let _ = store.try_run(&request.join(";\n")).await;
        store.store.sweep().await.expect("swept");
        for table in TABLES {
            let (known, seen) = told.get_mut(table).expect("a table");
            let events = store.events(&format!("table/{table}")).await;
            for event in &events[*seen..] {
                let change = event.row.as_ref().expect("a change of a row");
                apply(known, change).unwrap_or_else(|why| panic!("{why}, after {request:?}"));
            }
            *seen = events.len();
            assert_eq!(*known, rows(&store, table).await, "{table} after {request:?}");
        }
    }
    store.store.close().await;
}

fn run(test: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.expect("a runtime").block_on(test);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn the_log_tells_what_statements_did(
        requests in prop::collection::vec(prop::collection::vec(statement(), 1..5), 1..10)
    ) {
        run(the_log_tells_the_tables(requests, Vec::new()));
    }

    #[test]
    fn the_log_tells_what_other_processes_did(
        requests in prop::collection::vec(prop::collection::vec(statement(), 1..3), 1..6),
        elsewhere in prop::collection::vec(statement(), 1..6),
    ) {
        run(the_log_tells_the_tables(requests, elsewhere));
    }
}
