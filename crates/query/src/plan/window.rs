//! The first rows of a table in an order.
//!
//! What is read for it are the columns that are seen, those that sort and those that tell rows apart.
//! The latter sort what the rest leaves equal, so that the rows in a window depend on the data alone.

use sqlparser::ast::{Expr, GroupByExpr};

use super::order::{self, Direction, Item, Limits};
use super::single::SingleTable;
use super::{FilterPlan, Projected};
use crate::bind;
use crate::refusal::{NOT_SUPPORTED, Refusal};
use crate::shape::ShapeColumn;
use crate::table::Dialect;

/// What a window needs to know.
#[derive(Debug, Clone)]
pub struct WindowPlan {
    /// Its rows, without their order.
    pub filter: FilterPlan,
    /// The columns that are read of each row, each once.
    pub(crate) read: Vec<Box<str>>,
    /// What is seen of a row.
    pub(crate) shown: Vec<Shown>,
    /// By what rows are sorted; the last keys are those that tell rows apart.
    pub(crate) sort: Vec<SortKey>,
    /// Which sort keys tell rows apart; empty if only the whole row does.
    pub(crate) identity: Vec<usize>,
    /// Which rows are seen.
    pub(crate) limits: Limits,
    /// Rows that are read: `skip + take <= kept`. None reads all.
    pub(crate) kept: Option<usize>,
    /// Rows that are held, at most.
    pub(crate) held_max: usize,
}

/// A sort key: a column that is read, and how its values come after each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SortKey {
    /// Its place among the columns that are read.
    pub(crate) read: usize,
    pub(crate) direction: Direction,
}

/// A column of the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Shown {
    /// A column that is read, by its place.
    Read(usize),
    /// The same in every row, as JSON.
    Literal(Box<str>),
}

/// The plan of a SELECT with an order, and the SELECT that its state is made of.
pub(crate) fn plan(single: &SingleTable<'_>) -> Result<(WindowPlan, String), Refusal> {
    let (_, projection) = single.projection.map_err(Clone::clone)?;
    let is_grouped = match &single.select.group_by {
        GroupByExpr::Expressions(columns, _) => !columns.is_empty(),
        GroupByExpr::All(_) => true,
    };
    if is_grouped || single.select.having.is_some() {
        return Err(Refusal::new(NOT_SUPPORTED, "its rows are groups of others"));
    }
    let Some(items) = order::items(single)? else {
        let message = "without ORDER BY it is not said which rows LIMIT leaves";
        return Err(Refusal::new(NOT_SUPPORTED, message).hint("write ORDER BY before LIMIT"));
    };
    let limits = order::limits(single)?;
    let mut reads = Reads::new(single);
    let mut shown = Vec::with_capacity(projection.len());
    for projected in projection {
        shown.push(match projected {
            Projected::Column(name) => {
                Shown::Read(reads.place(order::shape_column(single.shape, name)?))
            }
            Projected::Literal(json) => Shown::Literal(json.clone()),
        });
    }
    let mut order = Order { sort: Vec::new(), sql: Vec::new() };
    for item in &items {
        let column = sorted_by(single, projection, item).map_err(|it| it.at(item.position))?;
        let (reading, collation) =
            bind::ordered(&column.column, item.collation.as_deref(), single.dialect)
                .map_err(|refusal| refusal.at(item.position))?;
        let Item { descending, nulls_first, .. } = *item;
        let direction = Direction { reading, collation, descending, nulls_first };
        order.push(&mut reads, column, item.collation.as_deref(), direction);
    }
    let identity = break_ties(single, &mut reads, &mut order)?;
    let rows_max = single.limits.rows_max;
    let kept = limits
        .take
        .map(|take| (limits.skip + take).saturating_add(single.limits.window_slack).min(rows_max));
    let held_max = kept.map_or(rows_max, |kept| kept.saturating_add(single.limits.window_slack));
    let limit = kept.map_or_else(String::new, |kept| format!(" LIMIT {kept}"));
    let sql = format!(
        "SELECT {} {} ORDER BY {}{limit}",
        reads.sql.join(", "),
        single.from_where,
        order.sql.join(", "),
    );
    let mut filter = single.filter.clone();
    filter.projection = projection.into();
    let Order { sort, .. } = order;
    let plan =
        WindowPlan { filter, read: reads.names, shown, sort, identity, limits, kept, held_max };
    Ok((plan, sql))
}

/// The column that one of the things after ORDER BY means.
fn sorted_by<'a>(
    single: &SingleTable<'a>,
    projection: &[Projected],
    item: &Item<'_>,
) -> Result<&'a ShapeColumn, Refusal> {
    if matches!(item.expression, Expr::Value(_)) {
        let projected = match item.collation {
            None => order::ordinal(item.expression).and_then(|place| projection.get(place)),
            Some(_) => None,
        };
        return match projected {
            Some(Projected::Column(name)) => order::shape_column(single.shape, name),
            _ => Err(Refusal::new(NOT_SUPPORTED, "an order by a value is none")),
        };
    }
    // In PostgreSQL a name of the result is one only where it stands alone.
    let may_be_alias = single.dialect == Dialect::Sqlite || item.collation.is_none();
    if let Expr::Identifier(name) = item.expression
        && may_be_alias
        && let Some(aliased) = order::aliased(single, name)?
    {
        return order::column(single, aliased);
    }
    order::column(single, item.expression)
}

/// Appends what makes the order one without ties, and says which sort keys tell rows apart.
fn break_ties(
    single: &SingleTable<'_>,
    reads: &mut Reads,
    order: &mut Order,
) -> Result<Vec<usize>, Refusal> {
    let key = &single.filter.key;
    let columns: Vec<&ShapeColumn> = if key.is_empty() {
        let mut columns = single.shape.columns.iter().filter(|it| !it.generated);
        // Rows that nothing tells apart must look the same when they are equal.
        columns.clone().try_for_each(|it| bind::one_text(it, single.dialect).map(|_| ()))?;
        columns.by_ref().collect()
    } else {
        key.iter().map(|name| order::shape_column(single.shape, name)).collect::<Result<_, _>>()?
    };
    let mut identity = Vec::with_capacity(key.len());
    for column in columns {
        let plain = order::plain_collation(column, single.dialect);
        let (reading, collation) = bind::ordered(&column.column, plain, single.dialect)
            .map_err(|it| it.hint("the table's key has no order that is known outside of it"))?;
        let direction = Direction::plain(reading, collation, single.dialect);
        identity.push(order.push(reads, column, plain, direction));
    }
    if key.is_empty() {
        identity.clear();
    }
    Ok(identity)
}

/// The columns that are read, in the order in which they were first needed.
struct Reads {
    dialect: Dialect,
    names: Vec<Box<str>>,
    sql: Vec<String>,
}

impl Reads {
    fn new(single: &SingleTable<'_>) -> Reads {
        Reads { dialect: single.dialect, names: Vec::new(), sql: Vec::new() }
    }

    fn place(&mut self, column: &ShapeColumn) -> usize {
        let name = column.column.name.as_str();
        if let Some(place) = self.names.iter().position(|known| **known == *name) {
            return place;
        }
        let quoted = order::quoted(name);
        self.names.push(name.into());
        self.sql.push(match self.dialect {
            Dialect::Postgres if column.json_text => format!("pg_catalog.to_jsonb({quoted})"),
            _ => quoted,
        });
        self.names.len() - 1
    }
}

/// Sort keys, and what the database is told of them.
struct Order {
    sort: Vec<SortKey>,
    sql: Vec<String>,
}

impl Order {
    /// Appends a key unless an earlier one sorts the same values, and says where it is.
    fn push(
        &mut self,
        reads: &mut Reads,
        column: &ShapeColumn,
        collation: Option<&str>,
        direction: Direction,
    ) -> usize {
        let read = reads.place(column);
        let same = |key: &SortKey| {
            key.read == read
                && key.direction.reading == direction.reading
                && key.direction.collation == direction.collation
        };
        if let Some(place) = self.sort.iter().position(same) {
            return place;
        }
        // Alone, a name would be looked for among those of the result; a place and an expression
        // cannot be mistaken.
        let by = match collation {
            Some(collation) => {
                let name = order::quoted(&column.column.name);
                format!("{name} COLLATE {}", order::quoted(collation))
            }
            None => (read + 1).to_string(),
        };
        self.sql.push(format!("{by}{}", direction.sql()));
        self.sort.push(SortKey { read, direction });
        self.sort.len() - 1
    }
}

#[cfg(test)]
mod tests;
