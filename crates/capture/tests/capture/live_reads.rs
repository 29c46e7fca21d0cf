//! Reads for live queries beside transactions that are open, tables that are being emptied or altered, and
//! roles that may not read.

use std::sync::Arc;

use tidewire_store::{
    LiveRead, LiveRows, Log as _, Queries as _, ShapeView, Sql as _, SqlError, SqlLimits, TableRef,
};
use tidewire_store_postgres::PostgresOptions;
use tidewire_store_postgres::PostgresStore;

use crate::fixture::{Fixture, quick};

const LIMITS: SqlLimits = SqlLimits { timeout_ms: 20_000, rows_max: 10_000, bytes_max: 8 << 20 };

async fn read_of(store: &PostgresStore, columns: &str, table: &str) -> LiveRead {
    let asked = TableRef { schema: None, name: table.to_owned() };
    let shapes = store.shapes(&[asked]).await.expect("a shape");
    let [ShapeView::Watched(shape)] = &shapes[..] else { panic!("{table} is {shapes:?}") };
    let sql = format!("SELECT {columns} FROM {} AS t ORDER BY 1", shape.sql_name);
    LiveRead {
        sql,
        tables: vec![(shape.name.clone(), shape.fingerprint)],
        limits: LIMITS,
        account: None,
    }
}

fn first(rows: &LiveRows) -> Vec<&str> {
    rows.rows.iter().map(|row| row[0].get()).collect()
}

fn code<T: std::fmt::Debug>(outcome: Result<T, SqlError>) -> (&'static str, String) {
    match outcome {
        Err(SqlError::Wrong(problem)) => (problem.code, problem.hint.unwrap_or_default()),
        other => panic!("expected a refusal, got {other:?}"),
    }
}

const ORDERS: &str = "CREATE TABLE orders (id integer PRIMARY KEY, name text);
    SELECT tidewire.watch('orders')";

/// What an open transaction does is neither in the rows nor seen by their snapshot.
#[tokio::test]
async fn a_read_beside_an_open_transaction_says_what_it_saw() {
    for fixture in [Fixture::start().await, Fixture::start_with_wal().await] {
        fixture.run(ORDERS).await;
        let mut open = fixture.database.connect().await;
        let transaction = open.transaction().await.expect("a transaction");
        let insert = "INSERT INTO orders VALUES (1, 'late') RETURNING pg_current_xact_id()::text";
        let txid: String = transaction.query_one(insert, &[]).await.expect("a row").get(0);
        fixture.run("INSERT INTO orders VALUES (2, 'soon')").await;
        let read = read_of(&fixture.store, "id", "orders").await;
        let before = fixture.store.read_query(read.clone()).await.expect("rows");
        assert_eq!(first(&before), ["2"]);
        transaction.commit().await.expect("a commit");
        let mark = fixture.store.caught_up(30_000).await.expect("the log has it");
        let snapshot = before.snapshot.clone().expect("a snapshot");
        let saw = format!("SELECT pg_visible_in_snapshot('{txid}'::xid8, '{snapshot}')::text");
        assert_eq!(fixture.text(&saw).await, "false");
        let late = format!(
            "SELECT count(*) FROM tidewire.log WHERE txid = {txid} AND c_offset > {} AND c_offset < {}",
            before.tip.number(),
            mark.number()
        );
        assert_eq!(fixture.number(&late).await, 1);
        let after = fixture.store.read_query(read).await.expect("rows");
        assert_eq!(first(&after), ["1", "2"]);
        fixture.tear_down().await;
    }
}

/// A read waits for who empties or rewrites a table, and then sees what became of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_lies_wholly_before_or_after_a_truncate() {
    let fixture = Fixture::start().await;
    fixture.run(ORDERS).await;
    for (change, expected) in [
        ("TRUNCATE orders; INSERT INTO orders VALUES (9, 'new')", vec!["9"]),
        (
            "CLUSTER orders USING orders_pkey; INSERT INTO orders VALUES (10, 'new')",
            vec!["10", "9"],
        ),
    ] {
        let read = read_of(&fixture.store, "id::text", "orders").await;
        let mut other = fixture.database.connect().await;
        let transaction = other.transaction().await.expect("a transaction");
        transaction.batch_execute(change).await.expect(change);
        let store = Arc::clone(&fixture.store);
        let waiting = tokio::spawn(async move { store.read_query(read).await });
        let waits = "SELECT EXISTS (SELECT FROM pg_locks
            WHERE relation = 'orders'::regclass AND NOT granted)";
        fixture.until(waits).await;
        transaction.commit().await.expect("a commit");
        let rows = waiting.await.expect("no panic").expect("rows");
        let quoted: Vec<String> = expected.iter().map(|id| format!("\"{id}\"")).collect();
        assert_eq!(first(&rows), quoted);
    }
    fixture.tear_down().await;
}

/// Rows whose changes are all in the log need no mark; those whose changes are staged do.
#[tokio::test]
async fn a_read_is_settled_when_nothing_of_its_tables_is_staged() {
    let mut fixture = Fixture::start_without_capture().await;
    fixture.run(ORDERS).await;
    let read = read_of(&fixture.store, "id", "orders").await;
    fixture.run("INSERT INTO orders VALUES (1, 'a')").await;
    let rows = fixture.store.read_query(read.clone()).await.expect("rows");
    assert!(!rows.settled, "the row waits in the staging table");
    fixture.capture(quick("a"));
    fixture.caught_up().await;
    let rows = fixture.store.read_query(read).await.expect("rows");
    assert!(rows.settled && rows.tip == fixture.store.tip().await.expect("a tip"));
    fixture.tear_down().await;
}

/// A partitioned table is read with all its partitions, and counts as one.
#[tokio::test]
async fn a_partitioned_table_is_read_as_one() {
    let fixture = Fixture::start().await;
    let made = "CREATE TABLE parts (id integer PRIMARY KEY, tags text[], price numeric(10, 2),
            document json) PARTITION BY RANGE (id);
        CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
        CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (10) TO (20);
        SELECT tidewire.watch('parts');
        INSERT INTO parts VALUES (1, '{a}', 1.5), (11, '{b}', 2)";
    fixture.run(made).await;
    let shapes = fixture.store.shapes(&[TableRef { schema: None, name: "parts".to_owned() }]).await;
    let shapes = shapes.expect("a shape");
    let [ShapeView::Watched(shape)] = &shapes[..] else { panic!("parts is {shapes:?}") };
    let scales: Vec<Option<u16>> = shape.columns.iter().map(|column| column.scale).collect();
    assert_eq!(scales, [None, None, Some(2), None]);
    let json_text: Vec<bool> = shape.columns.iter().map(|column| column.json_text).collect();
    assert_eq!(json_text, [false, true, false, true]);
    let read = read_of(&fixture.store, "price, to_jsonb(tags)", "parts").await;
    let rows = fixture.store.read_query(read).await.expect("rows");
    assert_eq!(first(&rows), ["1.50", "2.00"]);
    assert_eq!(rows.rows[0][1].get(), "[\"a\"]");
    fixture.tear_down().await;
}

/// Where there is no role to read as, it is said what to do.
#[tokio::test]
async fn a_missing_role_is_told() {
    let fixture = Fixture::start().await;
    fixture.run(ORDERS).await;
    let read = read_of(&fixture.store, "id", "orders").await;
    // Nobody can make a role of such a name.
    let query_role = "pg_nobody".to_owned();
    let options = PostgresOptions { query_role, ..PostgresOptions::new(&fixture.database.url) };
    let store = PostgresStore::open(options).await.expect("the database opens");
    let (code, hint) = code(store.read_query(read).await);
    assert_eq!(code, "query_role_missing");
    assert!(
        hint.contains("CREATE ROLE \"pg_nobody\" NOLOGIN; GRANT \"pg_nobody\" TO \"postgres\""),
        "{hint}"
    );
    let needs = store.live_query_needs(Some("orders")).await.expect("what to run");
    let wanted = ["CREATE ROLE \"pg_nobody\" NOLOGIN", "GRANT \"pg_nobody\" TO \"postgres\""];
    assert_eq!(needs, wanted);
    assert_eq!(fixture.store.live_query_needs(None).await.expect("nothing"), [""; 0]);
    store.close().await;
    fixture.tear_down().await;
}

/// The role is given its right to read though someone else changes the table's rights meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_beside_a_change_of_rights_is_read() {
    let fixture = Fixture::start().await;
    fixture.run(ORDERS).await;
    let read = read_of(&fixture.store, "id", "orders").await;
    let mut other = fixture.database.connect().await;
    let transaction = other.transaction().await.expect("a transaction");
    transaction.batch_execute("GRANT INSERT ON orders TO PUBLIC").await.expect("a right");
    let store = Arc::clone(&fixture.store);
    let waiting = tokio::spawn(async move { store.read_query(read).await });
    let waits = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
        AND query LIKE 'GRANT SELECT%' AND wait_event_type = 'Lock')";
    fixture.until(waits).await;
    transaction.commit().await.expect("a commit");
    let rows = waiting.await.expect("no panic").expect("rows");
    assert!(rows.rows.is_empty(), "{rows:?}");
    fixture.tear_down().await;
}

/// Policies hold for live queries, whoever owns the table.
#[tokio::test]
async fn policies_of_rows_hold() {
    let fixture = Fixture::start().await;
    fixture.run(ORDERS).await;
    fixture.run("INSERT INTO orders VALUES (1, 'a'), (2, 'b')").await;
    let guarded = "ALTER TABLE orders ENABLE ROW LEVEL SECURITY;
        CREATE POLICY visible ON orders FOR SELECT USING (id = 2)";
    fixture.run(guarded).await;
    let rows = fixture.store.read_query(read_of(&fixture.store, "id", "orders").await).await;
    assert_eq!(first(&rows.expect("rows")), ["2"]);
    fixture.tear_down().await;
}

/// Functions that a query could call to look elsewhere find nothing that its role may not read.
#[tokio::test]
async fn functions_read_no_more_than_the_role() {
    let fixture = Fixture::start().await;
    fixture.run(ORDERS).await;
    fixture.run("INSERT INTO orders VALUES (1, 'a'); CREATE TABLE secrets AS SELECT 7 AS id").await;
    for call in [
        "query_to_xml('SELECT * FROM secrets', true, false, '')::text",
        "query_to_xml('SELECT * FROM tidewire.api_keys', true, false, '')::text",
        "pg_read_file('/etc/hostname')",
    ] {
        let read = read_of(&fixture.store, call, "orders").await;
        assert_eq!(code(fixture.store.read_query(read).await).0, "sql_refused", "{call}");
    }
    fixture.tear_down().await;
}
