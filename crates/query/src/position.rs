//! A position in the log.

/// A position in the log, as a number: the first event is at one. Zero is before all events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);
