//! A number for a value, so that ranges of all kinds of values are ranges of numbers.
//!
//! Values that come one after the other have numbers that do not come in the other order: what is in a
//! range by its value is so by its number. The other way round it need not be: a text is its first 16
//! bytes.

use crate::decimal::Decimal;
use crate::reading::Reading;
use crate::value::{Collation, Value};

/// The number of a value that was read in this way; none if it is of a kind that is not read so.
pub(super) fn order(value: &Value<'_>, reading: Reading, collation: Collation) -> Option<u128> {
    Some(match (reading, value) {
        (Reading::Boolean, Value::Boolean(value)) => u128::from(*value),
        (Reading::Integer, Value::Integer(value)) => u128::from(value.cast_unsigned() ^ 1 << 63),
        (Reading::Decimal, Value::Decimal(value)) => decimal(value),
        (Reading::Single | Reading::Double, Value::Real(value)) => u128::from(real(*value)),
        (Reading::Text | Reading::StoredText, Value::Text(text)) => text_of(text, collation),
        (Reading::Uuid, Value::Uuid(value)) => *value,
        (Reading::Moment(_), Value::Moment(value)) => value.cast_unsigned() ^ 1 << 127,
        (Reading::Bytes, Value::Bytes(bytes)) => leading(bytes.iter().copied()),
        // Numbers, then text, then bytes.
        (Reading::Stored, Value::Integer(value)) => {
            #[expect(clippy::cast_precision_loss, reason = "rounding keeps the order")]
            let value = *value as f64;
            u128::from(real(value)) << 62
        }
        (Reading::Stored, Value::Real(value)) => u128::from(real(*value)) << 62,
        (Reading::Stored, Value::Text(text)) => 1 << 126 | text_of(text, collation) >> 2,
        (Reading::Stored, Value::Bytes(bytes)) => 2 << 126 | leading(bytes.iter().copied()) >> 2,
        _ => return None,
    })
}

fn text_of(text: &str, collation: Collation) -> u128 {
    match collation {
        Collation::Bytes => leading(text.bytes()),
        Collation::Nocase => leading(text.bytes().map(|byte| byte.to_ascii_lowercase())),
        Collation::Rtrim => leading(text.trim_end_matches(' ').bytes()),
    }
}

fn leading(bytes: impl Iterator<Item = u8>) -> u128 {
    let mut first = [0; 16];
    first.iter_mut().zip(bytes).for_each(|(into, byte)| *into = byte);
    u128::from_be_bytes(first)
}

/// The bits of a real, turned so that they are ordered as it is. NaN is more than all else.
fn real(value: f64) -> u64 {
    if value.is_nan() {
        return u64::MAX;
    }
    // Zero has two signs, and they are equal.
    let bits = (value + 0.0).to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

/// Sign, exponent, and the digits that there is room for.
fn decimal(value: &Decimal) -> u128 {
    const ZERO: u128 = 1 << 126;
    match value {
        Decimal::NegativeInfinity => 0,
        Decimal::Infinity => u128::MAX - 1,
        Decimal::NaN => u128::MAX,
        Decimal::Finite(finite) => match finite.magnitude() {
            None => ZERO,
            Some(size) if finite.is_negative() => ZERO - 1 - size,
            Some(size) => ZERO + 1 + size,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::cmp::Ordering;

    use proptest::prelude::*;

    use super::*;

    fn value() -> impl Strategy<Value = Value<'static>> {
        let text = |text: String| Value::Text(Cow::Owned(text));
        prop_oneof![
            prop_oneof![any::<i64>(), -3..3_i64].prop_map(Value::Integer),
            prop_oneof![any::<f64>(), Just(f64::NAN), Just(-0.0), Just(0.0), -3.0..3.0]
                .prop_map(Value::Real),
            "[aAbB ]{0,3}".prop_map(text),
            "[a]{14}[abAB]{0,5} ?".prop_map(text),
            proptest::collection::vec(any::<u8>(), 0..20).prop_map(Value::Bytes),
        ]
    }

    fn decimal_text() -> impl Strategy<Value = String> {
        prop_oneof![
            "-?[0-9]{1,4}(\\.[0-9]{1,3})?",
            "-?[0-9]{26}[0-9]{0,4}(\\.[0-9]{1,30})?",
            "-?[0-9]e-?[0-9]{1,12}",
            Just("NaN".to_owned()),
            Just("Infinity".to_owned()),
            Just("-Infinity".to_owned()),
        ]
    }

    fn agree(
        left: &Value<'_>,
        right: &Value<'_>,
        reading: Reading,
        collation: Collation,
    ) -> Result<(), TestCaseError> {
        let numbers = (order(left, reading, collation), order(right, reading, collation));
        let (Some(first), Some(second)) = numbers else { return Ok(()) };
        match left.compare(right, collation) {
            Ordering::Less => prop_assert!(first <= second, "{left:?} {right:?}"),
            Ordering::Equal => prop_assert_eq!(first, second, "{:?} {:?}", left, right),
            Ordering::Greater => prop_assert!(first >= second, "{left:?} {right:?}"),
        }
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn numbers_are_in_the_order_of_values(left in value(), right in value()) {
            let readings = [Reading::Stored, Reading::Integer, Reading::Double, Reading::Text];
            for reading in readings {
                for collation in [Collation::Bytes, Collation::Nocase, Collation::Rtrim] {
                    agree(&left, &right, reading, collation)?;
                }
            }
            agree(&left, &right, Reading::Bytes, Collation::Bytes)?;
        }

        #[test]
        fn decimals_too(left in decimal_text(), right in decimal_text()) {
            let value = |text: &str| Value::Decimal(Decimal::parse_word(text).expect("a number"));
            agree(&value(&left), &value(&right), Reading::Decimal, Collation::Bytes)?;
        }
    }
}
