//! What no live query may do, however it is written.

use super::*;
use crate::plan::PlanName;
use crate::refusal::{
    NO_COLUMN, NO_FUNCTION, NO_TABLE, PARAMETER, QUERY_NOT_SUPPORTED, QUERY_SYNTAX, QUERY_TOO_LARGE,
};

fn refused(sql: &str, dialect: Dialect) -> Refusal {
    let refusal = bind_as(sql, "[]", dialect, &narrow);
    refusal.map(|query| query.rerun).expect_err(&format!("{sql} is refused"))
}

#[test]
fn writing_and_locking_are_refused() {
    for sql in [
        "SELECT id INTO copy FROM orders",
        "SELECT id FROM orders FOR UPDATE",
        "SELECT id FROM orders FOR NO KEY UPDATE SKIP LOCKED",
        "SELECT id FROM (SELECT id FROM orders FOR SHARE) o",
        "WITH d AS (DELETE FROM orders RETURNING id) SELECT * FROM d",
        "WITH d AS (INSERT INTO orders VALUES (1) RETURNING id) SELECT * FROM d",
        "WITH d AS (UPDATE orders SET id = 1 RETURNING id) SELECT * FROM d",
        "WITH d AS (MERGE INTO orders USING items ON true WHEN MATCHED THEN DELETE) SELECT 1",
        "INSERT INTO orders SELECT * FROM orders",
        "DELETE FROM orders",
        "TABLE orders",
        "EXPLAIN ANALYZE SELECT 1",
        "SELECT 1; DROP TABLE orders",
        "COPY orders TO PROGRAM 'x'",
        "DO 'x'",
        "",
    ] {
        let refusal = refused(sql, Dialect::Postgres);
        assert!([QUERY_NOT_SUPPORTED, QUERY_SYNTAX].contains(&refusal.code), "{sql}: {refusal:?}");
    }
}

#[test]
fn only_functions_of_the_list_are_called() {
    for call in [
        "query_to_xml('select 1', true, true, '')",
        "table_to_xml('orders', true, true, '')",
        "cursor_to_xml('c', 1, true, true, '')",
        "database_to_xml(true, true, '')",
        "pg_advisory_lock(1)",
        "pg_catalog.pg_try_advisory_xact_lock(1)",
        "pg_sleep(1)",
        "pg_read_file('/etc/passwd')",
        "pg_terminate_backend(1)",
        "set_config('role', 'x', false)",
        "current_setting('x')",
        "dblink('x', 'y')",
        "lo_import('x')",
        "nextval('s')",
        "repeat('x', 1000)",
        "to_regclass('x')",
        "random()",
        "gen_random_uuid()",
        "now()",
        "clock_timestamp()",
        "age(date '2024-01-01')",
        "version()",
        "row_to_json(o)",
        "public.lower(status)",
        "\"Lower\"(status)",
        "text(id)",
        "current_user",
        "session_user",
        "current_date",
        "current_timestamp",
        "localtime",
    ] {
        for sql in [
            format!("SELECT {call} FROM orders o"),
            format!("SELECT id FROM orders o WHERE {call} IS NOT NULL"),
            format!("SELECT id FROM orders o ORDER BY {call}"),
            format!("SELECT id FROM items i JOIN orders o ON {call} IS NULL"),
            format!("SELECT (SELECT {call}) FROM orders o"),
        ] {
            let refusal = refused(&sql, Dialect::Postgres);
            assert_eq!(refusal.code, NO_FUNCTION, "{sql}: {refusal}");
        }
    }
    for sql in ["SELECT * FROM dblink('x', 'y')", "SELECT * FROM pg_ls_dir('/') AS d"] {
        assert_eq!(refused(sql, Dialect::Postgres).code, NO_FUNCTION, "{sql}");
    }
    for call in [
        "load_extension('x')",
        "readfile('x')",
        "random()",
        "randomblob(9)",
        "zeroblob(9)",
        "sqlite_version()",
        "date()",
        "date('now')",
        "datetime(status, 'localtime')",
        "strftime('%s')",
        "printf('%100d', 1)",
        "changes()",
        "instr(status, 'x')",
        "last_insert_rowid()",
    ] {
        let sql = format!("SELECT {call} FROM orders");
        assert_eq!(refused(&sql, Dialect::Sqlite).code, NO_FUNCTION, "{sql}");
    }
}

#[test]
fn a_hidden_column_and_one_that_is_not_there_are_answered_alike() {
    for dialect in [Dialect::Postgres, Dialect::Sqlite] {
        for sql in [
            "SELECT ? FROM orders",
            "SELECT o.? FROM orders o",
            "SELECT id FROM orders WHERE ? = 'x'",
            "SELECT id FROM orders ORDER BY ?",
            "SELECT count(*) FROM orders GROUP BY ?",
            "SELECT count(*) FROM orders HAVING max(?) > 'a'",
            "SELECT o.id FROM orders o JOIN customers c USING (?)",
            "SELECT o.id FROM orders o JOIN customers c ON o.? = c.?",
            "SELECT (SELECT o.? FROM items LIMIT 1) FROM orders o",
            "SELECT s.? FROM (SELECT * FROM orders) s",
            "WITH s AS (SELECT * FROM orders) SELECT ? FROM s",
            "SELECT rank() OVER (ORDER BY ?) FROM orders",
            "SELECT count(*) FILTER (WHERE ? = 'a') FROM orders",
        ] {
            let hidden = refused(&sql.replace('?', "secret"), dialect);
            let unknown = refused(&sql.replace('?', "sacred"), dialect);
            assert_eq!(hidden.code, NO_COLUMN, "{sql}: {hidden}");
            assert_eq!(hidden.message.replace("secret", "sacred"), unknown.message, "{sql}");
            assert_eq!(hidden.position, unknown.position, "{sql}");
            assert_eq!(hidden.hint, unknown.hint, "{sql}");
        }
    }
}

#[test]
fn a_hidden_column_is_in_no_star_and_in_no_natural_join() {
    for dialect in [Dialect::Postgres, Dialect::Sqlite] {
        for sql in ["SELECT * FROM orders NATURAL JOIN customers", "SELECT o.*, 1 FROM orders o"] {
            let query = bind_as(sql, "[]", dialect, &narrow).expect(sql);
            assert!(query.columns.iter().all(|column| !column.contains("secret")), "{sql}");
            let selected = query.rerun.split("WHERE").next().unwrap_or_default();
            assert!(!selected.contains("\"secret\""), "{}", query.rerun);
        }
    }
}

#[test]
fn a_whole_row_is_no_value() {
    for sql in [
        "SELECT o FROM orders o",
        "SELECT to_jsonb(o) FROM orders o",
        "SELECT jsonb_agg(orders) FROM orders",
        "SELECT (o).secret FROM orders o",
        "SELECT (o.*).secret FROM orders o",
        "SELECT count(o.*) FROM orders o",
        "SELECT o.row_to_json FROM orders o",
        "SELECT o.to_jsonb FROM orders o",
        "SELECT id FROM orders o WHERE o = o",
        "SELECT id FROM orders o WHERE o IS NULL",
        "SELECT ctid, xmin, tableoid FROM orders",
        "SELECT array_agg(o) FROM orders o",
    ] {
        refused(sql, Dialect::Postgres);
    }
    for sql in ["SELECT rowid FROM orders", "SELECT _rowid_ FROM orders", "SELECT oid FROM orders"]
    {
        refused(sql, Dialect::Sqlite);
    }
}

#[test]
fn a_table_does_not_hide_behind_a_name_of_with() {
    for sql in [
        "WITH orders AS (SELECT 1 AS id) SELECT id FROM public.orders",
        "WITH x AS (SELECT id FROM orders), orders AS (SELECT 1 AS id) SELECT id FROM x",
        "SELECT id FROM orders WHERE id IN (WITH orders AS (SELECT 1 AS id) SELECT id FROM orders)",
        "WITH pg_class AS (SELECT 1 AS id) SELECT id FROM pg_class",
        "WITH orders AS (SELECT id FROM orders) SELECT id FROM orders",
    ] {
        let refusal = refused(sql, Dialect::Postgres);
        assert_eq!(refusal.code, QUERY_NOT_SUPPORTED, "{sql}: {refusal}");
        assert!(refusal.position.is_some(), "{sql}");
    }
    for sql in ["SELECT * FROM pg_class", "SELECT * FROM information_schema.tables"] {
        let refusal = refused(sql, Dialect::Postgres);
        assert_eq!((refusal.code, refusal.position), (NO_TABLE, Some(15)), "{sql}");
    }
}

#[test]
fn strings_operators_and_types_that_mean_more_are_refused() {
    for sql in [
        "SELECT E'\\x27' FROM orders",
        "SELECT U&'x' FROM orders",
        "SELECT $$x$$ FROM orders",
        "SELECT B'1' FROM orders",
        "SELECT X'ff' FROM orders",
        "SELECT 1 OPERATOR(pg_catalog.+) 2 FROM orders",
        "SELECT 1 <#> 2 FROM orders",
        "SELECT 'orders'::regclass FROM orders",
        "SELECT CAST('x' AS regproc) FROM orders",
        "SELECT '<a/>'::xml FROM orders",
        "SELECT id FROM orders TABLESAMPLE SYSTEM (10)",
        "SELECT id FROM ONLY orders",
        "SELECT public.orders.id FROM public.orders",
        "SELECT id FROM orders WHERE CURRENT OF c",
        "SELECT id FROM orders WHERE id = :name",
    ] {
        refused(sql, Dialect::Postgres);
    }
    let refusal = refused("SELECT id FROM orders WHERE status = \"paid\"", Dialect::Sqlite);
    assert_eq!(refusal.hint.as_deref(), Some("a string is written in single quotes: 'paid'"));
    for sql in ["SELECT id FROM 'orders'", "SELECT id FROM orders INDEXED BY x"] {
        refused(sql, Dialect::Sqlite);
    }
}

#[test]
fn no_value_is_looked_up_in_the_catalog_even_for_a_column_of_such_a_type() {
    let types = [("id", "int4", ""), ("rc", "regclass", ""), ("ro", "regrole", "")];
    let arrays = [("ra", "_regclass", ""), ("rp", "_regproc", ""), ("regtype", "region", "")];
    let columns = [types, arrays].concat();
    let shape = Arc::new(shape("kinds", &columns, Dialect::Postgres));
    let bind = |sql: &str| {
        let draft = Draft::parse(sql, &[], Dialect::Postgres)?;
        let tables: Vec<_> =
            draft.tables().iter().map(|name| (name.clone(), Arc::clone(&shape))).collect();
        let limits = QueryLimits { rows_max: 10_000, window_slack: 64, hide_timing: true };
        let access = |_: &str| Access::default();
        let binding = Binding { tables: &tables, access: &access, caller: &Ada, limits };
        draft.bind(&binding).map(|query| query.rerun)
    };
    for cast in [
        "'x'::regclass",
        "'x'::RegClass",
        "'x'::\"regclass\"",
        "CAST('x' AS regrole)",
        "regtype 'x'",
        "regclass 'x'",
        "'{x}'::regclass[]",
        "'{x}'::_regclass",
        "'{x}'::_regproc[]",
        "id::regclass",
    ] {
        let sql = format!("SELECT {cast} FROM kinds");
        let refusal = bind(&sql).expect_err(&sql);
        assert!([QUERY_NOT_SUPPORTED, QUERY_SYNTAX].contains(&refusal.code), "{sql}: {refusal:?}");
    }
    for sql in ["SELECT rc, ro, ra FROM kinds", "SELECT 'north'::region FROM kinds"] {
        bind(sql).unwrap_or_else(|refusal| panic!("{sql}: {refusal}"));
    }
}

#[test]
fn a_series_is_as_long_as_its_plain_values_say() {
    for arguments in [
        "1, 5",
        "-3, +5, 2",
        "$1, (10)",
        "1, '5'",
        "'1'::bigint, CAST(9 AS int8)",
        "date '2024-01-01', '2024-02-01'::timestamptz, interval '1 day'",
        "'2024-01-01'::timestamp, '2024-02-01', '1 day'::interval",
    ] {
        for from in ["", "orders, LATERAL ", "orders LEFT JOIN "] {
            let on = if from.contains("JOIN") { "ON true" } else { "" };
            let sql = format!("SELECT g FROM {from}generate_series({arguments}) g {on}");
            let params = if arguments.contains('$') { "[-5]" } else { "[]" };
            let query = bind_as(&sql, params, Dialect::Postgres, &narrow);
            query.unwrap_or_else(|refusal| panic!("{sql}: {refusal}"));
        }
    }
    for arguments in [
        "1, id",
        "1, o.id::int8",
        "1, (SELECT max(id) FROM orders)",
        "1, 1000 * 1000",
        "1, abs(9)",
        "1, length('x')",
        "1.0, 1000000",
        "1, 1e12",
        "1, 10000000000000000000",
        "1, '1e12'::numeric",
        "1, CASE WHEN true THEN 5 END",
        "'2024-01-01'::timestamp, made, '1 day'",
    ] {
        let sql = format!("SELECT g FROM orders o, generate_series({arguments}) g");
        let refusal = refused(&sql, Dialect::Postgres);
        assert_eq!(refusal.code, QUERY_NOT_SUPPORTED, "{sql}: {refusal}");
        assert!(refusal.hint.is_some_and(|hint| hint.contains("parameters")), "{sql}");
    }
}

#[test]
fn what_is_misspelt_is_told_with_what_was_meant_and_where() {
    let refusal = refused("SELECT id,\n totl FROM orders", Dialect::Postgres);
    assert_eq!(refusal.message, "column totl does not exist; did you mean total?");
    assert_eq!(refusal.position, Some(13));
    let refusal = refused("SELECT 'ü', lowr(status) FROM orders", Dialect::Postgres);
    assert_eq!(
        (refusal.position, refusal.hint.as_deref()),
        (Some(13), Some("did you mean lower?"))
    );
    let refusal = refused("SELECT id FORM orders", Dialect::Sqlite);
    assert_eq!(refusal.code, QUERY_SYNTAX, "{refusal}");
}

#[test]
fn what_is_too_much_is_refused_before_it_is_parsed() {
    let nested =
        |open: &str, close: &str| format!("SELECT {}1{}", open.repeat(200), close.repeat(200));
    for sql in [
        nested("(", ")"),
        nested("(SELECT ", ")"),
        nested("CASE WHEN true THEN ", " END"),
        format!("SELECT {} true", "NOT ".repeat(200)),
        format!("SELECT id{} FROM orders", "::int".repeat(200)),
        format!("SELECT id FROM orders WHERE id{}", " IS NULL".repeat(200)),
        format!("SELECT '{}'", "x".repeat(300_000)),
        format!("SELECT 1{}", " + id".repeat(3_000)),
        format!("SELECT 1{}", " UNION SELECT 1".repeat(3_000)),
    ] {
        assert_eq!(refused(&sql, Dialect::Postgres).code, QUERY_TOO_LARGE);
    }
}

#[test]
fn values_count_and_a_result_has_only_so_many_columns() {
    let ones = |count: usize| vec!["1"; count].join(",");
    let doubled = |times: usize| {
        let next = |n: usize| format!(", c{} AS (SELECT *, * FROM c{n})", n + 1);
        let rest: String = (0..times).map(next).collect();
        format!("WITH c0 AS (SELECT * FROM orders){rest} SELECT 1 FROM c{times}")
    };
    for dialect in [Dialect::Postgres, Dialect::Sqlite] {
        for (sql, limit) in [
            (format!("SELECT {}", ones(120_000)), "20000 words, signs and values"),
            (format!("SELECT id FROM orders WHERE id IN ({})", ones(10_001)), "20000 words"),
            (format!("SELECT {}", ones(1_665)), "1664 columns"),
            (format!("VALUES ({})", ones(1_665)), "1664 columns"),
            (format!("SELECT {} FROM orders", vec!["*"; 900].join(",")), "1664 columns"),
            (format!("SELECT (SELECT {})", ones(1_665)), "1664 columns"),
            (doubled(60), "1664 columns"),
        ] {
            let refusal = refused(&sql, dialect);
            assert_eq!(refusal.code, QUERY_TOO_LARGE, "{refusal}");
            assert!(refusal.message.contains(limit), "{refusal}");
            assert!(refusal.position.is_some(), "{refusal}");
        }
        let widest = bind(&format!("SELECT {} FROM orders", ones(1_664)), dialect);
        let widest = widest.unwrap_or_else(|refusal| panic!("{refusal}"));
        assert_eq!(widest.columns.len(), 1_664);
        let ids = format!("SELECT id FROM orders WHERE id IN ({})", ones(9_000));
        bind(&ids, dialect).unwrap_or_else(|refusal| panic!("{refusal}"));
    }
}

#[test]
fn what_is_named_in_from_has_only_so_many_columns() {
    let wide = format!("WITH v AS (VALUES ({}))", vec!["1"; 1_664].join(","));
    let joined = |join: &str, count: usize| {
        let rest: String = (1..count).map(|n| format!(" {join} v v{n}")).collect();
        format!("{wide} SELECT 1 FROM v{rest}")
    };
    for dialect in [Dialect::Postgres, Dialect::Sqlite] {
        for join in ["NATURAL JOIN", "CROSS JOIN"] {
            let most = bind(&joined(join, 10), dialect);
            most.unwrap_or_else(|refusal| panic!("{refusal}"));
            let refusal = refused(&joined(join, 400), dialect);
            assert_eq!(refusal.code, QUERY_TOO_LARGE, "{refusal}");
            assert!(refusal.message.contains("16640 columns in one FROM"), "{refusal}");
        }
    }
}

#[test]
fn parameters_count_as_text_at_each_of_their_places() {
    let places = |dialect: Dialect, count: usize| {
        let place = if dialect == Dialect::Postgres { "$1" } else { "?1" };
        format!("SELECT id FROM orders WHERE status IN ({})", vec![place; count].join(", "))
    };
    for dialect in [Dialect::Postgres, Dialect::Sqlite] {
        let bind = |count: usize, length: usize| {
            let params = format!("[\"{}\"]", "x".repeat(length));
            bind_as(&places(dialect, count), &params, dialect, &|_| Access::default())
        };
        for (count, length) in [(1, 260_000), (2, 130_000), (100, 2_500)] {
            bind(count, length).unwrap_or_else(|refusal| panic!("{refusal}"));
        }
        for (count, length) in [(1, 262_144), (2, 131_100), (3_000, 2_500)] {
            let refusal = bind(count, length).map(|query| query.key).expect_err("it is too long");
            assert_eq!(refusal.code, QUERY_TOO_LARGE, "{refusal}");
            assert!(refusal.message.contains("262144 bytes"), "{refusal}");
        }
    }
}

#[test]
fn an_array_is_nested_no_deeper_than_the_database_takes_it() {
    let sql = "SELECT id FROM orders WHERE tags = $1";
    let nested = |depth: usize| format!("[{}1{}]", "[".repeat(depth), "]".repeat(depth));
    let bind = |depth: usize| {
        let access = |_: &str| Access::default();
        bind_as(sql, &nested(depth), Dialect::Postgres, &access).map(|query| query.key)
    };
    bind(6).unwrap_or_else(|refusal| panic!("{refusal}"));
    for depth in [7, 100_000] {
        let refusal = bind(depth).expect_err("it is too deep");
        assert_eq!(refusal.code, PARAMETER, "{refusal}");
    }
}

#[test]
fn who_asks_counts_as_text_at_each_of_its_places() {
    struct Verbose;
    impl Caller for Verbose {
        fn user_id(&self) -> Option<&str> {
            None
        }
        fn host_id(&self) -> Option<&str> {
            None
        }
        fn claim(&self, _: &str) -> Option<Json> {
            Some(Json::from("x".repeat(8_000)))
        }
    }
    let bind = |count: usize| {
        let asked = vec!["auth.claim('a')"; count].join(", ");
        let sql = format!("SELECT id FROM orders WHERE status IN ({asked})");
        let draft = Draft::parse(&sql, &[], Dialect::Postgres).expect("it is a query");
        with_binding(&draft, Dialect::Postgres, &|_| Access::default(), |binding| {
            draft.bind(&Binding { caller: &Verbose, ..*binding }).map(|query| query.key)
        })
    };
    bind(32).expect("it is short enough");
    assert_eq!(bind(33).expect_err("it is too long").code, QUERY_TOO_LARGE);
}

#[test]
fn a_name_that_the_database_would_cut_off_is_refused() {
    let sql = |length: usize| format!("SELECT id AS {} FROM orders", "a".repeat(length));
    bind(&sql(63), Dialect::Postgres).expect("a name of 63 bytes is whole");
    let refusal = refused(&sql(64), Dialect::Postgres);
    assert_eq!((refusal.code, refusal.position), (QUERY_NOT_SUPPORTED, Some(14)), "{refusal}");
    assert!(refusal.message.contains("63 bytes"), "{refusal}");
    bind(&sql(64), Dialect::Sqlite).expect("SQLite keeps all of a name");
}

#[test]
fn what_is_as_large_as_it_may_be_is_taken() {
    let inner = (0..3).fold("1".to_owned(), |inner, _| {
        format!("(SELECT max(CASE WHEN id = {inner} THEN id ELSE 1 END) FROM orders)")
    });
    let long = format!("SELECT id{} AS x FROM orders", " + id".repeat(900));
    let unions = format!("SELECT 1{}", " UNION SELECT 1".repeat(600));
    for sql in [format!("SELECT {inner}"), long, unions] {
        let query = bind(&sql, Dialect::Postgres);
        let query = query.unwrap_or_else(|refusal| panic!("{refusal}"));
        assert_eq!(query.plan.name(), PlanName::Requery);
    }
}

#[test]
fn strings_that_are_times_of_the_clock_are_refused() {
    for sql in [
        "SELECT 'now'::timestamptz",
        "SELECT date 'Today' FROM orders",
        "SELECT CAST(' tomorrow 08:00' AS timestamp)",
        "SELECT id FROM orders WHERE made > 'yesterday' AND lower(status) = 'x'",
        "SELECT id FROM orders WHERE made > 'now'",
    ] {
        let access = |_: &str| Access::default();
        let refusal = bind_as(sql, "[]", Dialect::Postgres, &access);
        let refusal = refusal.map(|query| query.rerun).expect_err(sql);
        assert_eq!(refusal.code, QUERY_NOT_SUPPORTED, "{sql}: {refusal}");
    }
    for sql in [
        "SELECT id FROM orders WHERE lower(status) = 'now'",
        "SELECT id, made FROM orders WHERE lower(status) = 'today'::text",
        "SELECT id, made FROM orders WHERE status = 'today'",
    ] {
        bind(sql, Dialect::Postgres).expect(sql);
    }
}
