//! How a result changed.

use std::collections::HashMap;
use std::sync::Arc;

/// A row of a result: a JSON object in the order of the columns.
pub type RowText = Arc<str>;

/// The difference between two results, told as DELETE, then UPDATE, then INSERT.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Delta {
    /// Rows that are gone, as they were.
    pub deleted: Vec<RowText>,
    /// Rows that changed, or moved: as they were, and as they are.
    pub updated: Vec<(RowText, RowText)>,
    /// Rows that are new.
    pub inserted: Vec<RowText>,
    /// Where they were and are, in a result that has an order.
    pub places: Option<Places>,
}

/// Indices into a result, aligned with a delta's rows. The steps are taken one after the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// In the result as it was before; to be removed from the last to the first.
    pub deleted: Vec<u32>,
    /// First in the result without the deleted ones, all removed from the last to the first; then in
    /// the result with them again, put in from the first to the last.
    pub updated: Vec<(u32, u32)>,
    /// In the result as it is now; to be put in from the first to the last.
    pub inserted: Vec<u32>,
}

/// A delta does not belong to a result: a row that it changes is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a row that is said to have changed is not in the result")]
pub struct NotThere;

impl Delta {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.deleted.is_empty() && self.updated.is_empty() && self.inserted.is_empty()
    }

    /// Rows told.
    pub fn len(&self) -> usize {
        self.deleted.len() + self.updated.len() + self.inserted.len()
    }

    /// The bytes of its rows.
    pub(crate) fn bytes(&self) -> usize {
        let updated = self.updated.iter().map(|(before, after)| before.len() + after.len());
        let others = self.deleted.iter().chain(&self.inserted).map(|row| row.len());
        updated.chain(others).sum()
    }

    /// The result after the change. Without places the order of rows means nothing.
    pub fn apply(&self, rows: &[RowText]) -> Result<Vec<RowText>, NotThere> {
        match &self.places {
            Some(places) => self.apply_in_order(places, rows.to_vec()),
            None => {
                let mut rows = Multiset::new(rows.to_vec());
                rows.apply(self)?;
                Ok(rows.into_rows())
            }
        }
    }

    fn apply_in_order(
        &self,
        places: &Places,
        mut rows: Vec<RowText>,
    ) -> Result<Vec<RowText>, NotThere> {
        remove(&mut rows, places.deleted.iter().copied().zip(&self.deleted))?;
        let moved = places.updated.iter().zip(&self.updated);
        remove(&mut rows, moved.clone().map(|((from, _), (before, _))| (*from, before)))?;
        insert(&mut rows, moved.map(|((_, to), (_, after))| (*to, after)))?;
        insert(&mut rows, places.inserted.iter().copied().zip(&self.inserted))?;
        Ok(rows)
    }
}

fn remove<'a>(
    rows: &mut Vec<RowText>,
    gone: impl Iterator<Item = (u32, &'a RowText)>,
) -> Result<(), NotThere> {
    let mut gone = gone.collect::<Vec<_>>();
    gone.sort_by_key(|(from, _)| std::cmp::Reverse(*from));
    for (from, row) in gone {
        let from = from as usize;
        if rows.get(from) != Some(row) {
            return Err(NotThere);
        }
        rows.remove(from);
    }
    Ok(())
}

fn insert<'a>(
    rows: &mut Vec<RowText>,
    new: impl Iterator<Item = (u32, &'a RowText)>,
) -> Result<(), NotThere> {
    let mut new = new.collect::<Vec<_>>();
    new.sort_by_key(|(to, _)| *to);
    for (to, row) in new {
        let to = to as usize;
        if to > rows.len() {
            return Err(NotThere);
        }
        rows.insert(to, row.clone());
    }
    Ok(())
}

/// Rows without an order, to which many deltas can be applied.
#[derive(Debug)]
pub(crate) struct Multiset {
    /// A row that is gone leaves a hole.
    rows: Vec<Option<RowText>>,
    at: HashMap<RowText, Vec<usize>>,
}

impl Multiset {
    pub(crate) fn new(rows: Vec<RowText>) -> Multiset {
        let mut at: HashMap<RowText, Vec<usize>> = HashMap::with_capacity(rows.len());
        for (index, row) in rows.iter().enumerate() {
            at.entry(row.clone()).or_default().push(index);
        }
        Multiset { rows: rows.into_iter().map(Some).collect(), at }
    }

    pub(crate) fn apply(&mut self, delta: &Delta) -> Result<(), NotThere> {
        for row in &delta.deleted {
            let index = self.take(row)?;
            self.rows[index] = None;
        }
        // All are taken before any is put: one may become what another was.
        let taken = delta.updated.iter().map(|(before, _)| self.take(before));
        let taken = taken.collect::<Result<Vec<_>, _>>()?;
        for (index, (_, after)) in taken.into_iter().zip(&delta.updated) {
            self.put(index, after);
        }
        for row in &delta.inserted {
            self.rows.push(None);
            self.put(self.rows.len() - 1, row);
        }
        Ok(())
    }

    pub(crate) fn into_rows(self) -> Vec<RowText> {
        self.rows.into_iter().flatten().collect()
    }

    fn take(&mut self, row: &RowText) -> Result<usize, NotThere> {
        self.at.get_mut(row).and_then(Vec::pop).ok_or(NotThere)
    }

    fn put(&mut self, index: usize, row: &RowText) {
        self.rows[index] = Some(row.clone());
        self.at.entry(row.clone()).or_default().push(index);
    }
}
