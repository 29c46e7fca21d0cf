//! How long a `generate_series` is must be written in the query: what the planner cannot compute it takes
//! for a thousand rows, and then a query that makes billions is run as if it were a small one.

use sqlparser::ast::{DataType, Expr, FunctionArg, FunctionArgExpr, UnaryOperator, Value};

/// Digits of a whole number, at most: PostgreSQL makes a `numeric` of one that does not fit in 64 bits, and
/// plans a series of those as if it knew nothing.
const DIGITS_MAX: usize = 18;

/// Whether an argument is a value as it stands: a whole number, a string, or a cast of one of them to whole
/// numbers or times.
pub(super) fn is_literal(argument: &Expr) -> bool {
    match argument {
        Expr::Nested(inner) => is_literal(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => is_literal(expr),
        Expr::Cast { expr, data_type, .. } => is_literal(expr) && is_counted(data_type),
        Expr::TypedString(typed) => is_counted(&typed.data_type),
        Expr::Interval(interval) => matches!(*interval.value, Expr::Value(_)),
        Expr::Value(value) => match &value.value {
            Value::Number(digits, false) => {
                digits.len() <= DIGITS_MAX && digits.bytes().all(|digit| digit.is_ascii_digit())
            }
            Value::SingleQuotedString(_) | Value::Null => true,
            _ => false,
        },
        _ => false,
    }
}

/// How many rows a series of whole numbers has. One of times counts as one row: time bounds it.
pub(super) fn rows(arguments: &[FunctionArg]) -> u64 {
    let number = |at: usize| match arguments.get(at) {
        Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))) => whole(expr),
        _ => None,
    };
    let (Some(first), Some(last)) = (number(0), number(1)) else { return 1 };
    let step = number(2).unwrap_or(1).unsigned_abs().max(1);
    u64::try_from(first.abs_diff(last) / step).unwrap_or(u64::MAX).saturating_add(1)
}

fn whole(expr: &Expr) -> Option<i128> {
    match expr {
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => whole(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => whole(expr).map(|number| -number),
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => whole(expr),
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) | Value::SingleQuotedString(digits) => {
                digits.trim().parse().ok()
            }
            _ => None,
        },
        _ => None,
    }
}

fn is_counted(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Int(None)
            | DataType::Integer(None)
            | DataType::BigInt(None)
            | DataType::SmallInt(None)
            | DataType::Int2(None)
            | DataType::Int4(None)
            | DataType::Int8(None)
            | DataType::Date
            | DataType::Timestamp(..)
            | DataType::Interval { .. }
    )
}
