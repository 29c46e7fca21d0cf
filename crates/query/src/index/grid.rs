//! Many ranges, found in about the time of one value, however many there are.
//!
//! Ranges of about the same length share a *level*, which cuts all numbers into cells a few times as long as
//! they are. A range lies in one cell of its level, or in two beside each other; a value looks into one cell of
//! each level. Levels go by powers of two, so there are few of them. A cell is a tree of ranges, mostly with a
//! handful of them: where very many overlap, it is the tree that keeps them apart.
//!
//! ```text
//!  level 3  ├───────────────┬───────────────┬───────────────┤   ▔▔ a range
//!             ▔▔▔▔     ▔▔▔▔▔▔▔▔▔▔
//!  level 1  ├───┬───┬───┬───┬───┬───┬───┬───┬───┬───┬───┬───┤
//!            ▔   ▔           ▔▔                  ▔
//!                             ▲ a value
//! ```

use super::postings::ByHash;
use super::ranges::{Ranges, Span};
use super::slots::join_hashes;
use crate::engine::QueryId;

/// A cell is so many doublings longer than the longest ranges of its level: few ranges lie in two.
const CELL_DOUBLINGS: u32 = 2;

/// Ranges, each as often as it was added.
#[derive(Debug)]
pub(super) enum Grid {
    /// So few that a tree is as fast. Most tuples of values have one range: they shall not pay for more.
    Few(Ranges),
    /// It stays so until none is left.
    Many(Box<Levels>),
}

/// Those that have ranges.
#[derive(Debug, Default)]
pub(super) struct Levels(Vec<Level>);

#[derive(Debug)]
struct Level {
    /// That a cell is long.
    doublings: u32,
    /// No range that came begins before or ends after these: numbers of one size share a level, and a
    /// value of another size need not look into it.
    low: u128,
    high: u128,
    cells: ByHash<Ranges>,
}

impl Default for Grid {
    fn default() -> Grid {
        Grid::Few(Ranges::default())
    }
}

impl Grid {
    pub(super) fn insert(&mut self, span: Span) {
        match self {
            Grid::Many(levels) => levels.insert(span),
            Grid::Few(ranges) => {
                ranges.insert(span);
                if ranges.is_large() {
                    let mut levels = Box::<Levels>::default();
                    ranges.spans(&mut |span| levels.insert(span));
                    *self = Grid::Many(levels);
                }
            }
        }
    }

    pub(super) fn remove(&mut self, span: Span) {
        match self {
            Grid::Few(ranges) => ranges.remove(span),
            Grid::Many(levels) => levels.remove(span),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Grid::Few(ranges) => ranges.is_empty(),
            Grid::Many(levels) => levels.0.is_empty(),
        }
    }

    /// The queries of all ranges; one that lies in two cells is there twice.
    pub(super) fn all(&self, found: &mut Vec<QueryId>) {
        let mut note = |span: Span| found.push(span.query);
        match self {
            Grid::Few(ranges) => ranges.spans(&mut note),
            Grid::Many(levels) => {
                levels.0.iter().for_each(|level| {
                    level.cells.values().for_each(|ranges| ranges.spans(&mut note));
                });
            }
        }
    }

    /// The queries of all ranges that a value is in.
    pub(super) fn stab(&self, value: u128, found: &mut Vec<QueryId>) {
        match self {
            Grid::Few(ranges) => ranges.stab(value, found),
            Grid::Many(levels) => {
                for level in &levels.0 {
                    if (level.low..=level.high).contains(&value)
                        && let Some(ranges) = level.cells.get(&cell_hash(value, level.doublings))
                    {
                        ranges.stab(value, found);
                    }
                }
            }
        }
    }
}

impl Levels {
    fn insert(&mut self, span: Span) {
        let (low, high) = span.ends();
        let (doublings, cells_of_span) = place(span);
        let known = self.0.iter().position(|level| level.doublings == doublings);
        let at = known.unwrap_or_else(|| {
            self.0.push(Level { doublings, low, high, cells: ByHash::default() });
            self.0.len() - 1
        });
        let level = &mut self.0[at];
        (level.low, level.high) = (level.low.min(low), level.high.max(high));
        for hash in cells_of_span {
            level.cells.entry(hash).or_default().insert(span);
        }
    }

    fn remove(&mut self, span: Span) {
        let (doublings, cells_of_span) = place(span);
        let Some(at) = self.0.iter().position(|level| level.doublings == doublings) else { return };
        let cells = &mut self.0[at].cells;
        for hash in cells_of_span {
            let Some(ranges) = cells.get_mut(&hash) else { continue };
            ranges.remove(span);
            if ranges.is_empty() {
                cells.remove(&hash);
            }
        }
        if cells.is_empty() {
            self.0.swap_remove(at);
        }
    }
}

/// The level of a range, and the cells that it lies in, by their hashes. Two cells of one hash are taken for
/// the same: ranges know their ends. (One that ends before it begins has no values, wherever it lies.)
fn place(span: Span) -> (u32, impl Iterator<Item = u64>) {
    let (low, high) = span.ends();
    let doublings =
        (u128::BITS - high.saturating_sub(low).leading_zeros() + CELL_DOUBLINGS).min(u128::BITS);
    let first = cell_hash(low, doublings);
    let last = cell_hash(high, doublings);
    (doublings, std::iter::once(first).chain((first != last).then_some(last)))
}

fn cell_hash(value: u128, doublings: u32) -> u64 {
    let cell = value.checked_shr(doublings).unwrap_or_default();
    #[expect(clippy::cast_possible_truncation, reason = "both halves are taken")]
    join_hashes([(cell >> 64) as u64, cell as u64])
}
