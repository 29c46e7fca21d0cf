//! LIKE and ILIKE.

use sqlparser::ast::{Expr, Value as Sql};

use super::operand::{Literal, Operand};
use super::{Binder, field, postgres, sqlite};
use crate::condition::{Condition, Test};
use crate::like::{PATTERN_CHARS_MAX, Pattern, too_long};
use crate::refusal::{NOT_SUPPORTED, Refusal};
use crate::table::Dialect;
use crate::truth::Truth;

impl Binder<'_> {
    pub(super) fn like(
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
        let text = text.unwrap_or_default();
        if self.of_client && text.chars().nth(PATTERN_CHARS_MAX).is_some() {
            return Err(too_long("a pattern").at(wanted.position));
        }
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
        let pattern = Pattern::parse(text, escape, folds_ascii).map_err(ends_in_escape)?;
        match &side.operand {
            Operand::Column(column) => {
                let field = field(column, reading);
                Ok(Condition::Test(Test::Like {
                    field,
                    pattern,
                    negated,
                    of_client: self.of_client,
                }))
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
}
