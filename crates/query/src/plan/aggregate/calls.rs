//! Calls of aggregate functions.

use sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    ObjectNamePart, Value as Sql,
};

use super::{AggregateBuilder, ColumnAggregate, Measure};
use crate::bind;
use crate::plan::order;
use crate::refusal::{NOT_SUPPORTED, Refusal};
use crate::shape::ShapeColumn;

/// Digits after the point, at most, of numbers whose average is made here: with more the steps of the
/// division would not fit into 128 bits.
const AVERAGE_SCALE_MAX: u16 = 18;

impl AggregateBuilder<'_, '_> {
    /// What a call makes of a group's rows.
    pub(super) fn call(&mut self, function: &Function) -> Result<Measure, Refusal> {
        let name = name_of(function);
        let Some((name, argument)) = name.as_deref().zip(argument(function)) else {
            let message = format!("{function} is not kept in memory");
            let hint = "count, sum, avg, min and max of columns are";
            return Err(Refusal::new(NOT_SUPPORTED, message).hint(hint));
        };
        let column = match (name, argument) {
            ("count", Argument::Rows) => return Ok(Measure::Rows),
            (_, Argument::Expression(expression)) => order::column(self.single, expression)?,
            (_, Argument::Rows) => {
                return Err(Refusal::new(NOT_SUPPORTED, format!("{name} is of a column")));
            }
        };
        let dialect = self.single.dialect;
        match name {
            "count" => {
                bind::may_be_counted(&column.column, dialect)?;
                Ok(Measure::Count(self.tally(column)))
            }
            "sum" | "avg" => {
                let summed = bind::summed(column, dialect)?;
                if name == "avg" && column.scale.is_some_and(|scale| scale > AVERAGE_SCALE_MAX) {
                    let message =
                        format!("averages of {} have too many digits", column.column.name);
                    return Err(Refusal::new(NOT_SUPPORTED, message));
                }
                let place = self.tally(column);
                self.tallies[place].sum = Some(summed);
                Ok(if name == "sum" { Measure::Sum(place) } else { Measure::Average(place) })
            }
            _ => {
                let read = bind::extreme(column, dialect)?;
                let place = self.tally(column);
                if name == "min" {
                    self.tallies[place].least = Some(read);
                    return Ok(Measure::Least(place));
                }
                self.tallies[place].greatest = Some(read);
                Ok(Measure::Greatest(place))
            }
        }
    }

    /// The place of what is kept of a column.
    fn tally(&mut self, column: &ShapeColumn) -> usize {
        let name = column.column.name.as_str();
        if let Some(place) = self.tallies.iter().position(|it| *it.column == *name) {
            return place;
        }
        let tally = ColumnAggregate { column: name.into(), sum: None, least: None, greatest: None };
        self.tallies.push(tally);
        self.tallies.len() - 1
    }
}

/// What is given to an aggregate.
enum Argument<'a> {
    /// `*`, or a value that is the same in all rows and not NULL.
    Rows,
    Expression(&'a Expr),
}

/// The name, if it is one of an aggregate that is kept.
fn name_of(function: &Function) -> Option<String> {
    let ident = match function.name.0.as_slice() {
        [ObjectNamePart::Identifier(name)] => name,
        [ObjectNamePart::Identifier(schema), ObjectNamePart::Identifier(name)]
            if schema.value == "pg_catalog" =>
        {
            name
        }
        _ => return None,
    };
    let name = match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_ascii_lowercase(),
    };
    ["count", "sum", "avg", "min", "max"].contains(&name.as_str()).then_some(name)
}

/// The only argument, if nothing else is said.
fn argument(function: &Function) -> Option<Argument<'_>> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let all = matches!(list.duplicate_treatment, None | Some(DuplicateTreatment::All));
    let plain = function.filter.is_none()
        && function.over.is_none()
        && function.null_treatment.is_none()
        && function.within_group.is_empty()
        && function.parameters == FunctionArguments::None
        && all
        && list.clauses.is_empty();
    match list.args.as_slice() {
        _ if !plain => None,
        [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)] => Some(Argument::Rows),
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))] => {
            matches!(value.value, Sql::Number(..)).then_some(Argument::Rows)
        }
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(expression))] => {
            Some(Argument::Expression(expression))
        }
        _ => None,
    }
}
