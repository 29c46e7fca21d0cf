//! The queries of a simulation, each with what the database would answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::database::{Contents, TABLES, Values};
use crate::plan::{PlanName, Query};
use crate::shape::{Access, QueryLimits, ShapeColumn, TableName, TableShape};
use crate::statement::{Binding, Draft};
use crate::table::{Column, Dialect};

/// What stands for NULL among numbers.
pub(super) const NULL: i64 = i64::MIN;

/// Windows keep few rows more than they show, so that they are read often.
const LIMITS: QueryLimits = QueryLimits { rows_max: 1000, window_slack: 2, hide_timing: true };

pub(super) type Answer = Vec<Vec<i64>>;

#[derive(Debug)]
pub(super) struct SimulatedQuery {
    pub(super) query: Arc<Query>,
    /// The query itself.
    pub(super) run: fn(&Contents) -> Answer,
    /// What begins its plan.
    pub(super) read: fn(&Contents) -> Answer,
}

pub(super) fn queries() -> Vec<SimulatedQuery> {
    let same = |sql, plan, run| asked(sql, plan, run, run);
    vec![
        same("SELECT k, b FROM t WHERE a = 1", PlanName::Filter, |contents| {
            rows(contents, 0).filter(|[_, a, _]| *a == 1).map(|[k, _, b]| vec![k, b]).collect()
        }),
        same("SELECT b FROM t WHERE a <> 2", PlanName::Filter, |contents| {
            rows(contents, 0).filter(|[_, a, _]| *a != 2).map(|[_, _, b]| vec![b]).collect()
        }),
        same("SELECT * FROM t", PlanName::Filter, |contents| {
            rows(contents, 0).map(|values| values.to_vec()).collect()
        }),
        same(
            "SELECT count(*) AS n FROM (SELECT k FROM t UNION ALL SELECT k FROM u) AS both_of_them",
            PlanName::Requery,
            |contents| vec![vec![number(contents.len())]],
        ),
        same("SELECT k, a FROM t WHERE k + 0 >= 0 ORDER BY a, k", PlanName::Requery, |contents| {
            let mut rows = rows(contents, 0).map(|[k, a, _]| vec![k, a]).collect::<Vec<_>>();
            rows.sort_by_key(|row| (row[1], row[0]));
            rows
        }),
        same(
            "SELECT t.k, u.b FROM t JOIN u ON t.b = u.b WHERE t.a > 1 AND (u.a = 0 OR u.a = 1)",
            PlanName::Requery,
            |contents| {
                let left = rows(contents, 0).filter(|[_, a, _]| *a > 1);
                let pairs = left.flat_map(|[k, _, b]| {
                    let right = rows(contents, 1).filter(move |[_, a, of]| *of == b && *a < 2);
                    right.map(move |[_, _, b]| vec![k, b])
                });
                pairs.collect()
            },
        ),
        asked(
            "SELECT k, a FROM t WHERE b < 2 ORDER BY a, k LIMIT 3",
            PlanName::Window,
            |contents| first_by_a(contents, 3),
            |contents| first_by_a(contents, 5),
        ),
        asked(
            "SELECT b FROM t ORDER BY b DESC, a LIMIT 2 OFFSET 1",
            PlanName::Window,
            |contents| {
                let rows = last_by_b(contents).into_iter().skip(1).take(2);
                rows.map(|row| row[..1].to_vec()).collect()
            },
            |contents| last_by_b(contents).into_iter().take(5).collect(),
        ),
        asked(
            "SELECT a, count(*) AS n, max(b) AS most FROM t GROUP BY a",
            PlanName::Aggregate,
            |contents| {
                let groups = groups(contents).into_iter();
                groups.map(|(a, bs)| vec![a, number(bs.len()), most(&bs)]).collect()
            },
            |contents| {
                let groups = groups(contents).into_iter();
                let row = |(a, bs): (i64, Vec<i64>)| {
                    vec![a, number(bs.len()), number(bs.len()), most(&bs)]
                };
                groups.map(row).collect()
            },
        ),
        asked(
            "SELECT count(*) AS n, sum(b) AS total FROM t WHERE a < 3",
            PlanName::Aggregate,
            |contents| vec![counted(contents)],
            |contents| {
                let [n, total] = counted(contents)[..] else { unreachable!("two values") };
                vec![vec![n, n, total]]
            },
        ),
    ]
}

fn rows(contents: &Contents, table: usize) -> impl Iterator<Item = Values> + '_ {
    contents.values().filter(move |(of, _)| *of == table).map(|(_, values)| *values)
}

fn number(of: usize) -> i64 {
    i64::try_from(of).expect("few")
}

fn most(values: &[i64]) -> i64 {
    values.iter().copied().max().expect("a group has rows")
}

fn first_by_a(contents: &Contents, most: usize) -> Answer {
    let rows = rows(contents, 0).filter(|[_, _, b]| *b < 2);
    let mut rows = rows.map(|[k, a, _]| vec![k, a]).collect::<Vec<_>>();
    rows.sort_by_key(|row| (row[1], row[0]));
    rows.truncate(most);
    rows
}

/// What is shown, then what sorts and is not, then what tells rows apart.
fn last_by_b(contents: &Contents) -> Answer {
    let mut rows = rows(contents, 0).map(|[k, a, b]| vec![b, a, k]).collect::<Vec<_>>();
    rows.sort_by_key(|row| (-row[0], row[1], row[2]));
    rows
}

fn groups(contents: &Contents) -> BTreeMap<i64, Vec<i64>> {
    let mut groups = BTreeMap::<_, Vec<_>>::new();
    for [_, a, b] in rows(contents, 0) {
        groups.entry(a).or_default().push(b);
    }
    groups
}

fn counted(contents: &Contents) -> Vec<i64> {
    let rows = rows(contents, 0).filter(|[_, a, _]| *a < 3);
    let values = rows.map(|[_, _, b]| b).collect::<Vec<_>>();
    let total = if values.is_empty() { NULL } else { values.iter().sum() };
    vec![number(values.len()), total]
}

fn asked(
    sql: &str,
    plan: PlanName,
    run: fn(&Contents) -> Answer,
    read: fn(&Contents) -> Answer,
) -> SimulatedQuery {
    let query = bound(sql);
    assert_eq!(query.plan.name(), plan, "{sql}: {:?}", query.why);
    SimulatedQuery { query, run, read }
}

/// A SELECT over the tables, of someone who may see all.
pub(in crate::engine) fn bound(sql: &str) -> Arc<Query> {
    let draft = Draft::parse(sql, &[], Dialect::Postgres).expect("a SELECT");
    let table = |name: &TableName| (name.clone(), Arc::new(shape(&name.name)));
    let tables = draft.tables().iter().map(table).collect::<Vec<_>>();
    let access = |_: &str| Access::default();
    let binding = Binding { tables: &tables, access: &access, caller: &(), limits: LIMITS };
    let query = draft.bind(&binding).unwrap_or_else(|why| panic!("{sql}: {why}"));
    Arc::new(query)
}

fn shape(name: &str) -> TableShape {
    assert!(TABLES.contains(&name));
    let column = |name: &str| ShapeColumn {
        column: Column { name: name.to_owned(), type_name: "int4".to_owned(), collation: None },
        generated: false,
        scale: None,
        json_text: false,
    };
    TableShape {
        name: name.to_owned(),
        sql_name: format!("\"public\".\"{name}\""),
        columns: vec![column("k"), column("a"), column("b")],
        key: vec!["k".to_owned()],
        host_column: None,
        fingerprint: 1,
        row_security: false,
        inherited: false,
    }
}
