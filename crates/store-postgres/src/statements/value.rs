//! Values of results, from PostgreSQL's text to the canonical JSON of events: as `to_jsonb` writes
//! them in UTC, with bytes in base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio_postgres::types::{Kind, Type};

/// A value as JSON, of a column of this type. None is NULL.
pub(super) fn to_json(text: Option<&str>, kind: &Type) -> String {
    match text {
        Some(text) if *base(kind) == Type::BYTEA => bytes(text),
        Some(text) => json(text, kind),
        None => "null".to_owned(),
    }
}

/// The type's name: as SQL has it, with `[]` for arrays.
pub(super) fn type_name(kind: &Type) -> String {
    match kind.kind() {
        Kind::Array(element) if kind.name().starts_with('_') => {
            format!("{}[]", type_name(element))
        }
        _ => kind.name().to_owned(),
    }
}

/// The type that a domain is of, or the type itself.
pub(super) fn base(kind: &Type) -> &Type {
    match kind.kind() {
        Kind::Domain(of) => base(of),
        _ => kind,
    }
}

fn json(text: &str, kind: &Type) -> String {
    let kind = base(kind);
    match kind.kind() {
        Kind::Array(element) => return array(text, element),
        Kind::Composite(fields) => {
            let fields: Vec<(&str, &Type)> =
                fields.iter().map(|field| (field.name(), field.type_())).collect();
            return composite(text, &fields);
        }
        _ => {}
    }
    match *kind {
        Type::BOOL => if text == "t" { "true" } else { "false" }.to_owned(),
        Type::INT2 | Type::INT4 | Type::INT8 | Type::FLOAT4 | Type::FLOAT8 | Type::NUMERIC => {
            number(text).unwrap_or_else(|| string(text))
        }
        Type::JSON | Type::JSONB => text.to_owned(),
        Type::TIMESTAMP => string(&text.replacen(' ', "T", 1)),
        Type::TIMESTAMPTZ => string(&moment(text)),
        _ => string(text),
    }
}

fn string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Bytes in hexadecimal digits as base64.
fn bytes(text: &str) -> String {
    let digits = text.strip_prefix("\\x").unwrap_or_default().as_bytes();
    let nibble = |digit: u8| (digit as char).to_digit(16).unwrap_or_default();
    let decoded: Vec<u8> = digits
        .chunks(2)
        .filter_map(|pair| match pair {
            [high, low] => u8::try_from(nibble(*high) << 4 | nibble(*low)).ok(),
            _ => None,
        })
        .collect();
    string(&STANDARD.encode(decoded))
}

/// A number with every digit, written without an exponent. None if it is not one: infinities, and
/// what is not a number.
fn number(text: &str) -> Option<String> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let Some((mantissa, exponent)) = digits.split_once(['e', 'E']) else {
        let zero = digits.bytes().all(|digit| matches!(digit, b'0' | b'.'));
        return Some(format!("{}{digits}", if zero { "" } else { sign }));
    };
    let exponent: i32 = exponent.parse().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let point = i32::try_from(whole.len()).ok()?.checked_add(exponent)?;
    let length = i32::try_from(all.len()).ok()?;
    let plain = if point <= 0 {
        format!("0.{}{all}", "0".repeat(usize::try_from(-point).ok()?))
    } else if point >= length {
        format!("{all}{}", "0".repeat(usize::try_from(point - length).ok()?))
    } else {
        let (whole, fraction) = all.split_at(usize::try_from(point).ok()?);
        format!("{whole}.{fraction}")
    };
    Some(format!("{sign}{plain}"))
}

/// `2024-01-02 03:04:05+00` as `2024-01-02T03:04:05+00:00`.
fn moment(text: &str) -> String {
    let (time, era) = match text.strip_suffix(" BC") {
        Some(time) => (time, " BC"),
        None => (text, ""),
    };
    let iso = time.replacen(' ', "T", 1);
    let Some(zone) = iso.rfind(['+', '-']).filter(|at| iso.find('T').is_some_and(|t| *at > t))
    else {
        return format!("{iso}{era}");
    };
    let minutes = if iso[zone..].contains(':') { "" } else { ":00" };
    format!("{iso}{minutes}{era}")
}

/// `{1,2,NULL}` as a JSON array, however deep.
fn array(text: &str, element: &Type) -> String {
    // Bounds that are not the usual ones stand before it.
    let text = match text.starts_with('[') {
        true => text.split_once('=').map_or(text, |(_, array)| array),
        false => text,
    };
    if !text.starts_with('{') {
        // The vectors of the system's own tables.
        let items = text.split_whitespace().map(|item| json(item, element));
        return format!("[{}]", items.collect::<Vec<_>>().join(","));
    }
    let delimiter = if *element == Type::BOX { ';' } else { ',' };
    let mut out = String::with_capacity(text.len() + 8);
    let mut rest = text;
    items(&mut rest, delimiter, element, &mut out);
    out
}

/// Writes what stands between braces.
fn items(rest: &mut &str, delimiter: char, element: &Type, out: &mut String) {
    *rest = &rest[1..];
    out.push('[');
    loop {
        match rest.chars().next() {
            Some('{') => items(rest, delimiter, element, out),
            Some('}') | None => {}
            Some('"') => {
                let item = quoted(rest);
                out.push_str(&json(&item, element));
            }
            Some(_) => {
                let end = rest.find([delimiter, '}']).unwrap_or(rest.len());
                let (item, after) = rest.split_at(end);
                *rest = after;
                if item.eq_ignore_ascii_case("NULL") {
                    out.push_str("null");
                } else {
                    out.push_str(&json(item, element));
                }
            }
        }
        let next = rest.chars().next();
        *rest = rest.get(1..).unwrap_or_default();
        if next == Some(delimiter) {
            out.push(',');
        } else {
            break;
        }
    }
    out.push(']');
}

/// Takes a text in double quotes, in which a backslash, or a quote before a quote, is not meant.
fn quoted(rest: &mut &str) -> String {
    let mut text = String::new();
    let mut chars = rest.char_indices().skip(1).peekable();
    let mut end = rest.len();
    while let Some((at, next)) = chars.next() {
        match next {
            '\\' => text.extend(chars.next().map(|(_, escaped)| escaped)),
            '"' if chars.peek().is_some_and(|(_, after)| *after == '"') => {
                chars.next();
                text.push('"');
            }
            '"' => {
                end = at + 1;
                break;
            }
            other => text.push(other),
        }
    }
    *rest = &rest[end..];
    text
}

/// `(1,"a b",)` as an object.
fn composite(text: &str, fields: &[(&str, &Type)]) -> String {
    let mut rest = text.get(1..).unwrap_or_default();
    let mut members = Vec::with_capacity(fields.len());
    for (name, kind) in fields {
        let value = match rest.chars().next() {
            Some(',' | ')') | None => None,
            _ => Some(field(&mut rest)),
        };
        rest = rest.get(1..).unwrap_or_default();
        let value = value.map_or_else(|| "null".to_owned(), |value| json(&value, kind));
        members.push(format!("{}: {value}", string(name)));
    }
    format!("{{{}}}", members.join(", "))
}

/// Takes a field: pieces in quotes and pieces without.
fn field(rest: &mut &str) -> String {
    let mut text = String::new();
    loop {
        match rest.chars().next() {
            Some(',' | ')') | None => return text,
            Some('"') => text.push_str(&quoted(rest)),
            Some(other) => {
                text.push(other);
                *rest = &rest[other.len_utf8()..];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_every_digit_and_have_no_exponent() {
        for (text, kind, json) in [
            ("9223372036854775807", Type::INT8, "9223372036854775807"),
            ("-0.10", Type::NUMERIC, "-0.10"),
            (
                "123456789012345678901234567890.0001",
                Type::NUMERIC,
                "123456789012345678901234567890.0001",
            ),
            ("NaN", Type::NUMERIC, "\"NaN\""),
            ("-Infinity", Type::FLOAT8, "\"-Infinity\""),
            ("1e+20", Type::FLOAT8, "100000000000000000000"),
            ("1.5e-07", Type::FLOAT8, "0.00000015"),
            ("-1.25e+01", Type::FLOAT8, "-12.5"),
            ("-0", Type::FLOAT8, "0"),
        ] {
            assert_eq!(to_json(Some(text), &kind), json, "{text}");
        }
    }

    #[test]
    fn times_are_written_as_in_events() {
        for (text, kind, json) in [
            ("2024-01-02 03:04:05.678+00", Type::TIMESTAMPTZ, "\"2024-01-02T03:04:05.678+00:00\""),
            ("2024-01-02 03:04:05+05:30", Type::TIMESTAMPTZ, "\"2024-01-02T03:04:05+05:30\""),
            ("0044-03-15 00:00:00+00 BC", Type::TIMESTAMPTZ, "\"0044-03-15T00:00:00+00:00 BC\""),
            ("infinity", Type::TIMESTAMPTZ, "\"infinity\""),
            ("2024-01-02 03:04:05", Type::TIMESTAMP, "\"2024-01-02T03:04:05\""),
            ("2024-01-02", Type::DATE, "\"2024-01-02\""),
        ] {
            assert_eq!(to_json(Some(text), &kind), json, "{text}");
        }
    }

    #[test]
    fn arrays_and_bytes_become_json() {
        for (text, kind, json) in [
            ("{1,NULL,3}", Type::INT4_ARRAY, "[1,null,3]"),
            ("{{1,2},{3,4}}", Type::INT4_ARRAY, "[[1,2],[3,4]]"),
            ("[0:1]={7,8}", Type::INT4_ARRAY, "[7,8]"),
            ("{}", Type::TEXT_ARRAY, "[]"),
            (r#"{"a,b","c\"d","NULL",e}"#, Type::TEXT_ARRAY, r#"["a,b","c\"d","NULL","e"]"#),
            (r#"{"{\"a\": 1}"}"#, Type::JSONB_ARRAY, r#"[{"a": 1}]"#),
            ("1 2", Type::INT2_VECTOR, "[1,2]"),
            ("\\x00ff", Type::BYTEA, "\"AP8=\""),
            ("t", Type::BOOL, "true"),
        ] {
            assert_eq!(to_json(Some(text), &kind), json, "{text}");
        }
        assert_eq!(to_json(None, &Type::INT4), "null");
    }

    #[test]
    fn a_composite_is_an_object() {
        let fields = [("a", &Type::INT4), ("b c", &Type::TEXT), ("d", &Type::INT4_ARRAY)];
        assert_eq!(
            composite(r#"(1,"x ""y"", \\z","{1,2}")"#, &fields),
            r#"{"a": 1, "b c": "x \"y\", \\z", "d": [1,2]}"#
        );
        assert_eq!(composite("(,\"\",)", &fields), r#"{"a": null, "b c": "", "d": null}"#);
    }

    #[test]
    fn arrays_have_their_elements_names() {
        assert_eq!(type_name(&Type::TEXT_ARRAY), "text[]");
        assert_eq!(type_name(&Type::INT8), "int8");
    }
}
