//! The token that something begins with, or nearly.
//!
//! The parser's own spans are not asked for, because they are found by going through all of a thing by
//! recursion, and chains are as deep as they are long.

use sqlparser::ast::{
    Expr, Ident, Join, ObjectName, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr,
    TableFactor, WildcardAdditionalOptions,
};
use sqlparser::tokenizer::Span;

/// Something that begins somewhere.
pub(crate) trait Begins {
    fn begins(&self) -> Option<Span>;
}

impl Begins for Ident {
    fn begins(&self) -> Option<Span> {
        Some(self.span)
    }
}

impl Begins for ObjectName {
    fn begins(&self) -> Option<Span> {
        self.0.first()?.as_ident().map(|name| name.span)
    }
}

impl Begins for Expr {
    fn begins(&self) -> Option<Span> {
        let mut rest = self;
        loop {
            rest = match rest {
                Expr::BinaryOp { left: first, .. }
                | Expr::IsDistinctFrom(first, _)
                | Expr::IsNotDistinctFrom(first, _)
                | Expr::AnyOp { left: first, .. }
                | Expr::AllOp { left: first, .. }
                | Expr::IsFalse(first)
                | Expr::IsNotFalse(first)
                | Expr::IsTrue(first)
                | Expr::IsNotTrue(first)
                | Expr::IsNull(first)
                | Expr::IsNotNull(first)
                | Expr::IsUnknown(first)
                | Expr::IsNotUnknown(first)
                | Expr::Nested(first)
                | Expr::UnaryOp { expr: first, .. }
                | Expr::InList { expr: first, .. }
                | Expr::InSubquery { expr: first, .. }
                | Expr::Between { expr: first, .. }
                | Expr::Like { expr: first, .. }
                | Expr::ILike { expr: first, .. }
                | Expr::SimilarTo { expr: first, .. }
                | Expr::Cast { expr: first, .. }
                | Expr::AtTimeZone { timestamp: first, .. }
                | Expr::Extract { expr: first, .. }
                | Expr::Ceil { expr: first, .. }
                | Expr::Floor { expr: first, .. }
                | Expr::Position { expr: first, .. }
                | Expr::Substring { expr: first, .. }
                | Expr::Trim { expr: first, .. }
                | Expr::Overlay { expr: first, .. }
                | Expr::Collate { expr: first, .. }
                | Expr::CompoundFieldAccess { root: first, .. } => first,
                Expr::Tuple(list) => list.first()?,
                Expr::Array(array) => array.elem.first()?,
                Expr::GroupingSets(sets) | Expr::Cube(sets) | Expr::Rollup(sets) => {
                    sets.iter().flatten().next()?
                }
                Expr::Interval(interval) => &interval.value,
                Expr::Identifier(name) => return Some(name.span),
                Expr::CompoundIdentifier(parts) => return parts.first().map(|name| name.span),
                Expr::Value(value) => return Some(value.span),
                Expr::TypedString(typed) => return Some(typed.value.span),
                Expr::Function(function) => return function.name.begins(),
                Expr::Case { case_token, .. } => return Some(case_token.0.span),
                Expr::Exists { subquery, .. } | Expr::Subquery(subquery) => {
                    return subquery.begins();
                }
                _ => return None,
            };
        }
    }
}

impl Begins for Query {
    fn begins(&self) -> Option<Span> {
        match &self.with {
            Some(with) => Some(with.with_token.0.span),
            None => self.body.begins(),
        }
    }
}

impl Begins for SetExpr {
    fn begins(&self) -> Option<Span> {
        let mut rest = self;
        loop {
            rest = match rest {
                SetExpr::SetOperation { left, .. } => left,
                SetExpr::Select(select) => return select.begins(),
                SetExpr::Query(query) => return query.begins(),
                SetExpr::Values(values) => {
                    return values.rows.first()?.content.first()?.begins();
                }
                _ => return None,
            };
        }
    }
}

impl Begins for Select {
    fn begins(&self) -> Option<Span> {
        Some(self.select_token.0.span)
    }
}

impl Begins for SelectItem {
    fn begins(&self) -> Option<Span> {
        match self {
            SelectItem::UnnamedExpr(expr)
            | SelectItem::ExprWithAlias { expr, .. }
            | SelectItem::ExprWithAliases { expr, .. } => expr.begins(),
            SelectItem::QualifiedWildcard(_, options) | SelectItem::Wildcard(options) => {
                options.begins()
            }
        }
    }
}

impl Begins for WildcardAdditionalOptions {
    fn begins(&self) -> Option<Span> {
        Some(self.wildcard_token.0.span)
    }
}

impl Begins for OrderBy {
    fn begins(&self) -> Option<Span> {
        match &self.kind {
            OrderByKind::Expressions(keys) => keys.first()?.expr.begins(),
            OrderByKind::All(_) => None,
        }
    }
}

impl Begins for Join {
    fn begins(&self) -> Option<Span> {
        self.relation.begins()
    }
}

impl Begins for TableFactor {
    fn begins(&self) -> Option<Span> {
        match self {
            TableFactor::Table { name, .. } | TableFactor::Function { name, .. } => name.begins(),
            TableFactor::Derived { subquery, .. } => subquery.begins(),
            TableFactor::NestedJoin { table_with_joins, .. } => table_with_joins.relation.begins(),
            _ => None,
        }
    }
}
