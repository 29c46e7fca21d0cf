//! Below which id nothing is staged any more, so that it need not be looked at. Pure.
//!
//! A writer draws its transaction's number and takes a lock on the staging table before it draws an
//! id. So once the last id `L` that was drawn is read, and then the transactions that hold that lock,
//! what may still appear at or below `L` belongs to those. A look that comes after sees all the rest.
//!
//! A transaction that goes on for hours must not make every look walk over all that was staged since:
//! its own rows are the only ones that can appear below the *soft* floor, and not before it has ended.
//! So looks begin at the soft floor, unless one of the old writers has ended by the look's own
//! snapshot: then at the *hard* one, below which nothing can appear.

use std::collections::BTreeMap;

/// Where to look from.
#[derive(Debug, Default)]
pub(crate) struct Floor {
    /// Nothing appears at or below it but from `writers`. `hard <= soft`.
    soft: i64,
    /// Transactions that may have rows at or below the soft floor, each with an id that all of them
    /// are above.
    writers: BTreeMap<i64, i64>,
    /// What becomes the floor once everything is moved that a later look sees.
    next: Option<Next>,
}

#[derive(Debug)]
struct Next {
    mark: i64,
    writers: Vec<i64>,
}

impl Floor {
    /// Looks from here see everything.
    pub(crate) fn hard(&self) -> i64 {
        self.writers.values().copied().min().unwrap_or(self.soft)
    }

    /// Looks from here see everything while none of [`Floor::writers`] has ended.
    pub(crate) fn soft(&self) -> i64 {
        self.soft
    }

    /// The transactions that may have rows below the soft floor.
    pub(crate) fn writers(&self) -> Vec<i64> {
        self.writers.keys().copied().collect()
    }

    /// Whether a mark waits for a look to come to its end.
    pub(crate) fn is_marked(&self) -> bool {
        self.next.is_some()
    }

    /// Notes the last id that was drawn, and the transactions that were writing after that was read.
    pub(crate) fn mark(&mut self, mark: i64, writers: Vec<i64>) {
        if mark > self.soft || !self.writers.is_empty() {
            self.next = Some(Next { mark, writers });
        }
    }

    /// Everything is moved that a look saw which began after the mark.
    pub(crate) fn all_moved(&mut self) {
        let Some(Next { mark, writers }) = self.next.take() else { return };
        // A writer that was not there at the last mark has drawn no id up to it.
        let above = |txid: &i64| self.writers.get(txid).copied().unwrap_or(self.soft);
        self.writers = writers.iter().map(|txid| (*txid, above(txid))).collect();
        self.soft = mark.max(self.soft);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_rises_when_what_was_marked_is_moved() {
        let mut floor = Floor::default();
        floor.mark(100, vec![]);
        assert_eq!((floor.hard(), floor.soft()), (0, 0), "not before it is moved");
        floor.all_moved();
        assert_eq!((floor.hard(), floor.soft()), (100, 100));
    }

    #[test]
    fn a_long_writer_holds_the_hard_floor_only() {
        let mut floor = Floor::default();
        floor.mark(100, vec![]);
        floor.all_moved();
        floor.mark(200, vec![7]);
        floor.all_moved();
        floor.mark(300, vec![7, 8]);
        floor.all_moved();
        assert_eq!((floor.hard(), floor.soft()), (100, 300));
        assert_eq!(floor.writers(), [7, 8]);
        floor.mark(400, vec![8]);
        floor.all_moved();
        assert_eq!((floor.hard(), floor.soft()), (200, 400), "8 came after 200");
        floor.mark(400, vec![]);
        floor.all_moved();
        assert_eq!((floor.hard(), floor.soft()), (400, 400));
    }
}
