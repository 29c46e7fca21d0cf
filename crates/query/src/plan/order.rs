//! ORDER BY and LIMIT: by which columns rows are sorted, and how many are seen.

use std::cmp::Ordering;

use sqlparser::ast::{
    Expr, Ident, LimitClause, OrderByExpr, OrderByKind, OrderBySort, SelectItem, Value as Sql,
};

use super::single::SingleTable;
use crate::bind;
use crate::reading::Reading;
use crate::refusal::{NO_COLUMN, NOT_SUPPORTED, Refusal};
use crate::shape::{ShapeColumn, TableShape};
use crate::table::Dialect;
use crate::value::{Collation, Constant};

/// How values of one sort key come after each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Direction {
    pub(crate) reading: Reading,
    pub(crate) collation: Collation,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
}

impl Direction {
    /// The order of a column that nobody asked for: that of the database's indexes.
    pub(crate) fn plain(reading: Reading, collation: Collation, dialect: Dialect) -> Direction {
        let nulls_first = dialect == Dialect::Sqlite;
        Direction { reading, collation, descending: false, nulls_first }
    }

    /// Which of two comes first; none is NULL.
    pub(crate) fn compare(&self, left: Option<&Constant>, right: Option<&Constant>) -> Ordering {
        let null = if self.nulls_first { Ordering::Less } else { Ordering::Greater };
        match (left, right) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) => null,
            (Some(_), None) => null.reverse(),
            (Some(left), Some(right)) => {
                let order = left.compare(right, self.collation);
                if self.descending { order.reverse() } else { order }
            }
        }
    }

    /// What follows the column in ORDER BY. Defaults are written out, as they differ.
    pub(crate) fn sql(&self) -> &'static str {
        match (self.descending, self.nulls_first) {
            (false, true) => " ASC NULLS FIRST",
            (false, false) => " ASC NULLS LAST",
            (true, true) => " DESC NULLS FIRST",
            (true, false) => " DESC NULLS LAST",
        }
    }
}

/// How many rows are seen, and of which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Rows before the first that is seen.
    pub(crate) skip: usize,
    /// Rows that are seen, at most.
    pub(crate) take: Option<usize>,
}

/// One of the things after ORDER BY.
pub(crate) struct Item<'a> {
    /// What rows are sorted by, without its collation.
    pub(crate) expression: &'a Expr,
    /// The collation that was said.
    pub(crate) collation: Option<String>,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
    pub(crate) position: Option<usize>,
}

/// What stands after ORDER BY; none if nothing does.
pub(crate) fn items<'a>(single: &SingleTable<'a>) -> Result<Option<Vec<Item<'a>>>, Refusal> {
    let Some(order) = &single.statement.order_by else { return Ok(None) };
    let OrderByKind::Expressions(list) = &order.kind else {
        return Err(Refusal::new(NOT_SUPPORTED, "ORDER BY ALL is not kept in memory"));
    };
    list.iter().map(|sorted| item(single, sorted)).collect::<Result<_, _>>().map(Some)
}

fn item<'a>(single: &SingleTable<'a>, sorted: &'a OrderByExpr) -> Result<Item<'a>, Refusal> {
    let position = (single.position)(&sorted.expr);
    let descending = match &sorted.options.sort {
        None | Some(OrderBySort::Asc) => false,
        Some(OrderBySort::Desc) => true,
        Some(OrderBySort::Using(_)) => {
            return Err(Refusal::new(NOT_SUPPORTED, "an order by an operator").at(position));
        }
    };
    // NULLs are the greatest in PostgreSQL, and the least in SQLite.
    let nulls_first =
        sorted.options.nulls_first.unwrap_or(descending == (single.dialect == Dialect::Postgres));
    let (expression, collation) = match unnested(&sorted.expr) {
        Expr::Collate { expr, collation } => {
            (unnested(expr), Some(bind::collation_name(collation, single.dialect)))
        }
        other => (other, None),
    };
    Ok(Item { expression, collation, descending, nulls_first, position })
}

/// An expression without its parentheses.
pub(crate) fn unnested(expression: &Expr) -> &Expr {
    match expression {
        Expr::Nested(inner) => unnested(inner),
        other => other,
    }
}

/// What LIMIT and OFFSET say.
pub(crate) fn limits(single: &SingleTable<'_>) -> Result<Limits, Refusal> {
    let refusal = |what: &str, at: Option<usize>| Refusal::new(NOT_SUPPORTED, what).at(at);
    if single.statement.fetch.is_some() {
        return Err(refusal("FETCH FIRST is not kept in memory; LIMIT is", None));
    }
    let number = |expression: &Expr| {
        let Expr::Value(value) = unnested(expression) else { return None };
        let Sql::Number(digits, false) = &value.value else { return None };
        digits.parse::<usize>().ok()
    };
    let (limit, offset) = match &single.statement.limit_clause {
        None => (None, None),
        Some(LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
            (limit.as_ref(), offset.as_ref().map(|offset| &offset.value))
        }
        Some(LimitClause::OffsetCommaLimit { offset, limit })
            if single.dialect == Dialect::Sqlite =>
        {
            (Some(limit), Some(offset))
        }
        Some(_) => return Err(refusal("this way of writing LIMIT is not kept in memory", None)),
    };
    let read = |expression: Option<&Expr>| match expression {
        None => Ok(None),
        Some(expression) => number(expression).map(Some).ok_or_else(|| {
            let at = (single.position)(expression);
            refusal("LIMIT and OFFSET are kept in memory if they are numbers", at)
        }),
    };
    let (take, skip) = (read(limit)?, read(offset)?.unwrap_or(0));
    let most = single.limits.rows_max;
    if skip.saturating_add(take.unwrap_or(0)) > most {
        let message = format!("more than {most} rows are not kept in memory");
        let hint = "ask for fewer rows, or begin after a value: WHERE id > 1000 … LIMIT 100";
        return Err(Refusal::new(NOT_SUPPORTED, message).hint(hint));
    }
    if take == Some(0) {
        return Err(refusal("LIMIT 0 asks for no rows", None));
    }
    Ok(Limits { skip, take })
}

/// The column that an expression names, if it is one that the caller may see.
pub(crate) fn column<'a>(
    single: &SingleTable<'a>,
    expression: &Expr,
) -> Result<&'a ShapeColumn, Refusal> {
    let position = (single.position)(expression);
    let name = match unnested(expression) {
        Expr::Identifier(name) => name,
        Expr::CompoundIdentifier(parts) => match parts.as_slice() {
            [table, name] if names(single.dialect, table, single.alias) => name,
            _ => return Err(Refusal::new(NOT_SUPPORTED, "only columns are kept").at(position)),
        },
        _ => {
            let message = "an expression other than a column is not kept in memory";
            return Err(Refusal::new(NOT_SUPPORTED, message).at(position));
        }
    };
    let is_seen = |column: &str| single.visible.contains(&column);
    let mut columns = single.shape.columns.iter();
    let found = columns.find(|it| names(single.dialect, name, &it.column.name));
    let found = found.filter(|it| is_seen(&it.column.name)).ok_or_else(|| {
        Refusal::new(NO_COLUMN, format!("the table has no column {name}")).at(position)
    })?;
    if found.generated {
        let message = format!("the column {name} is computed, and no event has it");
        return Err(Refusal::new(NOT_SUPPORTED, message).at(position));
    }
    Ok(found)
}

/// A column of a table, by its exact name.
pub(crate) fn shape_column<'a>(
    shape: &'a TableShape,
    name: &str,
) -> Result<&'a ShapeColumn, Refusal> {
    let found = shape.columns.iter().find(|it| it.column.name == name && !it.generated);
    found.ok_or_else(|| Refusal::new(NOT_SUPPORTED, format!("no event has the column {name}")))
}

/// Whether a name as it is written is this one.
pub(crate) fn names(dialect: Dialect, written: &Ident, name: &str) -> bool {
    match dialect {
        Dialect::Sqlite => written.value.eq_ignore_ascii_case(name),
        Dialect::Postgres if written.quote_style.is_some() => written.value == name,
        Dialect::Postgres => written.value.to_ascii_lowercase() == name,
    }
}

/// What the SELECT list calls by a name, if it does: such names come before columns in ORDER BY.
pub(crate) fn aliased<'a>(
    single: &SingleTable<'a>,
    name: &Ident,
) -> Result<Option<&'a Expr>, Refusal> {
    let written = match single.dialect {
        Dialect::Postgres if name.quote_style.is_none() => name.value.to_ascii_lowercase(),
        _ => name.value.clone(),
    };
    let mut found: Option<&Expr> = None;
    for item in &single.select.projection {
        let expression = match item {
            SelectItem::ExprWithAlias { expr, alias } if names(single.dialect, alias, &written) => {
                unnested(expr)
            }
            // What has no alias is called by its column.
            SelectItem::UnnamedExpr(expr) => match unnested(expr) {
                column @ Expr::Identifier(own) if names(single.dialect, own, &written) => column,
                Expr::CompoundIdentifier(parts)
                    if parts.last().is_some_and(|own| names(single.dialect, own, &written)) =>
                {
                    unnested(expr)
                }
                _ => continue,
            },
            _ => continue,
        };
        if found.is_some_and(|other| other.to_string() != expression.to_string()) {
            let message = format!("{name} is the name of several columns of the result");
            return Err(Refusal::new(NOT_SUPPORTED, message));
        }
        found = Some(expression);
    }
    let all = |item: &SelectItem| {
        matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
    };
    let is_column = |column: &&str| names(single.dialect, name, column);
    if found.is_some()
        && single.dialect == Dialect::Postgres
        && single.select.projection.iter().any(all)
        && single.visible.iter().any(is_column)
    {
        let message = format!("{name} may be the name of several columns of the result");
        return Err(Refusal::new(NOT_SUPPORTED, message));
    }
    Ok(found)
}

/// The place in the SELECT list that a number after ORDER BY or GROUP BY says, from 0.
pub(crate) fn ordinal(expression: &Expr) -> Option<usize> {
    let Expr::Value(value) = expression else { return None };
    let Sql::Number(digits, false) = &value.value else { return None };
    digits.parse::<usize>().ok()?.checked_sub(1)
}

/// A name in quotes.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A collation by which every database sorts as this one does, for columns that only break ties.
pub(crate) fn plain_collation(column: &ShapeColumn, dialect: Dialect) -> Option<&'static str> {
    let own = column.column.collation.as_deref();
    match dialect {
        Dialect::Postgres => {
            let is_text = matches!(column.column.type_name.as_str(), "text" | "varchar" | "bpchar");
            (is_text && !matches!(own, Some("C" | "POSIX"))).then_some("C")
        }
        Dialect::Sqlite => {
            own.is_some_and(|own| !own.eq_ignore_ascii_case("BINARY")).then_some("BINARY")
        }
    }
}
