//! The operators that compare two values.

use std::cmp::Ordering;

/// A comparison. The last two know NULL as a value; the others are unknown for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    DistinctFrom,
    NotDistinctFrom,
}

impl Operator {
    /// Whether it holds of two values that are in this order.
    pub(crate) fn holds(self, order: Ordering) -> bool {
        match self {
            Operator::Equal | Operator::NotDistinctFrom => order.is_eq(),
            Operator::NotEqual | Operator::DistinctFrom => order.is_ne(),
            Operator::Less => order.is_lt(),
            Operator::LessOrEqual => order.is_le(),
            Operator::Greater => order.is_gt(),
            Operator::GreaterOrEqual => order.is_ge(),
        }
    }

    /// Whether it holds where one side is NULL, or both; none: that is unknown.
    pub(crate) fn holds_of_null(self, both: bool) -> Option<bool> {
        match self {
            Operator::DistinctFrom => Some(!both),
            Operator::NotDistinctFrom => Some(both),
            _ => None,
        }
    }

    /// Whether it asks for order, and not only for equality.
    pub(crate) fn orders(self) -> bool {
        matches!(
            self,
            Operator::Less | Operator::LessOrEqual | Operator::Greater | Operator::GreaterOrEqual
        )
    }

    /// The one that holds where this does not.
    pub(crate) fn opposite(self) -> Operator {
        match self {
            Operator::Equal => Operator::NotEqual,
            Operator::NotEqual => Operator::Equal,
            Operator::Less => Operator::GreaterOrEqual,
            Operator::LessOrEqual => Operator::Greater,
            Operator::Greater => Operator::LessOrEqual,
            Operator::GreaterOrEqual => Operator::Less,
            Operator::DistinctFrom => Operator::NotDistinctFrom,
            Operator::NotDistinctFrom => Operator::DistinctFrom,
        }
    }

    /// The one that holds when the sides are exchanged.
    pub(crate) fn mirrored(self) -> Operator {
        match self {
            Operator::Less => Operator::Greater,
            Operator::LessOrEqual => Operator::GreaterOrEqual,
            Operator::Greater => Operator::Less,
            Operator::GreaterOrEqual => Operator::LessOrEqual,
            same => same,
        }
    }

    /// As it is written.
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Operator::Equal => "=",
            Operator::NotEqual => "<>",
            Operator::Less => "<",
            Operator::LessOrEqual => "<=",
            Operator::Greater => ">",
            Operator::GreaterOrEqual => ">=",
            Operator::DistinctFrom => "IS DISTINCT FROM",
            Operator::NotDistinctFrom => "IS NOT DISTINCT FROM",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Operator; 8] = [
        Operator::Equal,
        Operator::NotEqual,
        Operator::Less,
        Operator::LessOrEqual,
        Operator::Greater,
        Operator::GreaterOrEqual,
        Operator::DistinctFrom,
        Operator::NotDistinctFrom,
    ];

    #[test]
    fn opposites_and_mirrors_hold_where_they_should() {
        for operator in ALL {
            for order in [Ordering::Less, Ordering::Equal, Ordering::Greater] {
                assert_ne!(operator.holds(order), operator.opposite().holds(order));
                assert_eq!(operator.holds(order), operator.mirrored().holds(order.reverse()));
            }
            for both in [true, false] {
                let opposite = operator.opposite().holds_of_null(both);
                assert_eq!(operator.holds_of_null(both), opposite.map(|holds| !holds));
            }
        }
    }
}
