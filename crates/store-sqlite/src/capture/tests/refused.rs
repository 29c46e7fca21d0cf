//! What the user's SQL may not do, and what it is told.

use super::Subject;
use tidewire_store::command::{Answer, Command};
use tidewire_store::log::Log;
use tidewire_store::sql::SqlError;
use tidewire_store::testing::commands;
use tidewire_store::watch::{NewWatch, Watches};

#[tokio::test]
async fn tidewires_own_tables_are_out_of_reach() {
    let store = Subject::open().await;
    store.run("CREATE TABLE mine (id INTEGER PRIMARY KEY)").await;
    for sql in [
        "SELECT * FROM log",
        "SELECT count(*) FROM log",
        "SELECT 1 FROM tidewire_streams",
        "WITH x AS (SELECT c_offset FROM log) SELECT 1 FROM x",
        "CREATE TABLE copy AS SELECT * FROM log",
        "CREATE VIRTUAL TABLE f USING fts5 (payload, content = 'log'); SELECT * FROM f",
        "SELECT * FROM Tidewire_API_Keys",
        "SELECT (SELECT max(c_offset) FROM log)",
        "SELECT next_offset FROM log_counter",
        "INSERT INTO log (c_offset) VALUES (1)",
        "DELETE FROM tidewire_streams",
        "UPDATE tidewire_watches SET events = 0",
        "DROP TABLE log",
        "ALTER TABLE log ADD COLUMN x",
        "ALTER TABLE mine RENAME TO tidewire_mine",
        "CREATE TABLE tidewire_mine (id INTEGER)",
        "CREATE VIEW tidewire_view AS SELECT 1",
        "CREATE INDEX i ON log (host_id)",
        "CREATE TRIGGER t AFTER INSERT ON log BEGIN SELECT 1; END",
        "CREATE VIEW v AS SELECT * FROM tidewire_secrets; SELECT * FROM v",
        "CREATE TRIGGER t AFTER INSERT ON mine BEGIN DELETE FROM log; END; INSERT INTO mine VALUES (1)",
        "CREATE TABLE child (id INTEGER REFERENCES log (c_offset))",
    ] {
        let wrong = store.problem(sql).await;
        assert_eq!(wrong.code, "sql_refused", "{sql}: {wrong:?}");
        assert!(wrong.hint.is_some(), "{sql}: {wrong:?}");
    }
    assert!(store.rows("SELECT * FROM mine").await.is_empty());
}

#[tokio::test]
async fn what_belongs_to_the_server_is_refused() {
    let store = Subject::open().await;
    for sql in [
        "ATTACH 'other.db' AS other",
        "VACUUM",
        "VACUUM INTO 'copy.db'",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA writable_schema = ON",
        "PRAGMA foreign_keys = OFF",
        "SELECT load_extension('x')",
        "CREATE TEMP TABLE t (id INTEGER)",
    ] {
        let wrong = store.problem(sql).await;
        assert_eq!(wrong.code, "sql_refused", "{sql}: {wrong:?}");
        assert!(wrong.hint.is_some(), "{sql}: {wrong:?}");
    }
    store.problem("UPDATE sqlite_schema SET sql = ''").await;
}

#[tokio::test]
async fn the_schema_can_be_looked_at() {
    let store = Subject::open().await;
    store.run("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT); ANALYZE; REINDEX").await;
    let columns = store.rows("PRAGMA table_info(t)").await;
    assert_eq!(columns[1]["name"], "name");
    assert_eq!(store.rows("SELECT name FROM pragma_table_info('t')").await.len(), 2);
    assert_eq!(store.rows("SELECT name FROM sqlite_schema WHERE name = 't'").await.len(), 1);
    assert!(!store.rows("EXPLAIN QUERY PLAN SELECT * FROM t").await.is_empty());
}

#[tokio::test]
async fn hints_say_what_was_meant() {
    let store = Subject::open().await;
    store.run("CREATE TABLE orders (id INTEGER PRIMARY KEY)").await;
    let hint = async |sql: &str| store.problem(sql).await.hint.unwrap_or_default();
    assert!(hint("SELECT * FROM order_s").await.contains("did you mean orders?"));
    assert!(hint("SELECT publish('a', '1')").await.contains("tidewire_publish("));
    assert!(hint("SELECT tidewire.publish('a', '1')").await.contains("tidewire_publish("));
}

#[tokio::test]
async fn names_that_are_nearly_right_are_told() {
    let store = Subject::open().await;
    store.run("CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT, g AS (id))").await;
    store.run("CREATE VIRTUAL TABLE words USING fts5 (word)").await;
    let hint = async |table: &str, key: Option<&str>| {
        let key_columns = key.map(|key| vec![key.to_owned()]);
        let new = NewWatch { table: table.to_owned(), key_columns, ..NewWatch::default() };
        match store.store.watch(new).await {
            Err(SqlError::Wrong(problem)) => {
                assert_eq!(problem.code, "table_not_watchable");
                problem.hint.unwrap_or_default()
            }
            other => panic!("{table} should be refused, and gave {other:?}"),
        }
    };
    assert!(hint("order", None).await.contains("did you mean orders?"));
    assert!(hint("orders", Some("nam")).await.contains("did you mean name?"));
    assert!(hint("orders", Some("g")).await.contains("generated"));
    assert!(hint("words", None).await.contains("ordinary table"));
    assert!(hint("temp.orders", None).await.contains("no schema"));
    assert!(hint("log", None).await.contains("your own"));
}

#[tokio::test]
async fn documents_go_only_where_they_can() {
    let store = Subject::open().await;
    store.run("CREATE TABLE t (id INTEGER PRIMARY KEY)").await;
    let submit = async |command: Command| store.store.submit(command).await.expect("an answer");
    submit(Command::Create(Box::new(commands::create("text")))).await;
    store.run("SELECT tidewire_publish('closed', '1')").await;
    let closed = submit(Command::Append(commands::close("closed"))).await;
    assert!(matches!(closed, Answer::Appended { closed: true, .. }));
    for stream in ["text", "closed"] {
        let sql = format!("INSERT INTO t VALUES (1); SELECT tidewire_publish('{stream}', '1')");
        let wrong = store.problem(&sql).await;
        assert_eq!(wrong.code, "sql_failed", "{wrong:?}");
        assert!(wrong.message.contains(stream), "{wrong:?}");
    }
    for sql in [
        "SELECT tidewire_publish('a', '{')",
        "SELECT tidewire_publish('a', 1)",
        "SELECT tidewire_publish(NULL, '1')",
        "SELECT tidewire_publish('__ds/x', '1')",
    ] {
        let wrong = store.problem(sql).await;
        assert!(wrong.message.contains("tidewire_publish"), "{sql}: {wrong:?}");
    }
    assert!(store.rows("SELECT * FROM t").await.is_empty());
}

#[tokio::test]
async fn a_rule_that_is_checked_at_the_end_undoes_everything() {
    let schema = "CREATE TABLE a (id INTEGER PRIMARY KEY);
        CREATE TABLE b (a INTEGER REFERENCES a (id) DEFERRABLE INITIALLY DEFERRED)";
    let store = Subject::watching(schema, &["a", "b"]).await;
    store.run("INSERT INTO b VALUES (1); INSERT INTO a VALUES (1)").await;
    let wrong = store.problem("INSERT INTO a VALUES (2); INSERT INTO b VALUES (3)").await;
    assert_eq!(wrong.code, "sql_constraint", "{wrong:?}");
    assert_eq!(store.changes("a").await.len() + store.changes("b").await.len(), 2);
    store.run("INSERT INTO b VALUES (1)").await;
    assert_eq!(store.changes("b").await.len(), 2);
}

#[tokio::test]
async fn a_text_ends_where_it_ends() {
    let store = Subject::open().await;
    let wrong = store.problem("SELECT 1;\0 DROP TABLE x").await;
    assert_eq!((wrong.code, wrong.position), ("sql_syntax", Some(10)));
}

#[tokio::test]
async fn the_writer_goes_on_after_every_refusal() {
    let store = Subject::open().await;
    store.run("CREATE TABLE t (id INTEGER PRIMARY KEY)").await;
    for sql in ["INSERT INTO t VALUES (1); BEGIN", "INSERT INTO t VALUES (1), (1)", "INSERT INTO x"]
    {
        store.problem(sql).await;
        let create = Command::Create(Box::new(commands::create(&format!("after {sql}"))));
        let made = store.store.submit(create).await.expect("an answer");
        assert!(matches!(made, Answer::Created { new: true, .. }));
    }
    assert_eq!(store.run("INSERT INTO t VALUES (1)").await.row_count, 1);
}
