//! How many events each watched table had, until that is written down: a row of counters that every
//! batch changed would bloat.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Events by table, and the position of the last.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Held for a moment only, never across a wait.
    tables: Mutex<HashMap<String, (i64, i64)>>,
}

/// What was counted, by column.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) tables: Vec<String>,
    pub(crate) events: Vec<i64>,
    pub(crate) lasts: Vec<i64>,
}

impl Tally {
    /// So many events of a table came into the log, the last of them there.
    pub(crate) fn add(&self, table: &str, events: i64, last: i64) {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        match tables.get_mut(table) {
            Some((all, position)) => (*all, *position) = (*all + events, last.max(*position)),
            None => drop(tables.insert(table.to_owned(), (events, last))),
        }
    }

    /// Takes what was counted so far.
    pub(crate) fn take(&self) -> Counted {
        let taken =
            std::mem::take(&mut *self.tables.lock().unwrap_or_else(PoisonError::into_inner));
        let mut counted = Counted::default();
        for (table, (events, last)) in taken {
            counted.tables.push(table);
            counted.events.push(events);
            counted.lasts.push(last);
        }
        counted
    }

    /// Gives back what could not be written down.
    pub(crate) fn give_back(&self, counted: &Counted) {
        for (index, table) in counted.tables.iter().enumerate() {
            self.add(table, counted.events[index], counted.lasts[index]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_is_counted_once() {
        let tally = Tally::default();
        tally.add("orders", 2, 7);
        let counted = tally.take();
        assert_eq!(tally.take(), Counted::default());
        tally.add("orders", 1, 9);
        tally.give_back(&counted);
        let all = tally.take();
        assert_eq!((all.events, all.lasts), (vec![3], vec![9]));
    }
}
