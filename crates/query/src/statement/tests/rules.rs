//! Row rules that only the database can tell, and what of them is told.

use super::*;
use crate::plan::{Plan, PlanName, RequeryPlan};

fn ruled(rule: &'static str) -> impl Fn(&str) -> Access {
    move |table: &str| match table {
        "orders" => Access { rules: vec![rule.into()], ..Access::default() },
        _ => Access { columns: Some(vec!["id".into()]), ..Access::default() },
    }
}

fn requery(query: &Query) -> &RequeryPlan {
    match &query.plan {
        Plan::Requery(plan) => plan,
        plan => panic!("it is kept by {}", plan.name()),
    }
}

#[test]
fn what_a_rule_says_is_not_told() {
    let access = |_: &str| Access {
        rules: vec!["id IN (SELECT id FROM hidden_list)".into()],
        ..Access::default()
    };
    let refusal = bind_as("SELECT id FROM orders", "[]", Dialect::Postgres, &access);
    let refusal = refusal.map(|query| query.rerun).expect_err("it is refused");
    assert!(!refusal.to_string().contains("hidden_list"), "{refusal}");
}

#[test]
fn a_requery_over_rules_is_fenced_and_keeps_its_index() {
    let sql = "SELECT 1 / total FROM orders o WHERE o.id = 5 AND 1 / total > 0";
    for (dialect, fence) in [(Dialect::Postgres, " OFFSET 0)"), (Dialect::Sqlite, " LIMIT -1)")] {
        let query = bind_as(sql, "[]", dialect, &narrow).expect(sql);
        let wanted = format!("WHERE (secret = 'ada''s') AND (\"id\" = 5){fence}");
        assert!(query.rerun.contains(&wanted), "{}", query.rerun);
        let query = bind(sql, dialect).expect(sql);
        assert!(!query.rerun.contains(fence), "{}", query.rerun);
    }
}

#[test]
fn a_rule_that_calls_functions_is_run_by_the_database_alone() {
    let access = |_: &str| Access {
        columns: Some(vec!["id".into()]),
        rules: vec!["lower(secret) = auth.user_id()".into()],
        tenants: None,
    };
    let sql = "SELECT id FROM orders WHERE id = 5";
    let query = bind_as(sql, "[]", Dialect::Postgres, &access).expect("it is taken");
    let wanted = "WHERE (pg_catalog.lower ( secret ) = 'ada''s') AND (\"id\" = 5) OFFSET 0)";
    assert!(query.rerun.contains(wanted), "{}", query.rerun);
    let crate::plan::Plan::Requery(plan) = &query.plan else { panic!("it is run again") };
    let columns = plan.relevance[0].columns.as_ref().map(|columns| columns.join(" "));
    assert_eq!(columns.as_deref(), Some("id secret"));
    for rule in ["made > now()", "pg_sleep(1) IS NULL", "nope = 1"] {
        let access = |_: &str| Access { rules: vec![rule.into()], ..Access::default() };
        let refusal = bind_as(sql, "[]", Dialect::Postgres, &access);
        assert_eq!(refusal.expect_err(rule).code, crate::refusal::RULE, "{rule}");
    }
}

#[test]
fn a_rule_may_read_other_tables_whatever_its_caller_sees_of_them() {
    const RULE: &str = "EXISTS (SELECT 1 FROM customers c
        WHERE c.id = orders.customer_id AND lower(c.secret) = auth.user_id())";
    for (dialect, wanted) in [
        (
            Dialect::Postgres,
            "WHERE (EXISTS ( SELECT 1 FROM \"public\".\"customers\" c WHERE c . id = orders . \
             customer_id AND pg_catalog.lower ( c . secret ) = 'ada''s' )) OFFSET 0)",
        ),
        (
            Dialect::Sqlite,
            "WHERE (EXISTS ( SELECT 1 FROM \"customers\" c WHERE c . id = orders . customer_id \
             AND lower ( c . secret ) = 'ada''s' )) LIMIT -1)",
        ),
    ] {
        let sql = "SELECT id FROM orders";
        let query = bind_as(sql, "[]", dialect, &ruled(RULE)).expect("it is taken");
        assert!(query.rerun.contains(wanted), "{}", query.rerun);
        let relevance = |query: &Query| {
            let all = requery(query).relevance.iter().map(|it| {
                let columns = it.columns.as_ref().map(|columns| columns.join(" "));
                (it.table.to_string(), columns.unwrap_or_default(), it.any_of.len())
            });
            all.collect::<Vec<_>>()
        };
        let of = |table: &str, columns: &str| (table.to_owned(), columns.to_owned(), 0);
        let expected = [of("orders", "customer_id id"), of("customers", "id secret")];
        assert_eq!(relevance(&query), expected);
        let tables: Vec<&str> = query.dependencies.iter().map(|it| &*it.table).collect();
        assert_eq!(tables, ["orders", "customers"]);
        // A query that reads the rule's table itself sees what its caller may see, and is concerned by
        // all that the rule reads.
        let join = "SELECT o.id FROM orders o JOIN customers ON customers.id = 5";
        let query = bind_as(join, "[]", dialect, &ruled(RULE)).expect("it is taken");
        assert_eq!(relevance(&query), expected);
        let secret = "SELECT o.id FROM orders o JOIN customers c ON c.secret = 'x'";
        let refusal = bind_as(secret, "[]", dialect, &ruled(RULE));
        assert_eq!(refusal.expect_err(secret).code, crate::refusal::NO_COLUMN);
    }
}

#[test]
fn a_rule_may_read_its_own_table() {
    let rule = "total >= (SELECT max(o.total) FROM orders o WHERE o.status = orders.status)";
    let sql = "SELECT id FROM orders WHERE id = 5";
    let query = bind_as(sql, "[]", Dialect::Postgres, &ruled(rule)).expect("it is taken");
    let [orders] = requery(&query).relevance.as_slice() else { panic!("one table") };
    // Rows that the query does not ask for decide which of those that it does are seen.
    assert!(orders.any_of.is_empty());
    assert_eq!(orders.columns.as_ref().map(|it| it.join(" ")).as_deref(), Some("id status total"));
}

#[test]
fn the_tables_of_a_rule_are_known_before_it_is_bound() {
    let of = TableName { schema: None, name: "orders".into() };
    let tables = |rule: &str| {
        let tables = rule_tables(rule, &of, Dialect::Postgres).expect("a rule");
        let name = |it: &TableName| match &it.schema {
            Some(schema) => format!("{schema}.{}", it.name),
            None => it.name.to_string(),
        };
        tables.iter().map(name).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(tables("secret = auth.user_id()"), "");
    assert_eq!(
        tables("id IN (SELECT id FROM Items UNION SELECT id FROM app.\"More\")"),
        "items app.More"
    );
    assert_eq!(tables("id IN (WITH x AS (SELECT id FROM items) SELECT id FROM x)"), "items");
    assert_eq!(tables("id = (SELECT max(id) FROM orders o)"), "orders");
}

#[test]
fn a_rule_cannot_end_what_is_put_around_it() {
    let sql = "SELECT id FROM orders";
    for rule in [
        "lower(secret) = 'x') OR (1 = 1",
        "1 = 1) UNION SELECT id FROM customers WHERE (1 = 1",
        "(lower(secret) = 'x'",
        "id IN (SELECT id FROM nowhere)",
        "id IN (SELECT nope FROM items)",
        "id IN (DELETE FROM items RETURNING id)",
        "id IN (SELECT pg_sleep(id) FROM items)",
    ] {
        let refusal = bind_as(sql, "[]", Dialect::Postgres, &ruled(rule));
        let refusal = refusal.map(|query| query.rerun).expect_err(rule);
        assert_eq!(refusal.code, crate::refusal::RULE, "{rule}");
        assert!(!refusal.to_string().contains("nowhere"), "{refusal}");
    }
    assert_eq!(bind(sql, Dialect::Postgres).expect(sql).plan.name(), PlanName::Filter);
}
