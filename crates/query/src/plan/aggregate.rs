//! Counts, sums and extremes of groups of a table's rows.
//!
//! What is read for it is, of each group, what all its results follow from: how many rows it has and,
//! of each column that something is made of, how many values, their sum, the least and the greatest.

mod calls;
mod having;

use sqlparser::ast::{Expr, GroupByExpr, SelectItem};

pub(crate) use self::having::Having;
use super::FilterPlan;
use super::order::{self, Direction, Item, Limits};
use super::single::SingleTable;
use crate::bind::{self, Summed};
use crate::reading::Reading;
use crate::refusal::{NOT_SUPPORTED, Refusal};
use crate::table::{Column, Dialect};
use crate::value::Collation;

/// What an aggregate needs to know.
#[derive(Debug, Clone)]
pub struct AggregatePlan {
    /// The rows that are counted; it has no projection.
    pub filter: FilterPlan,
    /// The columns by which rows are grouped; none if all rows are one group, which is always there.
    pub(crate) groups: Vec<(Box<str>, Reading)>,
    /// What is kept of columns.
    pub(crate) tallies: Vec<ColumnAggregate>,
    /// The columns of the result.
    pub(crate) shown: Vec<Measure>,
    /// Which groups are seen.
    pub(crate) having: Option<Having>,
    /// By what groups are sorted, if they are.
    pub(crate) sort: Option<Vec<(Measure, Direction)>>,
    pub(crate) limits: Limits,
    /// Groups, at most.
    pub(crate) groups_max: usize,
}

/// What is kept of a column in each group, besides how many values it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ColumnAggregate {
    pub(crate) column: Box<str>,
    pub(crate) sum: Option<Summed>,
    pub(crate) least: Option<(Reading, Collation)>,
    pub(crate) greatest: Option<(Reading, Collation)>,
}

/// Something that a group has: a column it is grouped by, or what its rows make. Numbers are places
/// among groups' columns and tallies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    Group(usize),
    Rows,
    Count(usize),
    Sum(usize),
    Average(usize),
    Least(usize),
    Greatest(usize),
}

/// The plan of a SELECT with aggregates or GROUP BY, and the SELECT that its state is made of.
pub(crate) fn plan(single: &SingleTable<'_>) -> Result<(AggregatePlan, String), Refusal> {
    let mut gathering = AggregateBuilder { single, groups: Vec::new(), tallies: Vec::new() };
    gathering.group_by()?;
    let mut shown = Vec::with_capacity(single.select.projection.len());
    for item in &single.select.projection {
        match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                shown.push(gathering.measure(expr)?);
            }
            _ => {
                let message = "all columns of a table together with groups are not kept in memory";
                return Err(Refusal::new(NOT_SUPPORTED, message));
            }
        }
    }
    let having = match &single.select.having {
        Some(condition) => Some(having::plan(&mut gathering, condition)?),
        None => None,
    };
    let is_one_row = gathering.groups.is_empty();
    if is_one_row && having.is_none() && !shown.iter().any(|it| !matches!(it, Measure::Group(_))) {
        return Err(Refusal::new(NOT_SUPPORTED, "nothing is counted"));
    }
    let limits = order::limits(single)?;
    let sort = gathering.order_by()?;
    if sort.is_none() && (limits.take.is_some() || limits.skip > 0) {
        let message = "without ORDER BY it is not said which groups LIMIT leaves";
        return Err(Refusal::new(NOT_SUPPORTED, message).hint("write ORDER BY before LIMIT"));
    }
    let sql = gathering.sql();
    let AggregateBuilder { groups, tallies, .. } = gathering;
    let filter = single.filter.clone();
    let groups_max = single.limits.rows_max;
    let plan = AggregatePlan { filter, groups, tallies, shown, having, sort, limits, groups_max };
    Ok((plan, sql))
}

/// What is found out while a statement is looked at.
struct AggregateBuilder<'a, 'b> {
    single: &'b SingleTable<'a>,
    groups: Vec<(Box<str>, Reading)>,
    tallies: Vec<ColumnAggregate>,
}

impl<'a> AggregateBuilder<'a, '_> {
    fn group_by(&mut self) -> Result<(), Refusal> {
        let GroupByExpr::Expressions(list, modifiers) = &self.single.select.group_by else {
            return Err(Refusal::new(NOT_SUPPORTED, "GROUP BY ALL is not kept in memory"));
        };
        if !modifiers.is_empty() {
            return Err(Refusal::new(NOT_SUPPORTED, "GROUP BY … WITH is not kept in memory"));
        }
        for expression in list {
            let position = (self.single.position)(expression);
            let column = self.grouped_by(expression).map_err(|it| it.at(position))?;
            let reading =
                bind::one_text(column, self.single.dialect).map_err(|it| it.at(position))?;
            let name = column.column.name.as_str();
            if !self.groups.iter().any(|(known, _)| **known == *name) {
                self.groups.push((name.into(), reading));
            }
        }
        Ok(())
    }

    /// The column that something after GROUP BY means: columns come before names of the result.
    fn grouped_by(&self, expression: &Expr) -> Result<&'a crate::shape::ShapeColumn, Refusal> {
        let inner = order::unnested(expression);
        if matches!(inner, Expr::Value(_)) {
            let item = order::ordinal(expression)
                .and_then(|place| self.single.select.projection.get(place));
            let Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item
            else {
                return Err(Refusal::new(NOT_SUPPORTED, "a group by a value is none"));
            };
            return order::column(self.single, expr);
        }
        match (order::column(self.single, inner), inner) {
            (Ok(column), _) => Ok(column),
            (Err(refusal), Expr::Identifier(name)) => match order::aliased(self.single, name)? {
                Some(expression) => order::column(self.single, expression),
                None => Err(refusal),
            },
            (Err(refusal), _) => Err(refusal),
        }
    }

    fn order_by(&mut self) -> Result<Option<Vec<(Measure, Direction)>>, Refusal> {
        let Some(items) = order::items(self.single)? else { return Ok(None) };
        let mut sort = Vec::with_capacity(items.len());
        for item in &items {
            let measure = self.sorted_by(item).map_err(|it| it.at(item.position))?;
            let column = self.column_of(measure)?;
            let (reading, collation) =
                bind::ordered(&column, item.collation.as_deref(), self.single.dialect)
                    .map_err(|it| it.at(item.position))?;
            let Item { descending, nulls_first, .. } = *item;
            sort.push((measure, Direction { reading, collation, descending, nulls_first }));
        }
        Ok(Some(sort))
    }

    fn sorted_by(&mut self, item: &Item<'_>) -> Result<Measure, Refusal> {
        if matches!(item.expression, Expr::Value(_)) {
            let place = order::ordinal(item.expression).filter(|_| item.collation.is_none());
            let shown = place.and_then(|place| self.single.select.projection.get(place));
            let Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) =
                shown
            else {
                return Err(Refusal::new(NOT_SUPPORTED, "an order by a value is none"));
            };
            return self.measure(expr);
        }
        let may_be_alias = self.single.dialect == Dialect::Sqlite || item.collation.is_none();
        if let Expr::Identifier(name) = item.expression
            && may_be_alias
            && let Some(aliased) = order::aliased(self.single, name)?
        {
            return self.measure(aliased);
        }
        self.measure(item.expression)
    }

    /// What an expression is of a group.
    fn measure(&mut self, expression: &Expr) -> Result<Measure, Refusal> {
        let position = (self.single.position)(expression);
        if let Expr::Function(function) = order::unnested(expression) {
            return self.call(function).map_err(|refusal| refusal.at(position));
        }
        let column = order::column(self.single, expression)?;
        let name = column.column.name.as_str();
        let place = self.groups.iter().position(|(group, _)| **group == *name);
        place.map(Measure::Group).ok_or_else(|| {
            let message = format!("{name} is neither grouped by nor aggregated");
            Refusal::new(NOT_SUPPORTED, message).at(position)
        })
    }

    /// A column as which a measure is compared.
    fn column_of(&self, measure: Measure) -> Result<Column, Refusal> {
        let postgres = self.single.dialect == Dialect::Postgres;
        let of_type = |type_name: &str| Column {
            name: String::new(),
            type_name: type_name.to_owned(),
            collation: None,
        };
        let name = match measure {
            Measure::Group(place) => &self.groups[place].0,
            Measure::Least(place) | Measure::Greatest(place) => &self.tallies[place].column,
            Measure::Average(_) => return Ok(of_type(if postgres { "numeric" } else { "REAL" })),
            Measure::Sum(place) => {
                let is_small = self.tallies[place].sum == Some(Summed::Small);
                return Ok(of_type(match (postgres, is_small) {
                    (true, true) => "int8",
                    (true, false) => "numeric",
                    (false, _) => "INTEGER",
                }));
            }
            Measure::Rows | Measure::Count(_) => {
                return Ok(of_type(if postgres { "int8" } else { "INTEGER" }));
            }
        };
        Ok(order::shape_column(self.single.shape, name)?.column.clone())
    }

    /// The SELECT that groups are made of: their columns, their rows, and what is kept of columns.
    fn sql(&self) -> String {
        let schema = match self.single.dialect {
            Dialect::Postgres => "pg_catalog.",
            Dialect::Sqlite => "",
        };
        let mut list: Vec<String> = self.groups.iter().map(|(it, _)| order::quoted(it)).collect();
        let groups: Vec<String> = (1..=list.len()).map(|place| place.to_string()).collect();
        list.push(format!("{schema}count(*)"));
        for tally in &self.tallies {
            let column = order::quoted(&tally.column);
            let wanted = [
                ("count", true),
                ("sum", tally.sum.is_some()),
                ("min", tally.least.is_some()),
                ("max", tally.greatest.is_some()),
            ];
            let calls = wanted.iter().filter(|(_, wanted)| *wanted);
            list.extend(calls.map(|(name, _)| format!("{schema}{name}({column})")));
        }
        let by = match groups.as_slice() {
            [] => String::new(),
            places => format!(" GROUP BY {}", places.join(", ")),
        };
        format!("SELECT {} {}{by}", list.join(", "), self.single.from_where)
    }
}

#[cfg(test)]
mod tests;
