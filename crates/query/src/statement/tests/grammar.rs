//! What is taken by each database, by which plan, and that it names its columns as the database does.

use super::*;
use crate::plan::{Plan, PlanName};

/// Statements that mean the same to both.
const BOTH: &[(&str, &str)] = &[
    ("SELECT * FROM orders", "filter"),
    ("SELECT o.* FROM orders AS o WHERE o.id IN (1, 2) OR o.status IS NULL", "filter"),
    ("SELECT id FROM orders WHERE NOT (status = 'x' OR total < 5)", "filter"),
    ("SELECT id FROM orders WHERE lower(status) = 'paid'", "requery"),
    ("SELECT id + 1 AS next FROM orders", "requery"),
    ("SELECT id, total FROM orders ORDER BY id LIMIT 5", "window"),
    ("SELECT id AS x FROM orders ORDER BY x DESC", "window"),
    ("SELECT id FROM orders ORDER BY total * 2 LIMIT 5", "requery"),
    ("SELECT DISTINCT status FROM orders", "requery"),
    ("SELECT o.id, c.name FROM orders o JOIN customers c ON c.id = o.customer_id", "requery"),
    ("SELECT * FROM orders LEFT JOIN customers USING (id)", "requery"),
    ("SELECT * FROM customers NATURAL JOIN items", "requery"),
    (
        "SELECT * FROM customers c CROSS JOIN (items i JOIN orders o ON o.id = i.order_id)",
        "requery",
    ),
    ("SELECT id FROM orders WHERE customer_id IN (SELECT id FROM customers)", "requery"),
    ("SELECT id FROM orders o WHERE EXISTS (SELECT 1 FROM items WHERE order_id = o.id)", "requery"),
    ("SELECT id, (SELECT max(price) FROM items WHERE order_id = orders.id) FROM orders", "requery"),
    (
        "WITH big AS (SELECT id FROM orders), b (x) AS (SELECT id FROM big) SELECT x FROM b",
        "requery",
    ),
    (
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT n FROM t",
        "requery",
    ),
    ("SELECT id FROM orders UNION ALL SELECT id FROM items ORDER BY id LIMIT 3", "requery"),
    ("SELECT id FROM orders EXCEPT SELECT id FROM items", "requery"),
    ("VALUES (1, 'a'), (2, 'b')", "requery"),
    (
        "SELECT id, row_number() OVER (PARTITION BY status ORDER BY total DESC) FROM orders",
        "requery",
    ),
    ("SELECT sum(total) OVER w FROM orders WINDOW w AS (ORDER BY id)", "requery"),
    ("SELECT CASE WHEN total > 5 THEN 'big' ELSE 'small' END AS size FROM orders", "requery"),
    ("SELECT count(*) FILTER (WHERE total > 5) FROM orders", "requery"),
    (
        "SELECT s.id FROM (SELECT id, total FROM orders) AS s WHERE s.total BETWEEN 1 AND 2",
        "requery",
    ),
    ("SELECT CAST(total AS integer), coalesce(status, 'x') || 'y' FROM orders", "requery"),
    ("SELECT id FROM orders WHERE total = (SELECT max(total) FROM orders)", "requery"),
];

const POSTGRES: &[(&str, &str)] = &[
    ("SELECT id FROM public.orders WHERE status = 'a'::text", "filter"),
    ("SELECT id FROM orders WHERE id = ANY('{1,2}') AND status = ANY('{a}'::text[])", "filter"),
    ("SELECT id FROM orders WHERE id = ANY('{}')", "filter"),
    ("SELECT id FROM orders WHERE id = ANY(ARRAY[1, 2])", "requery"),
    ("SELECT data ->> 'a' FROM orders WHERE (data #>> '{a,b}') ~* '^x'", "requery"),
    ("SELECT DISTINCT ON (status) status, id FROM orders ORDER BY status, id", "requery"),
    (
        "SELECT o.id, x.n FROM orders o, LATERAL (SELECT count(*) AS n FROM items WHERE order_id = o.id) x",
        "requery",
    ),
    ("SELECT o.id, t FROM orders o, unnest(o.tags) AS t", "requery"),
    ("SELECT t, n FROM orders o, unnest(o.tags) WITH ORDINALITY AS u(t, n)", "requery"),
    ("SELECT g FROM generate_series(1, 5) g", "requery"),
    ("SELECT e.key, value FROM orders o, json_each(o.data) AS e", "requery"),
    ("SELECT e ->> 'x' FROM orders o, json_array_elements(o.data) AS e", "requery"),
    ("SELECT extract(year FROM date '2024-01-01'), interval '1' day FROM orders", "requery"),
    ("SELECT array_agg(id ORDER BY id DESC), ARRAY[1, 2], ARRAY(SELECT id FROM items)", "refused"),
    ("SELECT array_agg(id ORDER BY id DESC), ARRAY(SELECT id FROM items) FROM orders", "requery"),
    ("SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY total) FROM orders", "requery"),
    ("SELECT status, count(*) FROM orders GROUP BY ROLLUP (status)", "requery"),
    (
        "SELECT trim(both 'x' from status), position('a' IN status), tags[1:2] FROM orders",
        "requery",
    ),
    ("SELECT substring(status FROM 1 FOR 2), ceil(total), id::numeric(5,2) FROM orders", "requery"),
    ("SELECT id FROM orders ORDER BY status COLLATE \"C\" NULLS FIRST LIMIT 3", "window"),
    ("SELECT id FROM orders FETCH FIRST 5 ROWS ONLY", "requery"),
    ("SELECT a FROM orders AS o (a, b) WHERE a = 1", "requery"),
    ("SELECT pg_catalog.lower(status) FROM orders", "requery"),
];

const SQLITE: &[(&str, &str)] = &[
    ("SELECT [id], `status` FROM \"Orders\" WHERE \"STATUS\" == 'x'", "filter"),
    ("SELECT id, total * 2 AS twice FROM orders WHERE twice > 5", "requery"),
    ("SELECT e.key, e.value FROM orders o, json_each(o.data) AS e", "requery"),
    ("SELECT strftime('%Y', status), date(status, '+1 day') FROM orders", "requery"),
    ("SELECT id FROM orders WHERE status GLOB 'a*'", "requery"),
    ("SELECT group_concat(status, ','), total(total), iif(1, 2, 3) FROM orders", "requery"),
    ("SELECT id FROM orders LIMIT 2, 5", "requery"),
];

#[test]
fn what_can_be_checked_is_taken() {
    let each = |dialect, statements: &[(&str, &str)]| {
        for (sql, wanted) in statements {
            let plan = match bind(sql, dialect) {
                Ok(query) => query.plan.name().as_str(),
                Err(refusal) if *wanted == "refused" => {
                    let _ = refusal;
                    "refused"
                }
                Err(refusal) => panic!("{sql}: {refusal}"),
            };
            assert_eq!(plan, *wanted, "{sql}");
        }
    };
    for dialect in [Dialect::Postgres, Dialect::Sqlite] {
        each(dialect, BOTH);
    }
    each(Dialect::Postgres, POSTGRES);
    each(Dialect::Sqlite, SQLITE);
}

#[test]
fn columns_are_named_as_the_database_names_them_and_told_apart() {
    for (sql, names) in [
        ("SELECT o.id, c.id, c.name FROM orders o, customers c", "id id_2 name"),
        ("SELECT 1 AS a, 2 AS a, 3 AS a_2", "a a_3 a_2"),
        (
            "SELECT count(*), lower(status), 1 + 1, id::text, '5'::int4 FROM orders GROUP BY 2, 4",
            "count lower ?column? id int4",
        ),
        ("SELECT * FROM customers JOIN items USING (id)", "id name secret order_id price"),
        ("SELECT * FROM customers NATURAL JOIN items", "id name secret order_id price"),
        ("VALUES (1, 2)", "column1 column2"),
        ("SELECT ID AS \"Mixed\", Status AS Folded FROM orders", "Mixed folded"),
    ] {
        let query = bind(sql, Dialect::Postgres).expect(sql);
        assert_eq!(query.columns.join(" "), names, "{sql}");
    }
}

#[test]
fn a_query_is_concerned_by_what_it_reads() {
    let sql = "SELECT o.id, c.id, c.name FROM orders o LEFT JOIN customers c ON c.id = o.customer_id \
               WHERE o.status = 'paid' AND c.secret IS NULL AND (o.total > 5 OR c.id = 1)";
    let query = bind(sql, Dialect::Postgres).expect(sql);
    let Plan::Requery(plan) = &query.plan else { panic!("it is run again") };
    assert_eq!(plan.identity, [0, 1]);
    let [orders, customers] = plan.relevance.as_slice() else { panic!("two tables") };
    let columns =
        |relevance: &crate::plan::Relevance| relevance.columns.clone().map(|it| it.join(" "));
    assert_eq!(columns(orders).as_deref(), Some("customer_id id status total"));
    assert_eq!(columns(customers).as_deref(), Some("id name secret"));
    // `c.secret IS NULL` holds of a row that is missing: other rows of the table have a say in that.
    assert_eq!((orders.any_of.len(), customers.any_of.len()), (1, 0));
    let predicates = &orders.any_of[0].predicates;
    assert_eq!((predicates.len(), predicates[0].columns()), (1, &["status".to_owned()][..]));
}

#[test]
fn a_table_that_is_read_twice_is_concerned_by_either() {
    let sql = "SELECT a.id FROM orders a, orders b WHERE a.id = 5 AND b.status = 'x'";
    let query = bind(sql, Dialect::Sqlite).expect(sql);
    let Plan::Requery(plan) = &query.plan else { panic!("it is run again") };
    let [orders] = plan.relevance.as_slice() else { panic!("one table") };
    assert_eq!(orders.any_of.len(), 2);
    let sql = "SELECT a.id FROM orders a, orders b WHERE a.id = 5";
    let query = bind(sql, Dialect::Sqlite).expect(sql);
    let Plan::Requery(plan) = &query.plan else { panic!("it is run again") };
    assert_eq!(plan.relevance[0].any_of.len(), 0);
}

#[test]
fn why_not_a_cheaper_plan_is_kept_with_its_place() {
    let query = bind("SELECT id FROM orders WHERE lower(status) = 'x'", Dialect::Postgres);
    let query = query.expect("it is taken");
    let plans: Vec<PlanName> = query.why.iter().map(|(plan, _)| *plan).collect();
    assert_eq!(plans, [PlanName::Filter, PlanName::Window, PlanName::Aggregate]);
    assert_eq!(query.why[0].1.position, Some(29), "{:?}", query.why[0]);
    let lines = query.explain();
    let line = |name: &str| lines.iter().find(|(known, _)| *known == name).map(|(_, text)| &**text);
    assert_eq!(line("plan"), Some("requery"));
    assert_eq!(line("tables"), Some("orders"));
    assert_eq!(line("relevance"), Some("orders: id, status; any row"));
    assert!(line("why not").is_some_and(|text| text.ends_with("(at character 29)")));
}
