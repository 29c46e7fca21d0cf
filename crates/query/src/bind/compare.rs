//! Comparisons, alone and in lists.

use sqlparser::ast::Expr;

use super::operand::{Literal, Operand, Side};
use super::{Binder, field, postgres, sqlite};
use crate::condition::{Condition, Test};
use crate::evaluate;
use crate::operator::Operator;
use crate::reading::Reading;
use crate::refusal::Refusal;
use crate::table::{Column, Dialect};
use crate::truth::Truth;
use crate::value::{Collation, Constant};

impl<'a> Binder<'a> {
    pub(super) fn compare(
        &mut self,
        left: &Expr,
        operator: Operator,
        right: &Expr,
    ) -> Result<Condition, Refusal> {
        let (left, right) = (self.operand(left)?, self.operand(right)?);
        self.compare_sides(&left, operator, &right).map_err(|refusal| refusal.at(left.position))
    }

    /// A comparison. The collation that was said first is the one that counts.
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
        self.settle(&left.operand, operator, &right.operand, explicit)
    }

    /// The test that a comparison is, with a column on its left if there is one.
    fn settle(
        &self,
        left: &Operand<'a>,
        operator: Operator,
        right: &Operand<'a>,
        explicit: Option<&str>,
    ) -> Result<Condition, Refusal> {
        match (left, right) {
            (Operand::Literal(_), Operand::Column(_)) => {
                self.settle(right, operator.mirrored(), left, explicit)
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

    /// `IN` and `NOT IN` of values. A claim that is a list stands for its values.
    pub(super) fn list(
        &mut self,
        tested: &Expr,
        list: &[Expr],
        negated: bool,
    ) -> Result<Condition, Refusal> {
        let side = self.operand(tested)?;
        let mut members = Vec::with_capacity(list.len());
        for expression in list {
            let member = self.operand(expression)?;
            match self.claimed_list(expression) {
                None => members.push((expression, member)),
                Some(literals) => members.extend(literals.into_iter().map(|literal| {
                    (expression, Side { operand: Operand::Literal(literal), ..member.clone() })
                })),
            }
        }
        self.among(&side, members, negated)
    }

    /// Whether a side is one of these, each of which stands in an expression.
    pub(super) fn among(
        &self,
        side: &Side<'a>,
        members: Vec<(&Expr, Side<'a>)>,
        negated: bool,
    ) -> Result<Condition, Refusal> {
        let mut values = Vec::new();
        let mut null = false;
        let mut settled = None;
        let mut equal = Vec::new();
        for (expression, member) in members {
            let place = |refusal: Refusal| refusal.at(member.position);
            if self.table.dialect == Dialect::Postgres {
                postgres::may_be_listed(side, &member).map_err(place)?;
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
                    equal.push(self.compare_sides(side, Operator::Equal, &member).map_err(place)?);
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
