//! Durations, limits and texts as the configuration writes them, for `deserialize_with`.

use std::time::Duration;

use serde::{Deserialize, Deserializer};

/// A duration, of a key that ends with `_ms`.
pub fn ms<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    u64::deserialize(deserializer).map(Duration::from_millis)
}

/// A limit, of a key where 0 is none.
pub fn limit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    u64::deserialize(deserializer).map(|number| Some(number).filter(|number| *number > 0))
}

/// A text, of a key where an empty one is none.
pub fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    String::deserialize(deserializer).map(|text| Some(text).filter(|text| !text.is_empty()))
}

/// A number and a unit: `30d`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let seconds = match &text[digits.len()..] {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err("give a number and s, m, h or d, such as 30d".to_owned()),
    };
    let number: u64 = digits.parse().map_err(|_| "give a whole number, such as 30d".to_owned())?;
    let seconds = number.checked_mul(seconds).ok_or("that is too long")?;
    Ok(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use toml::Value;

    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("30d"), Ok(Duration::from_secs(30 * 86_400)));
        for bad in ["", "30", "d", "30w", "-1s", "1.5h", "99999999999999999d"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn values_are_read_as_they_are_meant() {
        assert_eq!(ms(Value::from(1_500)), Ok(Duration::from_millis(1_500)));
        assert!(ms(Value::from(-1)).is_err());
        assert_eq!(limit(Value::from(7)), Ok(Some(7)));
        assert_eq!(limit(Value::from(0)), Ok(None));
        assert_eq!(text(Value::from("a")), Ok(Some("a".to_owned())));
        assert_eq!(text(Value::from("")), Ok(None));
    }
}
