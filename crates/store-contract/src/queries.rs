//! Reading for live queries. Needs a store whose changes are captured: on PostgreSQL, one with a node that
//! does.

use super::Opener;
use super::rows::{self, LIMITS, wrong};
use super::test_store::TestStore;
use tidewire_store::queries::{
    LiveQueryEdit, LiveQueryRow, LiveRead, LiveRows, ShapeView, TableRef, WatchedShape,
};
use tidewire_store::sql::{SqlLimits, SqlProblem};
use tidewire_store::watch::NewWatch;

fn table(name: &str) -> TableRef {
    TableRef { schema: None, name: name.to_owned() }
}

/// What a name stands for.
async fn view(store: &TestStore, name: &str) -> ShapeView {
    let mut views = store.shapes(&[table(name)]).await.expect("shapes can be read");
    assert_eq!(views.len(), 1);
    views.remove(0)
}

async fn shape(store: &TestStore, name: &str) -> WatchedShape {
    match view(store, name).await {
        ShapeView::Watched(shape) => *shape,
        other => panic!("expected {name} to be watched, got {other:?}"),
    }
}

/// A read of tables as they are.
async fn read_of(store: &TestStore, sql: &str, names: &[&str]) -> LiveRead {
    let mut sql = sql.to_owned();
    let mut tables = Vec::new();
    for name in names {
        let shape = shape(store, name).await;
        sql = sql.replace(&format!("<{name}>"), &shape.sql_name);
        tables.push((shape.name, shape.fingerprint));
    }
    LiveRead { sql, tables, limits: LIMITS, account: None }
}

async fn read(store: &TestStore, sql: &str) -> LiveRows {
    let read = read_of(store, sql, &["orders"]).await;
    store.read_query(read).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"))
}

fn raw(rows: &LiveRows) -> Vec<Vec<&str>> {
    rows.rows.iter().map(|row| row.iter().map(|value| value.get()).collect()).collect()
}

/// The code with which both a look at a query and its run end.
async fn code(store: &TestStore, read: LiveRead) -> &'static str {
    let checked = wrong(store.check_query(&read).await);
    let ran = wrong(store.read_query(read).await);
    assert_eq!(checked, ran);
    assert!(!ran.message.is_empty());
    ran.code
}

async fn watched_orders(data: &dyn Opener) -> TestStore {
    let store = TestStore::open(data).await;
    rows::orders(&store).await;
    rows::watch(&store, "orders").await;
    store
}

/// A watched table's columns are all there, in order, and its key and tenants are known.
pub async fn a_watched_table_has_a_shape(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let text = "CREATE TABLE items (id INTEGER PRIMARY KEY, host TEXT, amount BIGINT,
        double_amount BIGINT GENERATED ALWAYS AS (amount * 2) STORED)";
    rows::run(&store, text).await;
    assert_eq!(view(&store, "items").await, ShapeView::NotWatched("items".to_owned()));
    let host_column = Some("host".to_owned());
    let watch = NewWatch { table: "items".to_owned(), host_column, ..NewWatch::default() };
    rows::watch_as(&store, watch).await;
    let shape = shape(&store, "items").await;
    let names: Vec<&str> = shape.columns.iter().map(|c| c.column.name.as_str()).collect();
    assert_eq!(names, ["id", "host", "amount", "double_amount"]);
    let generated: Vec<bool> = shape.columns.iter().map(|column| column.generated).collect();
    assert_eq!(generated, [false, false, false, true]);
    assert_eq!((shape.name.as_str(), &shape.key_columns[..]), ("items", &["id".to_owned()][..]));
    assert_eq!(shape.host_column.as_deref(), Some("host"));
    assert!(!shape.row_security && !shape.inherited);
    let again = store.shapes(&[table("items"), table("nothing")]).await.expect("shapes");
    assert_eq!(again, [ShapeView::Watched(Box::new(shape)), ShapeView::Unknown]);
}

/// What is no table of the user's is nothing to a query.
pub async fn other_names_have_no_shape(data: &dyn Opener) {
    let store = watched_orders(data).await;
    rows::run(&store, "CREATE VIEW all_orders AS SELECT * FROM orders").await;
    for name in ["nothing", "all_orders", "log", "tidewire_streams", "sqlite_schema", "pg_class"] {
        assert_eq!(view(&store, name).await, ShapeView::Unknown, "{name}");
    }
    for schema in ["tidewire", "pg_catalog", "nowhere"] {
        let asked = TableRef { schema: Some(schema.to_owned()), name: "log".to_owned() };
        assert_eq!(store.shapes(&[asked]).await.expect("shapes"), [ShapeView::Unknown], "{schema}");
    }
}

/// Another column, another type, another key and another table have another fingerprint; nothing else
/// has.
pub async fn a_fingerprint_tells_shapes_apart(data: &dyn Opener) {
    let store = watched_orders(data).await;
    let first = shape(&store, "orders").await.fingerprint;
    rows::run(&store, "INSERT INTO orders VALUES (1, 'tea', 1)").await;
    assert_eq!(shape(&store, "orders").await.fingerprint, first);
    rows::run(&store, "ALTER TABLE orders ADD COLUMN note TEXT").await;
    let second = shape(&store, "orders").await.fingerprint;
    assert_ne!(second, first);
    let key_columns = Some(vec!["name".to_owned()]);
    let watch = NewWatch { table: "orders".to_owned(), key_columns, ..NewWatch::default() };
    rows::watch_as(&store, watch).await;
    assert_ne!(shape(&store, "orders").await.fingerprint, second);
}

/// Rows come in canonical JSON, with the end of the log that the same snapshot saw.
pub async fn a_read_has_its_place_in_the_log(data: &dyn Opener) {
    let store = watched_orders(data).await;
    let written =
        rows::run(&store, "INSERT INTO orders VALUES (1, 'tea', 9007199254740993), (2, NULL, -1)");
    let written = written.await.offset.expect("a place");
    let sql = "SELECT id, name, amount AS n FROM <orders> AS o ORDER BY id";
    let rows = read(&store, sql).await;
    assert_eq!(raw(&rows), [["1", "\"tea\"", "9007199254740993"], ["2", "null", "-1"]]);
    let names: Vec<&str> = rows.columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["id", "name", "n"]);
    assert!(rows.tip >= written, "{:?} < {written:?}", rows.tip);
    assert!(rows.tip <= store.log_tip().await);
    assert_eq!(rows.snapshot.is_none(), store.backend() == "SQLite");
    let checked = store.check_query(&read_of(&store, sql, &["orders"]).await).await;
    assert_eq!(checked.expect("a good query").columns, rows.columns);
}

/// A table that is another than the query was made for is not read.
pub async fn a_changed_table_is_not_read(data: &dyn Opener) {
    let store = watched_orders(data).await;
    let read = read_of(&store, "SELECT id FROM <orders>", &["orders"]).await;
    store.read_query(read.clone()).await.expect("a read");
    rows::run(&store, "ALTER TABLE orders ADD COLUMN note TEXT").await;
    assert_eq!(code(&store, read).await, "shape_changed");
    let read = read_of(&store, "SELECT id FROM <orders>", &["orders"]).await;
    rows::run(&store, "DROP TABLE orders").await;
    assert_eq!(code(&store, read).await, "shape_changed");
}

/// Only what a query says it reads can be read.
pub async fn other_tables_are_not_read(data: &dyn Opener) {
    let store = watched_orders(data).await;
    rows::run(&store, "CREATE TABLE secrets (id INTEGER PRIMARY KEY)").await;
    rows::watch(&store, "secrets").await;
    rows::run(&store, "CREATE VIEW all_secrets AS SELECT * FROM secrets").await;
    let (own, catalogue) = match store.backend() {
        "SQLite" => ("tidewire_streams", "sqlite_schema"),
        _ => ("tidewire.streams", "pg_catalog.pg_authid"),
    };
    for other in ["secrets", "all_secrets", own, catalogue] {
        for sql in [
            format!("SELECT o.id FROM <orders> AS o WHERE EXISTS (SELECT 1 FROM {other})"),
            format!("SELECT count(*) FROM {other}"),
        ] {
            let read = read_of(&store, &sql, &["orders"]).await;
            assert_eq!(code(&store, read).await, "sql_refused", "{sql}");
        }
    }
}

/// Where a text is not one statement, either database may find that its words are wrong.
#[track_caller]
fn assert_not_one_select(sql: &str, problem: &SqlProblem) {
    let one_statement = !sql.is_empty() && !sql.contains(';');
    let is_refused = problem.code == "sql_refused";
    assert!(is_refused || !one_statement && problem.code == "sql_syntax", "{sql}: {problem:?}");
}

/// A query cannot change anything, nor be more than one.
pub async fn a_query_only_reads(data: &dyn Opener) {
    let store = watched_orders(data).await;
    for sql in [
        "INSERT INTO <orders> VALUES (1, 'a', 1)",
        "DELETE FROM <orders>",
        "CREATE TABLE t (id INTEGER)",
        "SELECT 1; SELECT 2",
        "SELECT 1; DELETE FROM <orders>",
        "",
    ] {
        let read = read_of(&store, sql, &["orders"]).await;
        let outcome = store.check_query(&read).await;
        assert_not_one_select(sql, &wrong(outcome));
        let outcome = store.read_query(read).await;
        assert_not_one_select(sql, &wrong(outcome));
    }
    assert!(raw(&read(&store, "SELECT id FROM <orders>").await).is_empty());
}

/// What is wrong with a query's words is said with its place; what is wrong with rows is not told.
pub async fn an_error_does_not_tell_of_rows(data: &dyn Opener) {
    let store = watched_orders(data).await;
    rows::run(&store, "INSERT INTO orders VALUES (1, 'hidden secret', 1)").await;
    let read = read_of(&store, "SELECT nothing_of_that_name FROM <orders>", &["orders"]).await;
    for outcome in [
        store.check_query(&read).await.map(|_| ()),
        store.read_query(read.clone()).await.map(|_| ()),
    ] {
        let problem = wrong(outcome);
        assert_eq!((problem.code, problem.position), ("sql_syntax", Some(8)), "{problem:?}");
        assert!(problem.message.contains("nothing_of_that_name"), "{problem:?}");
    }
    let failing = match store.backend() {
        "SQLite" => "SELECT json_extract(name, '$.a') FROM <orders>",
        _ => "SELECT CAST(name AS integer) FROM <orders>",
    };
    let read = read_of(&store, failing, &["orders"]).await;
    store.check_query(&read).await.expect("its words are right");
    let problem = wrong(store.read_query(read).await);
    assert_eq!((problem.code, problem.position), ("query_failed", None), "{problem:?}");
    assert!(!format!("{problem:?}").contains("secret"), "{problem:?}");
}

/// More than may come back is an error.
pub async fn a_live_result_may_be_too_large(data: &dyn Opener) {
    let store = watched_orders(data).await;
    rows::run(&store, "INSERT INTO orders VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)").await;
    for (limits, fits) in [
        (SqlLimits { rows_max: 3, ..LIMITS }, true),
        (SqlLimits { rows_max: 2, ..LIMITS }, false),
        (SqlLimits { bytes_max: 8, ..LIMITS }, false),
    ] {
        let read = read_of(&store, "SELECT id, name FROM <orders>", &["orders"]).await;
        match store.read_query(LiveRead { limits, ..read }).await {
            Ok(rows) => assert!(fits && rows.rows.len() == 3),
            outcome => assert_eq!((wrong(outcome).code, fits), ("result_too_large", false)),
        }
    }
}

/// A query without end is ended, and the next one is read.
pub async fn a_live_query_may_not_take_for_ever(data: &dyn Opener) {
    let store = watched_orders(data).await;
    let endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT 1 FROM c)
        SELECT count(*) FROM c, <orders>";
    rows::run(&store, "INSERT INTO orders VALUES (1, 'a', 1)").await;
    let read = read_of(&store, endless, &["orders"]).await;
    let limits = SqlLimits { timeout_ms: 100, ..LIMITS };
    let ended = store.read_query(LiveRead { limits, ..read }).await;
    assert_eq!(wrong(ended).code, "query_too_slow");
    assert_eq!(raw(&self::read(&store, "SELECT id FROM <orders>").await), [["1"]]);
}

/// An emptied table is read empty, and its place in the log is not before that.
pub async fn an_emptied_table_is_read_empty(data: &dyn Opener) {
    let store = watched_orders(data).await;
    rows::run(&store, "INSERT INTO orders VALUES (1, 'a', 1)").await;
    let empty = match store.backend() {
        "SQLite" => "DELETE FROM orders",
        _ => "TRUNCATE orders",
    };
    let emptied = rows::run(&store, empty).await.offset.expect("a place");
    let rows = read(&store, "SELECT id FROM <orders>").await;
    assert!(rows.rows.is_empty() && rows.tip >= emptied);
}

/// The list of live queries is read by SQL under the name that people know, and only read.
pub async fn the_list_of_live_queries_is_read_by_sql(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.renews_node("node_1", 600_000).await;
    let row = LiveQueryRow {
        live_id: "conn_abc123-messages".to_owned(),
        connection_id: "conn_abc123".to_owned(),
        query_id: "messages".to_owned(),
        user_id: "user_alice".to_owned(),
        query: "SELECT * FROM messages".to_owned(),
        node: "node_1".to_owned(),
        plan: "filter".to_owned(),
        user_agent: None,
        address: None,
    };
    store.edit_live_queries(vec![LiveQueryEdit::Open(row)]).await.expect("the list can be changed");
    let sql = "SELECT live_id, connection_id, query_id, query
        FROM system.live_queries
        WHERE node = 'node_1'  -- Only process subscriptions owned by current node
          AND query LIKE '%messages%';  -- Simple filter (actual logic is more complex)";
    let found = rows::run(&store, sql).await;
    let expected = [
        "\"conn_abc123-messages\"",
        "\"conn_abc123\"",
        "\"messages\"",
        "\"SELECT * FROM messages\"",
    ];
    assert_eq!(rows::raw(&found), [expected]);
    let all = rows::run(&store, "SELECT * FROM system.live_queries").await;
    let names: Vec<&str> = all.columns.iter().map(|column| column.name.as_str()).collect();
    let first = [
        "live_id",
        "connection_id",
        "query_id",
        "user_id",
        "query",
        "created_at",
        "updated_at",
        "changes",
        "node",
    ];
    assert_eq!(names[..first.len()], first);
    let elsewhere =
        rows::run(&store, "SELECT 1 FROM system.live_queries WHERE node = 'node_2'").await;
    assert!(elsewhere.rows.is_empty());
    if store.backend() == "SQLite" {
        rows::problem(&store, "DELETE FROM system.live_queries").await;
        let other = rows::problem(&store, "SELECT * FROM tidewire_live_queries").await;
        assert_eq!(other.code, "sql_refused", "{other:?}");
    }
}
