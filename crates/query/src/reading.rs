//! From the JSON of an image to a value: how a column is read for a comparison.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::decimal::Decimal;
use crate::moment::{self, Form};
use crate::value::Value;

/// How a column's JSON is read. Two sides of a comparison are read so that their values are of one
/// kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Reading {
    Boolean,
    /// An integer that stays one.
    Integer,
    /// A number of any size, those that are none among them.
    Decimal,
    /// A `float4`, compared as a `float8`.
    Single,
    /// A `float8`.
    Double,
    Text,
    Uuid,
    Moment(Form),
    Bytes,
    /// SQLite: text, because the column makes everything text.
    StoredText,
    /// SQLite: whatever is there.
    Stored,
}

/// What was read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Read<'r> {
    Null,
    Value(Value<'r>),
    /// It may be any of these: the image does not say which.
    OneOf(Vec<Value<'r>>),
}

/// The JSON is not of the column's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mismatch;

impl Reading {
    /// Reads a value. Ambiguous ones are told as such: it may not matter which they are.
    pub(crate) fn read(self, json: &str) -> Result<Read<'_>, Mismatch> {
        if json == "null" {
            return Ok(Read::Null);
        }
        if self == Reading::Stored {
            return stored(json);
        }
        self.value(json).map(Read::Value).ok_or(Mismatch)
    }

    fn value(self, json: &str) -> Option<Value<'_>> {
        Some(match self {
            Reading::Boolean => Value::Boolean(match json {
                "true" => true,
                "false" => false,
                _ => return None,
            }),
            Reading::Integer => Value::Integer(json.parse().ok()?),
            Reading::Decimal => Value::Decimal(match string(json) {
                Some(word) => Decimal::parse_word(&word)?,
                None => Decimal::parse(json)?,
            }),
            Reading::Single => Value::Real(f64::from(real::<f32>(json)?)),
            Reading::Double => Value::Real(real::<f64>(json)?),
            Reading::Text => Value::Text(string(json)?),
            Reading::Uuid => Value::Uuid(uuid(&string(json)?)?),
            Reading::Moment(form) => Value::Moment(moment::from_image(form, &string(json)?)?),
            Reading::Bytes => Value::Bytes(STANDARD.decode(string(json)?.as_bytes()).ok()?),
            Reading::StoredText => Value::Text(string(json).filter(|text| is_whole(text))?),
            Reading::Stored => return None,
        })
    }
}

/// A value of a SQLite column that may hold anything.
fn stored(json: &str) -> Result<Read<'_>, Mismatch> {
    let Some(text) = string(json) else {
        let number = match json.parse() {
            Ok(integer) => Value::Integer(integer),
            Err(_) => Value::Real(real::<f64>(json).ok_or(Mismatch)?),
        };
        return Ok(Read::Value(number));
    };
    if !is_whole(&text) {
        return Err(Mismatch);
    }
    let infinity = match text.as_ref() {
        "Infinity" => Some(Value::Real(f64::INFINITY)),
        "-Infinity" => Some(Value::Real(f64::NEG_INFINITY)),
        _ => None,
    };
    let bytes = STANDARD.decode(text.as_bytes()).ok().map(Value::Bytes);
    let mut others: Vec<Value<'_>> = infinity.into_iter().chain(bytes).collect();
    if others.is_empty() {
        return Ok(Read::Value(Value::Text(text)));
    }
    others.push(Value::Text(text));
    Ok(Read::OneOf(others))
}

/// Whether a text of SQLite surely is what the image says: what was not UTF-8 there is replaced.
fn is_whole(text: &str) -> bool {
    !text.contains(char::REPLACEMENT_CHARACTER)
}

/// The text of a JSON string; none of anything else.
fn string(json: &str) -> Option<Cow<'_, str>> {
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str(json).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inner))
}

/// The name of a tenant, as a column has it that is not NULL: a text is itself, anything else what is
/// written.
pub(crate) fn host_name(json: &str) -> Cow<'_, str> {
    string(json).unwrap_or(Cow::Borrowed(json))
}

/// A real: digits, or one of the words that JSON has no number for.
fn real<F: std::str::FromStr>(json: &str) -> Option<F> {
    match string(json) {
        Some(word) => match word.as_ref() {
            "NaN" | "Infinity" | "-Infinity" => word.parse().ok(),
            _ => None,
        },
        None => json.parse().ok(),
    }
}

/// A UUID as PostgreSQL reads it: hexadecimal digits, with a hyphen or none after every four, and in
/// braces or not.
pub(crate) fn uuid(text: &str) -> Option<u128> {
    let inner = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}')?,
        None => text,
    };
    let mut number = 0_u128;
    let mut digits = 0;
    let mut after_hyphen = false;
    for c in inner.chars() {
        if c == '-' {
            if after_hyphen || digits == 0 || digits % 4 != 0 || digits == 32 {
                return None;
            }
            after_hyphen = true;
            continue;
        }
        if digits == 32 {
            return None;
        }
        number = number << 4 | u128::from(c.to_digit(16)?);
        digits += 1;
        after_hyphen = false;
    }
    (digits == 32).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(reading: Reading, json: &str) -> Option<Value<'_>> {
        match reading.read(json) {
            Ok(Read::Value(value)) => Some(value),
            _ => None,
        }
    }

    #[test]
    fn values_are_read_by_their_type() {
        let text = |text: &'static str| Value::Text(Cow::Borrowed(text));
        for (reading, json, expected) in [
            (Reading::Boolean, "true", Value::Boolean(true)),
            (Reading::Integer, "-9223372036854775808", Value::Integer(i64::MIN)),
            (Reading::Decimal, "\"NaN\"", Value::Decimal(Decimal::NaN)),
            (Reading::Single, "0.1", Value::Real(f64::from(0.1_f32))),
            (Reading::Double, "0.1", Value::Real(0.1)),
            (Reading::Double, "\"-Infinity\"", Value::Real(f64::NEG_INFINITY)),
            (Reading::Text, r#""a\"\u00e4""#, text("a\"ä")),
            (Reading::Bytes, "\"AP8=\"", Value::Bytes(vec![0, 255])),
            (Reading::Moment(Form::Date), "\"1970-01-02\"", Value::Moment(86_400_000_000)),
            (Reading::StoredText, "\"paid\"", text("paid")),
            (Reading::Stored, "5", Value::Integer(5)),
            (Reading::Stored, "5.0", Value::Real(5.0)),
            (Reading::Stored, "\"not base64\"", text("not base64")),
        ] {
            assert_eq!(value(reading, json), Some(expected), "{json}");
        }
    }

    #[test]
    fn what_is_of_another_type_is_not_read() {
        for (reading, json) in [
            (Reading::Boolean, "1"),
            (Reading::Integer, "1.5"),
            (Reading::Integer, "\"1\""),
            (Reading::Decimal, "\"1\"x"),
            (Reading::Double, "\"1\""),
            (Reading::Text, "5"),
            (Reading::Text, "{\"a\":1}"),
            (Reading::Uuid, "\"abc\""),
            (Reading::Bytes, "\"*\""),
            (Reading::StoredText, "5"),
            (Reading::StoredText, "\"\u{fffd}\""),
            (Reading::Stored, "[]"),
        ] {
            assert_eq!(reading.read(json), Err(Mismatch), "{json}");
        }
    }

    #[test]
    fn bytes_and_infinities_look_like_text() {
        for (json, several) in [("\"paid\"", 2), ("\"Infinity\"", 3), ("\"-Infinity\"", 2)] {
            match Reading::Stored.read(json) {
                Ok(Read::OneOf(values)) => assert_eq!(values.len(), several, "{json}"),
                other => panic!("{json} is {other:?}"),
            }
        }
    }

    #[test]
    fn uuids_are_read_as_postgres_does() {
        let expected = Some(0xa0ee_bc99_9c0b_4ef8_bb6d_6bb9_bd38_0a11);
        for text in [
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
            "{a0eebc999c0b4ef8bb6d6bb9bd380a11}",
            "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
        ] {
            assert_eq!(uuid(text), expected, "{text}");
        }
        for text in ["", "{}", "a0eebc99", "a0e-ebc999c0b4ef8bb6d6bb9bd380a11", "urn:uuid:a0eebc99"]
        {
            assert_eq!(uuid(text), None, "{text}");
        }
    }
}
