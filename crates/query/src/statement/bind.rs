//! A statement whose names were all found, and the tables that they were found in.

use std::sync::Arc;

use sqlparser::ast::{Expr, Query as Statement, Select, SetExpr};

use super::guard::Guard;
use super::scope::Output;
use super::walk::{VisibleTable, Walk};
use super::{Binding, Occurrence};
use crate::refusal::{NO_COLUMN, QUERY_NOT_SUPPORTED, Refusal};
use crate::shape::{TableName, TableShape};
use crate::table::Dialect;

/// What the plans choose from.
pub(crate) struct Bound<'a> {
    pub(crate) walk: Walk<'a>,
    pub(crate) known: &'a [VisibleTable],
    /// Of each table, which rows of it may be seen.
    pub(crate) guards: Vec<Guard>,
    pub(crate) outputs: Vec<Output>,
    pub(crate) statement: &'a Statement,
    /// See [`QueryLimits::hide_timing`](crate::QueryLimits::hide_timing).
    pub(crate) hide_timing: bool,
}

impl<'a> Bound<'a> {
    pub(crate) fn dialect(&self) -> Dialect {
        self.walk.dialect
    }

    /// The statement's SELECT, if it is one and no set operation.
    pub(crate) fn select(&self) -> Option<&'a Select> {
        match self.statement.body.as_ref() {
            SetExpr::Select(select) => Some(select),
            _ => None,
        }
    }

    pub(crate) fn occurrences(&self) -> &[Occurrence] {
        &self.walk.occurrences
    }

    /// Where an expression stands in the client's text.
    pub(crate) fn position(&self, expr: &Expr) -> Option<usize> {
        self.walk.position(expr)
    }
}

/// The tables as their caller may see them. Those that are not there are missed where they are named.
pub(super) fn known(
    tables: &[TableName],
    with: &Binding<'_>,
    dialect: Dialect,
) -> Result<Vec<VisibleTable>, Refusal> {
    let found = |name| {
        let shape = with.tables.iter().find(|(known, _)| known == name);
        shape.map(|(_, shape)| (name, shape))
    };
    let known = |(name, shape): (&TableName, &Arc<TableShape>)| {
        if shape.inherited {
            let message = format!(
                "other tables inherit from {}, and what changes in them is not known here",
                name.name
            );
            return Err(Refusal::new(QUERY_NOT_SUPPORTED, message)
                .hint("subscribe to the tables that inherit, or make them partitions"));
        }
        let access = (with.access)(&shape.name);
        let is_visible = |at: &usize| {
            let name = &shape.columns[*at].column.name;
            access.columns.as_ref().is_none_or(|columns| {
                columns.iter().any(|column| match dialect {
                    Dialect::Postgres => **column == **name,
                    Dialect::Sqlite => column.eq_ignore_ascii_case(name),
                })
            })
        };
        let visible: Vec<usize> = (0..shape.columns.len()).filter(is_visible).collect();
        if visible.is_empty() {
            let message = format!("no column of {} may be seen", name.name);
            return Err(Refusal::new(NO_COLUMN, message));
        }
        Ok(VisibleTable { name: name.clone(), shape: Arc::clone(shape), access, visible })
    };
    tables.iter().filter_map(found).map(known).collect()
}
