//! The user's own SQL. Needs a store whose changes are captured: on PostgreSQL, one with a node that does.

use std::time::Duration;

use serde_json::json;

use super::Opener;
use super::rows::{self, LIMITS, problem, raw, statements, values};
use super::test_store::TestStore;
use tidewire_store::sql::{SqlLimits, Statements};

/// A result has names, types and rows, in canonical JSON.
pub async fn a_select_gives_columns_and_rows(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    rows::orders(&store).await;
    rows::run(&store, "INSERT INTO orders VALUES (1, 'tea', 9007199254740993), (2, NULL, -1)")
        .await;
    let answer = rows::run(&store, "SELECT id, name, amount FROM orders ORDER BY id").await;
    let names: Vec<&str> = answer.columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["id", "name", "amount"]);
    let types: Vec<String> =
        answer.columns.iter().map(|column| column.type_name.to_lowercase()).collect();
    assert!(types[2].contains("int"), "{types:?}");
    assert_eq!(raw(&answer), [["1", "\"tea\"", "9007199254740993"], ["2", "null", "-1"]]);
    assert_eq!(answer.row_count, 2);
    let none = rows::run(&store, "SELECT id FROM orders WHERE id = 7").await;
    assert_eq!((none.row_count, none.rows.len(), none.columns.len()), (0, 0, 1));
}

/// The answer is that of the last statement; a write says how many rows it changed.
pub async fn several_statements_are_one_transaction(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let made = "CREATE TABLE t (id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1), (2), (3);
        DELETE FROM t WHERE id > 1;";
    let answer = rows::run(&store, made).await;
    assert_eq!((answer.row_count, answer.columns.len()), (2, 0));
    let answer = rows::run(&store, "INSERT INTO t VALUES (5); SELECT id FROM t ORDER BY id").await;
    assert_eq!(raw(&answer), [["1"], ["5"]]);
    let returned = rows::run(&store, "INSERT INTO t VALUES (6), (7) RETURNING id").await;
    assert_eq!(raw(&returned), [["6"], ["7"]]);
}

/// Nothing of a request is kept if one of its statements fails, and the answer says which did.
pub async fn a_failed_statement_undoes_the_others(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    rows::orders(&store).await;
    let tip = store.log_tip().await;
    let text = "INSERT INTO orders VALUES (1, 'a', 1); UPDATE orders SET amount = 2;
        INSERT INTO orders VALUES (1, 'again', 2)";
    let wrong = problem(&store, text).await;
    assert_eq!(wrong.code, "sql_constraint", "{wrong:?}");
    assert!(wrong.message.contains("statement 3"), "{wrong:?}");
    let count = rows::run(&store, "SELECT count(*) FROM orders").await;
    assert_eq!(raw(&count), [["0"]]);
    let news = store.log_after(tip).await;
    assert!(news.iter().all(|event| event.row.is_none()), "{news:?}");
}

/// `$1` stands for the first value, wherever it is written.
pub async fn parameters_stand_for_values(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    rows::orders(&store).await;
    let params = values(&[json!(7), json!("it's; DROP TABLE orders"), json!(i64::MAX)]);
    let insert = "INSERT INTO orders (amount, name, id) VALUES ($3, $2, $1)";
    store.run_sql(Statements { params, ..statements(insert) }).await.expect("an insert");
    let answer = rows::run(&store, "SELECT id, name, amount FROM orders").await;
    assert_eq!(raw(&answer), [["7", "\"it's; DROP TABLE orders\"", "9223372036854775807"]]);
    for (text, params) in [
        ("SELECT $1", values(&[])),
        ("SELECT 1", values(&[json!(1)])),
        ("SELECT 1; SELECT $1", values(&[json!(1)])),
    ] {
        let outcome = store.run_sql(Statements { params, ..statements(text) }).await;
        assert_eq!(rows::wrong(outcome).code, "sql_params", "{text}");
    }
}

/// A position counts characters from 1, over the whole text.
pub async fn an_error_says_where_it_is(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    for (text, position) in [
        ("SELECT 1 FRUM x y", 15),
        ("SELECT 'äöü' AS a; SELEKT 2", 20),
        ("SELECT nothing_of_that_name", 8),
    ] {
        let wrong = problem(&store, text).await;
        assert_eq!(wrong.code, "sql_syntax", "{text}: {wrong:?}");
        if text.starts_with("SELECT 1") {
            assert!(wrong.position.is_some(), "{text}: {wrong:?}");
        } else {
            assert_eq!(wrong.position, Some(position), "{text}: {wrong:?}");
        }
    }
    let wrong = problem(&store, "  ").await;
    assert_eq!(wrong.code, "sql_syntax", "{wrong:?}");
}

/// More rows or bytes than may come back are an error, and a write among them is undone.
pub async fn a_result_may_be_too_large(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    rows::run(&store, "CREATE TABLE t (id INTEGER PRIMARY KEY)").await;
    for limits in [SqlLimits { rows_max: 2, ..LIMITS }, SqlLimits { bytes_max: 2, ..LIMITS }] {
        let text = "INSERT INTO t VALUES (1), (2), (3) RETURNING id";
        let outcome = store.run_sql(Statements { limits, ..statements(text) }).await;
        assert_eq!(rows::wrong(outcome).code, "sql_too_large");
        let text = "SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3";
        let outcome = store.run_sql(Statements { limits, ..statements(text) }).await;
        assert_eq!(rows::wrong(outcome).code, "sql_too_large");
    }
    assert_eq!(raw(&rows::run(&store, "SELECT count(*) FROM t").await), [["0"]]);
}

/// A statement without end is ended, and others go on.
pub async fn a_statement_may_not_take_for_ever(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    rows::run(&store, "CREATE TABLE t (id INTEGER PRIMARY KEY)").await;
    let endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT 1 FROM c)";
    let limits = SqlLimits { timeout_ms: 100, ..LIMITS };
    for text in [
        format!("{endless} SELECT count(*) FROM c"),
        format!("INSERT INTO t VALUES (1); INSERT INTO t {endless} SELECT count(*) FROM c"),
    ] {
        let ended = store.run_sql(Statements { limits, ..statements(&text) });
        let ended = tokio::time::timeout(Duration::from_secs(30), ended).await;
        assert_eq!(rows::wrong(ended.expect("it ends")).code, "sql_timeout", "{text}");
    }
    assert_eq!(raw(&rows::run(&store, "SELECT count(*) FROM t").await), [["0"]]);
}

/// The statements of a request are a transaction, and cannot end it.
pub async fn transactions_are_not_made_by_hand(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    rows::run(&store, "CREATE TABLE t (id INTEGER PRIMARY KEY)").await;
    for text in [
        "BEGIN",
        "INSERT INTO t VALUES (1); COMMIT; INSERT INTO t VALUES (1)",
        "INSERT INTO t VALUES (1); ROLLBACK",
    ] {
        let wrong = problem(&store, text).await;
        assert_eq!(wrong.code, "sql_refused", "{text}: {wrong:?}");
        assert!(wrong.hint.is_some(), "{text}: {wrong:?}");
    }
    assert_eq!(raw(&rows::run(&store, "SELECT count(*) FROM t").await), [["0"]]);
}

/// A write's place in the log is at or after its events, a read's is one that it has seen.
pub async fn an_answer_has_its_place_in_the_log(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    rows::orders(&store).await;
    rows::watch(&store, "orders").await;
    let written = rows::run(&store, "INSERT INTO orders VALUES (1, 'a', 1), (2, 'b', 2)").await;
    let events = store.events("table/orders").await;
    let offset = written.offset.expect("a place");
    assert_eq!(events.len(), 2);
    assert!(offset >= events[1].position && offset <= store.log_tip().await);
    let read = rows::run(&store, "SELECT * FROM orders").await;
    assert!(read.offset.expect("a place") >= events[1].position);
}
