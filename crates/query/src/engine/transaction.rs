//! What one transaction did to one result, all its events together.

use std::collections::HashMap;

use crate::delta::{Delta, RowText};
use crate::position::Position;

/// A transaction as the log has it, as far as it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Transaction {
    /// Its first event.
    pub(super) first: Position,
    /// Its last one so far; `first <= last`.
    pub(super) last: Position,
    /// By the database's number.
    pub(super) txid: i64,
}

/// Rows of a result before and after each event. Equal rows are interchangeable, so that chains of
/// changes are found by the texts of rows alone, with and without a key.
#[derive(Debug, Default)]
pub(super) struct NetChanges {
    steps: Vec<(Option<RowText>, Option<RowText>)>,
    bytes: usize,
}

/// There is more than may be held.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooMuch;

impl NetChanges {
    /// Adds what an event did to a row of the result.
    pub(super) fn step(
        &mut self,
        before: Option<RowText>,
        after: Option<RowText>,
        rows_max: usize,
        bytes_max: usize,
    ) -> Result<(), TooMuch> {
        if before == after {
            return Ok(());
        }
        let size = |row: &Option<RowText>| row.as_ref().map_or(0, |row| row.len());
        let bytes = size(&before) + size(&after);
        if self.steps.len() >= rows_max || self.bytes + bytes > bytes_max {
            self.fold();
            // Less than half must be left, or folding would be done for every step from here on.
            if self.steps.len() > rows_max / 2 || self.bytes > bytes_max / 2 {
                return Err(TooMuch);
            }
        }
        self.bytes += bytes;
        self.steps.push((before, after));
        Ok(())
    }

    /// The bytes of its rows.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The difference that remains of all steps.
    pub(super) fn delta(mut self) -> Delta {
        self.fold();
        let mut delta = Delta::default();
        for step in self.steps {
            match step {
                (Some(before), Some(after)) => delta.updated.push((before, after)),
                (Some(before), None) => delta.deleted.push(before),
                (None, Some(after)) => delta.inserted.push(after),
                (None, None) => {}
            }
        }
        delta
    }

    /// Makes one step of each chain: what one step leaves and another takes is never told. Afterwards
    /// no row is both before and after.
    fn fold(&mut self) {
        if self.steps.len() < 2 {
            return;
        }
        let mut takers: HashMap<RowText, Vec<usize>> = HashMap::new();
        for (at, (before, _)) in self.steps.iter().enumerate().rev() {
            if let Some(before) = before {
                takers.entry(before.clone()).or_default().push(at);
            }
        }
        let mut next = vec![None; self.steps.len()];
        let mut is_next = vec![false; self.steps.len()];
        for (at, (_, after)) in self.steps.iter().enumerate() {
            let taker = after.as_ref().and_then(|after| takers.get_mut(after)?.pop());
            if let Some(taker) = taker {
                next[at] = Some(taker);
                is_next[taker] = true;
            }
        }
        // Steps that follow each other in a circle end where they began, and are in no chain.
        let chains = (0..self.steps.len()).filter(|at| !is_next[*at]);
        let mut folded = Vec::new();
        for start in chains {
            let mut end = start;
            while let Some(at) = next[end] {
                end = at;
            }
            let step = (self.steps[start].0.clone(), self.steps[end].1.clone());
            if step != (None, None) {
                folded.push(step);
            }
        }
        let size = |row: &Option<RowText>| row.as_ref().map_or(0, |row| row.len());
        self.bytes = folded.iter().map(|(before, after)| size(before) + size(after)).sum();
        self.steps = folded;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(steps: &[(&str, &str)]) -> Delta {
        let row = |text: &str| (!text.is_empty()).then(|| RowText::from(text));
        let mut net = NetChanges::default();
        for (before, after) in steps {
            net.step(row(before), row(after), 100, 1000).expect("little");
        }
        net.delta()
    }

    #[test]
    fn a_row_that_came_and_went_is_not_told() {
        assert!(net(&[("", "a"), ("a", "b"), ("b", "")]).is_empty());
    }

    #[test]
    fn a_chain_is_one_change() {
        let delta = net(&[("a", "b"), ("b", "c")]);
        assert_eq!(delta.updated, [("a".into(), "c".into())]);
        assert_eq!(delta.len(), 1);
    }

    #[test]
    fn rows_that_swap_their_values_are_as_they_were() {
        assert!(net(&[("a", "b"), ("b", "a")]).is_empty());
        assert!(net(&[("a", ""), ("", "a")]).is_empty());
    }

    #[test]
    fn what_takes_the_place_of_a_deleted_row_is_found_in_any_order() {
        let delta = net(&[("b", ""), ("a", "b")]);
        assert_eq!(delta.deleted, ["a".into()]);
        assert_eq!(delta.len(), 1);
    }

    #[test]
    fn many_changes_of_few_rows_fit_and_many_rows_do_not() {
        let row = |n: usize| Some(RowText::from(n.to_string()));
        let mut one = NetChanges::default();
        for n in 0..1000 {
            one.step(row(n), row(n + 1), 10, 1000).expect("one row");
        }
        assert_eq!(one.delta().updated, [("0".into(), "1000".into())]);
        let mut many = NetChanges::default();
        let told = (0..11).map(|n| many.step(None, row(n), 10, 1000)).collect::<Vec<_>>();
        assert!(told[..10].iter().all(Result::is_ok));
        assert_eq!(told[10], Err(TooMuch));
    }
}
