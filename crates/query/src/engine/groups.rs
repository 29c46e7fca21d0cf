//! Groups of a table's rows, kept as its rows change.
//!
//! A group is known by the texts of the columns it is grouped by. What is told of it is remembered, and
//! which groups changed since: only those are looked at when it is told what changed.

mod average;
mod extreme;
mod tally;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::value::RawValue;

use self::tally::ColumnTally;
use super::project;
use super::state::{State, StateError};
use super::window::{Entry, Sorted, read};
use crate::delta::{Delta, RowText};
use crate::plan::{AggregatePlan, Direction, Measure};
use crate::reading::Reading;
use crate::row::Row;
use crate::truth::Truth;
use crate::value::{Collation, Constant, Value};

/// One of this many groups changed, or more: then all are put in order anew.
const SHARE_SORTED_ANEW: usize = 8;

/// The texts of a group's columns, as a JSON array.
type Name = Box<str>;

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct Groups {
    plan: AggregatePlan,
    columns: Box<[Box<str>]>,
    groups: BTreeMap<Name, Group>,
    /// What was told of groups, those that are gone among them. What sorts it is empty without an order.
    told: HashMap<Name, Arc<Entry>>,
    /// Groups that may be other than they were told.
    touched: BTreeSet<Name>,
    /// Those that are seen, in their order, if they have one.
    sorted: Option<Sorted>,
    loaded: bool,
    /// Bytes of the groups, roughly.
    group_bytes: usize,
    /// Bytes of what was told.
    told_bytes: usize,
}

#[derive(Debug, Clone)]
struct Group {
    /// The texts of its columns.
    values: Box<[Box<str>]>,
    rows: u64,
    kept: Box<[ColumnTally]>,
}

impl Groups {
    /// Groups whose result has these columns; they are to be loaded.
    pub(crate) fn new(plan: &AggregatePlan, columns: &[Box<str>]) -> Groups {
        let sorted = plan.sort.as_ref().map(|sort| {
            // What is equal in all that was asked for is sorted by the groups' names.
            let names = Direction {
                reading: Reading::Text,
                collation: Collation::Bytes,
                descending: false,
                nulls_first: false,
            };
            let directions: Box<[Direction]> =
                sort.iter().map(|(_, direction)| *direction).chain([names]).collect();
            Sorted::new(directions, [sort.len()].into(), plan.limits.skip, plan.limits.take)
        });
        Groups {
            plan: plan.clone(),
            columns: columns.into(),
            groups: BTreeMap::new(),
            told: HashMap::new(),
            touched: BTreeSet::new(),
            sorted,
            loaded: false,
            group_bytes: 0,
            told_bytes: 0,
        }
    }

    /// A row is in its group, or is no longer.
    fn count(&mut self, row: &Row<'_>, comes: bool) -> Result<(), StateError> {
        let get = |name: &str| row.get(name).map(RawValue::get).ok_or(StateError::Unsure);
        let mut values = Vec::with_capacity(self.plan.groups.len());
        for (name, reading) in &self.plan.groups {
            let json = get(name)?;
            // A stray of another type may be equal to what has another text.
            read(*reading, json)?;
            values.push(json);
        }
        let name = name_of(&values);
        let bytes = self.bytes_of(&name);
        let group = match self.groups.get_mut(&name) {
            Some(group) => group,
            None if !comes => return Err(StateError::Unsure),
            None => {
                let kept = vec![ColumnTally::default(); self.plan.tallies.len()].into();
                let values = values.iter().map(|&json| json.into()).collect();
                self.group_bytes += bytes;
                self.groups.entry(name.clone()).or_insert(Group { values, rows: 0, kept })
            }
        };
        group.rows = if comes { Some(group.rows + 1) } else { group.rows.checked_sub(1) }
            .ok_or(StateError::Unsure)?;
        for (kept, tally) in group.kept.iter_mut().zip(&self.plan.tallies) {
            let json = get(&tally.column)?;
            if comes { kept.add(tally, json)? } else { kept.remove(tally, json)? }
        }
        if group.rows == 0 && !self.plan.groups.is_empty() {
            self.groups.remove(&name);
            self.group_bytes = self.group_bytes.saturating_sub(bytes);
        }
        self.touched.insert(name);
        Ok(())
    }

    /// What is told of a group, if it is seen.
    fn entry(&self, name: &str, group: &Group) -> Result<Option<Arc<Entry>>, StateError> {
        if let Some(having) = &self.plan.having {
            let mut json = String::new();
            for (name, measure) in &having.names {
                json.push_str(if json.is_empty() { "{\"" } else { ",\"" });
                json.push_str(name);
                json.push_str("\":");
                json.push_str(&self.json(group, *measure)?);
            }
            json.push_str(if json.is_empty() { "{}" } else { "}" });
            let row = Row::parse(json.as_bytes()).map_err(|_| StateError::Unsure)?;
            if having.predicate.test(&row)? != Truth::True {
                return Ok(None);
            }
        }
        let shown = self.plan.shown.iter().map(|measure| self.json(group, *measure));
        let shown = shown.collect::<Result<Vec<String>, StateError>>()?;
        let text = project::of_texts(&self.columns, shown.iter().map(String::as_str));
        let mut sort: Vec<Option<Constant>> = Vec::new();
        if let Some(keys) = &self.plan.sort {
            for (measure, direction) in keys {
                sort.push(read(direction.reading, &self.json(group, *measure)?)?);
            }
            sort.push(Some(Value::Text(name.to_owned().into())));
        }
        Ok(Some(Arc::new(Entry { sort: sort.into(), text })))
    }

    fn json(&self, group: &Group, measure: Measure) -> Result<String, StateError> {
        match measure {
            Measure::Group(place) => Ok(group.values[place].to_string()),
            Measure::Rows => Ok(group.rows.to_string()),
            Measure::Count(place)
            | Measure::Sum(place)
            | Measure::Average(place)
            | Measure::Least(place)
            | Measure::Greatest(place) => {
                group.kept[place].json(&self.plan.tallies[place], measure)
            }
        }
    }

    /// Groups beyond what may be kept are not: reading them says so.
    fn suffices(&self) -> Result<(), StateError> {
        let enough = self.loaded && self.groups.len() <= self.plan.groups_max;
        if enough { Ok(()) } else { Err(StateError::Dry) }
    }

    /// All groups that are seen, by name.
    fn entries(&self) -> Result<Vec<Arc<Entry>>, StateError> {
        let entries = self.groups.iter().map(|(name, group)| self.entry(name, group));
        entries.filter_map(Result::transpose).collect()
    }

    /// Bytes that a group takes, roughly: its name is in three places, and its values in one.
    fn bytes_of(&self, name: &str) -> usize {
        let kept = self.plan.tallies.len() * size_of::<ColumnTally>();
        2 * (size_of::<Group>() + size_of::<Entry>()) + kept + 4 * name.len()
    }
}

impl State for Groups {
    fn load(&mut self, rows: &[Vec<Box<RawValue>>]) -> Result<(), StateError> {
        // More than may be kept: the next read would be no other.
        if rows.len() > self.plan.groups_max {
            return Err(StateError::Unsure);
        }
        let mut groups = BTreeMap::new();
        for row in rows {
            let mut values = row.iter().map(|value| value.get());
            let mut columns: Vec<&str> = Vec::with_capacity(self.plan.groups.len());
            for (_, reading) in &self.plan.groups {
                let json = values.next().ok_or(StateError::Unsure)?;
                read(*reading, json)?;
                columns.push(json);
            }
            let rows =
                values.next().and_then(|json| json.parse().ok()).ok_or(StateError::Unsure)?;
            let kept = self.plan.tallies.iter().map(|tally| ColumnTally::load(tally, &mut values));
            let kept = kept.collect::<Result<Box<[ColumnTally]>, StateError>>()?;
            let values = columns.iter().map(|&json| json.into()).collect();
            // Two groups of one text are not told apart by images.
            if groups.insert(name_of(&columns), Group { values, rows, kept }).is_some() {
                return Err(StateError::Unsure);
            }
        }
        if self.plan.groups.is_empty() && groups.len() != 1 {
            return Err(StateError::Unsure);
        }
        self.touched.extend(self.told.keys().chain(groups.keys()).cloned());
        self.group_bytes = groups.keys().map(|name| self.bytes_of(name)).sum();
        self.groups = groups;
        self.loaded = true;
        Ok(())
    }

    fn change(
        &mut self,
        before: Option<&Row<'_>>,
        after: Option<&Row<'_>>,
    ) -> Result<(), StateError> {
        // In this order an extreme that moves is not missed in between.
        if let Some(row) = after {
            self.count(row, true)?;
        }
        if let Some(row) = before {
            self.count(row, false)?;
        }
        Ok(())
    }

    fn result(&self) -> Result<Vec<RowText>, StateError> {
        self.suffices()?;
        let mut entries = self.entries()?;
        let Some(sorted) = &self.sorted else {
            return Ok(entries.iter().map(|entry| Arc::clone(&entry.text)).collect());
        };
        entries.sort_by(|left, right| sorted.compare(left, right));
        let seen = entries.iter().skip(self.plan.limits.skip);
        let seen = seen.take(self.plan.limits.take.unwrap_or(usize::MAX));
        Ok(seen.map(|entry| Arc::clone(&entry.text)).collect())
    }

    fn tell(&mut self) -> Result<Delta, StateError> {
        self.suffices()?;
        // Nothing is told before all is known.
        let mut changed = Vec::new();
        for name in &self.touched {
            let group = self.groups.get(name);
            let new = group.map(|group| self.entry(name, group)).transpose()?.flatten();
            if self.told.get(name) != new.as_ref() {
                changed.push((name.clone(), new));
            }
        }
        self.touched.clear();
        let all_anew = changed.len().saturating_mul(SHARE_SORTED_ANEW) > self.groups.len();
        let mut delta = Delta::default();
        for (name, new) in changed {
            let old = match &new {
                Some(new) => self.told.insert(name, Arc::clone(new)),
                None => self.told.remove(&name),
            };
            let length = |entry: &Option<Arc<Entry>>| entry.as_ref().map_or(0, |it| it.text.len());
            self.told_bytes = (self.told_bytes + length(&new)).saturating_sub(length(&old));
            match &mut self.sorted {
                Some(_) if all_anew => {}
                Some(sorted) => {
                    if let Some(old) = old {
                        sorted.remove(&old);
                    }
                    if let Some(new) = new {
                        sorted.insert(new);
                    }
                }
                None => match (old, new) {
                    (None, Some(new)) => delta.inserted.push(Arc::clone(&new.text)),
                    (Some(old), None) => delta.deleted.push(Arc::clone(&old.text)),
                    (Some(old), Some(new)) => {
                        delta.updated.push((Arc::clone(&old.text), Arc::clone(&new.text)));
                    }
                    (None, None) => {}
                },
            }
        }
        let Some(sorted) = &mut self.sorted else { return Ok(delta) };
        if all_anew {
            let mut entries: Vec<Arc<Entry>> = self.told.values().map(Arc::clone).collect();
            entries.sort_by(|left, right| sorted.compare(left, right));
            sorted.replace(entries);
        }
        Ok(sorted.tell())
    }

    fn bytes(&self) -> usize {
        size_of::<Groups>() + self.group_bytes + self.told_bytes
    }
}

fn name_of(values: &[&str]) -> Name {
    format!("[{}]", values.join(",")).into()
}

#[cfg(test)]
mod tests;
