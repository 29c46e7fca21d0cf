//! Three-valued logic.

use std::ops::Not;

/// What a condition is for a row. A WHERE lets only `True` pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Truth {
    /// It holds.
    True,
    /// It does not.
    False,
    /// A NULL keeps it from being either.
    Unknown,
}

impl From<bool> for Truth {
    fn from(holds: bool) -> Truth {
        if holds { Truth::True } else { Truth::False }
    }
}

/// NULL is neither.
impl From<Option<bool>> for Truth {
    fn from(holds: Option<bool>) -> Truth {
        holds.map_or(Truth::Unknown, Truth::from)
    }
}

impl Not for Truth {
    type Output = Truth;

    fn not(self) -> Truth {
        match self {
            Truth::True => Truth::False,
            Truth::False => Truth::True,
            Truth::Unknown => Truth::Unknown,
        }
    }
}
