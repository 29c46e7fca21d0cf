//! The queries that are followed: each is about a tenant of its own, so that an insert concerns one.

use crate::scale::LiveQueries;

/// Rows that each tenant has at first.
const ROWS: usize = 10;

/// The plan that a query is kept by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Plan {
    Filter,
    Window,
    Aggregate,
    Join,
}

impl Plan {
    pub(crate) const ALL: [Plan; 4] = [Plan::Filter, Plan::Window, Plan::Aggregate, Plan::Join];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Plan::Filter => "filter",
            Plan::Window => "window",
            Plan::Aggregate => "aggregate",
            Plan::Join => "join (re-query)",
        }
    }
}

/// Of twenty queries sixteen are filters, two windows, one counts, one joins.
pub(crate) fn plan(number: usize) -> Plan {
    match number % 20 {
        0..16 => Plan::Filter,
        16 | 17 => Plan::Window,
        18 => Plan::Aggregate,
        _ => Plan::Join,
    }
}

/// A query by its number.
pub(crate) fn sql(number: usize) -> String {
    match plan(number) {
        Plan::Filter => format!("SELECT id, status, total FROM orders WHERE tenant = {number}"),
        Plan::Window => format!(
            "SELECT id, total FROM orders WHERE tenant = {number} ORDER BY id DESC LIMIT 10"
        ),
        Plan::Aggregate => {
            format!("SELECT count(*) AS n, sum(total) AS total FROM orders WHERE tenant = {number}")
        }
        Plan::Join => format!(
            "SELECT o.id, o.total, c.name FROM orders AS o JOIN customers AS c ON c.tenant = o.tenant \
             WHERE o.tenant = {number}"
        ),
    }
}

/// Another order of a tenant.
pub(crate) fn insert(id: usize, tenant: usize) -> String {
    format!("INSERT INTO orders VALUES ({id}, {tenant}, 'open', 5)")
}

/// The number of the first order that is not there at first.
pub(crate) fn first_id(scale: &LiveQueries) -> usize {
    scale.queries * ROWS
}

/// How the tables are made.
pub(crate) fn tables(scale: &LiveQueries) -> Vec<String> {
    let numbers = |count: usize| {
        format!(
            "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {})",
            count - 1
        )
    };
    vec![
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, tenant INTEGER, status TEXT, total INTEGER)"
            .to_owned(),
        "CREATE TABLE customers (tenant INTEGER PRIMARY KEY, name TEXT)".to_owned(),
        format!(
            "INSERT INTO orders {} SELECT i, i / {ROWS}, 'open', i % 100 FROM n",
            numbers(first_id(scale))
        ),
        format!("INSERT INTO customers {} SELECT i, 'customer' FROM n", numbers(scale.queries)),
        "CREATE INDEX orders_of_tenant ON orders (tenant)".to_owned(),
    ]
}
