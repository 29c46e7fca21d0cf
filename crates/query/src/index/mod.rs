//! Which queries a changed row may concern, found by its values and not one query after another.
//!
//! The conditions of a query become *anchors*: tuples of values that columns must have, with a range
//! for one more column. A row is looked up once for each form that anchors have (`status = …`, or
//! `tenant = … AND total BETWEEN …`), and there are few of those, however many queries there are.
//! What must hold: **where conditions are true, one of their anchors is hit**. An anchor that is hit
//! for nothing costs a test, no more: whoever asks tests what is found.
//!
//! Who cannot be sure is found: a column that an image does not have, or has with another type, is
//! taken for every value. What has no anchor is found by every row, and is counted.
//!
//! - `anchors`: from conditions to anchors
//! - `cell`: the ranges of one cell of a grid
//! - `cells`: the cells of one level of a grid, by the hashes of their numbers
//! - `grid`: many ranges, found in about the time of one value, however many there are
//! - `order`: a number for a value, so that ranges of all kinds of values are ranges of numbers
//! - `postings`: the queries of one anchor
//! - `ranges`: ranges, and those of them that a value is in
//! - `slots`: the columns that anchors name, and what an image has in them

mod anchors;
mod cell;
mod cells;
mod grid;
mod order;
mod postings;
mod ranges;
mod slots;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::hash::RandomState;

use self::anchors::{Anchor, anchors};
use self::grid::Grid;
use self::postings::{ByHash, Posting};
use self::ranges::Span;
use self::slots::{SlotId, Slots, SlottedRow, join_hashes};
use crate::engine::QueryId;
use crate::plan::Conditions;
use crate::row::Row;

/// The conditions of many queries over one table.
#[derive(Debug, Default)]
pub struct Index {
    /// The columns that anchors name.
    slots: Slots,
    hasher: RandomState,
    forms: HashMap<Form, Anchored>,
    unindexed: Posting,
}

/// What anchors are alike in: the columns whose values are given, and the one that has a range.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Form {
    equal: Box<[SlotId]>,
    range: Option<SlotId>,
}

/// The anchors of a form, by the hash of their values. Two tuples of one hash are taken for the same.
#[derive(Debug)]
enum Anchored {
    Points(ByHash<Posting>),
    Ranges(ByHash<Grid>),
}

impl Index {
    /// Adds a query's conditions. A query may have several, of which one must hold. Returns whether they
    /// have an anchor.
    pub fn insert(&mut self, query: QueryId, conditions: &Conditions) -> bool {
        let Some(anchors) = anchors(conditions, &mut self.slots, &self.hasher) else {
            self.unindexed.insert(query);
            return false;
        };
        for Anchor { equal, hash, range } in anchors {
            let form = Form { equal, range: range.map(|(slot, _, _)| slot) };
            let anchored = self.forms.entry(form).or_insert_with(|| match range {
                None => Anchored::Points(ByHash::default()),
                Some(_) => Anchored::Ranges(ByHash::default()),
            });
            match (anchored, range) {
                (Anchored::Ranges(tuples), Some((_, low, high))) => {
                    tuples.entry(hash).or_default().insert(Span::new(low, high, query));
                }
                (Anchored::Points(tuples), _) => tuples.entry(hash).or_default().insert(query),
                (Anchored::Ranges(_), None) => {}
            }
        }
        true
    }

    /// Removes them; they are those it was added with.
    pub fn remove(&mut self, query: QueryId, conditions: &Conditions) {
        let Some(anchors) = anchors(conditions, &mut self.slots, &self.hasher) else {
            self.unindexed.remove(query);
            return;
        };
        for Anchor { equal, hash, range } in anchors {
            let form = Form { equal, range: range.map(|(slot, _, _)| slot) };
            let Some(anchored) = self.forms.get_mut(&form) else { continue };
            let is_empty = match (anchored, range) {
                (Anchored::Ranges(tuples), Some((_, low, high))) => {
                    if let Some(ranges) = tuples.get_mut(&hash) {
                        ranges.remove(Span::new(low, high, query));
                        if ranges.is_empty() {
                            tuples.remove(&hash);
                        }
                    }
                    tuples.is_empty()
                }
                (Anchored::Points(tuples), _) => {
                    if let Some(posting) = tuples.get_mut(&hash) {
                        posting.remove(query);
                        if posting.is_empty() {
                            tuples.remove(&hash);
                        }
                    }
                    tuples.is_empty()
                }
                (Anchored::Ranges(_), None) => false,
            };
            if is_empty {
                self.forms.remove(&form);
            }
        }
    }

    /// Whether conditions have an anchor, so that not every row is tested on them.
    pub(crate) fn finds(conditions: &Conditions) -> bool {
        anchors(conditions, &mut Slots::default(), &RandomState::new()).is_some()
    }

    /// Conditions that have no anchor, so that every row is tested on them.
    pub fn unindexed(&self) -> usize {
        self.unindexed.len()
    }

    /// All queries whose conditions may hold of one of a row's images, each once, in order. They are
    /// added to what is in `found`.
    pub fn candidates(
        &self,
        before: Option<&Row<'_>>,
        after: Option<&Row<'_>>,
        found: &mut Vec<QueryId>,
    ) {
        let first = found.len();
        if before.is_some() || after.is_some() {
            self.unindexed.all(found);
        }
        let mut before = before.map(|row| SlottedRow::new(&self.slots, &self.hasher, row));
        let mut after = after.map(|row| SlottedRow::new(&self.slots, &self.hasher, row));
        for (form, anchored) in &self.forms {
            if let Some(before) = &mut before {
                form.look_up(anchored, before, found);
            }
            if let Some(after) = &mut after {
                // What both images have alike was found in the first.
                let alike = before.as_ref().is_some_and(|before| {
                    form.slots().all(|slot| before.json(slot) == after.json(slot))
                });
                if !alike {
                    form.look_up(anchored, after, found);
                }
            }
        }
        if found.len() > first + 1 {
            found[first..].sort_unstable();
            let mut kept = first + 1;
            for at in first + 1..found.len() {
                if found[at] != found[kept - 1] {
                    found[kept] = found[at];
                    kept += 1;
                }
            }
            found.truncate(kept);
        }
    }
}

impl Form {
    fn slots(&self) -> impl Iterator<Item = SlotId> {
        self.equal.iter().copied().chain(self.range)
    }

    /// All anchors of this form that an image hits.
    fn look_up(&self, anchored: &Anchored, row: &mut SlottedRow<'_, '_>, found: &mut Vec<QueryId>) {
        if self.slots().any(|slot| row.is_nothing(slot)) {
            return;
        }
        if self.equal.iter().any(|slot| row.is_unsure(*slot)) {
            match anchored {
                Anchored::Points(tuples) => tuples.values().for_each(|posting| posting.all(found)),
                Anchored::Ranges(tuples) => tuples.values().for_each(|ranges| ranges.all(found)),
            }
            return;
        }
        // Mostly one; several where an image does not tell which of two values it has.
        let mut hashes = Hashes::One(join_hashes([]));
        for slot in &self.equal {
            hashes = match (hashes, row.values(*slot)) {
                (Hashes::One(hash), [value]) => Hashes::One(join_hashes([hash, value.hash])),
                (hashes, values) => {
                    let join = |hash: &u64| {
                        let hash = *hash;
                        values.iter().map(move |value| join_hashes([hash, value.hash]))
                    };
                    Hashes::Several(hashes.as_slice().iter().flat_map(join).collect())
                }
            };
        }
        for hash in hashes.as_slice() {
            match (anchored, self.range) {
                (Anchored::Points(tuples), _) => {
                    if let Some(posting) = tuples.get(hash) {
                        posting.all(found);
                    }
                }
                (Anchored::Ranges(tuples), Some(slot)) => match tuples.get(hash) {
                    Some(ranges) if row.is_unsure(slot) => ranges.all(found),
                    Some(ranges) => {
                        row.values(slot).iter().for_each(|value| ranges.stab(value.order, found));
                    }
                    None => {}
                },
                (Anchored::Ranges(_), None) => {}
            }
        }
    }
}

/// The hashes of the tuples that an image may have.
enum Hashes {
    One(u64),
    Several(Vec<u64>),
}

impl Hashes {
    fn as_slice(&self) -> &[u64] {
        match self {
            Hashes::One(hash) => std::slice::from_ref(hash),
            Hashes::Several(hashes) => hashes,
        }
    }
}
