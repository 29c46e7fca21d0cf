//! What makes larger values of smaller ones is measured where it does.

use super::*;
use crate::refusal::TOO_LARGE;

fn rerun(sql: &str, dialect: Dialect) -> String {
    bind(sql, dialect).unwrap_or_else(|refusal| panic!("{sql}: {refusal}")).rerun.to_string()
}

/// How often PostgreSQL measures something in a statement.
fn measured(sql: &str) -> usize {
    let rerun = rerun(sql, Dialect::Postgres);
    ["pg_catalog.\"varchar\"", "AS \"measured\""].iter().map(|it| rerun.matches(it).count()).sum()
}

const DOUBLED: &str = "WITH RECURSIVE d(x) AS (SELECT status FROM orders UNION ALL \
                       SELECT x || x FROM d WHERE length(x) < 9)";

#[test]
fn what_recursion_makes_is_measured_at_each_step() {
    assert_eq!(measured(&format!("{DOUBLED} SELECT length(x) FROM d")), 1);
    let sqlite = rerun(&format!("{DOUBLED} SELECT length(x) FROM d"), Dialect::Sqlite);
    assert!(sqlite.contains("tidewire_within( x || x , 1048576)"), "{sqlite}");
}

#[test]
fn what_grows_is_measured_where_it_is_computed() {
    for (expression, expected) in [
        ("concat(x, x)", 1),
        ("length(concat(x, x) || 'a')", 2),
        ("overlay(x PLACING x FROM 2)", 1),
        ("to_char(1, x)", 1),
        ("encode(x::bytea, 'hex')", 1),
        ("array_append(ARRAY['a'], x)", 1),
        ("to_jsonb(x)", 1),
        ("x::numeric", 1),
        ("CAST(x AS numeric) * 2", 1),
        ("power(2, 100000)", 1),
        ("upper(x)", 0),
        ("length(x) * 2", 0),
    ] {
        let sql = format!("{DOUBLED} SELECT {expression} FROM d");
        assert_eq!(measured(&sql), 1 + expected, "{}", rerun(&sql, Dialect::Postgres));
    }
}

#[test]
fn what_is_made_of_a_few_stored_values_is_not() {
    for sql in [
        "SELECT status || ' ' || secret FROM orders",
        "SELECT concat(status, '-', id) FROM orders",
        "SELECT total * 2 + id FROM orders",
        "SELECT sum(total) * 2 FROM orders",
        "SELECT to_char(total, '9.9') FROM orders",
    ] {
        assert_eq!(measured(sql), 0, "{}", rerun(sql, Dialect::Postgres));
    }
}

/// Of a few stored values very many may be made: those of a row are in memory at the same time.
#[test]
fn what_is_made_of_a_few_stored_values_in_very_many_places_is() {
    let many = |expression: &str, count: usize| {
        let each = vec![expression; count].join(" + ");
        format!("SELECT {each} AS n FROM orders")
    };
    for (expression, parts) in [
        ("length(concat(status, secret, '-'))", 2),
        // The beginning of it is a value as well.
        ("length(status || secret || host)", 5),
        ("cardinality(array_append(tags, status))", 2),
        ("length(overlay(status PLACING secret FROM 2))", 2),
    ] {
        let few = 64 / parts;
        assert_eq!(measured(&many(expression, few)), 0, "{expression}");
        assert!(measured(&many(expression, few + 1)) > few, "{expression}: all of them");
    }
    let sql = "SELECT concat(status, secret) AS c, count(*) AS n FROM orders GROUP BY concat(status, secret), ";
    let sql = format!("{sql}{}", vec!["concat(host, status)"; 40].join(", "));
    assert_eq!(measured(&sql), 42, "like expressions stay alike");
    let sqlite = rerun(&many("length(status || secret)", 33), Dialect::Sqlite);
    assert_eq!(sqlite.matches("tidewire_within( status || secret").count(), 33, "{sqlite}");
    let constant = many("length(concat('a', id::int))", 100);
    assert_eq!(measured(&constant), 0);
}

#[test]
fn what_aggregates_gather_is_counted() {
    for sql in [
        "SELECT array_agg(DISTINCT status ORDER BY status) FROM orders",
        "SELECT string_agg(status, ',') FILTER (WHERE id > 2) FROM orders",
        "SELECT json_agg((SELECT status)) FROM orders",
    ] {
        let rerun = rerun(sql, Dialect::Postgres);
        assert!(rerun.contains("tidewire.gathered_bytes"), "{rerun}");
    }
}

#[test]
fn numbers_as_they_are_written_are_short() {
    let sql = |digits: usize| format!("SELECT {} * total FROM orders", "9".repeat(digits));
    bind(&sql(1_000), Dialect::Postgres).expect("it may have these");
    let refusal = bind(&sql(1_001), Dialect::Postgres).map(|query| query.rerun);
    assert_eq!(refusal.expect_err("it has more").code, TOO_LARGE);
}
