//! The columns of a result that are read off an image, and what all of them are called.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use serde_json::Value as Json;
use sqlparser::ast::{Expr, SelectItem, UnaryOperator, Value};

use super::Projected;
use crate::refusal::{NOT_EXACT, NOT_SUPPORTED, Refusal};
use crate::statement::{Bound, Output};
use crate::table::Dialect;

/// What each column of the result is, if all of them are read off an image.
pub(super) fn projection(bound: &Bound<'_>) -> Result<Vec<Projected>, Refusal> {
    let Some(select) = bound.select() else {
        return Err(Refusal::new(NOT_SUPPORTED, "it is no single SELECT"));
    };
    let known = &bound.known[bound.occurrences()[0].table];
    let mut projected = Vec::new();
    for item in &select.projection {
        match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                projected.push(match bound.walk.plain_column(expr) {
                    Some((_, column)) => self::column(bound, column, Some(expr))?,
                    None => Projected::Literal(literal(expr, bound)?.to_string().into()),
                });
            }
            _ => {
                for column in &known.visible {
                    projected.push(self::column(bound, *column, None)?);
                }
            }
        }
    }
    Ok(projected)
}

fn column(bound: &Bound<'_>, column: usize, expr: Option<&Expr>) -> Result<Projected, Refusal> {
    let column = &bound.shape(0).columns[column];
    let name = &column.column.name;
    if column.generated {
        let message = format!("{name} is generated, and no event has it");
        let position = expr.and_then(|expr| bound.position(expr));
        return Err(Refusal::new(NOT_EXACT, message).at(position));
    }
    Ok(Projected::Column(name.as_str().into()))
}

/// A value that is the same in every row, as the database's answer has it.
fn literal(expr: &Expr, bound: &Bound<'_>) -> Result<Json, Refusal> {
    let refuse = || {
        Refusal::new(NOT_SUPPORTED, "its result has an expression in it that is no column")
            .at(bound.position(expr))
    };
    let whole = |digits: &str| digits.parse::<i64>().ok().filter(|_| digits.len() < 19);
    match expr {
        Expr::Nested(inner) => literal(inner, bound),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } => {
            let Json::Number(number) = literal(inner, bound)? else { return Err(refuse()) };
            let negative = number.as_i64().filter(|number| *number > 0).map(|number| -number);
            negative.map(Json::from).ok_or_else(refuse)
        }
        Expr::Value(value) => match (&value.value, bound.dialect()) {
            (Value::Null, _) => Ok(Json::Null),
            (Value::Boolean(value), Dialect::Postgres) => Ok(Json::from(*value)),
            (Value::Boolean(value), Dialect::Sqlite) => Ok(Json::from(i64::from(*value))),
            (Value::Number(digits, false), _) => whole(digits).map(Json::from).ok_or_else(refuse),
            (Value::SingleQuotedString(text), _) if !text.chars().any(char::is_control) => {
                Ok(Json::from(text.as_str()))
            }
            _ => Err(refuse()),
        },
        _ => Err(refuse()),
    }
}

/// The names of a result's columns, each once: a second `a` is `a_2`, or the next number that no column is
/// called by. The client says how many there are, so the time it takes grows no faster than they do.
pub(super) fn told_apart(outputs: &[Output]) -> Vec<Box<str>> {
    let own: HashSet<&str> = outputs.iter().map(|output| output.name.as_str()).collect();
    // Of each name that was given, the number that the next column of it tries first.
    let mut numbers: HashMap<&str, usize> = HashMap::with_capacity(own.len());
    // What is made of one name is never made of another, because all that follows the last `_` is a number.
    let name = |output: &'_ Output, number: &mut usize| loop {
        let name = format!("{}_{number}", output.name);
        *number += 1;
        if !own.contains(name.as_str()) {
            return name.into();
        }
    };
    let told = outputs.iter().map(|output| match numbers.entry(&output.name) {
        Entry::Vacant(first) => {
            first.insert(2);
            output.name.as_str().into()
        }
        Entry::Occupied(mut next) => name(output, next.get_mut()),
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(names: &[&str]) -> Vec<Box<str>> {
        let output = |name: &&str| Output { name: (*name).to_owned(), from: None };
        told_apart(&names.iter().map(output).collect::<Vec<Output>>())
    }

    #[test]
    fn a_column_keeps_its_own_name_and_another_of_it_gets_one_that_no_column_has() {
        let plain = |names: &[&str]| told(names).join(" ");
        assert_eq!(plain(&["a", "b"]), "a b");
        assert_eq!(plain(&["a", "a", "a"]), "a a_2 a_3");
        assert_eq!(plain(&["a", "a", "a_2"]), "a a_3 a_2");
        assert_eq!(plain(&["a", "a_2", "a", "a_2", "a_2_2"]), "a a_2 a_3 a_2_3 a_2_2");
        assert_eq!(plain(&["", "", "_2", "_2"]), " _3 _2 _2_2");
    }

    #[test]
    fn very_many_columns_of_one_name_are_told_apart() {
        let names = told(&["a"; 100_000]);
        assert_eq!(names.last().map(|name| &**name), Some("a_100000"));
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
    }
}
