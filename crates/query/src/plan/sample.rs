//! Tables and statements for tests of plans, without all that checks them otherwise.

use sqlparser::ast::{Expr, SelectItem, SetExpr, Statement};
use sqlparser::dialect::{Dialect as Grammar, PostgreSqlDialect, SQLiteDialect};
use sqlparser::parser::Parser;

use super::single::SingleTable;
use super::{Conditions, FilterPlan, Projected};
use crate::refusal::{NOT_SUPPORTED, Refusal};
use crate::shape::{QueryLimits, ShapeColumn, TableShape};
use crate::table::{Column, Dialect};

pub(crate) const LIMITS: QueryLimits =
    QueryLimits { rows_max: 100, window_slack: 3, hide_timing: true };

/// A table `t` of columns like `name text`, `total numeric(2)` or `code text C`, with this key.
pub(crate) fn table(columns: &[&str], key: &[&str]) -> TableShape {
    let column = |text: &&str| {
        let mut words = text.split(' ');
        let name = words.next().unwrap_or_default().to_owned();
        let kind = words.next().unwrap_or_default();
        let (type_name, scale) = match kind.split_once('(') {
            Some((kind, scale)) => (kind, scale.trim_end_matches(')').parse().ok()),
            None => (kind, None),
        };
        let collation = words.next().map(str::to_owned);
        let column = Column { name, type_name: type_name.to_owned(), collation };
        ShapeColumn { column, generated: false, scale, json_text: type_name == "json" }
    };
    TableShape {
        name: "t".to_owned(),
        sql_name: "\"public\".\"t\"".to_owned(),
        columns: columns.iter().map(column).collect(),
        key: key.iter().map(|&name| name.to_owned()).collect(),
        host_column: None,
        fingerprint: 1,
        row_security: false,
        inherited: false,
    }
}

/// Looks at a SELECT from the table as plans do.
pub(crate) fn with<T>(
    sql: &str,
    shape: &TableShape,
    dialect: Dialect,
    look: impl FnOnce(&SingleTable<'_>) -> T,
) -> T {
    let grammar: &dyn Grammar = match dialect {
        Dialect::Postgres => &PostgreSqlDialect {},
        Dialect::Sqlite => &SQLiteDialect {},
    };
    let statements = Parser::parse_sql(grammar, sql).unwrap_or_else(|why| panic!("{sql}: {why}"));
    let [Statement::Query(statement)] = statements.as_slice() else { panic!("{sql} is no SELECT") };
    let SetExpr::Select(select) = statement.body.as_ref() else { panic!("{sql} is no SELECT") };
    let visible: Vec<&str> = shape.columns.iter().map(|it| it.column.name.as_str()).collect();
    let filter = FilterPlan {
        table: "t".into(),
        conditions: Conditions::default(),
        projection: [].into(),
        key: shape.key.iter().map(|name| name.as_str().into()).collect(),
    };
    let mut names: Vec<Box<str>> = Vec::new();
    let mut projection = Some(Vec::new());
    for item in &select.projection {
        let (name, projected) = match item {
            SelectItem::Wildcard(_) => {
                names.extend(visible.iter().map(|&name| Box::from(name)));
                let columns = visible.iter().map(|&name| Projected::Column(name.into()));
                projection.iter_mut().for_each(|it| it.extend(columns.clone()));
                continue;
            }
            SelectItem::UnnamedExpr(expression) => (expression.to_string(), shown(expression)),
            SelectItem::ExprWithAlias { expr, alias } => (alias.value.clone(), shown(expr)),
            other => panic!("{other} is not for these tests"),
        };
        names.push(name.into());
        projection = projection.zip(projected).map(|(mut all, projected)| {
            all.push(projected);
            all
        });
    }
    let refusal = Refusal::new(NOT_SUPPORTED, "not of columns");
    let projection = match &projection {
        Some(projection) => Ok((names.as_slice(), projection.as_slice())),
        None => Err(&refusal),
    };
    look(&SingleTable {
        dialect,
        shape,
        visible: &visible,
        alias: "t",
        statement,
        select,
        filter: &filter,
        projection,
        from_where: "FROM t",
        limits: LIMITS,
        position: &|_| None,
    })
}

fn shown(expression: &Expr) -> Option<Projected> {
    match expression {
        Expr::Identifier(name) => Some(Projected::Column(name.value.as_str().into())),
        Expr::CompoundIdentifier(parts) => {
            parts.last().map(|name| Projected::Column(name.value.as_str().into()))
        }
        Expr::Value(value) => {
            Some(Projected::Literal(value.to_string().replace('\'', "\"").into()))
        }
        _ => None,
    }
}
