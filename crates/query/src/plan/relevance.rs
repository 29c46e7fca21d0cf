//! Which changes concern a query that is run again, and which columns tell its rows apart.

use super::{Conditions, Relevance};
use crate::shape::{ShapeColumn, TableShape};
use crate::statement::Bound;

/// Of each table that is read, which changes concern the query.
pub(super) fn relevance(bound: &Bound<'_>) -> Vec<Relevance> {
    let mut all: Vec<Relevance> = Vec::new();
    for (at, it) in bound.occurrences().iter().enumerate() {
        let shape = bound.shape(at);
        let mut conditions: Conditions = bound.guards[it.table].conditions.clone();
        let conjuncts = bound.conjuncts(at).into_iter();
        conditions.predicates.extend(conjuncts.map(|conjunct| conjunct.predicate));
        let columns = columns(bound, at, &conditions);
        add(&mut all, &shape.name, columns, conditions);
    }
    for read in bound.guards.iter().flat_map(|guard| &guard.reads) {
        let columns = read_columns(&read.shape, &read.read);
        add(&mut all, &read.shape.name, columns, Conditions::default());
    }
    all
}

/// Of a table that is read twice, what concerns either concerns the query.
fn add(
    all: &mut Vec<Relevance>,
    table: &str,
    columns: Option<Vec<Box<str>>>,
    conditions: Conditions,
) {
    let is_narrow = !conditions.predicates.is_empty() || conditions.tenants.is_some();
    let Some(known) = all.iter_mut().find(|known| *known.table == *table) else {
        let any_of = if is_narrow { vec![conditions] } else { Vec::new() };
        all.push(Relevance { table: table.into(), columns, any_of });
        return;
    };
    match is_narrow && !known.any_of.is_empty() {
        true => known.any_of.push(conditions),
        false => known.any_of.clear(),
    }
    known.columns = match (known.columns.take(), columns) {
        (Some(mut all), Some(more)) => {
            all.extend(more);
            all.sort();
            all.dedup();
            Some(all)
        }
        _ => None,
    };
}

/// The columns of a table that are read; none if one is computed from others.
fn read_columns(shape: &TableShape, read: &[bool]) -> Option<Vec<Box<str>>> {
    let read = shape.columns.iter().zip(read).filter(|(_, read)| **read);
    let name = |(column, _): (&ShapeColumn, _)| {
        (!column.generated).then(|| column.column.name.as_str().into())
    };
    read.map(name).collect()
}

/// The columns of an occurrence that are read, by the query or to see which rows it may see; none if
/// what is read is computed from others.
fn columns(bound: &Bound<'_>, at: usize, conditions: &Conditions) -> Option<Vec<Box<str>>> {
    let shape = bound.shape(at);
    let mut columns = read_columns(shape, &bound.occurrences()[at].read)?;
    let predicates = conditions.predicates.iter().flat_map(|predicate| predicate.columns());
    columns.extend(predicates.map(|name| name.as_str().into()));
    let guard = &bound.guards[bound.occurrences()[at].table];
    for name in &guard.columns {
        if shape.columns.iter().any(|column| column.generated && *column.column.name == **name) {
            return None;
        }
        columns.push(name.clone());
    }
    columns.extend(conditions.tenants.iter().map(|(column, _)| column.clone()));
    columns.sort();
    columns.dedup();
    Some(columns)
}

/// Columns of the result that are the keys of all tables it is joined from.
pub(super) fn identity(bound: &Bound<'_>) -> Vec<usize> {
    let Some(select) = bound.select() else { return Vec::new() };
    if select.distinct.is_some() || bound.is_grouped() {
        return Vec::new();
    }
    let Some(top) = bound.walk.token(select.select_token.0.span) else { return Vec::new() };
    let outermost = |at: &usize| bound.occurrences()[*at].select == top;
    let tables: Vec<usize> = (0..bound.occurrences().len()).filter(outermost).collect();
    let sources: usize = select.from.iter().map(|item| 1 + item.joins.len()).sum();
    if tables.is_empty() || tables.len() != sources {
        return Vec::new();
    }
    let mut identity = Vec::new();
    for at in tables {
        let shape = bound.shape(at);
        if shape.key.is_empty() {
            return Vec::new();
        }
        for key in &shape.key {
            let is_key =
                |from: (usize, usize)| from.0 == at && shape.columns[from.1].column.name == *key;
            match bound.outputs.iter().position(|output| output.from.is_some_and(is_key)) {
                Some(column) => identity.push(column),
                None => return Vec::new(),
            }
        }
    }
    identity.sort_unstable();
    identity.dedup();
    identity
}
