//! The cells of one level of a grid, by the hashes of their numbers.
//!
//! A table of our own, because a value that looks for its cell among a million waits for memory: a map keeps
//! what it compares apart from what it compares for, which is two places, one after the other. Here a cell lies
//! where its hash says, with the hash, or a few lines of a cache further on, which the processor reads ahead.

use super::cell::Cell;

/// A table is made twice as long when more than so many of so many places are taken.
const TAKEN_MAX: (usize, usize) = (5, 8);
/// Places of the first table.
const PLACES_MIN: usize = 8;

/// Cells that have ranges.
#[derive(Debug, Default)]
pub(super) struct Cells {
    /// None at first, then a power of two. At least one is free.
    places: Vec<CellSlot>,
    taken: usize,
}

/// One line of a cache. It is free if its cell has no ranges.
#[derive(Debug, Default)]
#[repr(align(64))]
struct CellSlot {
    hash: u64,
    cell: Cell,
}

impl Cells {
    /// The cell of this hash, if it has ranges.
    pub(super) fn get(&self, hash: u64) -> Option<&Cell> {
        self.find(hash).map(|at| &self.places[at].cell)
    }

    /// Changes the cell of this hash, which has no ranges if it was not there. One that has none after it is
    /// gone.
    pub(super) fn change(&mut self, hash: u64, change: impl FnOnce(&mut Cell)) {
        let at = self.find(hash).unwrap_or_else(|| self.free_place(hash));
        let place = &mut self.places[at];
        let was_free = place.cell.is_empty();
        place.hash = hash;
        change(&mut place.cell);
        match (was_free, place.cell.is_empty()) {
            (true, false) => self.taken += 1,
            (false, true) => self.close_gap(at),
            (true, true) | (false, false) => {}
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.taken == 0
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Cell> {
        self.places.iter().map(|place| &place.cell).filter(|cell| !cell.is_empty())
    }

    fn find(&self, hash: u64) -> Option<usize> {
        let mut at = self.home(hash);
        loop {
            let place = self.places.get(at)?;
            if place.cell.is_empty() {
                return None;
            }
            if place.hash == hash {
                return Some(at);
            }
            at = self.next(at);
        }
    }

    /// Where a cell comes that is not there.
    fn free_place(&mut self, hash: u64) -> usize {
        let (taken, of) = TAKEN_MAX;
        if (self.taken + 1) * of > self.places.len() * taken {
            self.grow();
        }
        let mut at = self.home(hash);
        while !self.places[at].cell.is_empty() {
            at = self.next(at);
        }
        at
    }

    fn grow(&mut self) {
        let length = (self.places.len() * 2).max(PLACES_MIN);
        let longer = std::iter::repeat_with(CellSlot::default).take(length).collect();
        for place in std::mem::replace(&mut self.places, longer) {
            if !place.cell.is_empty() {
                let mut at = self.home(place.hash);
                while !self.places[at].cell.is_empty() {
                    at = self.next(at);
                }
                self.places[at] = place;
            }
        }
    }

    /// Moves cells up that a cell was in the way of, so that all are found from their homes on.
    fn close_gap(&mut self, mut gap: usize) {
        self.taken -= 1;
        let mut at = self.next(gap);
        while !self.places[at].cell.is_empty() {
            let home = self.home(self.places[at].hash);
            // How far it is from its home, and from the gap: it may move there if its home is not between.
            let mask = self.places.len() - 1;
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(gap) & mask {
                self.places.swap(gap, at);
                gap = at;
            }
            at = self.next(at);
        }
    }

    fn home(&self, hash: u64) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "the lower bits are what is wanted")]
        let hash = hash as usize;
        hash & self.places.len().wrapping_sub(1)
    }

    fn next(&self, at: usize) -> usize {
        (at + 1) & (self.places.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::cell::Scale;
    use super::super::ranges::Span;
    use super::*;
    use crate::engine::QueryId;

    const SCALE: Scale = Scale { doublings: 4 };

    proptest! {
        /// Hashes of a few low bits, so that most cells are not at home.
        #[test]
        fn a_cell_is_found_whatever_came_and_went_about_it(
            steps in proptest::collection::vec((any::<bool>(), 0_u64..6, 0_u64..8), 1..400),
        ) {
            let mut cells = Cells::default();
            let mut model: BTreeMap<u64, u32> = BTreeMap::new();
            for (adds, high, low) in steps {
                let (hash, span) = (high << 32 | low, Span::new(1, 2, QueryId(7)));
                let count = model.entry(hash).or_default();
                if adds {
                    cells.change(hash, |cell| cell.insert(span, 0, SCALE));
                    *count += 1;
                } else {
                    cells.change(hash, |cell| cell.remove(span, 0, SCALE));
                    *count = count.saturating_sub(1);
                }
                model.retain(|_, count| *count > 0);
                prop_assert_eq!(cells.iter().count(), model.len());
                prop_assert_eq!(cells.is_empty(), model.is_empty());
                for hash in (0..6).flat_map(|high| (0..8).map(move |low| high << 32 | low)) {
                    let mut found = Vec::new();
                    if let Some(cell) = cells.get(hash) {
                        cell.all(&mut found);
                    }
                    let expected = model.get(&hash).map_or(0, |count| *count as usize);
                    prop_assert_eq!(found.len(), expected, "the cell of {:x}", hash);
                }
            }
        }
    }

    #[test]
    fn a_place_is_one_line_of_a_cache() {
        assert_eq!(size_of::<CellSlot>(), 64);
    }
}
