//! SQL of somebody who means harm: what is out of reach stays so under any name, and nothing that a user makes
//! gets between Tidewire and its own tables.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::{Either, join, select};
use futures_util::stream::FuturesUnordered;

use super::Subject;
use crate::capture::transact;
use tidewire_store::command::{Actor, Answer, Command};
use tidewire_store::keys::{Keys, NewKey};
use tidewire_store::log::Log;
use tidewire_store::sql::{Sql, SqlAnswer, SqlError, SqlLimits, Statements};
use tidewire_store::testing::commands;

/// Each is refused, and nothing of it is kept.
async fn all_refused(store: &Subject, statements: &[&str]) {
    for sql in statements {
        let wrong = store.problem(sql).await;
        assert_eq!(wrong.code, "sql_refused", "{sql}: {wrong:?}");
        assert!(wrong.hint.is_some(), "{sql}: {wrong:?}");
    }
}

#[tokio::test]
async fn there_is_no_database_but_main() {
    let schema = "CREATE TABLE orders (id INTEGER PRIMARY KEY)";
    let store = Subject::watching(schema, &["orders"]).await;
    all_refused(
        &store,
        &[
            "CREATE TABLE temp.orders (id INTEGER PRIMARY KEY)",
            "CREATE TABLE \"TEMP\".tidewire_streams (stream_id)",
            "CREATE TEMPORARY TABLE x AS SELECT 1",
            "CREATE VIEW temp.orders AS SELECT 1 AS id",
            "CREATE TEMP VIEW v AS SELECT 1",
            "CREATE TRIGGER temp.t AFTER INSERT ON main.orders BEGIN SELECT 1; END",
            "CREATE TEMP TRIGGER t AFTER INSERT ON main.orders BEGIN SELECT 1; END",
            "CREATE TEMP TRIGGER t AFTER INSERT ON main.log BEGIN SELECT 1; END",
            "CREATE VIRTUAL TABLE temp.words USING fts5 (word)",
            "SELECT * FROM sqlite_temp_schema",
            "SELECT * FROM temp.sqlite_schema",
            "SELECT count(*) FROM temp.sqlite_master",
            "PRAGMA temp.table_list",
            "ATTACH ':memory:' AS other",
            "DETACH main",
        ],
    )
    .await;
    store.problem("INSERT INTO temp.orders VALUES (1)").await;
    store.run("INSERT INTO orders VALUES (1); INSERT INTO main.orders VALUES (2)").await;
    assert_eq!(store.changes("orders").await.len(), 2, "inserts reach the table");
    assert_eq!(store.rows("SELECT * FROM main.orders").await.len(), 2);
}

#[tokio::test]
async fn nobody_writes_what_is_sqlites_own() {
    let store = Subject::open().await;
    store.run("CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, a); INSERT INTO t (a) VALUES (1); ANALYZE").await;
    all_refused(
        &store,
        &[
            "UPDATE sqlite_sequence SET seq = 9223372036854775807",
            "INSERT INTO sqlite_sequence VALUES ('tidewire_control', 9223372036854775807)",
            "DELETE FROM main.sqlite_sequence",
            "WITH x AS (SELECT 1) UPDATE sqlite_sequence SET seq = (SELECT * FROM x)",
            "DELETE FROM sqlite_stat1",
            "INSERT INTO sqlite_stat1 VALUES ('log', 'log_stream', '1 1 1')",
            "REPLACE INTO sqlite_stat4 (tbl) VALUES ('log')",
            "CREATE TRIGGER s AFTER INSERT ON t BEGIN UPDATE sqlite_sequence SET seq = 0; END;
             INSERT INTO t (a) VALUES (1)",
            "SELECT sample FROM sqlite_stat4",
            "CREATE TABLE copy AS SELECT * FROM sqlite_stat4",
            "SELECT * FROM dbstat",
            "CREATE VIRTUAL TABLE d USING dbstat (main)",
        ],
    )
    .await;
    store.problem("UPDATE sqlite_schema SET sql = ''").await;
    store.problem("INSERT INTO sqlite_master VALUES ('table', 'x', 'x', 0, '')").await;
    assert_eq!(store.rows("SELECT seq FROM sqlite_sequence WHERE name = 't'").await[0]["seq"], 1);
}

/// SQLite writes its tables itself where it has to.
#[tokio::test]
async fn the_schema_can_be_changed_in_every_way() {
    let store = Subject::open().await;
    for sql in [
        "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT, b TEXT)",
        "CREATE INDEX t_a ON t (a)",
        "CREATE VIEW v AS SELECT a FROM t",
        "CREATE TRIGGER w AFTER INSERT ON t BEGIN UPDATE t SET b = 'seen' WHERE id = NEW.id; END",
        "INSERT INTO t (a) VALUES ('x'), ('y')",
        "ANALYZE",
        "ANALYZE t",
        "ANALYZE main.t_a",
        "REINDEX t",
        "ALTER TABLE t RENAME COLUMN a TO c",
        "ALTER TABLE t ADD COLUMN d INTEGER CHECK (d > 0)",
        "ALTER TABLE t DROP COLUMN d",
        "ALTER TABLE t RENAME TO u",
        "INSERT INTO u (c) VALUES ('z')",
        "CREATE TABLE copy AS SELECT * FROM u",
        "CREATE VIRTUAL TABLE words USING fts5 (word)",
        "INSERT INTO words VALUES ('one'), ('two')",
        "INSERT INTO words (words) VALUES ('optimize')",
        "CREATE VIRTUAL TABLE older USING fts4 (word)",
        "INSERT INTO older VALUES ('one')",
        "CREATE VIRTUAL TABLE boxes USING rtree (id, x, y)",
        "INSERT INTO boxes VALUES (1, 0, 1)",
        "DROP TABLE boxes; DROP TABLE older; DROP TABLE words",
        "DROP VIEW v; DROP INDEX t_a; DROP TRIGGER w",
        "WITH log AS (SELECT 1 AS x) SELECT x FROM log",
        "SELECT value FROM json_each('[1]')",
        "SELECT name FROM pragma_table_list WHERE schema = 'main'",
        "PRAGMA main.table_info(u)",
        "SELECT * FROM sqlite_sequence, sqlite_stat1",
        "DROP TABLE u",
    ] {
        store.run(sql).await;
    }
    assert!(store.rows("SELECT * FROM sqlite_sequence WHERE name IN ('t', 'u')").await.is_empty());
}

#[tokio::test]
async fn a_name_like_tidewires_opens_nothing() {
    let store = Subject::open().await;
    store.run("CREATE TABLE mine (id INTEGER PRIMARY KEY)").await;
    all_refused(
        &store,
        &[
            "WITH tidewire_live_query AS (SELECT * FROM tidewire_secrets) SELECT * FROM tidewire_live_query",
            "WITH \"Tidewire_Live_Query\" (a, b) AS NOT MATERIALIZED (SELECT * FROM tidewire_secrets)
             SELECT * FROM tidewire_live_query",
            "WITH tidewire_live_query AS (SELECT * FROM tidewire_live_queries) SELECT * FROM tidewire_live_query",
            "WITH system.live_queries AS (SELECT * FROM tidewire_nodes) SELECT * FROM system.live_queries",
            "WITH tidewire_live_queries AS (SELECT * FROM tidewire_api_keys)
             SELECT * FROM tidewire_live_queries",
            "WITH log AS (SELECT * FROM main.log) SELECT * FROM log",
            "SELECT * FROM (SELECT * FROM tidewire_secrets) AS tidewire_live_query",
            "SELECT * FROM tidewire_secrets AS tidewire_live_query",
            "SELECT * FROM tidewire_live_query, tidewire_secrets",
            "SELECT (SELECT value FROM tidewire_secrets) FROM tidewire_live_query",
            "SELECT * FROM tidewire_live_queries",
            "SELECT node_id FROM tidewire_nodes",
            "CREATE VIEW v AS WITH tidewire_live_query AS (SELECT * FROM tidewire_secrets)
             SELECT * FROM tidewire_live_query; SELECT * FROM v",
            "CREATE TRIGGER tidewire_live_query AFTER INSERT ON mine
             BEGIN INSERT INTO mine SELECT 1 FROM tidewire_secrets; END",
            "CREATE TRIGGER t INSTEAD OF INSERT ON tidewire_live_query BEGIN SELECT 1; END",
            "INSERT INTO tidewire_live_query (node) VALUES ('x')",
            "WITH x AS (SELECT name FROM tidewire_secrets) INSERT INTO mine SELECT 1 FROM x",
            "INSERT INTO mine VALUES (1) RETURNING (SELECT value FROM tidewire_secrets)",
            "ALTER TABLE log RENAME TO mine_too",
            "ALTER TABLE tidewire_secrets RENAME COLUMN value TO v",
            "DROP VIEW tidewire_live_query",
            "DROP INDEX log_entity",
        ],
    )
    .await;
    for sql in [
        "SELECT * FROM system.live_queries",
        "SELECT count(*) FROM main.tidewire_live_query AS q",
        "WITH q AS (SELECT node FROM system.live_queries) SELECT count(*) FROM q",
        "CREATE VIEW listed AS SELECT live_id, query FROM tidewire_live_query",
        "SELECT * FROM listed",
    ] {
        store.run(sql).await;
    }
}

/// Tables that are read by Tidewire under a name that SQLite gives them cannot be put in their place.
#[tokio::test]
async fn tables_of_sqlites_own_names_cannot_be_made() {
    let schema = "CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT)";
    let store = Subject::watching(schema, &["orders"]).await;
    all_refused(
        &store,
        &[
            "CREATE TABLE pragma_table_xinfo (name, type, hidden)",
            "CREATE VIEW pragma_foreign_key_list AS SELECT 1",
            "CREATE TABLE json_each (key, value)",
            "CREATE TABLE x (a); ALTER TABLE x RENAME TO json_each",
            "CREATE TABLE x (a); ALTER TABLE x RENAME TO Pragma_Table_Info",
        ],
    )
    .await;
    // As somebody could have made it past the server.
    store
        .elsewhere("CREATE TABLE pragma_table_xinfo (a); CREATE TABLE pragma_foreign_key_list (a)");
    store
        .run("INSERT INTO orders VALUES (1, 'a'); CREATE TABLE more (id INTEGER PRIMARY KEY)")
        .await;
    store.watch("more").await;
    store.run("INSERT INTO more VALUES (1)").await;
    assert_eq!(store.changes("more").await.len(), 1);
}

/// What a key's revocation tells the other parts of the server is numbered by `sqlite_sequence`.
#[tokio::test]
async fn keys_can_be_revoked_whatever_was_tried() {
    let store = Subject::open().await;
    let key = NewKey {
        name: "k".to_owned(),
        hash: "a".repeat(64),
        scopes: r#"{"tables":[]}"#.to_owned(),
        expires_in_ms: None,
    };
    let made = store.store.create_key(key).await.expect("a key");
    for sql in [
        "UPDATE sqlite_sequence SET seq = 9223372036854775807",
        "INSERT INTO sqlite_sequence VALUES ('tidewire_control', 9223372036854775807)",
    ] {
        store.problem(sql).await;
    }
    assert!(store.store.revoke_key(made.id).await.expect("an answer"));
}

/// A statement that is short is not looked at while it runs, and what is brought into the log afterwards takes
/// its time too: the limit holds for the whole.
#[tokio::test]
async fn the_limit_of_time_holds_for_writes_as_a_whole() {
    let store = Subject::watching("CREATE TABLE t (id INTEGER PRIMARY KEY, a)", &["t"]).await;
    let within = async |timeout_ms: u64, sql: &str| {
        let limits = SqlLimits { timeout_ms, rows_max: 10, bytes_max: 1_000 };
        let (sql, params, actor) = (sql.to_owned(), Vec::new(), Actor::default());
        store.store.run_sql(Statements { sql, params, actor, limits }).await
    };
    for (timeout_ms, sql) in [
        (0, "INSERT INTO t VALUES (1, 'short')"),
        (0, "CREATE TABLE u (id INTEGER)"),
        (0, "SELECT tidewire_publish('news', '1')"),
        (
            200,
            "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)
             INSERT INTO t SELECT x, NULL FROM n",
        ),
        (
            200,
            "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)
             INSERT INTO t SELECT x, randomblob(1000000) FROM n",
        ),
    ] {
        match within(timeout_ms, sql).await {
            Err(SqlError::Wrong(wrong)) => {
                assert_eq!(wrong.code, "sql_timeout", "{sql}: {wrong:?}");
                let hint = wrong.hint.unwrap_or_default();
                assert!(hint.contains("sql.timeout_ms"), "{sql}: {hint}");
            }
            other => panic!("{sql} should have been stopped, and gave {other:?}"),
        }
        let create = Command::Create(Box::new(commands::create(&format!("after {sql}"))));
        let made = store.store.submit(create).await.expect("appends go on");
        assert!(matches!(made, Answer::Created { new: true, .. }));
    }
    assert!(store.rows("SELECT * FROM t").await.is_empty(), "nothing is kept");
    assert!(store.changes("t").await.is_empty(), "nothing is told");
    store.problem("SELECT * FROM u").await;
    store.run("INSERT INTO t VALUES (1, 'in time')").await;
    assert_eq!(store.changes("t").await.len(), 1);
}

/// What statements may take by themselves does not matter: everyone else waits for the whole, of which bringing
/// changes into the log is a part.
#[tokio::test]
async fn a_transaction_has_a_clock_besides_those_of_its_statements() {
    let store = Subject::watching("CREATE TABLE t (id INTEGER PRIMARY KEY)", &["t"]).await;
    let limits = SqlLimits { timeout_ms: 60_000, rows_max: 10, bytes_max: 1_000 };
    let insert = Statements {
        sql: "INSERT INTO t VALUES (1)".to_owned(),
        params: Vec::new(),
        actor: Actor::default(),
        limits,
    };
    for statements in [Vec::new(), vec![insert]] {
        let all = store.store.exclusively(move |writer| {
            transact(writer, &Actor::default(), Some(0), |capturing| {
                statements.iter().try_for_each(|one| capturing.run(one).map(drop))
            })
        });
        match all.await {
            Err(SqlError::Wrong(wrong)) => assert_eq!(wrong.code, "sql_timeout", "{wrong:?}"),
            other => panic!("its time was up, and it gave {other:?}"),
        }
    }
    assert!(store.rows("SELECT * FROM t").await.is_empty(), "nothing is kept");
    assert!(store.changes("t").await.is_empty(), "nothing is told");
}

/// The clock is that of one transaction, and not of what the writer does next.
#[tokio::test]
async fn the_limit_ends_with_its_transaction() {
    let store = Subject::open().await;
    store.run("CREATE TABLE t (id INTEGER PRIMARY KEY)").await;
    let limits = SqlLimits { timeout_ms: 0, rows_max: 10, bytes_max: 1_000 };
    let statements = Statements {
        sql: "INSERT INTO t VALUES (1)".to_owned(),
        params: Vec::new(),
        actor: Actor::default(),
        limits,
    };
    assert_timeout(store.store.run_sql(statements).await);
    // Past the deadline, and long enough for the clock to be looked at.
    tokio::time::timeout(Duration::from_secs(60), async {
        for number in 0..50 {
            let create = commands::create(&format!("s/{number}"));
            store.store.submit(Command::Create(Box::new(create))).await.expect("it is made");
        }
        store.store.sweep().await.expect("upkeep goes on");
    })
    .await
    .expect("in time");
}

/// There is one writer. Whoever sends it much at once, of which each takes all the time there is, has one of that
/// among what waits for it: what others append and write comes in between.
#[tokio::test(flavor = "multi_thread")]
async fn much_of_one_account_is_not_written_before_all_else() {
    let store = Arc::new(Subject::open().await);
    store.run("CREATE TABLE t (id INTEGER PRIMARY KEY)").await;
    let write = |account: &str, sql: &str| {
        let (store, sql, account) = (Arc::clone(&store), sql.to_owned(), Some(account.into()));
        let limits = SqlLimits { timeout_ms: 300, rows_max: 10, bytes_max: 1_000 };
        let actor = Actor { account, ..Actor::default() };
        let statements = Statements { sql, params: Vec::new(), actor, limits };
        tokio::spawn(async move { store.store.run_sql(statements).await })
    };
    let endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) \
        INSERT INTO t SELECT x FROM n";
    const MANY: usize = 12;
    let mut anns: FuturesUnordered<_> = (0..MANY).map(|_| write("ann", endless)).collect();
    // By now the others have come to wait.
    assert_timeout(anns.next().await.expect("one of them").expect("it runs"));
    let create = Command::Create(Box::new(commands::create("doc")));
    let bob = write("bob", "INSERT INTO t VALUES (-1)");
    let mut others = Box::pin(join(store.store.submit(create), bob));
    let mut ended = 1;
    let (made, wrote) = loop {
        match select(others, anns.next()).await {
            Either::Left((done, _)) => break done,
            Either::Right((_, rest)) => others = rest,
        }
        ended += 1;
    };
    assert!(matches!(made, Ok(Answer::Created { new: true, .. })), "{made:?}");
    wrote.expect("it runs").expect("bob's write");
    assert!(ended < MANY / 2, "{ended} of {MANY} came before");
}

#[track_caller]
fn assert_timeout(outcome: Result<SqlAnswer, SqlError>) {
    match outcome {
        Err(SqlError::Wrong(wrong)) => assert_eq!(wrong.code, "sql_timeout", "{wrong:?}"),
        other => panic!("it should take too long, and gave {other:?}"),
    }
}
