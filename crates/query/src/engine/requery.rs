//! A result that is read again when something it reads changed.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::matching::Images;
use super::project;
use super::state::{State, StateError};
use crate::delta::{Delta, RowText};
use crate::diff;
use crate::plan::{Conditions, FilterPlan, Plan, Projected, Query};
use crate::row::Row;

/// The rows that were told, and those that were read since.
#[derive(Debug)]
pub(super) struct Requery {
    query: Arc<Query>,
    /// The columns by which a changed row is known.
    identity: Vec<Box<str>>,
    told: Vec<RowText>,
    read: Option<Vec<RowText>>,
}

impl Requery {
    /// Any query can be kept so.
    pub(super) fn new(query: Arc<Query>) -> Requery {
        let identity = match (&query.plan, single(&query.plan)) {
            (Plan::Requery(plan), _) => {
                let columns = plan.identity.iter().map(|at| query.columns.get(*at).cloned());
                columns.collect::<Option<Vec<_>>>().unwrap_or_default()
            }
            (_, Some(filter)) => identity_of(&query, filter),
            _ => Vec::new(),
        };
        Requery { query, identity, told: Vec::new(), read: None }
    }
}

impl State for Requery {
    fn load(&mut self, rows: &[Vec<Box<RawValue>>]) -> Result<(), StateError> {
        let rows = rows.iter().map(|row| project::of_values(&self.query.columns, row));
        self.read = Some(rows.collect::<Option<Vec<_>>>().ok_or(StateError::Unsure)?);
        Ok(())
    }

    fn change(&mut self, _: Option<&Row<'_>>, _: Option<&Row<'_>>) -> Result<(), StateError> {
        Err(StateError::Dry)
    }

    fn result(&self) -> Result<Vec<RowText>, StateError> {
        Ok(self.read.as_ref().unwrap_or(&self.told).clone())
    }

    fn tell(&mut self) -> Result<Delta, StateError> {
        let Some(read) = self.read.take() else { return Ok(Delta::default()) };
        let delta = match self.query.ordered {
            true => diff::ordered(&self.told, &read, &self.identity),
            false => diff::unordered(&self.told, &read, &self.identity),
        };
        self.told = read;
        Ok(delta)
    }

    fn bytes(&self) -> usize {
        let bytes = |rows: &[RowText]| rows.iter().map(|row| row.len() + 16).sum::<usize>();
        // Rows that did not change are read anew for a moment, and not kept twice.
        bytes(&self.told).max(self.read.as_deref().map_or(0, bytes))
    }
}

/// The table whose images a plan is kept by.
pub(super) fn single(plan: &Plan) -> Option<&FilterPlan> {
    match plan {
        Plan::Filter(filter) => Some(filter),
        Plan::Window(window) => Some(&window.filter),
        Plan::Aggregate(aggregate) => Some(&aggregate.filter),
        Plan::Requery(_) => None,
    }
}

/// The columns of a result in which the table's key is, if all of it is there.
fn identity_of(query: &Query, filter: &FilterPlan) -> Vec<Box<str>> {
    let column = |key: &str| {
        let is_key = |it: &Projected| matches!(it, Projected::Column(name) if **name == *key);
        let at = filter.projection.iter().position(is_key)?;
        query.columns.get(at).cloned()
    };
    filter.key.iter().map(|key| column(key)).collect::<Option<Vec<_>>>().unwrap_or_default()
}

/// Whether a change can make a difference to a query that is run again. In doubt it can.
pub(super) fn concerns(query: &Query, table: &str, images: &Images<'_>) -> bool {
    match &query.plan {
        Plan::Requery(plan) => {
            let relevance = plan.relevance.iter().find(|relevance| *relevance.table == *table);
            let Some(relevance) = relevance else { return true };
            reads(relevance.columns.as_deref(), images)
                && (relevance.any_of.is_empty()
                    || relevance.any_of.iter().any(|conditions| may_admit(conditions, images)))
        }
        plan => single(plan).is_none_or(|filter| may_admit(&filter.conditions, images)),
    }
}

/// Whether one of the columns is another before than after.
fn reads(columns: Option<&[Box<str>]>, images: &Images<'_>) -> bool {
    let (Some(columns), Some(before), Some(after)) = (columns, &images.before, &images.after)
    else {
        return true;
    };
    columns.iter().any(|column| match (before.get(column), after.get(column)) {
        (Some(before), Some(after)) => before.get() != after.get(),
        _ => true,
    })
}

fn may_admit(conditions: &Conditions, images: &Images<'_>) -> bool {
    let mut rows = images.before.iter().chain(&images.after);
    rows.any(|row| conditions.admit(row).unwrap_or(true))
}
