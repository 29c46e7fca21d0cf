//! The difference between two results.
//!
//! Rows are compared by their texts. Rows that changed are told as such where it is known which
//! columns tell rows apart; elsewhere one is gone and another is new.

use std::collections::HashMap;

use crate::delta::{Delta, Places, RowText};
use crate::row::Row;

/// The difference between two results without an order.
pub fn unordered(old: &[RowText], new: &[RowText], identity: &[Box<str>]) -> Delta {
    let pairs = Pairs::new(old, new, identity);
    let mut delta = Delta::default();
    for (from, to) in pairs.to_of.iter().enumerate() {
        match to {
            Some(to) if old[from] == new[*to] => {}
            Some(to) => delta.updated.push((old[from].clone(), new[*to].clone())),
            None => delta.deleted.push(old[from].clone()),
        }
    }
    let added = new.iter().zip(&pairs.is_taken).filter(|(_, taken)| !**taken);
    delta.inserted = added.map(|(row, _)| row.clone()).collect();
    delta
}

/// The difference between two results in their order. The longest run of rows that are the same, and
/// follow each other still, stays; all others that are in both have moved.
pub fn ordered(old: &[RowText], new: &[RowText], identity: &[Box<str>]) -> Delta {
    let pairs = Pairs::new(old, new, identity);
    let same = pairs.to_of.iter().enumerate();
    let same = same.filter_map(|(from, to)| to.filter(|to| old[from] == new[*to]));
    let mut stays = vec![false; new.len()];
    for to in longest_increasing(&same.collect::<Vec<_>>()) {
        stays[to] = true;
    }
    let mut delta = Delta::default();
    let mut places = Places::default();
    // Where the taken ones are among each other in the new result.
    let mut rank = vec![0; new.len()];
    let mut taken = 0;
    for (to, is_taken) in pairs.is_taken.iter().enumerate() {
        rank[to] = taken;
        if *is_taken {
            taken += 1;
        } else {
            places.inserted.push(index(to));
            delta.inserted.push(new[to].clone());
        }
    }
    let mut kept = 0;
    let mut moved = Vec::new();
    for (from, to) in pairs.to_of.iter().enumerate() {
        let Some(to) = to else {
            places.deleted.push(index(from));
            delta.deleted.push(old[from].clone());
            continue;
        };
        if !stays[*to] {
            moved.push((rank[*to], kept, from, *to));
        }
        kept += 1;
    }
    moved.sort_unstable();
    for (at, kept, from, to) in moved {
        places.updated.push((index(kept), index(at)));
        delta.updated.push((old[from].clone(), new[to].clone()));
    }
    delta.places = Some(places);
    delta
}

/// Results are far smaller than what an index can say.
fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// Which row of the old result is which of the new one.
struct Pairs {
    to_of: Vec<Option<usize>>,
    is_taken: Vec<bool>,
}

impl Pairs {
    fn new(old: &[RowText], new: &[RowText], identity: &[Box<str>]) -> Pairs {
        let mut pairs = Pairs { to_of: vec![None; old.len()], is_taken: vec![false; new.len()] };
        let mut texts: HashMap<&str, Vec<usize>> = HashMap::with_capacity(new.len());
        for (to, row) in new.iter().enumerate().rev() {
            texts.entry(row).or_default().push(to);
        }
        for (from, row) in old.iter().enumerate() {
            let to = texts.get_mut(&**row).and_then(Vec::pop);
            if let Some(to) = to {
                pairs.pair(from, to);
            }
        }
        if !identity.is_empty() {
            pairs.pair_by(identity, old, new);
        }
        pairs
    }

    fn pair(&mut self, from: usize, to: usize) {
        self.to_of[from] = Some(to);
        self.is_taken[to] = true;
    }

    /// Pairs rows that are left and are told apart by the same values, if no other has these.
    fn pair_by(&mut self, identity: &[Box<str>], old: &[RowText], new: &[RowText]) {
        let left = self.to_of.iter().enumerate().filter(|(_, to)| to.is_none());
        let from = unique(identity, left.map(|(from, _)| (from, &old[from])));
        let left = self.is_taken.iter().enumerate().filter(|(_, taken)| !**taken);
        let to = unique(identity, left.map(|(to, _)| (to, &new[to])));
        for (values, from) in from {
            if let (Some(from), Some(Some(to))) = (from, to.get(&values)) {
                self.pair(from, *to);
            }
        }
    }
}

/// Rows by what tells them apart; none where it is the same of several.
fn unique<'a>(
    identity: &[Box<str>],
    rows: impl Iterator<Item = (usize, &'a RowText)>,
) -> HashMap<Vec<&'a str>, Option<usize>> {
    let mut found = HashMap::new();
    for (at, row) in rows {
        let Ok(members) = Row::parse(row.as_bytes()) else { continue };
        let values = identity.iter().map(|column| members.get(column).map(|value| value.get()));
        if let Some(values) = values.collect::<Option<Vec<_>>>() {
            found.entry(values).and_modify(|known| *known = None).or_insert(Some(at));
        }
    }
    found
}

/// Values of a longest increasing subsequence. The values are different.
fn longest_increasing(values: &[usize]) -> Vec<usize> {
    // Of each length, the run that ends lowest: where its end is in `values`.
    let mut ends: Vec<usize> = Vec::new();
    let mut before = vec![None; values.len()];
    for (at, value) in values.iter().enumerate() {
        let length = ends.partition_point(|end| values[*end] < *value);
        before[at] = length.checked_sub(1).map(|shorter| ends[shorter]);
        match ends.get_mut(length) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let mut run = Vec::with_capacity(ends.len());
    let mut at = ends.last().copied();
    while let Some(end) = at {
        run.push(values[end]);
        at = before[end];
    }
    run
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn rows(of: &[(u8, u8)]) -> Vec<RowText> {
        of.iter().map(|(id, n)| format!("{{\"id\":{id},\"n\":{n}}}").into()).collect()
    }

    fn sorted(mut rows: Vec<RowText>) -> Vec<RowText> {
        rows.sort();
        rows
    }

    proptest! {
        // Q9.
        #[test]
        fn a_difference_leads_from_one_result_to_the_other(
            a in vec((0_u8..8, 0_u8..3), 0..12),
            b in vec((0_u8..8, 0_u8..3), 0..12),
            by_id: bool,
        ) {
            let (a, b) = (rows(&a), rows(&b));
            let identity = if by_id { vec![Box::from("id")] } else { Vec::new() };
            let delta = unordered(&a, &b, &identity);
            prop_assert_eq!(sorted(delta.apply(&a).expect("of this result")), sorted(b.clone()));
            let delta = ordered(&a, &b, &identity);
            prop_assert_eq!(&delta.apply(&a).expect("of this result"), &b);
            if a == b {
                prop_assert!(delta.is_empty());
            }
        }

        #[test]
        fn nothing_is_told_of_rows_that_are_in_both(
            a in vec((0_u8..8, 0_u8..3), 0..12),
            b in vec((0_u8..8, 0_u8..3), 0..12),
        ) {
            let (a, b) = (rows(&a), rows(&b));
            let delta = unordered(&a, &b, &["id".into()]);
            let gone = delta.deleted.iter().chain(delta.updated.iter().map(|(old, _)| old));
            let came = delta.inserted.iter().chain(delta.updated.iter().map(|(_, new)| new));
            let came = came.collect::<Vec<_>>();
            for row in gone {
                prop_assert!(!came.contains(&row));
            }
        }
    }

    #[test]
    fn a_row_with_the_same_key_is_an_update_and_one_that_moved_is_told_alone() {
        let old = rows(&[(1, 0), (2, 0), (3, 0), (4, 0)]);
        let new = rows(&[(4, 0), (1, 0), (2, 1), (3, 0)]);
        let delta = ordered(&old, &new, &["id".into()]);
        assert_eq!(delta.len(), 2);
        let places = delta.places.expect("an order");
        assert_eq!(places.updated, [(3, 0), (1, 2)]);
    }

    #[test]
    fn keys_that_are_not_unique_pair_nothing() {
        let delta = unordered(&rows(&[(1, 0), (1, 1)]), &rows(&[(1, 2)]), &["id".into()]);
        assert_eq!((delta.deleted.len(), delta.updated.len(), delta.inserted.len()), (2, 0, 1));
    }
}
