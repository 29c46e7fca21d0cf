//! HAVING: a condition over what groups have, tested as conditions over rows are.
//!
//! What a group has is given a name, and the condition is read as one over a table of such columns.

use sqlparser::ast::{Expr, Ident, Value as Sql};

use super::{AggregateBuilder, Measure};
use crate::plan::order;
use crate::predicate::Predicate;
use crate::refusal::{NOT_SUPPORTED, Refusal};
use crate::table::{Dialect, Table};

/// Which groups are seen.
#[derive(Debug, Clone)]
pub(crate) struct Having {
    pub(crate) predicate: Predicate,
    /// What the condition calls by which name.
    pub(crate) names: Vec<(Box<str>, Measure)>,
}

/// Reads a condition.
pub(super) fn plan(
    gathering: &mut AggregateBuilder<'_, '_>,
    condition: &Expr,
) -> Result<Having, Refusal> {
    let position = (gathering.single.position)(condition);
    let mut renaming = Renaming { gathering, names: Vec::new(), aggregates: false, texts: false };
    let renamed = renaming.rename(condition)?;
    let Renaming { gathering, names, aggregates, texts } = renaming;
    let dialect = gathering.single.dialect;
    // What is computed has no affinity in SQLite: a text would not become a number beside it.
    if dialect == Dialect::Sqlite && aggregates && texts {
        let message = "SQLite compares what is computed with text by other rules than columns";
        return Err(Refusal::new(NOT_SUPPORTED, message).at(position));
    }
    let mut columns = Vec::with_capacity(names.len());
    for (name, measure) in &names {
        let mut column = gathering.column_of(*measure)?;
        column.name = name.to_string();
        columns.push(column);
    }
    let table = Table { dialect, columns };
    // Identities are values by now.
    let predicate = Predicate::parse(&renamed.to_string(), &table, &()).map_err(|refusal| {
        // Its place is one in another text.
        Refusal { position: None, ..refusal }.at(position)
    })?;
    Ok(Having { predicate, names })
}

struct Renaming<'a, 'b, 'c> {
    gathering: &'c mut AggregateBuilder<'a, 'b>,
    names: Vec<(Box<str>, Measure)>,
    /// Whether something that is computed is compared.
    aggregates: bool,
    /// Whether there is a text to compare with.
    texts: bool,
}

impl Renaming<'_, '_, '_> {
    /// The condition with names in the place of what groups have. Only what conditions may have is
    /// looked into; the rest is refused there.
    fn rename(&mut self, expression: &Expr) -> Result<Expr, Refusal> {
        let mut renamed = expression.clone();
        let children: Vec<&mut Box<Expr>> = match &mut renamed {
            Expr::Function(_) | Expr::Identifier(_) | Expr::CompoundIdentifier(_) => {
                return self.name(expression);
            }
            Expr::Nested(inner)
            | Expr::UnaryOp { expr: inner, .. }
            | Expr::IsNull(inner)
            | Expr::IsNotNull(inner)
            | Expr::IsTrue(inner)
            | Expr::IsNotTrue(inner)
            | Expr::IsFalse(inner)
            | Expr::IsNotFalse(inner)
            | Expr::IsUnknown(inner)
            | Expr::IsNotUnknown(inner)
            | Expr::Collate { expr: inner, .. }
            | Expr::Cast { expr: inner, .. } => vec![inner],
            Expr::BinaryOp { left, right, .. }
            | Expr::IsDistinctFrom(left, right)
            | Expr::IsNotDistinctFrom(left, right) => vec![left, right],
            Expr::Between { expr, low, high, .. } => vec![expr, low, high],
            Expr::Like { expr, pattern, .. } | Expr::ILike { expr, pattern, .. } => {
                vec![expr, pattern]
            }
            Expr::InList { expr, list, .. } => {
                for member in list.iter_mut() {
                    *member = self.rename(&member.clone())?;
                }
                vec![expr]
            }
            Expr::Value(value) => {
                self.texts |= matches!(value.value, Sql::SingleQuotedString(_));
                return Ok(renamed);
            }
            Expr::TypedString(_) => return Ok(renamed),
            other => {
                let message = format!("{other} is not kept in memory after HAVING");
                let position = (self.gathering.single.position)(expression);
                return Err(Refusal::new(NOT_SUPPORTED, message).at(position));
            }
        };
        for child in children {
            **child = self.rename(&child.clone())?;
        }
        Ok(renamed)
    }

    fn name(&mut self, expression: &Expr) -> Result<Expr, Refusal> {
        let measure = self.gathering.measure(order::unnested(expression))?;
        let is_column = matches!(measure, Measure::Group(_));
        self.aggregates |= !is_column;
        let is_extreme = matches!(measure, Measure::Least(_) | Measure::Greatest(_));
        if is_extreme && self.gathering.single.dialect == Dialect::Sqlite {
            let message = "SQLite compares an extreme by other rules than its column";
            return Err(Refusal::new(NOT_SUPPORTED, message));
        }
        let known = self.names.iter().find(|(_, known)| *known == measure);
        let name = match known {
            Some((name, _)) => name.clone(),
            None => {
                let name: Box<str> = format!("m{}", self.names.len()).into();
                self.names.push((name.clone(), measure));
                name
            }
        };
        Ok(Expr::Identifier(Ident::with_quote('"', &*name)))
    }
}
