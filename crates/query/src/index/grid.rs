//! Many ranges, found in about the time of one value, however many there are.
//!
//! Ranges of about the same length share a *level*, which cuts all numbers into cells a few times as long as
//! they are. A range lies in one cell of its level, or in two beside each other; a value looks into one cell of
//! each level that has ranges about there. Levels go by powers of two, so there are few of them.
//!
//! ```text
//!  level 3  ├───────────────┬───────────────┬───────────────┤   ▔▔ a range
//!             ▔▔▔▔     ▔▔▔▔▔▔▔▔▔▔
//!  level 1  ├───┬───┬───┬───┬───┬───┬───┬───┬───┬───┬───┬───┤
//!            ▔   ▔           ▔▔                  ▔
//!                             ▲ a value
//! ```

use super::cell::Scale;
use super::cells::Cells;
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
    scale: Scale,
    /// No range that came begins before or ends after these: numbers of one size share a level, and a
    /// value of another size need not look into it.
    low: u128,
    high: u128,
    /// By the hashes of their numbers. Two cells of one hash are taken for the same: what is hit for
    /// nothing costs a test.
    cells: Cells,
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

    /// Removes a range that was added. (Another that is rounded alike would go in its place.)
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
        match self {
            Grid::Few(ranges) => ranges.spans(&mut |span: Span| found.push(span.query)),
            Grid::Many(levels) => {
                let cells = levels.0.iter().flat_map(|level| level.cells.iter());
                cells.for_each(|cell| cell.all(found));
            }
        }
    }

    /// The queries of all ranges that a value is in, and of some that it just misses.
    pub(super) fn stab(&self, value: u128, found: &mut Vec<QueryId>) {
        match self {
            Grid::Few(ranges) => ranges.stab(value, found),
            Grid::Many(levels) => {
                for level in &levels.0 {
                    let number = level.scale.cell_of(value);
                    if (level.low..=level.high).contains(&value)
                        && let Some(cell) = level.cells.get(hash_of(number))
                    {
                        cell.stab(value, number, level.scale, found);
                    }
                }
            }
        }
    }
}

impl Levels {
    fn insert(&mut self, span: Span) {
        let (low, high) = span.ends();
        let scale = scale_of(span);
        let known = self.0.iter().position(|level| level.scale == scale);
        let at = known.unwrap_or_else(|| {
            self.0.push(Level { scale, low, high, cells: Cells::default() });
            self.0.len() - 1
        });
        let level = &mut self.0[at];
        (level.low, level.high) = (level.low.min(low), level.high.max(high));
        for number in cells_of(span, scale) {
            level.cells.change(hash_of(number), |cell| cell.insert(span, number, scale));
        }
    }

    fn remove(&mut self, span: Span) {
        let scale = scale_of(span);
        let Some(at) = self.0.iter().position(|level| level.scale == scale) else { return };
        let cells = &mut self.0[at].cells;
        for number in cells_of(span, scale) {
            cells.change(hash_of(number), |cell| cell.remove(span, number, scale));
        }
        if cells.is_empty() {
            self.0.swap_remove(at);
        }
    }
}

/// How long the cells are that a range lies in.
fn scale_of(span: Span) -> Scale {
    let (low, high) = span.ends();
    let bits = u128::BITS - high.saturating_sub(low).leading_zeros();
    Scale { doublings: (bits + CELL_DOUBLINGS).min(u128::BITS) }
}

/// The cells that a range lies in, by their numbers. (One that ends before it begins has no values, wherever
/// it lies.)
fn cells_of(span: Span, scale: Scale) -> impl Iterator<Item = u128> {
    let (low, high) = span.ends();
    let (first, last) = (scale.cell_of(low), scale.cell_of(high));
    std::iter::once(first).chain((first != last).then_some(last))
}

fn hash_of(number: u128) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "both halves are taken")]
    join_hashes([(number >> 64) as u64, number as u64])
}
