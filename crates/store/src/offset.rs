//! Positions in the log, and offsets, which are what leaves the process.
//!
//! A [`Position`] is the bare number the stores count with; an [`Offset`] is a position together
//! with the [`Epoch`] of the log it belongs to, and is the only form that leaves the process. Its
//! text, `EEEE_NNNNNNNNNNNNNNNN`, has a fixed width, so clients compare offsets as strings.

use std::fmt;
use std::str::FromStr;

/// Which history the log holds. It rises when that history is replaced (a restore from backup), so
/// that a cursor from before cannot be taken for one from after.
///
/// `1 <= epoch <= 9999`: four digits in the text, and 0000 is never given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(u16);

impl Epoch {
    /// The epoch of a log that has never been restored.
    pub const FIRST: Epoch = Epoch(1);
    const MAX: u16 = 9999;

    /// The epoch with this number, if it is one the text form can carry.
    pub fn new(number: u16) -> Option<Epoch> {
        (1..=Self::MAX).contains(&number).then_some(Epoch(number))
    }

    /// The number, for the store to keep.
    pub fn number(self) -> u16 {
        self.0
    }
}

/// An event's number within one epoch. The first event has 1; 0 is the place before it.
///
/// `0 <= position <= 9_999_999_999_999_999`: sixteen digits, which also fit a signed 64-bit column.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(u64);

impl Position {
    /// Before the first event.
    pub const START: Position = Position(0);
    const MAX: u64 = 9_999_999_999_999_999;

    /// The position with this number; numbers past the text form's sixteen digits are clamped.
    pub fn new(number: u64) -> Position {
        Position(number.min(Self::MAX))
    }

    /// The number.
    pub fn number(self) -> u64 {
        self.0
    }

    /// The position of the event after this one.
    #[must_use]
    pub fn next(self) -> Position {
        Position::new(self.0 + 1)
    }

    /// The position before this one: of a `next`, the last that was consumed.
    #[must_use]
    pub fn before(self) -> Position {
        Position(self.0.saturating_sub(1))
    }

    /// The position as the signed integer that both databases store.
    pub fn to_sql(self) -> i64 {
        i64::try_from(self.0).unwrap_or(i64::MAX)
    }

    /// The position a database column holds; columns are checked to be positive.
    pub fn from_sql(value: i64) -> Position {
        Position::new(u64::try_from(value).unwrap_or(0))
    }

    /// This position in `epoch`.
    pub fn in_epoch(self, epoch: Epoch) -> Offset {
        Offset { epoch: epoch.0, position: self }
    }
}

/// A place in the log as clients know it: epoch and position.
///
/// The epoch of a parsed offset may be any four digits (or more, as other servers of the protocol
/// write them): whether it is *ours* is for [`Offset::position_in`] to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset {
    epoch: u16,
    position: Position,
}

/// Why an offset cannot be used as a cursor into this log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the offset belongs to another epoch of the log")]
pub struct ForeignEpoch;

impl Offset {
    /// The position, if this offset belongs to `epoch`. The start of any epoch is the start.
    pub fn position_in(self, epoch: Epoch) -> Result<Position, ForeignEpoch> {
        if self.position == Position::START || self.epoch == epoch.0 {
            Ok(self.position)
        } else {
            Err(ForeignEpoch)
        }
    }

    /// The position, whatever the epoch.
    pub fn position(self) -> Position {
        self.position
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}_{:016}", self.epoch, self.position.0)
    }
}

/// The text is not an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an offset looks like 0001_0000000000000042")]
pub struct MalformedOffset;

/// The longest offset text that is looked at: two groups of sixteen digits and the underscore.
const TEXT_BYTES_MAX: usize = 33;

impl FromStr for Offset {
    type Err = MalformedOffset;

    /// Reads `EEEE_NNNNNNNNNNNNNNNN`. A wider epoch, as other servers write it, is read too: it is
    /// a well-formed offset of some other log, and saying so is more useful than "malformed".
    fn from_str(text: &str) -> Result<Offset, MalformedOffset> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(MalformedOffset);
        }
        let (epoch, position) = text.split_once('_').ok_or(MalformedOffset)?;
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !digits(epoch) || !digits(position) || epoch.len() < 4 || position.len() != 16 {
            return Err(MalformedOffset);
        }
        let epoch = epoch.parse::<u64>().map_err(|_| MalformedOffset)?;
        let position = position.parse::<u64>().map_err(|_| MalformedOffset)?;
        // An epoch past four digits is never ours; u16::MAX stands for all of those.
        let epoch = u16::try_from(epoch).unwrap_or(u16::MAX);
        Ok(Offset { epoch, position: Position::new(position) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn text_order_is_log_order(e1 in 1u16..=9999, p1 in 0u64..=Position::MAX,
                                   e2 in 1u16..=9999, p2 in 0u64..=Position::MAX) {
            let offset = |e, p| Position::new(p).in_epoch(Epoch::new(e).expect("in range"));
            let (a, b) = (offset(e1, p1), offset(e2, p2));
            prop_assert_eq!(a.cmp(&b), a.to_string().cmp(&b.to_string()));
            prop_assert_eq!(a.to_string().parse::<Offset>(), Ok(a));
        }

        #[test]
        fn any_text_is_read_or_refused_without_panic(text in ".{0,40}") {
            let _ = text.parse::<Offset>();
        }
    }

    #[test]
    fn the_start_belongs_to_every_epoch() {
        let zero: Offset = "0000000000000000_0000000000000000".parse().expect("well-formed");
        assert_eq!(zero.position_in(Epoch::FIRST), Ok(Position::START));
    }

    #[test]
    fn an_offset_of_another_epoch_is_told_apart_from_a_malformed_one() {
        let other: Offset = "0002_0000000000000001".parse().expect("well-formed");
        assert_eq!(other.position_in(Epoch::FIRST), Err(ForeignEpoch));
        for text in
            ["", "-1", "now", "1_1", "0001_1", "0001-0000000000000001", "0001_00000000000000a1"]
        {
            assert_eq!(text.parse::<Offset>(), Err(MalformedOffset), "{text:?}");
        }
    }
}
