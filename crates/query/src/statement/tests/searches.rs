//! What clients look for, and in what, is bounded: literals where they are read, computed values where they
//! are run.

use super::*;
use crate::refusal::TOO_LARGE;

const BOTH: [Dialect; 2] = [Dialect::Postgres, Dialect::Sqlite];

fn rerun(sql: &str, dialect: Dialect) -> String {
    bind(sql, dialect).unwrap_or_else(|refusal| panic!("{sql}: {refusal}")).rerun.to_string()
}

/// How often a statement has the database measure something.
fn measured(sql: &str, dialect: Dialect) -> usize {
    let sign = match dialect {
        Dialect::Postgres => "pg_catalog.\"varchar\"",
        Dialect::Sqlite => "tidewire_within",
    };
    rerun(sql, dialect).matches(sign).count()
}

#[test]
fn what_is_written_has_256_characters_at_most() {
    let statements = [
        (true, "SELECT id FROM orders WHERE status LIKE 'PATTERN'"),
        (true, "SELECT id FROM orders WHERE status NOT LIKE 'PATTERN' ORDER BY id LIMIT 2"),
        (true, "SELECT replace(status, 'PATTERN', 'b') FROM orders"),
        (true, "SELECT replace(status, 'b', 'PATTERN') FROM orders"),
        (true, "SELECT ltrim(status, 'PATTERN') FROM orders"),
        (true, "SELECT o.id FROM orders o JOIN customers c ON c.name LIKE 'PATTERN'"),
        (true, "WITH a AS (SELECT status AS s FROM orders) SELECT s FROM a WHERE s LIKE 'PATTERN'"),
        (false, "SELECT id FROM orders WHERE status ILIKE 'PATTERN'"),
        (false, "SELECT id FROM orders WHERE status SIMILAR TO 'PATTERN'"),
        (false, "SELECT id FROM orders WHERE status ~ 'PATTERN'"),
        (false, "SELECT id FROM orders WHERE status !~* ('PATTERN'::text)"),
        (false, "SELECT translate(status, 'PATTERN', 'b') FROM orders"),
        (false, "SELECT strpos(status, 'PATTERN') FROM orders"),
        (false, "SELECT position('PATTERN' IN status) FROM orders"),
        (false, "SELECT trim(BOTH 'PATTERN' FROM status) FROM orders"),
        (false, "SELECT btrim(status, text 'PATTERN') FROM orders"),
        (false, "SELECT split_part(status, 'PATTERN', 1) FROM orders"),
        (false, "SELECT regexp_replace(status, 'PATTERN', '') FROM orders"),
        (false, "SELECT substring(status FROM 'PATTERN') FROM orders"),
        (false, "SELECT cardinality(string_to_array(status, 'PATTERN')) FROM orders"),
    ];
    for dialect in BOTH {
        for (both, sql) in statements {
            if !both && dialect == Dialect::Sqlite {
                continue;
            }
            let with = |chars| sql.replace("PATTERN", &"ä".repeat(chars));
            let refusal = bind(&with(257), dialect).map(|query| query.rerun).expect_err(sql);
            assert_eq!(refusal.code, TOO_LARGE, "{sql}: {refusal}");
            bind(&with(256), dialect).unwrap_or_else(|refusal| panic!("{sql}: {refusal}"));
            // A parameter is a literal too.
            let asked =
                sql.replace("'PATTERN'", if dialect == Dialect::Sqlite { "?" } else { "$1" });
            if !asked.contains("text $1") {
                let params = format!("[\"{}\"]", "a".repeat(257));
                let refusal = bind_as(&asked, &params, dialect, &|_| Access::default());
                let refusal = refusal.map(|query| query.rerun).expect_err(&asked);
                assert_eq!(refusal.code, TOO_LARGE, "{asked}: {refusal}");
            }
        }
    }
}

#[test]
fn what_is_stored_is_searched_as_it_is() {
    for (sql, dialects) in [
        ("SELECT id FROM orders WHERE status LIKE 'a%'", &BOTH[..]),
        ("SELECT id, 1 + 1 FROM orders WHERE lower(status) LIKE 'a%'", &BOTH),
        ("SELECT id FROM orders WHERE coalesce(status, '') LIKE 'a%'", &BOTH),
        ("SELECT id FROM orders WHERE (data::text) ILIKE '%a%'", &BOTH[..1]),
        ("SELECT replace(upper(status), 'a', 'b') FROM orders", &BOTH),
        ("SELECT trim(status) FROM orders", &BOTH),
        ("SELECT max(status) FROM orders HAVING max(status) LIKE 'a%'", &BOTH),
        ("SELECT strpos(data ->> 'a', 'b') FROM orders", &BOTH[..1]),
    ] {
        for dialect in dialects {
            assert_eq!(measured(sql, *dialect), 0, "{}", rerun(sql, *dialect));
        }
    }
}

#[test]
fn what_is_computed_is_measured_when_it_is_run() {
    for (sql, dialects, expected) in [
        ("SELECT id FROM orders WHERE status || status LIKE 'a%'", &BOTH[..], 1),
        ("SELECT id FROM orders WHERE (status || status) NOT LIKE 'a%' AND id = 1", &BOTH, 1),
        (
            "SELECT id FROM orders WHERE status LIKE '%' || secret || '%' AND id > 2 OR id = 1",
            &BOTH,
            1,
        ),
        ("SELECT id FROM orders WHERE status LIKE secret", &BOTH, 1),
        ("SELECT id FROM orders WHERE status LIKE ('%' || secret) ESCAPE 'x'", &BOTH, 1),
        (
            "SELECT id FROM orders WHERE status || 'a' LIKE (CASE WHEN id = 1 THEN status ELSE 'x' END)",
            &BOTH,
            2,
        ),
        ("SELECT replace(replace(status, 'a', 'bb'), 'b', status) FROM orders", &BOTH, 3),
        ("SELECT ltrim(status || 'x', secret) FROM orders", &BOTH, 2),
        (
            "WITH a AS (SELECT status || status AS s FROM orders) SELECT s FROM a WHERE s LIKE 'b%'",
            &BOTH,
            1,
        ),
        ("SELECT id FROM orders WHERE CAST(status || 'a' AS text) LIKE 'b'", &BOTH, 1),
        (
            "SELECT id FROM orders WHERE trim(BOTH secret FROM status || status) ~ 'a'",
            &BOTH[..1],
            3,
        ),
        ("SELECT position(secret IN status || status) FROM orders", &BOTH[..1], 2),
        ("SELECT strpos(string_agg(status, ''), 'a') FROM orders", &BOTH[..1], 1),
        ("SELECT id FROM orders WHERE status ~ secret AND status !~ 'a'", &BOTH[..1], 1),
        ("SELECT id FROM orders WHERE status SIMILAR TO concat(secret, 'a')", &BOTH[..1], 1),
        (
            "SELECT id FROM orders WHERE status NOT SIMILAR TO concat(secret, 'a') AND id = 2",
            &BOTH[..1],
            1,
        ),
    ] {
        for dialect in dialects {
            assert_eq!(measured(sql, *dialect), expected, "{}", rerun(sql, *dialect));
        }
    }
}

#[test]
fn what_is_put_around_a_value_is_around_all_of_it() {
    let sql = "SELECT replace(status || 'a', 'b', secret) AS r FROM orders WHERE id = 1";
    let rerun = rerun(sql, Dialect::Sqlite);
    let within = "replace ( tidewire_within( status || 'a' , 1048576) , 'b' , tidewire_within( secret , 256) )";
    assert!(rerun.contains(within), "{rerun}");
}

/// What no index would find anyway is looked at so that the database can be stopped in between.
#[test]
fn many_patterns_can_be_stopped_between() {
    let of = |count: usize| {
        let each: Vec<String> =
            (0..count).map(|n| format!("strpos(status, 'abcdefgh{n:02}')")).collect();
        format!("SELECT {} AS n FROM orders", each.join(" + "))
    };
    let watched = |sql: &str| rerun(sql, Dialect::Postgres).matches("jsonb_path_exists_tz").count();
    assert_eq!(watched(&of(99)), 0);
    assert!(watched(&of(110)) > 0);
}

#[test]
fn arrays_and_documents_that_are_computed_are_measured() {
    for (sql, expected) in [
        ("SELECT id FROM orders WHERE tags && ARRAY['a', 'b']", 0),
        ("SELECT id FROM orders WHERE data::jsonb @> '{\"a\": 1}'", 0),
        ("SELECT id FROM orders WHERE tags && string_to_array(status, ',')", 1),
        (
            "SELECT id FROM orders WHERE string_to_array(status, ',') @> string_to_array(secret, ',')",
            2,
        ),
        ("SELECT data::jsonb - string_to_array(status, ',') FROM orders", 1),
        ("SELECT total - 1 FROM orders", 0),
        ("SELECT sum(total) - count(*) FROM orders", 0),
    ] {
        let rerun = rerun(sql, Dialect::Postgres);
        assert_eq!(rerun.matches("OFFSET 0) AS \"measured\"").count(), expected, "{rerun}");
    }
    let sql = "SELECT array_agg(status) && array_agg(secret) FROM orders";
    let refusal = bind(sql, Dialect::Postgres).map(|query| query.rerun).expect_err(sql);
    assert!(refusal.hint.is_some_and(|hint| hint.contains("WITH")));
    let sql = "SELECT json_patch(data, data) FROM orders";
    assert_eq!(measured(sql, Dialect::Sqlite), 0, "{}", rerun(sql, Dialect::Sqlite));
    let sql = "SELECT json_patch(data, json_object('a', status || status)) FROM orders";
    assert_eq!(measured(sql, Dialect::Sqlite), 1, "{}", rerun(sql, Dialect::Sqlite));
}

#[test]
fn patterns_in_json_paths_are_bounded() {
    let statements = [
        "SELECT id FROM orders WHERE jsonb_path_exists(data::jsonb, 'PATH')",
        "SELECT id FROM orders WHERE pg_catalog.jsonb_path_match(data::jsonb, ('PATH'))",
        "SELECT jsonb_path_query_array(data::jsonb, 'PATH', '{}', true) FROM orders",
        "SELECT jsonb_path_query_first(data::jsonb, 'PATH') FROM orders",
        "SELECT id FROM orders WHERE data::jsonb @? 'PATH' AND id = 1",
        "SELECT id FROM orders WHERE id = 1 OR data::jsonb @@ 'PATH'",
    ];
    for sql in statements {
        let with = |path: &str| bind(&sql.replace("PATH", path), Dialect::Postgres);
        let taken = |path: &str| {
            let query = with(path).unwrap_or_else(|refusal| panic!("{sql}, {path}: {refusal}"));
            assert!(!query.rerun.contains("varchar"), "{}", query.rerun);
        };
        let pattern = |chars: usize| format!("$ ? (@ like_regex \"{}\")", "a".repeat(chars));
        let refusal = with(&pattern(257)).map(|query| query.rerun).expect_err(sql);
        assert_eq!(refusal.code, TOO_LARGE, "{sql}: {refusal}");
        taken(&pattern(256));
        // What is no string may be as long as it is.
        taken(&format!("${}", ".part".repeat(100)));
        let asked = sql.replace("'PATH'", "$1");
        let params = serde_json::to_string(&[pattern(257)]).expect("JSON");
        let refusal = bind_as(&asked, &params, Dialect::Postgres, &|_| Access::default());
        assert_eq!(refusal.map(|query| query.rerun).expect_err(&asked).code, TOO_LARGE, "{asked}");
    }
    let sql = "SELECT i.id FROM searches i, orders o WHERE CONDITION";
    for (condition, expected) in [
        ("o.data::jsonb @? i.path", 1),
        ("o.data::jsonb @@ i.path", 1),
        ("o.data::jsonb @@ (o.status || 'x')::jsonpath", 1),
        ("jsonb_path_exists(o.data::jsonb, i.path)", 1),
        ("jsonb_path_exists(o.data::jsonb, coalesce(i.path, '$'))", 1),
        ("o.status @@ i.words", 0),
        ("o.status @@ (o.secret::text)", 0),
    ] {
        let rerun = rerun(&sql.replace("CONDITION", condition), Dialect::Postgres);
        assert_eq!(rerun.matches("pg_catalog.\"varchar\"").count(), expected, "{rerun}");
        assert_eq!(rerun.matches("::pg_catalog.jsonpath").count(), expected, "{rerun}");
    }
    let unknown = "WITH p AS (SELECT path FROM searches) SELECT o.id FROM orders o, p WHERE o.data::jsonb @@ p.path";
    let refusal = bind(unknown, Dialect::Postgres).map(|query| query.rerun).expect_err(unknown);
    assert!(refusal.hint.is_some_and(|hint| hint.contains("jsonb_path_match")));
}

/// The operator's own words are not held to what clients are held to.
#[test]
fn rules_may_be_longer() {
    let rule = format!("secret LIKE '{}%' OR replace(secret, status, 'a') = 'x'", "a".repeat(300));
    let access = |_: &str| Access { rules: vec![rule.as_str().into()], ..Access::default() };
    for dialect in BOTH {
        let query = bind_as("SELECT id FROM orders", "[]", dialect, &access).expect("it is kept");
        assert!(!query.rerun.contains("tidewire_within"), "{}", query.rerun);
    }
}

/// What the planner expects would tell of rows that are not seen: these are bounded by what they are.
#[test]
fn who_sees_part_of_a_table_is_bounded_by_structure() {
    let tables = |count: usize| {
        let all: Vec<String> = (0..count).map(|n| format!("orders o{n}")).collect();
        format!("SELECT o0.id FROM {}", all.join(", "))
    };
    let series =
        "SELECT o.id FROM orders o, generate_series(1, 2000) a, generate_series(1, 2000) b";
    for (sql, is_too_large) in [(tables(16), false), (tables(17), true), (series.to_owned(), true)]
    {
        let narrow = bind_as(&sql, "[]", Dialect::Postgres, &narrow).map(|query| query.rerun);
        assert_eq!(narrow.is_err_and(|refusal| refusal.code == "query_too_large"), is_too_large);
        assert!(bind(&sql, Dialect::Postgres).is_ok(), "{sql}");
    }
}

#[test]
fn patterns_are_counted_where_no_index_finds_the_query() {
    for (sql, expected) in [
        ("SELECT id FROM orders WHERE status LIKE 'a%'", vec![("orders", 1)]),
        ("SELECT id FROM orders WHERE status LIKE 'a%' OR status LIKE 'b%'", vec![("orders", 2)]),
        ("SELECT id FROM orders WHERE status LIKE 'a%' AND id = 1", vec![]),
        ("SELECT count(*) FROM orders WHERE status LIKE 'a%'", vec![("orders", 1)]),
        (
            "SELECT o.id FROM orders o JOIN customers c ON c.id = o.id WHERE c.name LIKE 'a%'",
            vec![("customers", 1)],
        ),
    ] {
        let query = bind(sql, Dialect::Postgres).expect(sql);
        assert_eq!(query.unindexed_patterns(), expected, "{sql}");
    }
}
