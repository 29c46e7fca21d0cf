//! Values that are compared, and how.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use crate::decimal::Decimal;
use crate::moment::Micros;

/// A value that is not NULL. What is compared is of one kind in PostgreSQL; in SQLite, where a column
/// may hold anything, numbers come before text and text before bytes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value<'a> {
    Boolean(bool),
    Integer(i64),
    Decimal(Decimal),
    Real(f64),
    Text(Cow<'a, str>),
    Uuid(u128),
    Moment(Micros),
    Bytes(Vec<u8>),
}

/// A value of a predicate, which lives as long as it does.
pub(crate) type Constant = Value<'static>;

/// When two texts are the same, and which comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Collation {
    /// By their bytes: `C`, `POSIX`, `BINARY`. Other collations of PostgreSQL agree on what is equal.
    Bytes,
    /// SQLite's `NOCASE`: ASCII letters are alike in both cases.
    Nocase,
    /// Spaces at the end do not count: SQLite's `RTRIM`, and PostgreSQL's `bpchar`.
    Rtrim,
}

impl Collation {
    fn compare(self, left: &str, right: &str) -> Ordering {
        match self {
            Collation::Bytes => left.cmp(right),
            Collation::Nocase => {
                let fold = |byte: u8| byte.to_ascii_lowercase();
                left.bytes().map(fold).cmp(right.bytes().map(fold))
            }
            Collation::Rtrim => left.trim_end_matches(' ').cmp(right.trim_end_matches(' ')),
        }
    }
}

impl Value<'_> {
    /// The same, without what it was read from.
    pub(crate) fn into_owned(self) -> Constant {
        match self {
            Value::Boolean(value) => Value::Boolean(value),
            Value::Integer(value) => Value::Integer(value),
            Value::Decimal(value) => Value::Decimal(value),
            Value::Real(value) => Value::Real(value),
            Value::Text(value) => Value::Text(Cow::Owned(value.into_owned())),
            Value::Uuid(value) => Value::Uuid(value),
            Value::Moment(value) => Value::Moment(value),
            Value::Bytes(value) => Value::Bytes(value),
        }
    }

    /// Which of two comes first.
    pub(crate) fn compare(&self, other: &Value<'_>, collation: Collation) -> Ordering {
        match (self, other) {
            (Value::Boolean(left), Value::Boolean(right)) => left.cmp(right),
            (Value::Integer(left), Value::Integer(right)) => left.cmp(right),
            (Value::Decimal(left), Value::Decimal(right)) => left.cmp(right),
            (Value::Real(left), Value::Real(right)) => compare_reals(*left, *right),
            (Value::Integer(left), Value::Real(right)) => compare_to_real(*left, *right),
            (Value::Real(left), Value::Integer(right)) => compare_to_real(*right, *left).reverse(),
            (Value::Text(left), Value::Text(right)) => collation.compare(left, right),
            (Value::Uuid(left), Value::Uuid(right)) => left.cmp(right),
            (Value::Moment(left), Value::Moment(right)) => left.cmp(right),
            (Value::Bytes(left), Value::Bytes(right)) => left.cmp(right),
            _ => self.class().cmp(&other.class()),
        }
    }

    /// SQLite's order of what cannot be compared. In PostgreSQL both sides are read alike.
    fn class(&self) -> u8 {
        match self {
            Value::Text(_) => 1,
            Value::Bytes(_) => 2,
            _ => 0,
        }
    }
}

/// PostgreSQL's order: NaN is equal to itself and more than all else. (SQLite has none.)
fn compare_reals(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
}

/// Exactly, though not every integer is a real.
fn compare_to_real(integer: i64, real: f64) -> Ordering {
    // Two to the 63rd is a real, and the least that no integer reaches.
    const ABOVE: f64 = 9_223_372_036_854_775_808.0;
    if real >= ABOVE || real.is_nan() {
        return Ordering::Less;
    }
    if real < -ABOVE {
        return Ordering::Greater;
    }
    #[expect(clippy::cast_possible_truncation, reason = "it is in range, and the fraction follows")]
    let whole = real.trunc() as i64;
    let fraction = real.fract();
    integer.cmp(&whole).then_with(|| compare_reals(0.0, fraction))
}

/// One text for one value and kind: it is part of a predicate's key.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Boolean(value) => write!(f, "{value}"),
            Value::Integer(value) => write!(f, "{value}"),
            Value::Decimal(value) => write!(f, "{value}"),
            // Zero has two signs, and they are equal.
            Value::Real(value) => write!(f, "{:?}", value + 0.0),
            Value::Text(value) => write!(f, "{value:?}"),
            Value::Uuid(value) => write!(f, "{value:032x}"),
            Value::Moment(value) => write!(f, "{value}us"),
            Value::Bytes(value) => {
                f.write_str("x")?;
                value.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn integers_and_reals_are_compared_exactly() {
        for (integer, real, expected) in [
            (9_007_199_254_740_993, 9_007_199_254_740_992.0, Ordering::Greater),
            (9_007_199_254_740_992, 9_007_199_254_740_992.0, Ordering::Equal),
            (i64::MAX, 9_223_372_036_854_775_808.0, Ordering::Less),
            (i64::MIN, -9_223_372_036_854_775_808.0, Ordering::Equal),
            (i64::MIN, -9_223_372_036_854_777_856.0, Ordering::Greater),
            (0, -0.0, Ordering::Equal),
            (0, 1e-320, Ordering::Less),
            (-1, -0.5, Ordering::Less),
            (-1, -1.5, Ordering::Greater),
            (i64::MAX, f64::INFINITY, Ordering::Less),
            (i64::MIN, f64::NEG_INFINITY, Ordering::Greater),
        ] {
            assert_eq!(compare_to_real(integer, real), expected, "{integer} {real}");
        }
    }

    #[test]
    fn not_a_number_is_more_than_infinity_and_equal_to_itself() {
        let (nan, infinity) = (Value::Real(f64::NAN), Value::Real(f64::INFINITY));
        assert_eq!(nan.compare(&nan, Collation::Bytes), Ordering::Equal);
        assert_eq!(nan.compare(&infinity, Collation::Bytes), Ordering::Greater);
        assert_eq!(infinity.compare(&nan, Collation::Bytes), Ordering::Less);
    }

    #[test]
    fn collations_differ_on_case_and_spaces() {
        let text = |text: &'static str| Value::Text(Cow::Borrowed(text));
        for (left, right, bytes, nocase, rtrim) in [
            ("a", "A", Ordering::Greater, Ordering::Equal, Ordering::Greater),
            ("ä", "Ä", Ordering::Greater, Ordering::Greater, Ordering::Greater),
            ("a", "a  ", Ordering::Less, Ordering::Less, Ordering::Equal),
            ("a", "B", Ordering::Greater, Ordering::Less, Ordering::Greater),
            ("a\t", "a", Ordering::Greater, Ordering::Greater, Ordering::Greater),
        ] {
            let by = |collation| text(left).compare(&text(right), collation);
            assert_eq!(by(Collation::Bytes), bytes, "{left:?} {right:?}");
            assert_eq!(by(Collation::Nocase), nocase, "{left:?} {right:?}");
            assert_eq!(by(Collation::Rtrim), rtrim, "{left:?} {right:?}");
        }
    }

    proptest! {
        #[test]
        fn integers_against_reals_agree_with_decimals(integer: i64, real in -1e19_f64..1e19) {
            let exact = Decimal::parse(&format!("{real:.20}")).expect("a number");
            prop_assert_eq!(compare_to_real(integer, real), Decimal::from(integer).cmp(&exact));
        }
    }
}
