//! The first rows of a table in an order, kept as its rows change.
//!
//! More rows are held than are seen, so that one can follow another that went. All rows up to an *edge*
//! are held: what comes behind it is not known, and does not matter until too few are left before it.

mod sorted;

use std::sync::Arc;

use serde_json::value::RawValue;

pub(super) use self::sorted::{Entry, Sorted};
use super::project;
use super::state::{State, StateError};
use crate::delta::{Delta, RowText};
use crate::plan::{Direction, Shown, WindowPlan};
use crate::reading::{Read, Reading};
use crate::row::Row;
use crate::value::Constant;

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct Window {
    plan: WindowPlan,
    columns: Box<[Box<str>]>,
    rows: Sorted,
    /// The last row that was read, or held when there were too many: every row before it is held, and
    /// it was. None if all rows are.
    edge: Option<Arc<Entry>>,
    /// Whether rows were read at all.
    loaded: bool,
}

impl Window {
    /// A window whose result has these columns; its rows are to be loaded.
    pub(crate) fn new(plan: &WindowPlan, columns: &[Box<str>]) -> Window {
        let directions: Box<[Direction]> = plan.sort.iter().map(|key| key.direction).collect();
        let identity: Box<[usize]> = plan.identity.as_slice().into();
        let rows = Sorted::new(directions, identity, plan.limits.skip, plan.limits.take);
        let (plan, columns) = (plan.clone(), columns.into());
        Window { plan, columns, rows, edge: None, loaded: false }
    }

    /// What a row is sorted by, of the values of the columns that are read.
    fn sort(&self, values: &[&str]) -> Result<Box<[Option<Constant>]>, StateError> {
        let sort = self.plan.sort.iter().map(|key| {
            let json = values.get(key.read).ok_or(StateError::Unsure)?;
            read(key.direction.reading, json)
        });
        let sort = sort.collect::<Result<Box<[Option<Constant>]>, StateError>>()?;
        // SQLite lets NULL into keys, more than once.
        if self.plan.identity.iter().any(|at| sort[*at].is_none()) {
            return Err(StateError::Unsure);
        }
        Ok(sort)
    }

    /// A row of the same values.
    fn entry(&self, sort: Box<[Option<Constant>]>, values: &[&str]) -> Arc<Entry> {
        let shown = self.plan.shown.iter().map(|shown| match shown {
            Shown::Read(place) => values.get(*place).copied().unwrap_or("null"),
            Shown::Literal(json) => json,
        });
        Arc::new(Entry { sort, text: project::of_texts(&self.columns, shown) })
    }

    /// The row of an image, unless it is behind the edge: that is most rows, and nothing is made of them.
    fn entry_of(&self, row: &Row<'_>) -> Result<Option<Arc<Entry>>, StateError> {
        let values = self.plan.read.iter().map(|name| row.get(name).map(RawValue::get));
        let values = values.collect::<Option<Vec<&str>>>().ok_or(StateError::Unsure)?;
        let sort = self.sort(&values)?;
        let is_behind = |edge: &Arc<Entry>| self.rows.compare_keys(&sort, &edge.sort).is_gt();
        if self.edge.as_ref().is_some_and(is_behind) {
            return Ok(None);
        }
        let entry = self.entry(sort, &values);
        // Rows may be equal in all that sorts.
        let is_held = self.edge.as_ref().is_none_or(|edge| self.rows.reaches(&entry, edge));
        Ok(is_held.then_some(entry))
    }

    /// Whether a row that is not held may be there: rows that nothing tells apart may be on both sides of
    /// the edge.
    fn is_beyond(&self, entry: &Entry) -> bool {
        self.plan.identity.is_empty() && self.edge.as_deref() == Some(entry)
    }

    /// Whether enough is held to say what is seen.
    fn suffices(&self) -> Result<(), StateError> {
        let enough = match (self.plan.limits.take, &self.edge) {
            (Some(take), Some(_)) => self.rows.len() >= self.plan.limits.skip + take,
            (Some(_), None) => true,
            (None, _) => self.rows.len() <= self.plan.held_max,
        };
        if self.loaded && enough { Ok(()) } else { Err(StateError::Dry) }
    }
}

impl State for Window {
    fn load(&mut self, rows: &[Vec<Box<RawValue>>]) -> Result<(), StateError> {
        // More than may be kept: the next read would be no other.
        if rows.len() > self.plan.held_max {
            return Err(StateError::Unsure);
        }
        let entry = |row: &Vec<Box<RawValue>>| {
            let values: Vec<&str> = row.iter().map(|value| value.get()).collect();
            Ok(self.entry(self.sort(&values)?, &values))
        };
        let entries = rows.iter().map(entry).collect::<Result<Vec<Arc<Entry>>, StateError>>()?;
        // Rows that are sorted otherwise than here cannot be kept here.
        if !self.rows.replace(entries) {
            return Err(StateError::Unsure);
        }
        let complete = self.plan.kept.is_none_or(|kept| rows.len() < kept);
        self.edge = if complete { None } else { self.rows.last().cloned() };
        self.loaded = true;
        Ok(())
    }

    fn change(
        &mut self,
        before: Option<&Row<'_>>,
        after: Option<&Row<'_>>,
    ) -> Result<(), StateError> {
        let before = before.map(|row| self.entry_of(row)).transpose()?.flatten();
        let after = after.map(|row| self.entry_of(row)).transpose()?.flatten();
        if before == after {
            return Ok(());
        }
        if let Some(entry) = before
            && !self.rows.remove(&entry)
            && !self.is_beyond(&entry)
        {
            return Err(StateError::Unsure);
        }
        if let Some(entry) = after {
            self.rows.insert(entry);
        }
        if let Some(kept) = self.plan.kept
            && self.rows.len() > self.plan.held_max
        {
            self.rows.truncate(kept);
            self.edge = self.rows.last().cloned();
        }
        Ok(())
    }

    fn result(&self) -> Result<Vec<RowText>, StateError> {
        self.suffices()?;
        Ok(self.rows.seen().iter().map(|row| Arc::clone(&row.text)).collect())
    }

    fn tell(&mut self) -> Result<Delta, StateError> {
        self.suffices()?;
        Ok(self.rows.tell())
    }

    fn bytes(&self) -> usize {
        size_of::<Window>() + self.rows.bytes()
    }
}

/// A value to sort by; none is NULL.
pub(super) fn read(reading: Reading, json: &str) -> Result<Option<Constant>, StateError> {
    match reading.read(json) {
        Ok(Read::Null) => Ok(None),
        Ok(Read::Value(value)) => Ok(Some(value.into_owned())),
        Ok(Read::OneOf(_)) | Err(_) => Err(StateError::Unsure),
    }
}

#[cfg(test)]
mod tests;
