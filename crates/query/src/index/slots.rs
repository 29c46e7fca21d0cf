//! The columns that anchors name, and what an image has in them.
//!
//! A column that is read in several ways (`id = 1`, `id = 1.5`) is several slots. Each is read once an
//! image, and only if something asks for it.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use super::order::order;
use crate::reading::{Read, Reading, host_name};
use crate::row::Row;
use crate::value::{Collation, Value};

/// A slot's number in its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SlotId(u32);

/// How a column is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnReading {
    /// Its value.
    Value(Reading, Collation),
    /// As the name of a tenant.
    Host,
    /// Whether it is NULL: that is the only value it has.
    Null,
}

/// All slots of an index. They stay when nothing names them any more: there are no more of them than
/// a table's columns have ways to be read.
#[derive(Debug, Default)]
pub(super) struct Slots(Vec<(Box<str>, ColumnReading)>);

impl Slots {
    pub(super) fn of(&mut self, column: &str, how: ColumnReading) -> SlotId {
        let known = self.0.iter().position(|(name, other)| *other == how && **name == *column);
        let at = known.unwrap_or_else(|| {
            self.0.push((column.into(), how));
            self.0.len() - 1
        });
        SlotId(u32::try_from(at).unwrap_or(u32::MAX))
    }
}

/// What is known of a value: whether it is equal to another, and how both are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OrderedHash {
    /// Equal values have equal ones.
    pub(super) hash: u64,
    /// See [`order`].
    pub(super) order: u128,
}

/// What a slot has in an image.
#[derive(Debug, Clone)]
enum SlotValue {
    /// Nobody asked yet.
    Unread,
    /// No value that an anchor can have.
    Nothing,
    One(OrderedHash),
    /// The image does not tell which of these.
    Several(Vec<OrderedHash>),
    /// It may be anything.
    Unsure,
}

/// An image, looked at through the slots of an index.
#[derive(Debug)]
pub(super) struct SlottedRow<'i, 'r> {
    slots: &'i Slots,
    hasher: &'i RandomState,
    row: &'i Row<'r>,
    held: Vec<SlotValue>,
}

impl<'i, 'r> SlottedRow<'i, 'r> {
    pub(super) fn new(slots: &'i Slots, hasher: &'i RandomState, row: &'i Row<'r>) -> Self {
        SlottedRow { slots, hasher, row, held: vec![SlotValue::Unread; slots.0.len()] }
    }

    /// The column as the image has it.
    pub(super) fn json(&self, slot: SlotId) -> Option<&'r str> {
        let (column, _) = &self.slots.0[slot.0 as usize];
        self.row.get(column).map(serde_json::value::RawValue::get)
    }

    /// Whether it has no value that an anchor can have.
    pub(super) fn is_nothing(&mut self, slot: SlotId) -> bool {
        matches!(self.held(slot), SlotValue::Nothing)
    }

    /// Whether it may be any value.
    pub(super) fn is_unsure(&mut self, slot: SlotId) -> bool {
        matches!(self.held(slot), SlotValue::Unsure)
    }

    /// The values that it may have, unless it is unsure.
    pub(super) fn values(&mut self, slot: SlotId) -> &[OrderedHash] {
        match self.held(slot) {
            SlotValue::One(mark) => std::slice::from_ref(mark),
            SlotValue::Several(marks) => marks,
            SlotValue::Unread | SlotValue::Nothing | SlotValue::Unsure => &[],
        }
    }

    fn held(&mut self, slot: SlotId) -> &SlotValue {
        let at = slot.0 as usize;
        if matches!(self.held[at], SlotValue::Unread) {
            self.held[at] = self.read(slot);
        }
        &self.held[at]
    }

    fn read(&self, slot: SlotId) -> SlotValue {
        let Some(json) = self.json(slot) else { return SlotValue::Unsure };
        match (self.slots.0[slot.0 as usize].1, json) {
            (ColumnReading::Null, "null") => SlotValue::One(null_mark()),
            (ColumnReading::Null, _) | (_, "null") => SlotValue::Nothing,
            (ColumnReading::Host, json) => SlotValue::One(host_mark(&host_name(json), self.hasher)),
            (ColumnReading::Value(reading, collation), json) => {
                let mark = |value: &Value<'_>| mark(value, reading, collation, self.hasher);
                match reading.read(json) {
                    Ok(Read::Null) => SlotValue::Nothing,
                    Ok(Read::Value(value)) => {
                        mark(&value).map_or(SlotValue::Unsure, SlotValue::One)
                    }
                    Ok(Read::OneOf(values)) => {
                        let marks: Option<Vec<OrderedHash>> = values.iter().map(mark).collect();
                        marks.map_or(SlotValue::Unsure, SlotValue::Several)
                    }
                    Err(_) => SlotValue::Unsure,
                }
            }
        }
    }
}

/// What is known of NULL, where that is what is asked for.
pub(super) fn null_mark() -> OrderedHash {
    OrderedHash { hash: 0, order: 0 }
}

/// What is known of a tenant's name.
pub(super) fn host_mark(name: &str, hasher: &RandomState) -> OrderedHash {
    OrderedHash { hash: hasher.hash_one(name), order: 0 }
}

/// What is known of a value; none if it is of a kind that is not read in this way.
pub(super) fn mark(
    value: &Value<'_>,
    reading: Reading,
    collation: Collation,
    hasher: &RandomState,
) -> Option<OrderedHash> {
    let order = order(value, reading, collation)?;
    let mut state = hasher.build_hasher();
    match value {
        Value::Boolean(value) => value.hash(&mut state),
        Value::Integer(value) => value.hash(&mut state),
        Value::Real(value) => match whole(*value) {
            Some(integer) => integer.hash(&mut state),
            None if value.is_nan() => "NaN".hash(&mut state),
            None => value.to_bits().hash(&mut state),
        },
        Value::Decimal(value) => value.hash(&mut state),
        Value::Text(text) => match collation {
            Collation::Bytes => text.hash(&mut state),
            Collation::Nocase => text.to_ascii_lowercase().hash(&mut state),
            Collation::Rtrim => text.trim_end_matches(' ').hash(&mut state),
        },
        Value::Uuid(value) => value.hash(&mut state),
        Value::Moment(value) => value.hash(&mut state),
        Value::Bytes(value) => value.hash(&mut state),
    }
    Some(OrderedHash { hash: state.finish(), order })
}

/// The integer that a real is equal to, if it is one.
fn whole(value: f64) -> Option<i64> {
    // Two to the 63rd is a real, and the least that no integer reaches.
    const ABOVE: f64 = 9_223_372_036_854_775_808.0;
    #[expect(clippy::cast_possible_truncation, reason = "what is out of range is not taken")]
    (value.fract() == 0.0 && (-ABOVE..ABOVE).contains(&value)).then_some(value as i64)
}

/// The hash of a tuple, by those of its values in their order.
pub(super) fn join_hashes<const N: usize>(hashes: [u64; N]) -> u64 {
    const ODD: u128 = 0x9e37_79b9_7f4a_7c15;
    hashes.into_iter().fold(0x243f_6a88_85a3_08d3, |joint, hash| {
        let product = u128::from(joint ^ hash).wrapping_mul(ODD);
        #[expect(clippy::cast_possible_truncation, reason = "both halves are taken")]
        let mixed = (product >> 64) as u64 ^ product as u64;
        mixed.rotate_left(23)
    })
}
