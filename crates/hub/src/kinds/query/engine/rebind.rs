//! Binds a query again when one of its tables changed, or ends it.

use std::sync::Arc;

use tidewire_query::{Plan, Projected, Query, ShapeColumn, TableShape};
use tidewire_store::SqlError;

use super::catalogue::Named;
use super::compile::{Compiled, columns, etag, is_of_another_shape, shapes};
use super::problem;
use crate::Hub;

/// What has become of a query whose table changed.
#[derive(Debug)]
pub(super) enum Rebound {
    /// It is the same.
    Same,
    /// It goes on as another, with the same columns.
    Other(Box<Compiled>),
    /// It cannot go on.
    Ended(tidewire_query::EndReason),
}

impl Compiled {
    /// Binds it to its tables as they are. An error if that is to be tried again.
    pub(super) async fn rebind(&self, hub: &Hub) -> Result<Rebound, SqlError> {
        let names = self.origin.draft.tables();
        let named = hub.queries.catalogue.look_up(&hub.store, names).await?;
        let mut tables = Vec::with_capacity(names.len());
        for (name, named) in names.iter().zip(named) {
            match named {
                // What the caller may see is known by the name that a table has for its events.
                Named::Watched(shape) if self.origin.reaches(&shape) => {
                    tables.push((name.clone(), shape));
                }
                _ => return Ok(Rebound::Ended(problem::reason(problem::TABLE_GONE, None))),
            }
        }
        hub.add_ruled(&self.origin.ruled, &mut tables).await?;
        let changed = |message| Rebound::Ended(problem::reason(problem::SCHEMA_CHANGED, message));
        let query = match self.origin.bind(&tables, hub.query_limits()) {
            Err(refusal) => return Ok(changed(Some(refusal.to_string()))),
            Ok(query) if query.dependencies == self.query.dependencies => return Ok(Rebound::Same),
            Ok(query) => query,
        };
        if query.columns != self.query.columns || query.ordered != self.query.ordered {
            return Ok(changed(None));
        }
        let tables = shapes(tables);
        let mut cost = self.cost;
        if !has_same_types((&self.query, &self.tables), (&query, &tables)) {
            let checked = match hub.check(&query, &self.owner).await {
                Ok(checked) => checked,
                Err(error) if is_of_another_shape(&error) => return Err(error),
                Err(SqlError::Store(error)) => return Err(error.into()),
                Err(SqlError::Wrong(wrong)) => {
                    let code = match wrong.code {
                        // It was right before: what is compared or computed is of another type.
                        "sql_syntax" | "sql_refused" => problem::SCHEMA_CHANGED,
                        code => code,
                    };
                    return Ok(Rebound::Ended(problem::reason(code, Some(wrong.message))));
                }
            };
            if columns(&query, &checked) != *self.columns {
                return Ok(changed(None));
            }
            cost = checked.cost.filter(|_| !self.origin.sees_part());
        }
        Ok(Rebound::Other(Box::new(Compiled {
            columns: Arc::clone(&self.columns),
            etag: etag(&query),
            cost,
            owner: self.owner.clone(),
            query: Arc::new(query),
            origin: Arc::clone(&self.origin),
            tables,
        })))
    }
}

/// A query and the tables that it is bound to.
type BoundQuery<'a> = (&'a Query, &'a [Arc<TableShape>]);

/// Whether it is plain that the result's columns are of the types that they were: they are those of one
/// table. So that the database need not be asked for each of very many filters.
fn has_same_types((was, before): BoundQuery<'_>, (is, after): BoundQuery<'_>) -> bool {
    let (Plan::Filter(was), Plan::Filter(is)) = (&was.plan, &is.plan) else { return false };
    let ([before], [after]) = (before, after) else { return false };
    was.projection == is.projection
        && is.projection.iter().all(|projected| match projected {
            Projected::Column(name) => {
                let before = column(before, name);
                before.is_some() && before == column(after, name)
            }
            Projected::Literal(_) => true,
        })
}

fn column<'a>(shape: &'a TableShape, name: &str) -> Option<&'a ShapeColumn> {
    shape.columns.iter().find(|own| own.column.name == name)
}

#[cfg(test)]
mod tests {
    use tidewire_query::{Access, Binding, Column, Dialect, Draft, QueryLimits};

    use super::*;

    fn shape(columns: &[(&str, &str)]) -> Arc<TableShape> {
        let column = |(name, type_name): &(&str, &str)| ShapeColumn {
            column: Column {
                name: (*name).to_owned(),
                type_name: (*type_name).to_owned(),
                collation: None,
            },
            generated: false,
            scale: None,
            json_text: false,
        };
        Arc::new(TableShape {
            name: "orders".to_owned(),
            sql_name: "orders".to_owned(),
            columns: columns.iter().map(column).collect(),
            key: vec!["id".to_owned()],
            host_column: None,
            fingerprint: 1,
            row_security: false,
            inherited: false,
        })
    }

    fn bound(sql: &str, shape: &Arc<TableShape>) -> Query {
        let draft = Draft::parse(sql, &[], Dialect::Postgres).expect("a SELECT");
        let tables = draft.tables().iter().map(|name| (name.clone(), Arc::clone(shape)));
        let tables: Vec<_> = tables.collect();
        let limits = QueryLimits { rows_max: 10, window_slack: 5, hide_timing: true };
        let access = |_: &str| Access::default();
        let binding = Binding { tables: &tables, access: &access, caller: &(), limits };
        draft.bind(&binding).expect("it can be kept")
    }

    #[test]
    fn only_a_filter_whose_columns_are_of_their_types_is_not_looked_at_again() {
        let before = shape(&[("id", "int8"), ("total", "int4"), ("note", "text")]);
        let added = shape(&[("id", "int8"), ("total", "int4"), ("more", "text")]);
        let wider = shape(&[("id", "int8"), ("total", "int8"), ("note", "text")]);
        for (sql, after, same) in [
            ("SELECT id, total FROM orders WHERE id > 1", &added, true),
            ("SELECT id FROM orders WHERE total > 1", &wider, true),
            ("SELECT id, total FROM orders WHERE id > 1", &wider, false),
            ("SELECT count(*) AS n FROM orders", &added, false),
        ] {
            let (was, is) = (bound(sql, &before), bound(sql, after));
            let was = (&was, &[Arc::clone(&before)][..]);
            assert_eq!(has_same_types(was, (&is, &[Arc::clone(after)])), same, "{sql}");
        }
    }
}
