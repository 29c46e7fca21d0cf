//! Averages as the databases write them.

/// Digits that a quotient of `numeric` has at least, if not all are zero.
const SIGNIFICANT_DIGITS_MIN: i64 = 16;
/// Digits in one of `numeric`'s own digits.
const GROUP_DIGITS: i64 = 4;
/// Digits after the point that `numeric` writes at most.
const SCALE_MAX: i64 = 1_000;

/// The average of numbers with this sum, in units of the last of `scale` digits, as PostgreSQL's
/// `numeric` divides: the digits after the point follow from the sizes of both numbers, the last is
/// rounded away from zero.
pub(super) fn postgres(sum: i128, count: u64, scale: u16) -> Option<String> {
    let size = sum.unsigned_abs();
    let (weight, first) = leading(size, i64::from(scale));
    let (count_weight, count_first) = leading(u128::from(count), 0);
    let weight = weight - count_weight - i64::from(first <= count_first);
    let least = SIGNIFICANT_DIGITS_MIN - weight * GROUP_DIGITS;
    let digits = least.max(i64::from(scale)).clamp(0, SCALE_MAX);
    let divisor = u128::from(count).checked_mul(10_u128.checked_pow(u32::from(scale))?)?;
    let mut quotient = size.checked_div(divisor)?.to_string().into_bytes();
    let whole = quotient.len();
    let mut rest = size % divisor;
    for _ in 0..digits {
        rest = rest.checked_mul(10)?;
        quotient.push(b'0' + u8::try_from(rest / divisor).ok()?);
        rest %= divisor;
    }
    let carried = rest >= divisor - rest && rest > 0 && round_up(&mut quotient);
    let whole = whole + usize::from(carried);
    let mut text = String::with_capacity(quotient.len() + 2);
    if sum < 0 && quotient.iter().any(|digit| *digit != b'0') {
        text.push('-');
    }
    let (before, after) = quotient.split_at(whole);
    text.push_str(std::str::from_utf8(before).ok()?);
    if !after.is_empty() {
        text.push('.');
        text.push_str(std::str::from_utf8(after).ok()?);
    }
    Some(text)
}

/// The place of a number's first digit to the base 10,000, and that digit; zero is none at place 0.
fn leading(number: u128, scale: i64) -> (i64, i64) {
    if number == 0 {
        return (0, 0);
    }
    let digits = number.to_string();
    let exponent = i64::try_from(digits.len()).unwrap_or(i64::MAX) - 1 - scale;
    let weight = exponent.div_euclid(GROUP_DIGITS);
    let length = usize::try_from(exponent.rem_euclid(GROUP_DIGITS) + 1).unwrap_or_default();
    let first: String = digits.chars().chain(std::iter::repeat('0')).take(length).collect();
    (weight, first.parse().unwrap_or_default())
}

/// Adds one to the last digit, and says whether there is a digit more.
fn round_up(digits: &mut Vec<u8>) -> bool {
    for digit in digits.iter_mut().rev() {
        if *digit < b'9' {
            *digit += 1;
            return false;
        }
        *digit = b'0';
    }
    digits.insert(0, b'1');
    true
}

/// The average of integers as SQLite divides: both are reals by then.
#[expect(clippy::cast_precision_loss, reason = "SQLite loses the same digits")]
pub(super) fn sqlite(sum: i128, count: u64) -> Option<String> {
    let sum = i64::try_from(sum).ok()?;
    Some(format!("{:?}", sum as f64 / count as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_have_the_digits_that_postgres_gives_them() {
        // As PostgreSQL 15 wrote them.
        for (sum, count, scale, expected) in [
            (0, 3, 0, "0.00000000000000000000"),
            (1, 3, 0, "0.33333333333333333333"),
            (5, 2, 0, "2.5000000000000000"),
            (-5, 2, 0, "-2.5000000000000000"),
            (2, 3, 0, "0.66666666666666666667"),
            (10_000, 1, 0, "10000.0000000000000000"),
            (9_999, 2, 0, "4999.5000000000000000"),
            (25, 2, 2, "0.12500000000000000000"),
            (123_456_789_012_345_679, 2, 0, "61728394506172840"),
            (1, 2, 15, "0.00000000000000050000000000000000"),
        ] {
            assert_eq!(postgres(sum, count, scale).as_deref(), Some(expected), "{sum}/{count}");
        }
    }

    #[test]
    fn sqlite_divides_reals() {
        for (sum, count, expected) in [(5, 2, "2.5"), (4, 2, "2.0"), (1, 3, "0.3333333333333333")] {
            assert_eq!(sqlite(sum, count).as_deref(), Some(expected));
        }
    }
}
