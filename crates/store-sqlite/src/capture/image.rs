//! Values and rows in their canonical form: JSON with every digit kept and bytes in base64.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rusqlite::types::ValueRef;

/// Appends a value as JSON. `real` says that its column holds reals only: SQLite stores those without
/// a fraction as integers, and does not always say so.
pub(crate) fn push_value(json: &mut String, value: ValueRef<'_>, real: bool) {
    // Writing to a string cannot fail.
    let _ = match value {
        ValueRef::Null => write!(json, "null"),
        #[expect(clippy::cast_precision_loss, reason = "SQLite stores a real that fits an integer")]
        ValueRef::Integer(number) if real => write!(json, "{:?}", number as f64),
        ValueRef::Integer(number) => write!(json, "{number}"),
        ValueRef::Real(number) if number.is_finite() => write!(json, "{number:?}"),
        // JSON has no word for these, and PostgreSQL writes them as strings.
        ValueRef::Real(number) if number > 0.0 => write!(json, "\"Infinity\""),
        ValueRef::Real(_) => write!(json, "\"-Infinity\""),
        ValueRef::Text(text) => {
            push_text(json, &String::from_utf8_lossy(text));
            Ok(())
        }
        ValueRef::Blob(bytes) => {
            json.push('"');
            STANDARD.encode_string(bytes, json);
            json.push('"');
            Ok(())
        }
    };
}

/// Appends a JSON string.
pub(crate) fn push_text(json: &mut String, text: &str) {
    // A string can always be written as JSON.
    json.push_str(&serde_json::to_string(text).unwrap_or_default());
}

/// A value as plain text, for keys, tenants and users; none of a null.
pub(crate) fn plain(value: ValueRef<'_>, real: bool) -> Option<String> {
    match value {
        ValueRef::Null => None,
        ValueRef::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Some(STANDARD.encode(bytes)),
        number => {
            let mut text = String::new();
            push_value(&mut text, number, real);
            Some(text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_every_digit() {
        for (value, real, json) in [
            (ValueRef::Null, false, "null"),
            (ValueRef::Integer(i64::MIN), false, "-9223372036854775808"),
            (ValueRef::Integer(9_007_199_254_740_993), false, "9007199254740993"),
            (ValueRef::Integer(3), true, "3.0"),
            (ValueRef::Real(0.1), true, "0.1"),
            (ValueRef::Real(1e300), true, "1e300"),
            (ValueRef::Real(-0.0), true, "-0.0"),
            (ValueRef::Real(f64::INFINITY), true, "\"Infinity\""),
            (ValueRef::Real(f64::NEG_INFINITY), true, "\"-Infinity\""),
            (ValueRef::Text(b"a\"\n\xff"), false, "\"a\\\"\\n\u{fffd}\""),
            (ValueRef::Blob(&[0, 255]), false, "\"AP8=\""),
            (ValueRef::Blob(&[]), false, "\"\""),
        ] {
            let mut written = String::new();
            push_value(&mut written, value, real);
            assert_eq!(written, json, "{value:?}");
            serde_json::from_str::<serde_json::Value>(&written).expect("JSON");
        }
    }
}
