//! SELECTs from one table that are kept without any state.

use super::*;
use crate::plan::{Plan, Projected};
use crate::row::Row;
use crate::shape::TenantRule;

const BOTH: [Dialect; 2] = [Dialect::Postgres, Dialect::Sqlite];

fn filter(query: &Query) -> &crate::plan::FilterPlan {
    match &query.plan {
        Plan::Filter(filter) => filter,
        other => panic!("{} is no filter: {:?}", other.name(), query.why),
    }
}

#[test]
fn a_select_from_one_table_is_a_filter() {
    for dialect in BOTH {
        let sql = "SELECT o.id, Status AS s, 1 AS one, 'x' FROM orders AS o WHERE o.total > 5;";
        let query = bind(sql, dialect).expect("it is taken");
        let plan = filter(&query);
        assert_eq!(&*plan.table, "orders");
        let column = |name: &str| Projected::Column(name.into());
        let literal = |json: &str| Projected::Literal(json.into());
        assert_eq!(
            *plan.projection,
            [column("id"), column("status"), literal("1"), literal("\"x\"")]
        );
        assert_eq!(&*query.columns[1], "s");
        assert!(!query.ordered && query.why.is_empty());
        let row = Row::parse(br#"{"id":1,"status":"a","total":6}"#).expect("a row");
        assert!(plan.conditions.admit(&row).expect("it is sure"));
    }
}

#[test]
fn what_is_run_is_the_clients_tokens_over_a_barrier() {
    let query = bind("SELECT id FROM orders o WHERE lower(o.status)='x'--c\n", Dialect::Postgres);
    let query = query.expect("it is taken");
    assert_eq!(
        &*query.rerun,
        "SELECT id FROM (SELECT \"id\", \"status\", \"total\", \"customer_id\", \"secret\", \
         \"host\", \"data\", \"tags\", \"made\" FROM \"public\".\"orders\" AS \"orders\") o WHERE \
         pg_catalog.lower ( o . status ) = 'x'"
    );
    let query = bind("SELECT name FROM customers", Dialect::Sqlite).expect("it is taken");
    assert_eq!(
        &*query.read,
        "SELECT name FROM (SELECT \"id\", \"name\", \"secret\" FROM \"customers\" AS \
         \"customers\") AS \"customers\""
    );
    assert_eq!(query.read, query.rerun);
}

#[test]
fn parameters_and_identities_are_literals() {
    let sql = "SELECT id FROM orders WHERE status = $1 AND total > $2 AND customer_id = $3 \
               AND host = auth.host_id() AND secret = CURRENT_USER() AND status <> auth.claim('region') \
               AND (tags IS NULL) = $4";
    let query = bind_as(
        sql,
        r#"["it's", -2.50, 12345678901234567890123, null]"#,
        Dialect::Postgres,
        &|_| Access::default(),
    );
    let query = query.expect("it is taken");
    let wanted = "status = 'it''s' AND total > ( - 2.50 ) AND customer_id = 12345678901234567890123 \
                  AND host = 'acme' AND secret = 'ada''s' AND status <> 'eu' AND ( tags IS NULL ) = NULL";
    assert!(query.rerun.ends_with(wanted), "{}", query.rerun);
    let sqlite = "SELECT id FROM orders WHERE status = ? AND id IN (?2, ?)";
    let query = bind_as(sqlite, r#"["a", 1, 2]"#, Dialect::Sqlite, &|_| Access::default());
    let query = query.expect("it is taken");
    assert!(query.rerun.ends_with("WHERE status = 'a' AND id IN ( 1 , 2 )"), "{}", query.rerun);
    filter(&query);
    let any = "SELECT id FROM orders WHERE id = ANY($1) AND status = ANY($2)";
    let query = bind_as(any, r#"[[1,2],["a\"b",null]]"#, Dialect::Postgres, &|_| Access::default());
    let query = query.expect("it is taken");
    assert!(query.rerun.contains(r#"'{1,2}' ) AND status = ANY ( '{"a\"b",NULL}' )"#));
}

/// As PROTOCOL has it for both databases.
#[test]
fn parameters_with_a_dollar_are_for_sqlite_too() {
    let sql = "SELECT id FROM orders WHERE status = $1 AND id IN ($2, ?3) AND status <> $1";
    let query = bind_as(sql, r#"["a", 1, 2]"#, Dialect::Sqlite, &|_| Access::default());
    let query = query.expect("it is taken");
    let wanted = "WHERE status = 'a' AND id IN ( 1 , 2 ) AND status <> 'a'";
    assert!(query.rerun.ends_with(wanted), "{}", query.rerun);
    for sql in ["SELECT id FROM orders WHERE id = $a", "SELECT id FROM orders WHERE id = $0"] {
        let refusal = bind_as(sql, "[1]", Dialect::Sqlite, &|_| Access::default());
        let refusal = refusal.expect_err(sql);
        assert_eq!(refusal.code, crate::refusal::PARAMETER, "{sql}: {refusal}");
        assert!(refusal.hint.is_some_and(|hint| hint.contains("$1")), "{sql}");
    }
}

/// The values of the claim `rooms` stand where they are looked for, on each database in its own manner.
#[test]
fn a_claim_that_is_a_list_is_looked_through() {
    for (condition, postgres, sqlite) in [
        (
            "status = ANY(auth.claim('rooms'))",
            r#"status = ANY ( '{"a''b","c\"d","-7",NULL}' )"#,
            r#"status IN ( 'a''b' , 'c"d' , - 7 , NULL )"#,
        ),
        (
            "status <> ALL(auth.claim('rooms'))",
            r#"status <> ALL ( '{"a''b","c\"d","-7",NULL}' )"#,
            r#"status NOT IN ( 'a''b' , 'c"d' , - 7 , NULL )"#,
        ),
        (
            "status NOT IN ('x', auth.claim('rooms'))",
            r#"status NOT IN ( 'x' , 'a''b' , 'c"d' , '-7' , NULL )"#,
            r#"status NOT IN ( 'x' , 'a''b' , 'c"d' , - 7 , NULL )"#,
        ),
        ("status IN (auth.claim('nothing'))", "status = ANY ( '{}' )", "status IN ( )"),
        ("status NOT IN (auth.claim('nothing'))", "status <> ALL ( '{}' )", "status NOT IN ( )"),
        ("status IN (auth.claim('nothing'), 'x')", "status IN ( 'x' )", "status IN ( 'x' )"),
        ("status IN ('x', auth.claim('nothing'))", "status IN ( 'x' )", "status IN ( 'x' )"),
        (
            "status = ANY(auth.claim('region'))",
            r#"status = ANY ( '{"eu"}' )"#,
            "status IN ( 'eu' )",
        ),
        ("status IN (auth.claim('region'))", "status IN ( 'eu' )", "status IN ( 'eu' )"),
        ("status = ANY(auth.claim('none'))", "status = ANY ( NULL )", "status IN ( NULL )"),
    ] {
        for (dialect, wanted) in [(Dialect::Postgres, postgres), (Dialect::Sqlite, sqlite)] {
            let sql = format!("SELECT id FROM orders WHERE {condition}");
            let query = bind(&sql, dialect).unwrap_or_else(|refusal| panic!("{sql}: {refusal}"));
            assert!(query.rerun.ends_with(wanted), "{sql}: {}", query.rerun);
            filter(&query);
            // A rule reads the same.
            let access = |_: &str| Access { rules: vec![condition.into()], ..Access::default() };
            let query = bind_as("SELECT id FROM orders", "[]", dialect, &access);
            let query = query.unwrap_or_else(|refusal| panic!("{condition}: {refusal}"));
            assert!(query.rerun.contains(&format!("({wanted})")), "{condition}: {}", query.rerun);
            filter(&query);
        }
    }
    let cast = "SELECT id FROM orders WHERE tags && auth.claim('rooms')::text[]";
    let query = bind(cast, Dialect::Postgres).expect("it is taken");
    assert!(
        query.rerun.ends_with(r#"&& '{"a''b","c\"d","-7",NULL}' :: text [ ]"#),
        "{}",
        query.rerun
    );
}

#[test]
fn sqlite_has_no_other_any() {
    for condition in
        ["id < ANY(auth.claim('rooms'))", "id = ALL(auth.claim('rooms'))", "id = ANY('{1}')"]
    {
        let sql = format!("SELECT id FROM orders WHERE {condition}");
        let refusal = bind(&sql, Dialect::Sqlite).expect_err(&sql);
        assert_eq!(refusal.code, crate::refusal::QUERY_NOT_SUPPORTED, "{sql}: {refusal}");
    }
}

#[test]
fn a_parameter_that_is_missing_or_too_many_is_told() {
    for (sql, params) in [
        ("SELECT id FROM orders WHERE id = $2", "[1]"),
        ("SELECT id FROM orders WHERE id = $1", "[1, 2]"),
        ("SELECT id FROM orders WHERE id = $0", "[1]"),
    ] {
        let refusal = bind_as(sql, params, Dialect::Postgres, &|_| Access::default());
        assert_eq!(refusal.expect_err(sql).code, crate::refusal::PARAMETER, "{sql}");
    }
}

#[test]
fn rules_and_tenants_are_in_the_filter_and_in_the_barrier() {
    let access = |_: &str| Access {
        columns: Some(vec!["id".into(), "status".into()]),
        rules: vec!["secret = auth.user_id()".into()],
        tenants: Some(TenantRule { hosts: Arc::from(vec!["acme".to_owned()]), shared: true }),
    };
    let sql = "SELECT * FROM orders WHERE status = 'paid'";
    let query = bind_as(sql, "[]", Dialect::Postgres, &access).expect("it is taken");
    assert_eq!(
        &*query.rerun,
        "SELECT * FROM (SELECT \"id\", \"status\" FROM \"public\".\"orders\" AS \"orders\" WHERE \
         (secret = 'ada''s') AND (\"host\"::text IN ('acme') OR \"host\" IS NULL) OFFSET 0) AS \
         \"orders\" WHERE status = 'paid'"
    );
    let plan = filter(&query);
    assert_eq!(query.columns.len(), 2);
    let admits = |row: &str| {
        plan.conditions.admit(&Row::parse(row.as_bytes()).expect("a row")).expect("it is sure")
    };
    assert!(admits(r#"{"id":1,"status":"paid","secret":"ada's","host":null}"#));
    assert!(!admits(r#"{"id":1,"status":"paid","secret":"bob","host":"acme"}"#));
    assert!(!admits(r#"{"id":1,"status":"paid","secret":"ada's","host":"other"}"#));
}

#[test]
fn among_hidden_rows_nothing_but_a_whole_key_is_looked_up() {
    for (sql, seen, asked) in [
        ("SELECT id FROM orders WHERE status = 'x'", "(secret = 'ada''s')", " WHERE status = 'x'"),
        ("SELECT id FROM orders WHERE id > 5", "(secret = 'ada''s')", " WHERE id > 5"),
        ("SELECT id FROM orders WHERE id = 5", "(secret = 'ada''s') AND (\"id\" = 5)", ""),
        ("SELECT id FROM orders WHERE status = 'x' ORDER BY id LIMIT 2", "(secret = 'ada''s')", ""),
        ("SELECT status, count(*) FROM orders GROUP BY status", "(secret = 'ada''s')", ""),
        ("SELECT lower(status) FROM orders WHERE status = 'x'", "(secret = 'ada''s')", ""),
    ] {
        let query = bind_as(sql, "[]", Dialect::Postgres, &narrow).expect(sql);
        for text in [&query.read, &query.rerun] {
            assert!(text.contains(&format!("WHERE {seen} OFFSET 0)")), "{sql}: {text}");
            assert!(text.contains(asked), "{sql}: {text}");
        }
        let open = bind(sql, Dialect::Postgres).expect(sql);
        assert!(!open.read.contains("OFFSET 0"), "who sees all rows is not kept from indexes");
    }
}

#[test]
fn queries_that_see_the_same_have_one_key() {
    let key = |sql: &str, access: &dyn Fn(&str) -> Access| {
        bind_as(sql, "[]", Dialect::Postgres, access).expect("it is taken").key
    };
    let open = |_: &str| Access::default();
    let one = key("SELECT id FROM orders WHERE id = 5", &open);
    assert_eq!(one, key("SELECT id  FROM orders /* x */ WHERE id=5;", &open));
    assert_ne!(one, key("SELECT id FROM orders WHERE id = 6", &open));
    assert_ne!(one, key("SELECT id FROM orders WHERE id = 5", &narrow));
}

#[test]
fn json_is_read_as_images_have_it() {
    let query = bind("SELECT id, o.data FROM orders o", Dialect::Postgres).expect("it is taken");
    let wanted = "SELECT id , pg_catalog.to_jsonb(o . data) AS \"data\" FROM";
    assert!(query.rerun.starts_with(wanted), "{}", query.rerun);
    let query = bind("SELECT o.* FROM orders o", Dialect::Postgres).expect("it is taken");
    let wanted = "pg_catalog.to_jsonb(\"data\") AS \"data\", \"tags\", \"made\" FROM";
    assert!(query.rerun.contains(wanted), "{}", query.rerun);
    filter(&query);
}
