//! Rows in an order, some of which are seen, and what became of them since they were last told.
//!
//! ```text
//! rows   a  b  c  d  e  f  g        in order
//!           |skip |  take |
//!              told: c d e          b is deleted → a c d e f g → told: DELETE c, INSERT f
//! ```
//!
//! Rows that came and went are remembered beside the list. By their places in the order it is known
//! where they were and are, so that telling costs as much as there is to tell.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::delta::{Delta, Places, RowText};
use crate::plan::Direction;
use crate::value::{Constant, Value};

/// A row: what it is sorted by, and what is seen of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) sort: Box<[Option<Constant>]>,
    pub(crate) text: RowText,
}

impl Entry {
    /// Bytes it keeps, roughly.
    fn bytes(&self) -> usize {
        let value = |value: &Option<Constant>| match value {
            Some(Value::Text(text)) => text.len(),
            Some(Value::Bytes(bytes)) => bytes.len(),
            Some(Value::Decimal(decimal)) => decimal.precision(),
            _ => 0,
        };
        let values: usize = self.sort.iter().map(value).sum();
        size_of::<Entry>()
            + 4 * size_of::<usize>()
            + self.text.len()
            + values
            + self.sort.len() * size_of::<Option<Constant>>()
    }
}

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct Sorted {
    directions: Box<[Direction]>,
    /// The sort keys that tell rows apart; empty if none do.
    identity: Box<[usize]>,
    skip: usize,
    take: usize,
    rows: Vec<Arc<Entry>>,
    /// What was told in its order, if that does not follow from the list and the two below.
    told: Option<Vec<Arc<Entry>>>,
    /// Rows that were there when it was last told, and are not; in order.
    gone: Vec<Arc<Entry>>,
    /// Rows that are there and were not; in order.
    fresh: Vec<Arc<Entry>>,
    bytes: usize,
}

impl Sorted {
    pub(crate) fn new(
        directions: Box<[Direction]>,
        identity: Box<[usize]>,
        skip: usize,
        take: Option<usize>,
    ) -> Sorted {
        Sorted {
            directions,
            identity,
            skip,
            take: take.unwrap_or(usize::MAX - skip),
            rows: Vec::new(),
            told: Some(Vec::new()),
            gone: Vec::new(),
            fresh: Vec::new(),
            bytes: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn last(&self) -> Option<&Arc<Entry>> {
        self.rows.last()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The rows that are seen.
    pub(crate) fn seen(&self) -> &[Arc<Entry>] {
        seen(&self.rows, self.skip, self.take)
    }

    /// The order of two rows as the database has it.
    pub(crate) fn compare(&self, left: &Entry, right: &Entry) -> Ordering {
        self.compare_keys(&left.sort, &right.sort)
    }

    /// The same, of what they are sorted by.
    pub(crate) fn compare_keys(
        &self,
        left: &[Option<Constant>],
        right: &[Option<Constant>],
    ) -> Ordering {
        let pairs = left.iter().zip(right);
        let mut orders = self
            .directions
            .iter()
            .zip(pairs)
            .map(|(direction, (left, right))| direction.compare(left.as_ref(), right.as_ref()));
        orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }

    /// The same for rows that are equal in all that sorts: those that look different are.
    fn total(&self, left: &Entry, right: &Entry) -> Ordering {
        self.compare(left, right).then_with(|| left.text.cmp(&right.text))
    }

    /// Where a row is, or would be.
    fn find(&self, rows: &[Arc<Entry>], entry: &Entry) -> Result<usize, usize> {
        rows.binary_search_by(|row| self.total(row, entry))
    }

    /// Whether a row is at or before another.
    pub(crate) fn reaches(&self, entry: &Entry, edge: &Entry) -> bool {
        self.total(entry, edge).is_le()
    }

    /// Puts rows in the place of all that are there, if they are in order. What was told stays told.
    pub(crate) fn replace(&mut self, mut rows: Vec<Arc<Entry>>) -> bool {
        if !rows.windows(2).all(|pair| self.compare(&pair[0], &pair[1]).is_le()) {
            return false;
        }
        rows.sort_by(|left, right| self.total(left, right));
        self.told = Some(self.told_before());
        self.gone.clear();
        self.fresh.clear();
        self.bytes = rows.iter().map(|row| row.bytes()).sum();
        self.rows = rows;
        true
    }

    pub(crate) fn insert(&mut self, entry: Arc<Entry>) {
        self.bytes += entry.bytes();
        let place = self.find(&self.rows, &entry).unwrap_or_else(|place| place);
        self.rows.insert(place, Arc::clone(&entry));
        if self.told.is_some() {
            return;
        }
        if let Ok(place) = self.find(&self.gone, &entry) {
            self.gone.remove(place);
        } else {
            let place = self.find(&self.fresh, &entry).unwrap_or_else(|place| place);
            self.fresh.insert(place, entry);
        }
    }

    /// Whether the row was there.
    pub(crate) fn remove(&mut self, entry: &Entry) -> bool {
        let Ok(place) = self.find(&self.rows, entry) else { return false };
        let row = self.rows.remove(place);
        self.removed(row);
        true
    }

    /// Drops the last rows.
    pub(crate) fn truncate(&mut self, length: usize) {
        while self.rows.len() > length
            && let Some(row) = self.rows.pop()
        {
            self.removed(row);
        }
    }

    fn removed(&mut self, row: Arc<Entry>) {
        self.bytes = self.bytes.saturating_sub(row.bytes());
        if self.told.is_some() {
            return;
        }
        if let Ok(place) = self.find(&self.fresh, &row) {
            self.fresh.remove(place);
        } else {
            let place = self.find(&self.gone, &row).unwrap_or_else(|place| place);
            self.gone.insert(place, row);
        }
    }

    /// What was told, in its order.
    fn told_before(&mut self) -> Vec<Arc<Entry>> {
        if let Some(told) = self.told.take() {
            return told;
        }
        let mut fresh = self.fresh.iter().peekable();
        let stayed = self.rows.iter().filter(|row| {
            let came = fresh.peek().is_some_and(|it| self.total(it, row).is_eq());
            if came {
                fresh.next();
            }
            !came
        });
        let mut rows: Vec<Arc<Entry>> = stayed.chain(&self.gone).map(Arc::clone).collect();
        rows.sort_by(|left, right| self.total(left, right));
        seen(&rows, self.skip, self.take).to_vec()
    }

    /// The difference between what was told and what is seen, which is told by that.
    pub(crate) fn tell(&mut self) -> Delta {
        let (left, came) = match self.told.take() {
            Some(told) => self.difference(&told),
            None => self.news(),
        };
        self.gone.clear();
        self.fresh.clear();
        self.delta(left, came)
    }

    /// All that differs between what was told and what is seen.
    fn difference(&self, told: &[Arc<Entry>]) -> (Vec<RankedRow>, Vec<RankedRow>) {
        let (mut left, mut came) = (Vec::new(), Vec::new());
        let seen = self.seen();
        let (mut old, mut new) = (0, 0);
        loop {
            let order = match (told.get(old), seen.get(new)) {
                (None, None) => return (left, came),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(was), Some(is)) => self.total(was, is),
            };
            if order.is_lt() {
                left.push((old, Arc::clone(&told[old])));
            } else if order.is_gt() {
                came.push((new, Arc::clone(&seen[new])));
            }
            old += usize::from(order.is_le());
            new += usize::from(order.is_ge());
        }
    }

    /// The same, from what came and went. Rows that stayed are numbered by themselves: what is seen of
    /// them is a range before and a range now.
    fn news(&self) -> (Vec<RankedRow>, Vec<RankedRow>) {
        let fresh_places = self.places_of_fresh();
        let gone_places = self.places_of_gone(&fresh_places);
        let stayed = self.rows.len() - self.fresh.len();
        let end = self.skip + self.take;
        let range = |places: &[usize], all: usize| {
            let stayed_before = |place: usize| {
                place.min(all) - places.iter().take_while(|other| **other < place).count()
            };
            (stayed_before(self.skip), stayed_before(end))
        };
        let old_range = range(&gone_places, stayed + self.gone.len());
        let new_range = range(&fresh_places, self.rows.len());
        let is_seen = |place: usize| (self.skip..end).contains(&place);
        let placed = |places: &[usize], rows: &[Arc<Entry>]| -> Vec<RankedRow> {
            let rows = places.iter().zip(rows).filter(|(place, _)| is_seen(**place));
            rows.map(|(place, row)| (place - self.skip, Arc::clone(row))).collect()
        };
        let mut left = placed(&gone_places, &self.gone);
        let mut came = placed(&fresh_places, &self.fresh);
        for (from, of, places, out) in [
            (old_range, new_range, &gone_places, &mut left),
            (new_range, old_range, &fresh_places, &mut came),
        ] {
            let before = from.0..from.1.min(of.0);
            let after = from.0.max(of.1)..from.1;
            for number in before.chain(after) {
                let row = &self.rows[place_of(number, &fresh_places)];
                out.push((place_of(number, places) - self.skip, Arc::clone(row)));
            }
            out.sort_by_key(|(place, _)| *place);
        }
        (left, came)
    }

    /// Where rows that came are.
    fn places_of_fresh(&self) -> Vec<usize> {
        let mut places: Vec<usize> = Vec::with_capacity(self.fresh.len());
        for row in &self.fresh {
            let first = self.rows.partition_point(|other| self.total(other, row).is_lt());
            // Rows that look the same follow each other.
            let next = places.last().map_or(0, |last| last + 1);
            places.push(first.max(next));
        }
        places
    }

    /// Where rows that went were.
    fn places_of_gone(&self, fresh_places: &[usize]) -> Vec<usize> {
        let place = |(number, row): (usize, &Arc<Entry>)| {
            let before = self.rows.partition_point(|other| self.total(other, row).is_lt());
            let came = fresh_places.partition_point(|place| *place < before);
            before - came + number
        };
        self.gone.iter().enumerate().map(place).collect()
    }

    /// Rows that left and came, in their order, as a delta: by what tells rows apart, those that did
    /// both were updated.
    fn delta(&self, left: Vec<RankedRow>, came: Vec<RankedRow>) -> Delta {
        let pairs = self.pairs(&left, &came);
        let mut delta = Delta::default();
        let mut places = Places::default();
        let mut moves = Vec::with_capacity(pairs.len());
        let mut new_of = vec![None; left.len()];
        let mut old_of = vec![None; came.len()];
        for (old, new) in pairs {
            (new_of[old], old_of[new]) = (Some(new), Some(old));
        }
        let mut from = vec![0; left.len()];
        for (old, (place, row)) in left.iter().enumerate() {
            from[old] = place - delta.deleted.len();
            if new_of[old].is_none() {
                delta.deleted.push(Arc::clone(&row.text));
                places.deleted.push(index(*place));
            }
        }
        for (new, (place, row)) in came.iter().enumerate() {
            match old_of[new] {
                Some(old) => {
                    let (was, is) = (Arc::clone(&left[old].1.text), Arc::clone(&row.text));
                    moves.push((from[old], place - delta.inserted.len(), was, is));
                }
                None => {
                    delta.inserted.push(Arc::clone(&row.text));
                    places.inserted.push(index(*place));
                }
            }
        }
        for (from, to, was, is) in moved(moves) {
            delta.updated.push((was, is));
            places.updated.push((index(from), index(to)));
        }
        delta.places = Some(places);
        delta
    }

    /// Which of those that left are which of those that came.
    fn pairs(&self, left: &[RankedRow], came: &[RankedRow]) -> Vec<(usize, usize)> {
        if self.identity.is_empty() {
            return Vec::new();
        }
        let compare = |one: &Entry, other: &Entry| {
            let mut orders = self.identity.iter().map(|at| {
                self.directions[*at].compare(one.sort[*at].as_ref(), other.sort[*at].as_ref())
            });
            orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
        };
        let mut by_key: Vec<usize> = (0..left.len()).collect();
        by_key.sort_by(|one, other| compare(&left[*one].1, &left[*other].1));
        let pair = |(new, (_, row)): (usize, &RankedRow)| {
            let found = by_key.binary_search_by(|old| compare(&left[*old].1, row));
            found.ok().map(|at| (by_key[at], new))
        };
        came.iter().enumerate().filter_map(pair).collect()
    }
}

/// A row, and its place among those that are or were seen.
type RankedRow = (usize, Arc<Entry>);
/// A row that was updated: its place without those that are deleted, its place without those that are
/// inserted, and its text before and after.
type Move = (usize, usize, RowText, RowText);

fn seen(rows: &[Arc<Entry>], skip: usize, take: usize) -> &[Arc<Entry>] {
    let end = skip.saturating_add(take).min(rows.len());
    rows.get(skip..end).unwrap_or_default()
}

/// The place of a row by its number among those that stayed, where others are between them.
fn place_of(number: usize, others: &[usize]) -> usize {
    let mut place = number;
    for other in others {
        if *other > place {
            break;
        }
        place += 1;
    }
    place
}

/// Leaves out rows that look as before and stand as before among those that were not updated.
fn moved(moves: Vec<Move>) -> Vec<Move> {
    let mut starts: Vec<usize> = moves.iter().map(|(from, ..)| *from).collect();
    starts.sort_unstable();
    // Moves are in the order of where they end.
    let stays = |(number, (from, to, was, is)): (usize, &Move)| {
        was == is && from - starts.partition_point(|other| other < from) == to - number
    };
    let stayed: Vec<bool> = moves.iter().enumerate().map(stays).collect();
    let kept = moves.iter().zip(&stayed).filter(|(_, stayed)| **stayed);
    if !kept.map(|((from, ..), _)| from).is_sorted() {
        return moves;
    }
    moves.into_iter().zip(stayed).filter(|(_, stayed)| !stayed).map(|(it, _)| it).collect()
}

/// Results are bounded far below.
fn index(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}
