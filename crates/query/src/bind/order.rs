//! Columns whose values are sorted, grouped and counted in memory: which, and how they are read.

use super::affinity::Affinity;
use super::kind::{Kind, Support, support};
use super::{postgres, sqlite};
use crate::reading::Reading;
use crate::refusal::{NOT_EXACT, Refusal};
use crate::shape::ShapeColumn;
use crate::table::{Column, Dialect};
use crate::value::Collation;

/// How a column is read to be put in order, if its order here is exactly the database's.
pub(crate) fn ordered(
    column: &Column,
    explicit: Option<&str>,
    dialect: Dialect,
) -> Result<(Reading, Collation), Refusal> {
    match dialect {
        Dialect::Postgres => {
            let kind = postgres::compared(column)?;
            Ok((kind.reading(), postgres::collation(kind, Some(column), explicit, true)?))
        }
        Dialect::Sqlite => {
            let collation = sqlite::collation(Some(column), explicit)?;
            let reading = match sqlite::compared(column)? {
                Affinity::Text => Reading::StoredText,
                _ => Reading::Stored,
            };
            Ok((reading, collation))
        }
    }
}

/// How a column is read that rows are grouped by, if equal values of it have one text: then groups are
/// told apart by their texts.
pub(crate) fn one_text(column: &ShapeColumn, dialect: Dialect) -> Result<Reading, Refusal> {
    let ShapeColumn { column, scale, .. } = column;
    let refuse = |why: &str| {
        let (name, type_name) = (&column.name, &column.type_name);
        let message = format!(
            "equal values of the column {name} of type {type_name} may be written differently: {why}"
        );
        Err(Refusal::new(NOT_EXACT, message))
    };
    match dialect {
        Dialect::Postgres => {
            let kind = postgres::compared(column)?;
            match kind {
                Kind::Numeric if scale.is_none() => {
                    let refusal = refuse("1.5 and 1.50 are equal");
                    return refusal
                        .map_err(|it| it.hint("declare it as numeric(precision, scale)"));
                }
                Kind::Float4 | Kind::Float8 => return refuse("zero has two signs"),
                Kind::Padded => return refuse("spaces at the end do not count"),
                _ => {}
            }
            postgres::collation(kind, Some(column), None, false)?;
            Ok(kind.reading())
        }
        Dialect::Sqlite => match sqlite::compared(column)? {
            Affinity::Text if sqlite::collation(Some(column), None)? == Collation::Bytes => {
                Ok(Reading::StoredText)
            }
            Affinity::Text => refuse("its collation finds different texts equal"),
            // A column of integers may hold strays, which are not read as such.
            _ if is_of_integers(column) => Ok(Reading::Integer),
            _ => {
                let refusal = refuse("reals and integers are equal");
                refusal.map_err(|it| it.hint("declare it as INTEGER or TEXT"))
            }
        },
    }
}

/// Whether it can be said of a column that it is not NULL.
pub(crate) fn may_be_counted(column: &Column, dialect: Dialect) -> Result<(), Refusal> {
    match dialect {
        Dialect::Postgres => postgres::may_be_null(column),
        Dialect::Sqlite => Ok(()),
    }
}

/// Whether a column of SQLite keeps integers as such, and nothing else is meant to be there.
fn is_of_integers(column: &Column) -> bool {
    let declared = column.type_name.to_ascii_uppercase();
    declared.contains("INT") || ["BOOLEAN", "BOOL"].contains(&declared.as_str())
}

/// What kind of number a sum is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Summed {
    /// PostgreSQL: `int2` or `int4`, whose sum is a `bigint`.
    Small,
    /// PostgreSQL: `int8`, whose sum is a `numeric`.
    Large,
    /// PostgreSQL: `numeric(p, s)`, with s digits after the point.
    Decimal(u16),
    /// SQLite: integers, whose sum is one.
    Stored,
}

/// What a column's sum is made of, if it is exact whatever the order of its rows.
pub(crate) fn summed(column: &ShapeColumn, dialect: Dialect) -> Result<Summed, Refusal> {
    let ShapeColumn { column, scale, .. } = column;
    let refuse = |why: &str| {
        let (name, type_name) = (&column.name, &column.type_name);
        let message = format!("sums of the column {name} of type {type_name} {why}");
        Err(Refusal::new(NOT_EXACT, message))
    };
    match dialect {
        Dialect::Sqlite if is_of_integers(column) => Ok(Summed::Stored),
        Dialect::Sqlite => refuse("depend on the order of its rows, unless they are integers"),
        Dialect::Postgres => match (support(&column.type_name), scale) {
            (Support::Compared(Kind::Int2 | Kind::Int4), _) => Ok(Summed::Small),
            (Support::Compared(Kind::Int8), _) => Ok(Summed::Large),
            (Support::Compared(Kind::Numeric), Some(scale)) => Ok(Summed::Decimal(*scale)),
            (Support::Compared(Kind::Numeric), None) => refuse("have as many digits as its rows"),
            _ => refuse("are the database's alone"),
        },
    }
}

/// How the extremes of a column are read, if they are known by their texts.
pub(crate) fn extreme(
    column: &ShapeColumn,
    dialect: Dialect,
) -> Result<(Reading, Collation), Refusal> {
    let reading = one_text(column, dialect)?;
    let (_, collation) = ordered(&column.column, None, dialect)?;
    let has_extremes = match support(&column.column.type_name) {
        _ if dialect == Dialect::Sqlite => true,
        Support::Compared(kind) => {
            kind.is_integer()
                || matches!(kind, Kind::Numeric | Kind::Text | Kind::Date)
                || matches!(kind, Kind::Timestamp | Kind::Zoned | Kind::Time)
        }
        _ => false,
    };
    if !has_extremes {
        let message = format!("the least and the greatest of {} are not kept", column.column.name);
        return Err(Refusal::new(NOT_EXACT, message));
    }
    Ok((reading, collation))
}
