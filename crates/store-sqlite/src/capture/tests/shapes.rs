//! Tables and statements of all kinds: what they do is what is captured.

use super::Subject;

#[tokio::test]
async fn a_replaced_row_is_deleted_and_inserted() {
    let schema = "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT UNIQUE)";
    let store = Subject::watching(schema, &["t"]).await;
    store.run("INSERT INTO t VALUES (1, 'a'), (2, 'b')").await;
    store.run("REPLACE INTO t VALUES (3, 'a')").await;
    store.run("UPDATE OR REPLACE t SET name = 'a' WHERE id = 2").await;
    let expected = [
        r#"INSERT 1 - {"id":1,"name":"a"}"#,
        r#"INSERT 2 - {"id":2,"name":"b"}"#,
        r#"DELETE 1 {"id":1,"name":"a"} -"#,
        r#"INSERT 3 - {"id":3,"name":"a"}"#,
        r#"DELETE 3 {"id":3,"name":"a"} -"#,
        r#"UPDATE 2 {"id":2,"name":"b"} {"id":2,"name":"a"}"#,
    ];
    assert_eq!(store.changes("t").await, expected);
}

#[tokio::test]
async fn tables_without_a_rowid_are_captured() {
    let schema = "CREATE TABLE t (v REAL, b TEXT, a INTEGER, PRIMARY KEY (a, b)) WITHOUT ROWID";
    let store = Subject::watching(schema, &["t"]).await;
    store.run("INSERT INTO t VALUES (1, 'x', 1), (2.5, 'y', 2)").await;
    store.run("UPDATE t SET a = a + 10, v = 3 WHERE b = 'x'").await;
    store.run("INSERT OR REPLACE INTO t VALUES (9, 'y', 2)").await;
    store.run("DELETE FROM t").await;
    let expected = [
        r#"INSERT [1, "x"] - {"v":1.0,"b":"x","a":1}"#,
        r#"INSERT [2, "y"] - {"v":2.5,"b":"y","a":2}"#,
        r#"UPDATE [11, "x"] {"v":1.0,"b":"x","a":1} {"v":3.0,"b":"x","a":11}"#,
        r#"DELETE [2, "y"] {"v":2.5,"b":"y","a":2} -"#,
        r#"INSERT [2, "y"] - {"v":9.0,"b":"y","a":2}"#,
        r#"DELETE [2, "y"] {"v":9.0,"b":"y","a":2} -"#,
        r#"DELETE [11, "x"] {"v":3.0,"b":"x","a":11} -"#,
    ];
    assert_eq!(store.changes("t").await, expected);
}

#[tokio::test]
async fn what_triggers_do_is_captured_in_its_place() {
    let schema = "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER);
        CREATE TABLE audit (what TEXT);
        CREATE TRIGGER note AFTER UPDATE ON t BEGIN
            INSERT INTO audit VALUES ('t ' || old.n || ' to ' || new.n);
            SELECT tidewire_publish('audit', json_object('id', new.id));
        END;
        INSERT INTO t VALUES (1, 1), (2, 2)";
    let store = Subject::watching(schema, &["t", "audit"]).await;
    store.run("UPDATE t SET n = n + 1").await;
    let audit = store.changes("audit").await;
    assert_eq!(audit.len(), 2);
    assert!(audit[1].ends_with(r#"{"what":"t 2 to 3"}"#), "{audit:?}");
    let payloads: Vec<_> =
        store.events("audit").await.into_iter().map(|event| event.payload).collect();
    assert_eq!(payloads, [r#"{"id":1}"#, r#"{"id":2}"#]);
}

#[tokio::test]
async fn values_are_captured_as_they_are_stored() {
    let schema =
        "CREATE TABLE t (id INTEGER PRIMARY KEY, i INT, r REAL, x TEXT, n NUMERIC, b BLOB, a);
        CREATE TABLE u (i INT, r REAL, x TEXT, n NUMERIC, b BLOB, a)";
    let store = Subject::watching(schema, &["t", "u"]).await;
    let values = "'12', 7, 3.5, '1e2', x'00ff', 9223372036854775807";
    store
        .run(&format!("INSERT INTO t VALUES (1, {values}); INSERT INTO u VALUES ({values})"))
        .await;
    let image = r#""i":12,"r":7.0,"x":"3.5","n":100,"b":"AP8=","a":9223372036854775807}"#;
    assert_eq!(store.changes("t").await, [format!(r#"INSERT 1 - {{"id":1,{image}"#)]);
    store.run("UPDATE t SET i = 1.0, r = 5, x = 6, n = 2.0, b = 'text', a = NULL").await;
    let changed = r#""i":1,"r":5.0,"x":"6","n":2,"b":"text","a":null}"#;
    let expected = format!(r#"UPDATE 1 {{"id":1,{image} {{"id":1,{changed}"#);
    assert_eq!(store.changes("t").await[1], expected);
    store.run("UPDATE t SET a = 1e400, r = -1e400").await;
    assert!(store.changes("t").await[2].contains(r#""r":"-Infinity""#));
    let shown = store.run("SELECT * FROM t").await;
    assert_eq!(shown.columns[2].type_name, "REAL");
    assert_eq!(shown.rows[0][2].get(), "\"-Infinity\"");
}

#[tokio::test]
async fn virtual_generated_columns_are_left_out() {
    let schema = "CREATE TABLE t (a INTEGER, v AS (a * 2), b TEXT, s TEXT AS (b || b) STORED,
        id INTEGER PRIMARY KEY, c TEXT)";
    let store = Subject::watching(schema, &["t"]).await;
    store.run("INSERT INTO t (a, b, id, c) VALUES (1, 'b', 7, 'c')").await;
    store.run("UPDATE t SET c = 'd', id = 8").await;
    store.run("DELETE FROM t").await;
    let expected = [
        r#"INSERT 7 - {"a":1,"b":"b","id":7,"c":"c"}"#,
        r#"UPDATE 8 {"a":1,"b":"b","id":7,"c":"c"} {"a":1,"b":"b","id":8,"c":"d"}"#,
        r#"DELETE 8 {"a":1,"b":"b","id":8,"c":"d"} -"#,
    ];
    assert_eq!(store.changes("t").await, expected);
}

#[tokio::test]
async fn generated_columns_of_a_table_without_a_rowid_are_left_out() {
    let schema = "CREATE TABLE t (s TEXT AS (c || k) STORED, c TEXT, v AS (c || c), k TEXT, d TEXT,
        PRIMARY KEY (k)) WITHOUT ROWID";
    let store = Subject::watching(schema, &["t"]).await;
    store.run("INSERT INTO t (c, k, d) VALUES ('c', 'k', 'd')").await;
    store.run("UPDATE t SET d = 'e', k = 'l'").await;
    store.run("DELETE FROM t").await;
    let expected = [
        r#"INSERT k - {"c":"c","k":"k","d":"d"}"#,
        r#"UPDATE l {"c":"c","k":"k","d":"d"} {"c":"c","k":"l","d":"e"}"#,
        r#"DELETE l {"c":"c","k":"l","d":"e"} -"#,
    ];
    assert_eq!(store.changes("t").await, expected);
}

#[tokio::test]
async fn statements_that_fail_half_way_leave_nothing() {
    let schema = "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER CHECK (n < 10));
        CREATE TRIGGER no BEFORE DELETE ON t WHEN old.id = 2 BEGIN
            SELECT raise(ROLLBACK, 'never'); END;
        INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)";
    let store = Subject::watching(schema, &["t"]).await;
    for sql in [
        "UPDATE OR FAIL t SET n = n * 4",
        "UPDATE OR ABORT t SET n = n * 4",
        "UPDATE OR ROLLBACK t SET n = n * 4",
        "INSERT INTO t VALUES (4, 4); DELETE FROM t",
    ] {
        assert_eq!(store.problem(sql).await.code, "sql_constraint", "{sql}");
    }
    store.run("UPDATE OR IGNORE t SET n = n * 4").await;
    let expected =
        [r#"UPDATE 1 {"id":1,"n":1} {"id":1,"n":4}"#, r#"UPDATE 2 {"id":2,"n":2} {"id":2,"n":8}"#];
    assert_eq!(store.changes("t").await, expected);
}

#[tokio::test]
async fn an_update_that_changes_nothing_is_told() {
    let schema = "CREATE TABLE t (id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)";
    let store = Subject::watching(schema, &["t"]).await;
    store.run("UPDATE t SET id = id").await;
    assert_eq!(store.changes("t").await, [r#"UPDATE 1 {"id":1} {"id":1}"#]);
}

#[tokio::test]
async fn a_table_can_be_replaced_by_one_of_its_name() {
    let schema = "CREATE TABLE t (id INTEGER PRIMARY KEY, n TEXT); INSERT INTO t VALUES (1, '5')";
    let store = Subject::watching(schema, &["t"]).await;
    store
        .run(
            "CREATE TABLE t_new (id INTEGER PRIMARY KEY, n INTEGER);
            INSERT INTO t_new SELECT * FROM t;
            DROP TABLE t;
            ALTER TABLE t_new RENAME TO t",
        )
        .await;
    store.run("UPDATE t SET n = n + 1").await;
    assert_eq!(store.changes("t").await, [r#"UPDATE 1 {"id":1,"n":5} {"id":1,"n":6}"#]);
}

#[tokio::test]
async fn a_renamed_key_column_is_still_the_key() {
    let schema = "CREATE TABLE t (a TEXT, b TEXT, PRIMARY KEY (a))";
    let store = Subject::watching(schema, &["t"]).await;
    store.run("ALTER TABLE t RENAME COLUMN a TO key; INSERT INTO t VALUES ('k', 'v')").await;
    assert_eq!(store.changes("t").await, [r#"INSERT k - {"key":"k","b":"v"}"#]);
    store.run("ALTER TABLE t DROP COLUMN b; UPDATE t SET key = 'l'").await;
    assert_eq!(store.changes("t").await[1], r#"UPDATE l {"key":"k"} {"key":"l"}"#);
}

#[tokio::test]
async fn full_text_search_works_beside_a_watched_table() {
    let schema = "CREATE TABLE t (id INTEGER PRIMARY KEY, body TEXT);
        CREATE VIRTUAL TABLE t_search USING fts5 (body, content = 't', content_rowid = 'id');
        CREATE TRIGGER t_added AFTER INSERT ON t BEGIN
            INSERT INTO t_search (rowid, body) VALUES (new.id, new.body); END";
    let store = Subject::watching(schema, &["t"]).await;
    store.run("INSERT INTO t VALUES (1, 'the tide rises'), (2, 'the tide falls')").await;
    let found = store.run("SELECT rowid FROM t_search WHERE t_search MATCH 'falls'").await;
    assert_eq!(found.rows[0][0].get(), "2");
    assert_eq!(store.changes("t").await.len(), 2);
}
