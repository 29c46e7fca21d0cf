//! From an expression to a condition: columns are found, the caller's identity is filled in, and every
//! comparison is settled as the database would settle it, or refused.
//!
//! What is the same for both databases is here and in `operand`; what they differ on is in `postgres`
//! and `sqlite`, which have the same functions.

mod affinity;
mod cast;
mod kind;
mod operand;
mod postgres;
mod sqlite;

use sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value as Sql};

use self::operand::{Literal, Operand, Side};
use crate::caller::Caller;
use crate::condition::{Condition, Field, Test};
use crate::evaluate;
use crate::like::Pattern;
use crate::operator::Operator;
use crate::parse::Source;
use crate::reading::Reading;
use crate::refusal::{NOT_SUPPORTED, Refusal};
use crate::table::{Column, Dialect, Table};
use crate::truth::Truth;
use crate::value::{Collation, Constant};

/// A condition, and the columns that its text names.
pub(crate) fn bind(
    source: Source<'_>,
    expression: &Expr,
    table: &Table,
    caller: &dyn Caller,
) -> Result<(Condition, Vec<String>), Refusal> {
    let mut binder = Binder { source, table, caller, named: vec![false; table.columns.len()] };
    let condition = binder.condition(expression)?;
    let named = table.columns.iter().zip(&binder.named).filter(|(_, named)| **named);
    Ok((condition, named.map(|(column, _)| column.name.clone()).collect()))
}

struct Binder<'a> {
    source: Source<'a>,
    table: &'a Table,
    caller: &'a dyn Caller,
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

    fn compare(
        &mut self,
        left: &Expr,
        operator: Operator,
        right: &Expr,
    ) -> Result<Condition, Refusal> {
        let (left, right) = (self.operand(left)?, self.operand(right)?);
        self.compare_sides(&left, operator, &right).map_err(|refusal| refusal.at(left.position))
    }

    /// A comparison, with a column on its left if there is one.
    fn compare_sides(
        &self,
        left: &Side<'a>,
        operator: Operator,
        right: &Side<'a>,
    ) -> Result<Condition, Refusal> {
        let explicit = left.collation.as_deref().or(right.collation.as_deref());
        match self.table.dialect {
            Dialect::Postgres => {
                postgres::collations_agree(left.collation.as_deref(), right.collation.as_deref())?;
            }
            Dialect::Sqlite => {
                for side in [left, right] {
                    if let Operand::Literal(literal) = &side.operand {
                        sqlite::may_be_distinct(literal, operator)?;
                    }
                }
            }
        }
        match (&left.operand, &right.operand) {
            (Operand::Literal(_), Operand::Column(_)) => {
                self.compare_sides(right, operator.mirrored(), left)
            }
            (Operand::Column(column), Operand::Literal(Literal::Null)) => match operator {
                Operator::DistinctFrom => self.null_of(column, true),
                Operator::NotDistinctFrom => self.null_of(column, false),
                _ => Ok(Condition::Constant(Truth::Unknown)),
            },
            (Operand::Column(column), Operand::Literal(literal)) => {
                let (reading, collation, value) =
                    self.constant(column, explicit, literal, operator)?;
                let field = field(column, reading);
                Ok(Condition::Test(Test::compare(field, operator, value, collation)))
            }
            (Operand::Column(column), Operand::Column(beside)) => {
                let settled = match self.table.dialect {
                    Dialect::Postgres => postgres::columns(column, beside, explicit, operator),
                    Dialect::Sqlite => sqlite::columns(column, beside, explicit),
                };
                let (reading, read_beside, collation) = settled?;
                let (left, right) = (field(column, reading), field(beside, read_beside));
                Ok(Condition::Test(Test::Columns { left, operator, right, collation }))
            }
            (Operand::Literal(left), Operand::Literal(right)) => {
                self.fold(left, operator, right, explicit).map(Condition::Constant)
            }
        }
    }

    /// A comparison of two constants.
    fn fold(
        &self,
        left: &Literal,
        operator: Operator,
        right: &Literal,
        explicit: Option<&str>,
    ) -> Result<Truth, Refusal> {
        let (left_is_null, right_is_null) = (left.is_null(), right.is_null());
        if left_is_null || right_is_null {
            return Ok(operator.holds_of_null(left_is_null && right_is_null).into());
        }
        let (left, right, collation) = match self.table.dialect {
            Dialect::Postgres => postgres::literals(left, right, explicit, operator)?,
            Dialect::Sqlite => sqlite::literals(left, right, explicit)?,
        };
        Ok(operator.holds(left.compare(&right, collation)).into())
    }

    fn constant(
        &self,
        column: &Column,
        explicit: Option<&str>,
        literal: &Literal,
        operator: Operator,
    ) -> Result<(Reading, Collation, Constant), Refusal> {
        match self.table.dialect {
            Dialect::Postgres => postgres::constant(column, explicit, literal, operator),
            Dialect::Sqlite => sqlite::constant(column, explicit, literal),
        }
    }

    fn list(&mut self, tested: &Expr, list: &[Expr], negated: bool) -> Result<Condition, Refusal> {
        let side = self.operand(tested)?;
        let mut values = Vec::new();
        let mut null = false;
        let mut settled = None;
        let mut equal = Vec::new();
        for expression in list {
            let member = self.operand(expression)?;
            let place = |refusal: Refusal| refusal.at(member.position);
            if self.table.dialect == Dialect::Postgres {
                postgres::may_be_listed(&side, &member).map_err(place)?;
            }
            match (&side.operand, &member.operand) {
                (Operand::Column(_), Operand::Literal(Literal::Null)) => null = true,
                (Operand::Column(column), Operand::Literal(literal))
                    if member.collation.is_none() =>
                {
                    let explicit = side.collation.as_deref();
                    let (reading, collation, value) =
                        self.constant(column, explicit, literal, Operator::Equal).map_err(place)?;
                    values.push((reading, value));
                    settled = Some((*column, collation));
                }
                (Operand::Literal(_), Operand::Literal(_)) if member.collation.is_none() => {
                    equal.push(self.compare_sides(&side, Operator::Equal, &member).map_err(place)?);
                }
                _ => return Err(self.unsupported(expression, "a list of other than values")),
            }
        }
        let found = match settled {
            Some((column, collation)) => in_list(column, values, null, collation),
            None if null => Condition::Constant(Truth::Unknown),
            None => Condition::any(equal),
        };
        Ok(if negated { found.negate() } else { found })
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

    fn like(
        &mut self,
        tested: &Expr,
        pattern: &Expr,
        escape: Option<&Expr>,
        negated: bool,
        ignores_case: bool,
    ) -> Result<Condition, Refusal> {
        let side = self.operand(tested)?;
        let place = |refusal: Refusal| refusal.at(side.position);
        let wanted = self.operand(pattern)?;
        let escape = self.escape(escape)?;
        let explicit = side.collation.as_deref().or(wanted.collation.as_deref());
        let text = match &wanted.operand {
            Operand::Literal(Literal::Null) => return Ok(Condition::Constant(Truth::Unknown)),
            Operand::Literal(literal) if literal.text().is_some() => literal.text(),
            _ => return Err(self.unsupported(pattern, "a pattern that is not a text")),
        };
        let column = match &side.operand {
            Operand::Column(column) => Some(*column),
            Operand::Literal(_) => None,
        };
        let (reading, folds_ascii) = match self.table.dialect {
            Dialect::Postgres => postgres::like(column, explicit, ignores_case).map_err(place)?,
            Dialect::Sqlite => sqlite::like(column, ignores_case).map_err(place)?,
        };
        let ends_in_escape = |_| {
            let message = "the pattern ends in its escape character";
            Refusal::new(NOT_SUPPORTED, message).at(wanted.position)
        };
        let pattern = Pattern::parse(text.unwrap_or_default(), escape, folds_ascii)
            .map_err(ends_in_escape)?;
        match &side.operand {
            Operand::Column(column) => {
                let field = field(column, reading);
                Ok(Condition::Test(Test::Like { field, pattern, negated }))
            }
            Operand::Literal(Literal::Null) => Ok(Condition::Constant(Truth::Unknown)),
            Operand::Literal(literal) => match literal.text() {
                Some(text) => Ok(Condition::Constant((pattern.matches(text) != negated).into())),
                None => Err(self.unsupported(tested, "LIKE of other than text")),
            },
        }
    }

    /// The character that takes the meaning from `%` and `_`. PostgreSQL has one if none is said.
    fn escape(&self, escape: Option<&Expr>) -> Result<Option<char>, Refusal> {
        let Some(expression) = escape else {
            return Ok((self.table.dialect == Dialect::Postgres).then_some('\\'));
        };
        let Expr::Value(value) = expression else {
            return Err(self.unsupported(expression, "ESCAPE with other than a character"));
        };
        let mut chars = match &value.value {
            Sql::SingleQuotedString(text) => text.chars(),
            _ => return Err(self.unsupported(expression, "ESCAPE with other than a character")),
        };
        match (chars.next(), chars.next()) {
            (None, _) if self.table.dialect == Dialect::Postgres => Ok(None),
            (Some(c), None) if c != '%' && c != '_' => Ok(Some(c)),
            _ => Err(self.unsupported(expression, "ESCAPE with other than a character")),
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
    Field { name: column.name.clone(), type_name: column.type_name.clone(), reading }
}

/// Values are looked up among those that are read in the same way: `id IN (1, 2.5)` reads integers for
/// one of them and decimals for the other.
fn in_list(
    column: &Column,
    mut values: Vec<(Reading, Constant)>,
    null: bool,
    collation: Collation,
) -> Condition {
    let mut alternatives = Vec::new();
    while let Some((reading, _)) = values.first() {
        let reading = *reading;
        let (same, others) = values.into_iter().partition(|(other, _)| *other == reading);
        values = others;
        let mut same: Vec<Constant> =
            Vec::into_iter(same).map(|(_, value): (Reading, Constant)| value).collect();
        evaluate::sort(&mut same, collation);
        let field = field(column, reading);
        alternatives.push(Condition::Test(match (same.len(), null) {
            (1, false) => {
                let value = same.remove(0);
                Test::Compare { field, operator: Operator::Equal, value, collation }
            }
            _ => Test::In { field, values: same, null, collation, negated: false },
        }));
    }
    Condition::any(alternatives)
}
