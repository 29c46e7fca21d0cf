//! What becomes of ORDER BY and LIMIT.

use super::*;
use crate::plan::sample;
use crate::refusal::{NO_COLUMN, NOT_EXACT, NOT_SUPPORTED};

const COLUMNS: [&str; 8] = [
    "id int8",
    "name text en_US",
    "code text C",
    "total numeric",
    "doc json",
    "mood enum public.mood",
    "made timestamptz",
    "uid text default",
];

fn read(sql: &str, key: &[&str]) -> Result<String, Refusal> {
    sample::with(sql, &sample::table(&COLUMNS, key), Dialect::Postgres, plan).map(|(_, read)| read)
}

#[test]
fn the_key_breaks_ties_and_what_sorts_is_read() {
    for (sql, expected) in [
        (
            "SELECT name FROM t ORDER BY made DESC LIMIT 5",
            "SELECT \"name\", \"made\", \"id\" FROM t \
             ORDER BY 2 DESC NULLS FIRST, 3 ASC NULLS LAST LIMIT 8",
        ),
        (
            "SELECT * FROM t ORDER BY id LIMIT 10 OFFSET 20",
            "SELECT \"id\", \"name\", \"code\", \"total\", pg_catalog.to_jsonb(\"doc\"), \"mood\", \"made\", \
             \"uid\" FROM t ORDER BY 1 ASC NULLS LAST LIMIT 33",
        ),
        (
            "SELECT id FROM t ORDER BY name COLLATE \"C\" NULLS FIRST, 1 DESC LIMIT 1",
            "SELECT \"id\", \"name\" FROM t \
             ORDER BY \"name\" COLLATE \"C\" ASC NULLS FIRST, 1 DESC NULLS FIRST LIMIT 4",
        ),
        (
            "SELECT total AS id FROM t ORDER BY id",
            "SELECT \"total\", \"id\" FROM t ORDER BY 1 ASC NULLS LAST, 2 ASC NULLS LAST",
        ),
        (
            "SELECT code AS c FROM t AS t ORDER BY c, t.total LIMIT 99",
            "SELECT \"code\", \"total\", \"id\" FROM t \
             ORDER BY 1 ASC NULLS LAST, 2 ASC NULLS LAST, 3 ASC NULLS LAST LIMIT 100",
        ),
    ] {
        assert_eq!(read(sql, &["id"]).expect(sql), expected, "{sql}");
    }
    let by_text = read("SELECT id FROM t ORDER BY 1 LIMIT 1", &["uid"]).expect("a key of text");
    assert!(by_text.contains("\"uid\" COLLATE \"C\" ASC"), "{by_text}");
}

#[test]
fn what_only_the_database_can_sort_is_not_kept() {
    for (code, sql) in [
        (NOT_EXACT, "SELECT id FROM t ORDER BY name LIMIT 5"),
        (NOT_EXACT, "SELECT id FROM t ORDER BY mood LIMIT 5"),
        (NOT_EXACT, "SELECT id FROM t ORDER BY doc LIMIT 5"),
        (NOT_SUPPORTED, "SELECT id FROM t ORDER BY lower(name) LIMIT 5"),
        (NOT_SUPPORTED, "SELECT id FROM t ORDER BY id + 1 LIMIT 5"),
        (NOT_SUPPORTED, "SELECT id FROM t ORDER BY 2 LIMIT 5"),
        (NOT_SUPPORTED, "SELECT id, 5 AS five FROM t ORDER BY five LIMIT 5"),
        (NOT_SUPPORTED, "SELECT id FROM t ORDER BY id USING > LIMIT 5"),
        (NO_COLUMN, "SELECT id FROM t ORDER BY nothing LIMIT 5"),
        (NOT_SUPPORTED, "SELECT id FROM t LIMIT 5"),
        (NOT_SUPPORTED, "SELECT id FROM t ORDER BY id LIMIT 0"),
        (NOT_SUPPORTED, "SELECT id FROM t ORDER BY id LIMIT 101"),
        (NOT_SUPPORTED, "SELECT id FROM t ORDER BY id LIMIT 50 OFFSET 51"),
        (NOT_SUPPORTED, "SELECT id FROM t ORDER BY id LIMIT 5 + 5"),
        (NOT_SUPPORTED, "SELECT id FROM t ORDER BY id FETCH FIRST 5 ROWS WITH TIES"),
        (NOT_SUPPORTED, "SELECT id AS a, total AS a FROM t ORDER BY a LIMIT 5"),
        (NOT_SUPPORTED, "SELECT id + 1 FROM t ORDER BY id LIMIT 5"),
        (NOT_SUPPORTED, "SELECT id FROM t GROUP BY id ORDER BY id LIMIT 5"),
    ] {
        assert_eq!(read(sql, &["id"]).expect_err(sql).code, code, "{sql}");
    }
    let refusal = read("SELECT id FROM t ORDER BY name LIMIT 5", &["id"]).expect_err("a locale");
    assert!(refusal.hint.is_some_and(|hint| hint.contains("COLLATE \"C\"")));
    // Without a key 1.5 and 1.50 are rows that the order does not tell apart.
    let keyless = read("SELECT id FROM t ORDER BY id LIMIT 5", &[]);
    assert_eq!(keyless.expect_err("no key").code, NOT_EXACT);
}

#[test]
fn sqlite_sorts_null_first_and_by_declared_collations() {
    let shape = sample::table(&["id INTEGER", "name TEXT NOCASE", "raw BLOB"], &["id"]);
    let read = |sql: &str| sample::with(sql, &shape, Dialect::Sqlite, plan);
    let (window, sql) = read("SELECT name FROM t ORDER BY name LIMIT 5").expect("a window");
    assert_eq!(
        sql,
        "SELECT \"name\", \"id\" FROM t ORDER BY 1 ASC NULLS FIRST, 2 ASC NULLS FIRST LIMIT 8"
    );
    assert_eq!(window.sort[0].direction.collation, crate::value::Collation::Nocase);
    let (_, sql) = read("SELECT id FROM t ORDER BY name COLLATE binary DESC").expect("a window");
    assert!(
        sql.ends_with("ORDER BY \"name\" COLLATE \"BINARY\" DESC NULLS LAST, 1 ASC NULLS FIRST")
    );
    let raw = read("SELECT id FROM t ORDER BY raw");
    assert_eq!(raw.expect_err("bytes have no order here").code, NOT_EXACT);
}
