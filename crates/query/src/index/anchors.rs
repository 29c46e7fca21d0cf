//! From conditions to anchors: what a row must have for them to be true.

use std::hash::RandomState;

use super::slots::{
    ColumnReading, OrderedHash, SlotId, Slots, host_mark, join_hashes, mark, null_mark,
};
use crate::condition::{Condition, Test};
use crate::operator::Operator;
use crate::plan::Conditions;
use crate::truth::Truth;

/// Values of one list that become an anchor each, at most. Of a longer one its ends are taken.
const LIST_MAX: usize = 64;
/// Anchors of a query, at most: an OR that has more has none.
const ANCHORS_MAX: usize = 256;
/// Lists that are joined by AND are multiplied up to so many anchors; then the longer ones are left
/// to the test.
const PRODUCT_MAX: usize = 64;

/// A tuple of values, and the range of one more column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Anchor {
    /// The columns of the tuple, in order.
    pub(super) equal: Box<[SlotId]>,
    /// Of the tuple's values.
    pub(super) hash: u64,
    /// Both ends are in it.
    pub(super) range: Option<(SlotId, u128, u128)>,
}

/// The anchors of conditions: where all of these are true, one of those is hit. None if nothing is
/// known that a row must have; empty if no row can be one of theirs.
pub(super) fn anchors(
    conditions: &Conditions,
    slots: &mut Slots,
    hasher: &RandomState,
) -> Option<Vec<Anchor>> {
    let mut reader = Reader { slots, hasher };
    let mut parts = Vec::new();
    if let Some((column, tenants)) = &conditions.tenants
        && tenants.hosts.len() <= LIST_MAX
    {
        let slot = reader.slots.of(column, ColumnReading::Host);
        let mut any: Vec<Requirement> = tenants
            .hosts
            .iter()
            .map(|name| Requirement::equal(slot, host_mark(name, reader.hasher)))
            .collect();
        if tenants.shared {
            any.push(reader.null(column));
        }
        parts.push(Some(any));
    }
    for predicate in &conditions.predicates {
        parts.push(reader.demands(predicate.condition()));
    }
    Some(all(parts)?.into_iter().map(Requirement::anchor).collect())
}

/// What a row must have: all of it.
#[derive(Debug, Clone, Default)]
struct Requirement {
    /// Sorted by column, each once.
    equal: Vec<(SlotId, u64)>,
    /// Each column once, with both ends.
    ranges: Vec<(SlotId, u128, u128)>,
}

/// One of these must be there; none: nothing is known.
type Requirements = Option<Vec<Requirement>>;

struct Reader<'a> {
    slots: &'a mut Slots,
    hasher: &'a RandomState,
}

impl Reader<'_> {
    /// What a row must have for a condition to be true.
    fn demands(&mut self, condition: &Condition) -> Requirements {
        match condition {
            Condition::Constant(Truth::True) => None,
            Condition::Constant(_) => Some(Vec::new()),
            Condition::And(parts) => all(parts.iter().map(|part| self.demands(part)).collect()),
            Condition::Or(parts) => {
                let mut any = Vec::new();
                for part in parts {
                    any.extend(self.demands(part)?);
                    if any.len() > ANCHORS_MAX {
                        return None;
                    }
                }
                Some(any)
            }
            Condition::Is { condition, truth: Truth::True, negated: false } => {
                self.demands(condition)
            }
            Condition::Is { .. } => None,
            Condition::Test(test) => self.test(test),
        }
    }

    fn test(&mut self, test: &Test) -> Requirements {
        match test {
            Test::Compare { field, operator, value, collation } => {
                let how = ColumnReading::Value(field.reading, *collation);
                let mark = mark(value, field.reading, *collation, self.hasher)?;
                let slot = self.slots.of(field.name(), how);
                Some(vec![match operator {
                    Operator::Equal | Operator::NotDistinctFrom => Requirement::equal(slot, mark),
                    Operator::Less | Operator::LessOrEqual => {
                        Requirement::within(slot, 0, mark.order)
                    }
                    Operator::Greater | Operator::GreaterOrEqual => {
                        Requirement::within(slot, mark.order, u128::MAX)
                    }
                    Operator::NotEqual | Operator::DistinctFrom => return None,
                }])
            }
            Test::In { field, values, collation, negated: false, null: _ } => {
                let how = ColumnReading::Value(field.reading, *collation);
                let hasher = self.hasher;
                let mark = |value| mark(value, field.reading, *collation, hasher);
                let slot = self.slots.of(field.name(), how);
                if values.len() > LIST_MAX {
                    let (first, last) = (mark(values.first()?)?, mark(values.last()?)?);
                    return Some(vec![Requirement::within(slot, first.order, last.order)]);
                }
                values.iter().map(|value| Some(Requirement::equal(slot, mark(value)?))).collect()
            }
            Test::Null { field, negated: false } => Some(vec![self.null(field.name())]),
            Test::In { .. }
            | Test::Null { .. }
            | Test::Columns { .. }
            | Test::Like { .. }
            | Test::Holds { .. } => None,
        }
    }

    fn null(&mut self, column: &str) -> Requirement {
        Requirement::equal(self.slots.of(column, ColumnReading::Null), null_mark())
    }
}

/// What a row must have where all parts hold. A part of which nothing is known, and one that would
/// make too many of the others, is left to the test.
fn all(parts: Vec<Requirements>) -> Requirements {
    let mut known: Vec<Vec<Requirement>> = parts.into_iter().flatten().collect();
    known.sort_by_key(Vec::len);
    let mut known = known.into_iter();
    let mut joint = known.next()?;
    for part in known {
        if joint.len() * part.len() > PRODUCT_MAX {
            break;
        }
        if part.len() == 1 {
            joint.iter_mut().for_each(|demand| demand.join(&part[0]));
            continue;
        }
        joint = joint
            .iter()
            .flat_map(|demand| {
                part.iter().map(move |other| {
                    let mut both = demand.clone();
                    both.join(other);
                    both
                })
            })
            .collect();
    }
    Some(joint)
}

impl Requirement {
    fn equal(slot: SlotId, mark: OrderedHash) -> Requirement {
        Requirement { equal: vec![(slot, mark.hash)], ranges: Vec::new() }
    }

    fn within(slot: SlotId, low: u128, high: u128) -> Requirement {
        Requirement { equal: Vec::new(), ranges: vec![(slot, low, high)] }
    }

    fn join(&mut self, other: &Requirement) {
        for (slot, hash) in &other.equal {
            // Two values of one column are never there together: one of them is enough to ask for.
            if let Err(at) = self.equal.binary_search_by_key(slot, |(known, _)| *known) {
                self.equal.insert(at, (*slot, *hash));
            }
        }
        for (slot, low, high) in &other.ranges {
            match self.ranges.iter_mut().find(|(known, _, _)| known == slot) {
                Some((_, known_low, known_high)) => {
                    *known_low = (*low).max(*known_low);
                    *known_high = (*high).min(*known_high);
                }
                None => self.ranges.push((*slot, *low, *high)),
            }
        }
    }

    /// All its values, and the range that has both ends if one has.
    fn anchor(self) -> Anchor {
        let hash =
            self.equal.iter().fold(join_hashes([]), |hash, (_, of)| join_hashes([hash, *of]));
        let is_open = |(_, low, high): &&(SlotId, u128, u128)| *low == 0 || *high == u128::MAX;
        let column =
            |(slot, _, _): &&(SlotId, u128, u128)| self.equal.iter().any(|(s, _)| s == slot);
        let ranges = self.ranges.iter().filter(|range| !column(range));
        let range = ranges.min_by_key(|range| (is_open(range), range.0)).copied();
        Anchor { equal: self.equal.iter().map(|(slot, _)| *slot).collect(), hash, range }
    }
}
