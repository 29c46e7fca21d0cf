//! From an expression to a condition: columns are found, the caller's identity is filled in, and every
//! comparison is settled as the database would settle it, or refused.
//!
//! What is the same for both databases is here and in `operand`, `compare` and `pattern`; what they
//! differ on is in `postgres` (with `kind` and `cast`) and `sqlite` (with `affinity`), which have much
//! the same functions.
//!
//! - `array`: arrays of PostgreSQL that are written out, `'{1,2}'`, and claims that are lists
//! - `order`: columns whose values are sorted, grouped and counted in memory

mod affinity;
mod array;
mod cast;
mod compare;
mod kind;
mod operand;
mod order;
mod pattern;
mod postgres;
mod sqlite;

use sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};

pub(crate) use self::array::{ARRAY_ELEMENTS, array_elements};
use self::operand::{Literal, Operand};
pub(crate) use self::operand::{VALUE_WORDS, collation_name};
pub(crate) use self::order::{Summed, extreme, may_be_counted, one_text, ordered, summed};
use crate::caller::Caller;
use crate::condition::{Condition, Field, Test};
use crate::operator::Operator;
use crate::parse::Source;
use crate::reading::Reading;
use crate::refusal::{NOT_SUPPORTED, Refusal};
use crate::table::{Column, Dialect, Table};
use crate::truth::Truth;

/// A condition, and the columns that its text names.
pub(crate) fn bind(
    source: &Source<'_>,
    expression: &Expr,
    table: &Table,
    caller: &dyn Caller,
    of_client: bool,
) -> Result<(Condition, Vec<String>), Refusal> {
    let named = vec![false; table.columns.len()];
    let mut binder = Binder { source, table, caller, of_client, named };
    let condition = binder.condition(expression)?;
    let named = table.columns.iter().zip(&binder.named).filter(|(_, named)| **named);
    Ok((condition, named.map(|(column, _)| column.name.clone()).collect()))
}

struct Binder<'a> {
    source: &'a Source<'a>,
    table: &'a Table,
    caller: &'a dyn Caller,
    /// A client wrote it, and not whoever runs the server.
    of_client: bool,
    /// Which columns were named so far.
    named: Vec<bool>,
}

impl<'a> Binder<'a> {
    fn condition(&mut self, expression: &Expr) -> Result<Condition, Refusal> {
        match expression {
            Expr::Nested(inner) => self.condition(inner),
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => Ok(self.condition(expr)?.negate()),
            Expr::BinaryOp { op: BinaryOperator::And, .. } => {
                self.chain(expression, &BinaryOperator::And).map(Condition::all)
            }
            Expr::BinaryOp { op: BinaryOperator::Or, .. } => {
                self.chain(expression, &BinaryOperator::Or).map(Condition::any)
            }
            Expr::BinaryOp { left, op, right } => match operator(op) {
                Some(operator) => self.compare(left, operator, right),
                None => Err(self.unsupported(expression, &format!("the operator {op}"))),
            },
            Expr::IsDistinctFrom(left, right) => self.compare(left, Operator::DistinctFrom, right),
            Expr::IsNotDistinctFrom(left, right) => {
                self.compare(left, Operator::NotDistinctFrom, right)
            }
            Expr::IsNull(inner) => self.null(inner, false),
            Expr::IsNotNull(inner) => self.null(inner, true),
            Expr::IsTrue(inner) => self.is(inner, Truth::True, false),
            Expr::IsNotTrue(inner) => self.is(inner, Truth::True, true),
            Expr::IsFalse(inner) => self.is(inner, Truth::False, false),
            Expr::IsNotFalse(inner) => self.is(inner, Truth::False, true),
            Expr::IsUnknown(inner) => self.is_unknown(expression, inner, false),
            Expr::IsNotUnknown(inner) => self.is_unknown(expression, inner, true),
            Expr::InList { expr, list, negated } => self.list(expr, list, *negated),
            Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => {
                self.any(left, right, false)
            }
            Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => {
                self.any(left, right, true)
            }
            Expr::Between { expr, negated, low, high } => {
                let low = self.compare(expr, Operator::GreaterOrEqual, low)?;
                let high = self.compare(expr, Operator::LessOrEqual, high)?;
                let between = Condition::all(vec![low, high]);
                Ok(if *negated { between.negate() } else { between })
            }
            Expr::Like { negated, any: false, expr, pattern, escape_char } => {
                self.like(expr, pattern, escape_char.as_deref(), *negated, false)
            }
            Expr::ILike { negated, any: false, expr, pattern, escape_char } => {
                self.like(expr, pattern, escape_char.as_deref(), *negated, true)
            }
            other => self.holds(other),
        }
    }

    /// The parts of `a AND b AND c`, which lean to the left as deep as they are many.
    fn chain(
        &mut self,
        expression: &Expr,
        joint: &BinaryOperator,
    ) -> Result<Vec<Condition>, Refusal> {
        let mut parts = Vec::new();
        let mut rest = expression;
        while let Expr::BinaryOp { left, op, right } = rest
            && op == joint
        {
            parts.push(right.as_ref());
            rest = left;
        }
        parts.push(rest);
        parts.into_iter().rev().map(|part| self.condition(part)).collect()
    }

    fn null(&mut self, inner: &Expr, negated: bool) -> Result<Condition, Refusal> {
        if !is_operand(inner) {
            return self.is(inner, Truth::Unknown, negated);
        }
        let side = self.operand(inner)?;
        match side.operand {
            Operand::Column(column) => {
                self.null_of(column, negated).map_err(|refusal| refusal.at(side.position))
            }
            Operand::Literal(literal) => {
                Ok(Condition::Constant((literal.is_null() != negated).into()))
            }
        }
    }

    fn null_of(&self, column: &Column, negated: bool) -> Result<Condition, Refusal> {
        if self.table.dialect == Dialect::Postgres {
            postgres::may_be_null(column)?;
        }
        // Whether it is NULL shows before anything is read.
        Ok(Condition::Test(Test::Null { field: field(column, Reading::Stored), negated }))
    }

    /// `… IS TRUE`. A condition there must be in parentheses: how strongly IS binds is not agreed on.
    fn is(&mut self, inner: &Expr, truth: Truth, negated: bool) -> Result<Condition, Refusal> {
        if !matches!(inner, Expr::Nested(_)) && !is_operand(inner) {
            let refusal = Refusal::new(NOT_SUPPORTED, "IS follows a condition without parentheses");
            return Err(refusal
                .hint("put what comes before IS in parentheses")
                .at(self.source.position_of(inner)));
        }
        Ok(self.condition(inner)?.is(truth, negated))
    }

    fn is_unknown(
        &mut self,
        expression: &Expr,
        inner: &Expr,
        negated: bool,
    ) -> Result<Condition, Refusal> {
        match self.table.dialect {
            Dialect::Postgres => self.is(inner, Truth::Unknown, negated),
            Dialect::Sqlite => Err(self.unsupported(expression, "IS UNKNOWN in SQLite")),
        }
    }

    /// A value that is a condition by itself.
    fn holds(&mut self, expression: &Expr) -> Result<Condition, Refusal> {
        let side = self.operand(expression)?;
        let refuse = |what: &str| {
            let message = format!("{what} is not a condition");
            Err(Refusal::new(crate::refusal::SYNTAX, message).at(side.position))
        };
        match &side.operand {
            Operand::Literal(Literal::Null) => Ok(Condition::Constant(Truth::Unknown)),
            Operand::Literal(Literal::Boolean(holds)) => Ok(Condition::Constant((*holds).into())),
            Operand::Literal(_) => refuse("a value"),
            Operand::Column(column) => {
                let test = match self.table.dialect {
                    Dialect::Postgres => postgres::holds(column),
                    Dialect::Sqlite => sqlite::holds(column),
                };
                test.map(Condition::Test).map_err(|refusal| refusal.at(side.position))
            }
        }
    }

    fn unsupported(&self, expression: &Expr, what: &str) -> Refusal {
        Refusal::new(NOT_SUPPORTED, format!("{what} is not supported in a condition"))
            .hint(
                "a condition compares columns with values: =, <>, <, <=, >, >=, IN, BETWEEN, LIKE, \
                 IS NULL, IS DISTINCT FROM, joined by AND, OR and NOT",
            )
            .at(self.source.position_of(expression))
    }
}

fn operator(op: &BinaryOperator) -> Option<Operator> {
    Some(match op {
        BinaryOperator::Eq => Operator::Equal,
        BinaryOperator::NotEq => Operator::NotEqual,
        BinaryOperator::Lt => Operator::Less,
        BinaryOperator::LtEq => Operator::LessOrEqual,
        BinaryOperator::Gt => Operator::Greater,
        BinaryOperator::GtEq => Operator::GreaterOrEqual,
        _ => return None,
    })
}

/// Whether it is a value rather than a condition.
fn is_operand(expression: &Expr) -> bool {
    match expression {
        Expr::Nested(inner) => is_operand(inner),
        Expr::UnaryOp { op, .. } => matches!(op, UnaryOperator::Minus | UnaryOperator::Plus),
        Expr::Identifier(_)
        | Expr::CompoundIdentifier(_)
        | Expr::Value(_)
        | Expr::Cast { .. }
        | Expr::TypedString(_)
        | Expr::Function(_)
        | Expr::Collate { .. } => true,
        _ => false,
    }
}

fn field(column: &Column, reading: Reading) -> Field {
    Field::new(&column.name, &column.type_name, reading)
}
