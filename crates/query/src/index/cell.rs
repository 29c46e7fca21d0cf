//! The ranges of one cell of a grid.
//!
//! Most cells have a handful. Those lie in the cell itself, by where they begin and end within it, in so few
//! bits that with its hash a cell is one line of a cache: what looks at a cell among a million waits for memory
//! once. A bound is rounded down, as a value that is compared with it is: a range that a value is
//! in is found, and one that it just misses may be.

use super::ranges::{Ranges, Span};
use crate::engine::QueryId;

/// Ranges that lie in the cell itself, at most.
const FEW_MAX: usize = 4;

/// Bits of a place within a cell.
const PLACE_BITS: u32 = 30;

/// Where cells of one length begin, and how places within them are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scale {
    /// That a cell is long; from 128 on it has all numbers.
    pub(super) doublings: u32,
}

impl Scale {
    /// The number of the cell that has a number.
    pub(super) fn cell_of(self, number: u128) -> u128 {
        number.checked_shr(self.doublings).unwrap_or_default()
    }

    /// Where a number lies in a cell; the nearest place, if it lies in another.
    fn place(self, number: u128, cell: u128) -> u32 {
        let start = cell.checked_shl(self.doublings).unwrap_or_default();
        let last = 1_u128.checked_shl(self.doublings).map_or(u128::MAX, |length| length - 1);
        let place = number.saturating_sub(start).min(last);
        let place = place >> self.doublings.min(u128::BITS).saturating_sub(PLACE_BITS);
        u32::try_from(place).unwrap_or(u32::MAX)
    }
}

/// A range as far as it lies in a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    low: u32,
    high: u32,
    query: QueryId,
}

impl Part {
    /// What stands where there is none.
    const NONE: Part = Part { low: u32::MAX, high: 0, query: QueryId(0) };

    fn of(span: Span, cell: u128, scale: Scale) -> Part {
        let (low, high) = span.ends();
        Part { low: scale.place(low, cell), high: scale.place(high, cell), query: span.query }
    }

    /// As a range of places.
    fn span(self) -> Span {
        Span::new(self.low.into(), self.high.into(), self.query)
    }
}

/// Ranges, each as often as it was added.
#[derive(Debug)]
pub(super) enum Cell {
    /// The first so many of these.
    Few(u32, [Part; FEW_MAX]),
    /// Where very many overlap it is a tree that keeps them apart. It stays so until none is left.
    Many(Box<Ranges>),
}

impl Default for Cell {
    fn default() -> Cell {
        Cell::Few(0, [Part::NONE; FEW_MAX])
    }
}

impl Cell {
    /// Adds a range to the cell of this number.
    pub(super) fn insert(&mut self, span: Span, cell: u128, scale: Scale) {
        let part = Part::of(span, cell, scale);
        match self {
            Cell::Many(ranges) => ranges.insert(part.span()),
            Cell::Few(count, parts) => match parts.get_mut(*count as usize) {
                Some(free) => {
                    *free = part;
                    *count += 1;
                }
                None => {
                    let mut ranges = Box::<Ranges>::default();
                    parts.iter().for_each(|known| ranges.insert(known.span()));
                    ranges.insert(part.span());
                    *self = Cell::Many(ranges);
                }
            },
        }
    }

    pub(super) fn remove(&mut self, span: Span, cell: u128, scale: Scale) {
        let part = Part::of(span, cell, scale);
        match self {
            Cell::Many(ranges) => ranges.remove(part.span()),
            Cell::Few(count, parts) => {
                let there = &mut parts[..*count as usize];
                if let Some(at) = there.iter().position(|known| *known == part) {
                    there.swap(at, *count as usize - 1);
                    *count -= 1;
                }
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Cell::Few(count, _) => *count == 0,
            Cell::Many(ranges) => ranges.is_empty(),
        }
    }

    pub(super) fn all(&self, found: &mut Vec<QueryId>) {
        match self {
            Cell::Few(count, parts) => {
                found.extend(parts[..*count as usize].iter().map(|part| part.query));
            }
            Cell::Many(ranges) => ranges.spans(&mut |span: Span| found.push(span.query)),
        }
    }

    /// The queries of all ranges that a value of this cell may be in.
    pub(super) fn stab(&self, value: u128, cell: u128, scale: Scale, found: &mut Vec<QueryId>) {
        let place = scale.place(value, cell);
        match self {
            Cell::Few(count, parts) => {
                let there = parts[..*count as usize].iter();
                let hit = there.filter(|part| part.low <= place && place <= part.high);
                found.extend(hit.map(|part| part.query));
            }
            Cell::Many(ranges) => ranges.stab(place.into(), found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_keep_the_order_of_numbers_at_every_length() {
        for doublings in [0, 1, 29, 30, 31, 64, 127, 128, 130] {
            let scale = Scale { doublings };
            for number in [0, 1, 7, 1 << 29, (1 << 31) + 5, u128::from(u64::MAX), u128::MAX] {
                let cell = scale.cell_of(number);
                let place = scale.place(number, cell);
                assert!(
                    scale.place(number.saturating_sub(1), cell) <= place,
                    "{doublings} {number}"
                );
                assert!(
                    place <= scale.place(number.saturating_add(1), cell),
                    "{doublings} {number}"
                );
            }
        }
    }
}
