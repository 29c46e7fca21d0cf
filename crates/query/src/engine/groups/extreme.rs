//! The least or the greatest of a group's values, as long as it can be known.
//!
//! Of the values only the first few are held, each with how many have it:
//!
//! ```text
//! 3 ×2   5 ×1   8 ×(at least) 1  |  nothing is known of what comes here
//! ```
//!
//! All values before the last that is held are held, so that when one goes the next is the extreme.
//! When none is left, the group must be read again.

use std::cmp::Ordering;

use crate::engine::state::StateError;
use crate::value::{Collation, Constant};

/// Values that are held, at most.
const VALUES_MAX: usize = 16;

/// See the [module documentation](self).
#[derive(Debug, Clone, Default)]
pub(super) struct Extreme {
    /// Those that come first, in order.
    held: Vec<ExtremeValue>,
}

#[derive(Debug, Clone)]
struct ExtremeValue {
    value: Constant,
    json: Box<str>,
    /// How many rows have it; of the last one it may be more.
    count: u64,
}

/// Which extreme it is, of which values.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    pub(super) greatest: bool,
    pub(super) collation: Collation,
}

impl Kind {
    fn compare(self, left: &Constant, right: &Constant) -> Ordering {
        let order = left.compare(right, self.collation);
        if self.greatest { order.reverse() } else { order }
    }
}

impl Extreme {
    /// What was read: one row has it, and others may.
    pub(super) fn read(value: Constant, json: &str) -> Extreme {
        Extreme { held: vec![ExtremeValue { value, json: json.into(), count: 1 }] }
    }

    /// The extreme, of a group that has values.
    pub(super) fn json(&self) -> Result<&str, StateError> {
        self.held.first().map(|held| &*held.json).ok_or(StateError::Dry)
    }

    fn find(&self, value: &Constant, kind: Kind) -> Result<usize, usize> {
        self.held.binary_search_by(|held| kind.compare(&held.value, value))
    }

    /// A row has a value, beside others.
    pub(super) fn add(&mut self, value: Constant, json: &str, others: u64, kind: Kind) {
        let all_held = self.held.iter().map(|held| held.count).sum::<u64>() == others;
        match self.find(&value, kind) {
            Ok(place) => self.held[place].count += 1,
            Err(place) if place < self.held.len() || all_held => {
                self.held.insert(place, ExtremeValue { value, json: json.into(), count: 1 });
                self.held.truncate(VALUES_MAX);
            }
            Err(_) => {}
        }
    }

    /// A row has a value no longer; others still do.
    pub(super) fn remove(
        &mut self,
        value: &Constant,
        others: u64,
        kind: Kind,
    ) -> Result<(), StateError> {
        if others == 0 {
            self.held.clear();
            return Ok(());
        }
        match self.find(value, kind) {
            Ok(place) => {
                self.held[place].count -= 1;
                if self.held[place].count == 0 {
                    self.held.remove(place);
                }
                Ok(())
            }
            Err(place) if place < self.held.len() => Err(StateError::Unsure),
            Err(_) => Ok(()),
        }
    }
}
