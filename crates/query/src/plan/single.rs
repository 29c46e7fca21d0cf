//! A SELECT over one table, as the plans that read images look at it.

use sqlparser::ast::{Expr, Query as Statement, Select};

use super::{FilterPlan, Projected};
use crate::refusal::Refusal;
use crate::shape::{QueryLimits, TableShape};
use crate::table::Dialect;

/// A SELECT from one table whose WHERE and rules are all tested on images. It has no join, subquery,
/// set operation, CTE, DISTINCT or window function; ORDER BY, LIMIT, GROUP BY and HAVING are for the
/// plans to look at.
pub(crate) struct SingleTable<'a> {
    pub(crate) dialect: Dialect,
    pub(crate) shape: &'a TableShape,
    /// The columns that the caller may see. Sort keys and keys of rows may be others: they are read,
    /// and never told.
    pub(crate) visible: &'a [&'a str],
    /// What a column's name may have before it: the alias, or the table's name.
    pub(crate) alias: &'a str,
    /// The statement, with parameters and identities in it as literals.
    pub(crate) statement: &'a Statement,
    /// Its body.
    pub(crate) select: &'a Select,
    /// Table, conditions and key; the projection is empty.
    pub(crate) filter: &'a FilterPlan,
    /// The result's columns, if all of them are read off an image: their names, and what they are.
    pub(crate) projection: Result<(&'a [Box<str>], &'a [Projected]), &'a Refusal>,
    /// `FROM … WHERE …` as the database runs it: all rows of the table that the caller may see and
    /// asks for, under the table's own column names, hidden ones too.
    pub(crate) from_where: &'a str,
    pub(crate) limits: QueryLimits,
    /// Where an expression stands in the client's text.
    pub(crate) position: &'a dyn Fn(&Expr) -> Option<usize>,
}
