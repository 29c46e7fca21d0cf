//! Parameters: JSON values as SQL literals of the types that a statement wants.

use std::error::Error;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::BytesMut;
use serde_json::Value;
use serde_json::value::RawValue;

use tokio_postgres::types::{Format, IsNull, Kind, ToSql, Type, to_sql_checked};

use super::value::{base, type_name};
use tidewire_store::sql::SqlError;

/// A value as a literal. The error says what is wrong with it.
pub(super) fn literal(value: &RawValue, kind: &Type) -> Result<String, String> {
    match text(value, kind)? {
        Some(text) => quote(&text),
        None => Ok("NULL".to_owned()),
    }
}

/// A value as the text that PostgreSQL reads it from.
#[derive(Debug)]
pub(super) struct ParameterText(Option<String>);

/// A value to be sent beside a statement. The error says what is wrong with it.
pub(super) fn sent(value: &RawValue, kind: &Type) -> Result<ParameterText, String> {
    match text(value, kind)? {
        Some(text) if text.contains('\0') => Err(NO_ZERO.to_owned()),
        text => Ok(ParameterText(text)),
    }
}

impl ToSql for ParameterText {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match &self.0 {
            Some(text) => {
                out.extend_from_slice(text.as_bytes());
                Ok(IsNull::No)
            }
            None => Ok(IsNull::Yes),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    to_sql_checked!();
}

const NO_ZERO: &str = "PostgreSQL's texts have no character of code 0";

/// A text as a literal, whatever is in it.
pub(super) fn quote(text: &str) -> Result<String, String> {
    if text.contains('\0') {
        return Err(NO_ZERO.to_owned());
    }
    let doubled = text.replace('\'', "''");
    Ok(if text.contains('\\') {
        format!("E'{}'", doubled.replace('\\', "\\\\"))
    } else {
        format!("'{doubled}'")
    })
}

/// What PostgreSQL reads a value of the type from. None is NULL.
fn text(value: &RawValue, kind: &Type) -> Result<Option<String>, String> {
    let (raw, kind) = (value.get(), base(kind));
    if raw == "null" {
        return Ok(None);
    }
    if matches!(*kind, Type::JSON | Type::JSONB) {
        return Ok(Some(raw.to_owned()));
    }
    if raw.starts_with('"') {
        let text: String = serde_json::from_str(raw).map_err(|error| error.to_string())?;
        return match *kind {
            Type::BYTEA => bytes(&text).map(Some),
            _ => Ok(Some(text)),
        };
    }
    match (kind.kind(), raw.starts_with('[')) {
        (Kind::Array(element), true) => array(raw, element).map(Some),
        // Numbers keep every digit: they are taken as they came.
        _ => Ok(Some(raw.to_owned())),
    }
}

fn bytes(text: &str) -> Result<String, String> {
    let decoded = STANDARD.decode(text).map_err(|_| "bytes are given in base64".to_owned())?;
    let digits: String = decoded.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("\\x{digits}"))
}

fn array(raw: &str, element: &Type) -> Result<String, String> {
    let items: Vec<Box<RawValue>> = serde_json::from_str(raw).map_err(|error| error.to_string())?;
    let mut texts = Vec::with_capacity(items.len());
    for item in &items {
        let nested = item.get().starts_with('[') && !matches!(*element, Type::JSON | Type::JSONB);
        texts.push(match text(item, element)? {
            None => "NULL".to_owned(),
            Some(_) if nested => array(item.get(), element)?,
            Some(text) => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
        });
    }
    Ok(format!("{{{}}}", texts.join(",")))
}

/// Says of an error in a value's form which parameter has it, if that can be told.
pub(super) fn blame(error: SqlError, params: &[Box<RawValue>], wanted: &[Type]) -> SqlError {
    let SqlError::Wrong(mut problem) = error else { return error };
    let is_told = |value: &RawValue, kind: &Type| {
        let is_text = matches!(*base(kind), Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME);
        let written = text(value, kind).ok().flatten().filter(|text| !is_text && !text.is_empty());
        written.is_some_and(|text| problem.message.contains(&text))
    };
    // The database's hint is of no use here, if there is one.
    if problem.code == "sql_failed" && problem.message.contains("(SQLSTATE 22") {
        let mut all = params.iter().zip(wanted).enumerate();
        if let Some((index, (value, kind))) = all.find(|(_, (value, kind))| is_told(value, kind)) {
            let (number, what, kind) = (index + 1, shown(value), type_name(kind));
            problem.hint = Some(format!(
                "${number} is {what}, where the statement wants a value of the type {kind}: send one"
            ));
        }
    }
    SqlError::Wrong(problem)
}

/// Says how parameters are written, of a statement that cannot be read and has a sign for them that is not one here.
pub(super) fn written(error: SqlError, sql: &str, params: &[Box<RawValue>]) -> SqlError {
    match error {
        SqlError::Wrong(mut problem)
            if !params.is_empty() && sql.contains('?') && !sql.contains('$') =>
        {
            problem.hint = Some("parameters are written $1, $2 on PostgreSQL, not ?".to_owned());
            SqlError::Wrong(problem)
        }
        error => error,
    }
}

/// A value's kind in JSON, for messages.
pub(super) fn shown(value: &RawValue) -> &'static str {
    match serde_json::from_str(value.get()) {
        Ok(Value::Null) => "null",
        Ok(Value::Bool(_)) => "a boolean",
        Ok(Value::Number(_)) => "a number",
        Ok(Value::String(_)) => "a string",
        Ok(Value::Array(_)) => "an array",
        Ok(Value::Object(_)) => "an object",
        Err(_) => "no JSON",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(json: &str, kind: &Type) -> Result<String, String> {
        literal(&RawValue::from_string(json.to_owned()).expect("JSON"), kind)
    }

    #[test]
    fn values_become_literals() {
        for (json, kind, literal) in [
            ("null", Type::INT4, "NULL"),
            ("12345678901234567890.10", Type::NUMERIC, "'12345678901234567890.10'"),
            ("true", Type::BOOL, "'true'"),
            (r#""it's""#, Type::TEXT, "'it''s'"),
            (r#""a\\b'c""#, Type::TEXT, r"E'a\\b''c'"),
            (r#""x""#, Type::JSONB, r#"'"x"'"#),
            (r#"{"a": 1}"#, Type::JSONB, r#"'{"a": 1}'"#),
            ("[1, null]", Type::INT4_ARRAY, r#"'{"1",NULL}'"#),
            ("[[1], [2]]", Type::INT4_ARRAY, r#"'{{"1"},{"2"}}'"#),
            (r#"["a\"b"]"#, Type::TEXT_ARRAY, r#"E'{"a\\"b"}'"#),
            ("[[1]]", Type::JSONB_ARRAY, r#"'{"[1]"}'"#),
            (r#""AP8=""#, Type::BYTEA, r"E'\\x00ff'"),
        ] {
            assert_eq!(of(json, &kind).as_deref(), Ok(literal), "{json}");
        }
        assert!(of(r#""a\u0000""#, &Type::TEXT).is_err());
        assert!(of(r#""no base64!""#, &Type::BYTEA).is_err());
    }
}
