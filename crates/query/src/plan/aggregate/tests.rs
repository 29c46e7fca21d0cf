//! What becomes of aggregates, GROUP BY and HAVING.

use super::*;
use crate::plan::sample;
use crate::refusal::{NOT_EXACT, NOT_SUPPORTED};

const COLUMNS: [&str; 8] = [
    "id int8",
    "status text en_US",
    "n int4",
    "total numeric(2)",
    "free numeric",
    "ratio float8",
    "doc json",
    "made timestamptz",
];

fn read(sql: &str) -> Result<(AggregatePlan, String), Refusal> {
    sample::with(sql, &sample::table(&COLUMNS, &["id"]), Dialect::Postgres, plan)
}

#[test]
fn what_groups_are_made_of_is_read_once() {
    for (sql, expected) in [
        ("SELECT count(*) FROM t", "SELECT pg_catalog.count(*) FROM t"),
        (
            "SELECT status, COUNT(*) AS c, sum(n), avg(n), max(made) FROM t GROUP BY status \
             HAVING count(*) > 5 AND min(n) < 3 ORDER BY c DESC, 1 COLLATE \"C\" LIMIT 3",
            "",
        ),
        (
            "SELECT status, COUNT(*) AS c, sum(n), avg(n), max(made) FROM t GROUP BY status \
             HAVING count(*) > 5 AND min(n) < 3 ORDER BY c DESC, status COLLATE \"C\" LIMIT 3",
            "SELECT \"status\", pg_catalog.count(*), pg_catalog.count(\"n\"), pg_catalog.sum(\"n\"), \
             pg_catalog.min(\"n\"), pg_catalog.count(\"made\"), pg_catalog.max(\"made\") FROM t GROUP BY 1",
        ),
        (
            "SELECT t.n AS k, sum(total) FROM t GROUP BY 1, k",
            "SELECT \"n\", pg_catalog.count(*), pg_catalog.count(\"total\"), \
             pg_catalog.sum(\"total\") FROM t GROUP BY 1",
        ),
    ] {
        match read(sql) {
            Ok((_, read)) => assert_eq!(read, expected, "{sql}"),
            Err(refusal) => assert_eq!(expected, "", "{sql}: {refusal}"),
        }
    }
}

#[test]
fn what_is_not_exact_is_not_kept() {
    for (code, sql) in [
        (NOT_EXACT, "SELECT free, count(*) FROM t GROUP BY free"),
        (NOT_EXACT, "SELECT ratio, count(*) FROM t GROUP BY ratio"),
        (NOT_EXACT, "SELECT sum(ratio) FROM t"),
        (NOT_EXACT, "SELECT sum(free) FROM t"),
        (NOT_EXACT, "SELECT min(free) FROM t"),
        (NOT_EXACT, "SELECT min(status) FROM t"),
        (NOT_EXACT, "SELECT count(doc) FROM t"),
        (NOT_SUPPORTED, "SELECT count(DISTINCT n) FROM t"),
        (NOT_SUPPORTED, "SELECT count(*) FILTER (WHERE n > 1) FROM t"),
        (NOT_SUPPORTED, "SELECT sum(n + 1) FROM t"),
        (NOT_SUPPORTED, "SELECT n, count(*) FROM t"),
        (NOT_SUPPORTED, "SELECT id, n FROM t GROUP BY id"),
        (NOT_SUPPORTED, "SELECT n + 1, count(*) FROM t GROUP BY n + 1"),
        (NOT_SUPPORTED, "SELECT n, count(*) FROM t GROUP BY n LIMIT 5"),
        (NOT_EXACT, "SELECT status, count(*) FROM t GROUP BY status ORDER BY status"),
        (NOT_SUPPORTED, "SELECT n, count(*) FROM t GROUP BY ROLLUP (n)"),
        (NOT_SUPPORTED, "SELECT n FROM t GROUP BY n HAVING sum(n) / 2 > 1"),
        (NOT_SUPPORTED, "SELECT string_agg(status, ',') FROM t"),
        (NOT_SUPPORTED, "SELECT count(*), 1 FROM t"),
        (NOT_SUPPORTED, "SELECT * FROM t GROUP BY id"),
    ] {
        assert_eq!(read(sql).expect_err(sql).code, code, "{sql}");
    }
}

#[test]
fn sqlite_sums_integers_only() {
    let shape = sample::table(&["id INTEGER", "price REAL", "name TEXT", "n BIGINT"], &["id"]);
    let read = |sql: &str| sample::with(sql, &shape, Dialect::Sqlite, plan);
    let (_, sql) = read("SELECT name, sum(n) FROM t GROUP BY name HAVING sum(n) > 5").expect("it");
    assert_eq!(sql, "SELECT \"name\", count(*), count(\"n\"), sum(\"n\") FROM t GROUP BY 1");
    for (code, sql) in [
        (NOT_EXACT, "SELECT sum(price) FROM t"),
        (NOT_EXACT, "SELECT avg(price) FROM t"),
        (NOT_EXACT, "SELECT price, count(*) FROM t GROUP BY price"),
        (NOT_SUPPORTED, "SELECT name FROM t GROUP BY name HAVING sum(n) > '5'"),
        (NOT_SUPPORTED, "SELECT name FROM t GROUP BY name HAVING min(n) > 5"),
    ] {
        assert_eq!(read(sql).expect_err(sql).code, code, "{sql}");
    }
}
