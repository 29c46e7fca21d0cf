//! Decimal numbers with all of their digits, as PostgreSQL's `numeric` orders them.
//!
//! Nothing is calculated here, only compared. So a number is its sign, its digits without zeros at
//! either end, and the place of the point before them: the same value has one form, and order is
//! that of the parts.

use std::cmp::Ordering;
use std::fmt;

/// A value of `numeric`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Decimal {
    /// Less than every number.
    NegativeInfinity,
    /// A number.
    Finite(Finite),
    /// More than every number.
    Infinity,
    /// More than all else, and equal to itself.
    NaN,
}

/// `±0.DIGITS × 10^exponent`. Zero has no digits, no sign and the exponent 0.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Finite {
    negative: bool,
    exponent: i64,
    /// ASCII digits; neither the first nor the last is a zero.
    digits: Box<[u8]>,
}

impl Decimal {
    /// Reads `[+-]digits[.digits][e[+-]digits]`, with a digit before or after the point.
    pub(crate) fn parse(text: &str) -> Option<Decimal> {
        let (negative, unsigned) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent_of(exponent)?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut digits = [whole.as_bytes(), fraction.as_bytes()].concat();
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
        digits.drain(..zeros);
        while digits.last() == Some(&b'0') {
            digits.pop();
        }
        if digits.is_empty() {
            let digits = Box::default();
            return Some(Decimal::Finite(Finite { negative: false, exponent: 0, digits }));
        }
        let point = i64::try_from(whole.len()).ok()? - i64::try_from(zeros).ok()?;
        let (exponent, digits) = (exponent.checked_add(point)?, digits.into());
        Some(Decimal::Finite(Finite { negative, exponent, digits }))
    }

    /// Reads what `numeric` takes in quotes: a number, or a word.
    pub(crate) fn parse_word(text: &str) -> Option<Decimal> {
        let word = |wanted: &str| text.eq_ignore_ascii_case(wanted);
        match text {
            _ if word("NaN") => Some(Decimal::NaN),
            _ if word("Infinity") || word("+Infinity") => Some(Decimal::Infinity),
            _ if word("-Infinity") => Some(Decimal::NegativeInfinity),
            text => Decimal::parse(text),
        }
    }

    /// Digits that it takes to write the number without an exponent, before and after the point.
    pub(crate) fn extent(&self) -> u64 {
        let Decimal::Finite(Finite { exponent, digits, .. }) = self else { return 0 };
        exponent.unsigned_abs().saturating_add(digits.len() as u64)
    }

    /// How many digits are significant.
    pub(crate) fn precision(&self) -> usize {
        if let Decimal::Finite(finite) = self { finite.digits.len() } else { 0 }
    }
}

impl Finite {
    /// Whether it is less than zero.
    pub(crate) fn is_negative(&self) -> bool {
        self.negative
    }

    /// A number below two to the 122nd that grows with the distance from zero, though not with each of
    /// its digits; none of zero.
    pub(crate) fn magnitude(&self) -> Option<u128> {
        const DIGITS: usize = 27;
        const DIGITS_BITS: u32 = 90;
        const EXPONENT_BITS: u32 = 32;
        if self.digits.is_empty() {
            return None;
        }
        let exponent = self.exponent.saturating_add(1 << (EXPONENT_BITS - 1));
        let Ok(exponent) = u128::try_from(exponent) else { return Some(0) };
        if exponent >> EXPONENT_BITS != 0 {
            return Some((1 << (EXPONENT_BITS + DIGITS_BITS)) - 1);
        }
        let digits = self.digits.iter().copied().chain(std::iter::repeat(b'0')).take(DIGITS);
        let digits = digits.fold(0, |number, digit| number * 10 + u128::from(digit - b'0'));
        Some(exponent << DIGITS_BITS | digits)
    }
}

/// An exponent in a literal, which must be small enough that adding to it cannot overflow.
fn exponent_of(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

impl From<i64> for Decimal {
    fn from(number: i64) -> Decimal {
        // Digits with or without a sign are always a number.
        Decimal::parse(&number.to_string()).unwrap_or(Decimal::NaN)
    }
}

impl Ord for Finite {
    fn cmp(&self, other: &Finite) -> Ordering {
        let sign = |number: &Finite| match (number.digits.is_empty(), number.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        };
        let size = || (self.exponent, &self.digits).cmp(&(other.exponent, &other.digits));
        sign(self).cmp(&sign(other)).then_with(|| match sign(self) {
            0 => Ordering::Equal,
            1 => size(),
            _ => size().reverse(),
        })
    }
}

impl PartialOrd for Finite {
    fn partial_cmp(&self, other: &Finite) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Decimal) -> Ordering {
        let rank = |decimal: &Decimal| match decimal {
            Decimal::NegativeInfinity => 0,
            Decimal::Finite(_) => 1,
            Decimal::Infinity => 2,
            Decimal::NaN => 3,
        };
        match (self, other) {
            (Decimal::Finite(left), Decimal::Finite(right)) => left.cmp(right),
            _ => rank(self).cmp(&rank(other)),
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Decimal) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// One text for one value, which can be read again.
impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Decimal::NegativeInfinity => f.write_str("-Infinity"),
            Decimal::Infinity => f.write_str("Infinity"),
            Decimal::NaN => f.write_str("NaN"),
            Decimal::Finite(Finite { digits, .. }) if digits.is_empty() => f.write_str("0"),
            Decimal::Finite(Finite { negative, exponent, digits }) => {
                f.write_str(if *negative { "-0." } else { "0." })?;
                f.write_str(&String::from_utf8_lossy(digits))?;
                write!(f, "e{exponent}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::parse_word(text).unwrap_or_else(|| panic!("{text} is a number"))
    }

    #[test]
    fn one_value_has_one_form() {
        for same in [
            &["0", "-0", "0.000", "0e5", "+0", ".0", "0."][..],
            &["1", "1.0", "01", "10e-1", "0.1e1", "1.", "+1E0"],
            &["-120.5", "-0120.500", "-1.205e2", "-12050E-2"],
        ] {
            for text in same {
                assert_eq!(decimal(text), decimal(same[0]), "{text}");
                assert_eq!(decimal(&decimal(text).to_string()), decimal(text), "{text}");
            }
        }
    }

    #[test]
    fn every_digit_counts() {
        let ascending = [
            "-Infinity",
            "-1e400",
            "-9223372036854775809",
            "-9223372036854775808",
            "-1.00000000000000000000000000000000000001",
            "-1",
            "-0.1",
            "0",
            "1e-400",
            "0.1",
            "0.10000000000000000000000000000000000001",
            "9007199254740992",
            "9007199254740993",
            "1e400",
            "Infinity",
            "NaN",
        ];
        for (at, left) in ascending.iter().enumerate() {
            for (beside, right) in ascending.iter().enumerate() {
                assert_eq!(decimal(left).cmp(&decimal(right)), at.cmp(&beside), "{left} {right}");
            }
        }
    }

    #[test]
    fn what_is_no_number_is_none() {
        for text in ["", "-", ".", "e5", "1e", "1e+", "1e5.5", "1_000", "0x10", " 1", "1 ", "--1"] {
            assert_eq!(Decimal::parse(text), None, "{text}");
        }
        assert_eq!(Decimal::parse("1e99999999999999999999"), None);
        assert_eq!(Decimal::parse("1e9223372036854775807"), None);
    }

    proptest! {
        #[test]
        fn order_is_that_of_the_numbers(left: i64, right: i64, scale in 0_usize..5) {
            let shifted = |number: i64| decimal(&format!("{number}e-{scale}"));
            prop_assert_eq!(shifted(left).cmp(&shifted(right)), left.cmp(&right));
            prop_assert_eq!(Decimal::from(left), decimal(&format!("{left}.000")));
        }

        #[test]
        fn no_text_is_too_strange(text in "\\PC*") {
            let _ = Decimal::parse_word(&text);
        }
    }
}
