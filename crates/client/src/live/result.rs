//! The rows of a live query, kept current by the server's messages. Pure.
//!
//! A row is the JSON text it came as: the server compares rows by their text, and so does this. A result without an
//! order is a bag: equal rows may be in it several times, and a deleted row is found by its text. In a result with an
//! order, a change carries the indices of its rows.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::sql::SqlColumn;

/// A row as JSON: an object, its columns in their order.
pub type RowText = Arc<str>;

/// The rows of a query, as they are at one place of the log.
#[derive(Debug, Clone, Default)]
pub struct QueryResult {
    about: QueryBegun,
    rows: Vec<RowText>,
    /// Where the rows are exact; none before the server has said so.
    offset: Option<String>,
    /// The last part that was taken in: what is not after it is known.
    taken: Option<(String, u64)>,
    /// Rows of a beginning that is not complete.
    beginning: Option<Vec<RowText>>,
    /// The parts of a transaction that is not complete.
    open: Vec<ChangePart>,
    /// Transactions that came before the beginning was complete.
    held: Vec<Vec<ChangePart>>,
}

/// What a query is, as the server has begun it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryBegun {
    /// The server's name for it: what `KILL LIVE QUERY` takes.
    pub live_id: String,
    /// Its columns, in order.
    pub columns: Vec<SqlColumn>,
    /// How it is kept: `filter`, `window`, `aggregate` or `requery`.
    pub plan: String,
    /// What the client sends when it comes back.
    pub(crate) etag: Option<String>,
}

/// One row came, went, or became another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowChange {
    /// It is in the result now.
    Inserted(RowText),
    /// It is in the place of another. Of a result with an order it may be the same, elsewhere.
    Updated {
        /// What was there.
        old: RowText,
        /// What is.
        new: RowText,
    },
    /// It is not in the result any more.
    Deleted(RowText),
}

/// What a message has done to a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ResultUpdate {
    /// Nothing yet, or nothing that was not known.
    Nothing,
    /// All rows are there.
    Began,
    /// The rows are others; exact where the offset says, if it is known.
    Changed(Vec<RowChange>),
    /// What was told is exact.
    Settled,
    /// It does not fit what is here: the result must be had anew.
    OutOfStep,
}

/// A part of a transaction's changes: all of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct ChangePart {
    change_type: ChangeType,
    #[serde(deserialize_with = "texts")]
    rows: Vec<RowText>,
    #[serde(default, deserialize_with = "texts")]
    old_rows: Vec<RowText>,
    from: Option<Vec<usize>>,
    at: Option<Vec<usize>>,
    offset: Option<String>,
    #[serde(default)]
    part: u64,
    #[serde(default)]
    more: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum ChangeType {
    Insert,
    Update,
    Delete,
}

/// Rows as the texts they are.
pub(crate) fn texts<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<RowText>, D::Error> {
    let rows = Option::<Vec<&'de RawValue>>::deserialize(from)?;
    Ok(rows.unwrap_or_default().into_iter().map(|row| row.get().into()).collect())
}

impl QueryResult {
    /// What the query is.
    pub fn about(&self) -> &QueryBegun {
        &self.about
    }

    /// The rows: in the query's order if it has one, else in no order.
    pub fn rows(&self) -> &[RowText] {
        &self.rows
    }

    /// Where in the log these rows are exact; none if that is not known yet.
    pub fn offset(&self) -> Option<&str> {
        self.offset.as_deref()
    }

    /// Where it can go on after a lost connection.
    pub(crate) fn resumes_at(&self) -> Option<&str> {
        self.offset().filter(|_| self.beginning.is_none())
    }

    /// The server begins, with the first rows or, where it goes on at an offset, with none.
    pub(crate) fn begin(
        &mut self,
        about: QueryBegun,
        offset: Option<&str>,
        goes_on: bool,
        rows: Vec<RowText>,
        more: bool,
    ) -> ResultUpdate {
        self.about = about;
        self.open.clear();
        self.held.clear();
        if goes_on {
            return ResultUpdate::Settled;
        }
        self.offset = offset.map(ToOwned::to_owned);
        self.taken = None;
        self.beginning = Some(rows);
        if more { ResultUpdate::Nothing } else { self.begun() }
    }

    /// More of the first rows.
    pub(crate) fn batch(&mut self, rows: Vec<RowText>, more: bool) -> ResultUpdate {
        let Some(beginning) = &mut self.beginning else { return ResultUpdate::Nothing };
        beginning.extend(rows);
        if more { ResultUpdate::Nothing } else { self.begun() }
    }

    fn begun(&mut self) -> ResultUpdate {
        self.rows = self.beginning.take().unwrap_or_default();
        for parts in std::mem::take(&mut self.held) {
            if self.apply(&parts).is_none() {
                return ResultUpdate::OutOfStep;
            }
        }
        ResultUpdate::Began
    }

    /// A part of a transaction's changes. They are made when its last part is there.
    pub(crate) fn change(&mut self, part: ChangePart) -> ResultUpdate {
        if let Some(offset) = &part.offset {
            let place = (offset.clone(), part.part);
            let before_it = self.offset.as_ref().is_some_and(|known| *known >= *offset);
            if before_it || self.taken.as_ref().is_some_and(|taken| *taken >= place) {
                return ResultUpdate::Nothing;
            }
            self.taken = Some(place);
        }
        let more = part.more;
        self.open.push(part);
        if more {
            return ResultUpdate::Nothing;
        }
        let parts = std::mem::take(&mut self.open);
        if self.beginning.is_some() {
            self.held.push(parts);
            return ResultUpdate::Nothing;
        }
        self.apply(&parts).map_or(ResultUpdate::OutOfStep, ResultUpdate::Changed)
    }

    /// What was told is exact here.
    pub(crate) fn settled(&mut self, offset: &str) -> ResultUpdate {
        if self.offset.as_deref().is_none_or(|known| known < offset) {
            self.offset = Some(offset.to_owned());
        }
        ResultUpdate::Settled
    }

    /// Nothing more is to be told up to here, of any subscription: a result that was exact before is so
    /// here too.
    pub(crate) fn passed(&mut self, offset: &str) {
        if self.open.is_empty() && self.resumes_at().is_some_and(|known| known < offset) {
            self.offset = Some(offset.to_owned());
        }
    }

    /// The connection is gone: what was not complete will not be.
    pub(crate) fn interrupt(&mut self) {
        self.open.clear();
        self.held.clear();
        self.taken = None;
        if self.beginning.take().is_some() {
            self.offset = None;
        }
    }

    /// What is here cannot be gone on with.
    pub(crate) fn forget_offset(&mut self) {
        self.interrupt();
        self.offset = None;
    }

    /// Makes a transaction's changes; none if they do not fit.
    fn apply(&mut self, parts: &[ChangePart]) -> Option<Vec<RowChange>> {
        let mut changes = Vec::new();
        for part in parts {
            match part.change_type {
                ChangeType::Delete => self.delete(part, &mut changes)?,
                ChangeType::Update => self.update(part, &mut changes)?,
                ChangeType::Insert => self.insert(part, &mut changes)?,
            }
        }
        // After a change without an offset nothing is known of where the rows are exact.
        self.offset = parts.last().and_then(|part| part.offset.clone());
        Some(changes)
    }

    fn delete(&mut self, part: &ChangePart, changes: &mut Vec<RowChange>) -> Option<()> {
        match &part.from {
            Some(places) => self.take(places)?,
            None => {
                let mut wanted = RowLookup::new(part.rows.iter().map(|row| (row, ())));
                self.rows.retain(|row| wanted.next(row).is_none());
                wanted.is_empty().then_some(())?;
            }
        }
        changes.extend(part.rows.iter().cloned().map(RowChange::Deleted));
        Some(())
    }

    fn update(&mut self, part: &ChangePart, changes: &mut Vec<RowChange>) -> Option<()> {
        (part.old_rows.len() == part.rows.len()).then_some(())?;
        match (&part.from, &part.at) {
            (Some(from), Some(at)) => {
                self.take(from)?;
                self.put(at, &part.rows)?;
            }
            _ => {
                let mut wanted = RowLookup::new(part.old_rows.iter().zip(&part.rows));
                for row in &mut self.rows {
                    if let Some(new) = wanted.next(row) {
                        *row = Arc::clone(new);
                    }
                }
                wanted.is_empty().then_some(())?;
            }
        }
        let pairs = part.old_rows.iter().cloned().zip(part.rows.iter().cloned());
        changes.extend(pairs.map(|(old, new)| RowChange::Updated { old, new }));
        Some(())
    }

    fn insert(&mut self, part: &ChangePart, changes: &mut Vec<RowChange>) -> Option<()> {
        match &part.at {
            Some(places) => self.put(places, &part.rows)?,
            None => self.rows.extend(part.rows.iter().cloned()),
        }
        changes.extend(part.rows.iter().cloned().map(RowChange::Inserted));
        Some(())
    }

    /// Takes out the rows at these places, which are those before any is taken.
    fn take(&mut self, places: &[usize]) -> Option<()> {
        let mut gone = vec![false; self.rows.len()];
        for place in places {
            let is_gone = gone.get_mut(*place)?;
            (!std::mem::replace(is_gone, true)).then_some(())?;
        }
        let mut gone = gone.into_iter();
        self.rows.retain(|_| gone.next() == Some(false));
        Some(())
    }

    /// Puts rows at these places, which are those after all are there.
    fn put(&mut self, places: &[usize], rows: &[RowText]) -> Option<()> {
        (places.len() == rows.len()).then_some(())?;
        let mut put: Vec<(usize, &RowText)> = places.iter().copied().zip(rows).collect();
        put.sort_by_key(|(place, _)| *place);
        let mut put = put.into_iter().peekable();
        let mut before = std::mem::take(&mut self.rows).into_iter();
        let mut after = Vec::with_capacity(before.len() + rows.len());
        loop {
            if let Some((_, row)) = put.next_if(|(place, _)| *place == after.len()) {
                after.push(Arc::clone(row));
            } else if let Some(row) = before.next() {
                after.push(row);
            } else {
                self.rows = after;
                return put.next().is_none().then_some(());
            }
        }
    }
}

/// Rows that are to be found by their text, each as often as it is wanted, with what becomes of it.
struct RowLookup<'a, T>(HashMap<&'a str, VecDeque<T>>);

impl<'a, T> RowLookup<'a, T> {
    fn new(rows: impl Iterator<Item = (&'a RowText, T)>) -> Self {
        let mut wanted: HashMap<&str, VecDeque<T>> = HashMap::new();
        rows.for_each(|(row, becomes)| wanted.entry(row).or_default().push_back(becomes));
        RowLookup(wanted)
    }

    /// Whether this row is one of them, which is found by that.
    fn next(&mut self, row: &str) -> Option<T> {
        self.0.get_mut(row)?.pop_front()
    }

    fn is_empty(&self) -> bool {
        self.0.values().all(VecDeque::is_empty)
    }
}

#[cfg(test)]
mod tests;
