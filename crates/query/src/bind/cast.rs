//! Values as PostgreSQL reads them: literals of a type, and casts from one type to another.
//!
//! Only what means the same under all settings is read. The rest is refused, though the database might
//! take it.

use std::borrow::Cow;

use sqlparser::ast::{CharacterLength, DataType, ExactNumberInfo, TimezoneInfo};

use super::kind::Kind;
use super::operand::Literal;
use crate::decimal::Decimal;
use crate::moment::{self, Form};
use crate::reading;
use crate::refusal::{NOT_OF_TYPE, NOT_SUPPORTED, Refusal};
use crate::value::{Constant, Value};

/// Digits of a number, before and after its point, at most. PostgreSQL's own limits lie far beyond.
const NUMBER_DIGITS_MAX: u64 = 1_000;

/// A literal that was cast.
pub(super) fn cast(literal: &Literal, data_type: &DataType) -> Result<Literal, Refusal> {
    let kind = kind(data_type).ok_or_else(|| {
        Refusal::new(NOT_SUPPORTED, format!("a cast to {data_type} is not supported"))
            .hint("cast to a type without a length, such as bigint, numeric, text, uuid or date")
    })?;
    let impossible = |from: &str| {
        let message = format!("a cast from {from} to {} is not supported", kind.name());
        Err(Refusal::new(NOT_SUPPORTED, message).hint("cast a value in quotes"))
    };
    let value = match literal {
        Literal::Null => return Ok(Literal::Null),
        Literal::Text(text) => input(kind, text)?,
        Literal::Number(_) if kind.is_text() || kind == Kind::Boolean => {
            return impossible("a number");
        }
        Literal::Number(digits) => number(kind, digits)?,
        Literal::Boolean(value) if kind == Kind::Boolean => Value::Boolean(*value),
        Literal::Boolean(_) => return impossible("boolean"),
        Literal::Typed(same, value) if *same == kind => value.clone(),
        Literal::Typed(Kind::Text, Value::Text(text)) => input(kind, text)?,
        Literal::Typed(from, Value::Integer(number)) if from.is_integer() && kind.is_integer() => {
            integer(kind, &number.to_string())?
        }
        Literal::Typed(from, _) => return impossible(from.name()),
    };
    Ok(Literal::Typed(kind, value))
}

/// The type that a cast names. Types with a length would cut or round.
fn kind(data_type: &DataType) -> Option<Kind> {
    let plain = ExactNumberInfo::None;
    let unlimited: Option<CharacterLength> = None;
    Some(match data_type {
        DataType::Bool | DataType::Boolean => Kind::Boolean,
        DataType::Int2(None) | DataType::SmallInt(None) => Kind::Int2,
        DataType::Int4(None) | DataType::Int(None) | DataType::Integer(None) => Kind::Int4,
        DataType::Int8(None) | DataType::BigInt(None) => Kind::Int8,
        DataType::Numeric(info) | DataType::Decimal(info) | DataType::Dec(info)
            if *info == plain =>
        {
            Kind::Numeric
        }
        DataType::Real | DataType::Float4 => Kind::Float4,
        DataType::DoublePrecision | DataType::Float8 => Kind::Float8,
        DataType::Float(info) if *info == plain => Kind::Float8,
        DataType::Text => Kind::Text,
        DataType::Varchar(length) | DataType::CharacterVarying(length) if *length == unlimited => {
            Kind::Text
        }
        DataType::Uuid => Kind::Uuid,
        DataType::Date => Kind::Date,
        DataType::Timestamp(None, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            Kind::Timestamp
        }
        DataType::Timestamp(None, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => Kind::Zoned,
        DataType::Time(None, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => Kind::Time,
        DataType::Bytea => Kind::Bytes,
        _ => return None,
    })
}

/// The kind that a number without a cast has.
pub(super) fn kind_of_number(digits: &str) -> Kind {
    match digits.parse::<i64>() {
        Ok(number) if i32::try_from(number).is_ok() => Kind::Int4,
        Ok(_) => Kind::Int8,
        Err(_) => Kind::Numeric,
    }
}

/// A value in quotes, read as a type.
pub(super) fn input(kind: Kind, text: &str) -> Result<Constant, Refusal> {
    let refuse = |why: &str| {
        let message = format!("'{text}' cannot be read as {}", kind.name());
        Err(Refusal::new(NOT_OF_TYPE, message).hint(why))
    };
    let form = match kind {
        Kind::Text | Kind::Padded | Kind::Enum => {
            return Ok(Value::Text(Cow::Owned(text.to_owned())));
        }
        Kind::Int2 | Kind::Int4 | Kind::Int8 => return integer(kind, text),
        Kind::Numeric | Kind::Float4 | Kind::Float8 => return number(kind, text),
        Kind::Boolean => {
            return match text.to_ascii_lowercase().as_str() {
                "t" | "true" | "y" | "yes" | "on" | "1" => Ok(Value::Boolean(true)),
                "f" | "false" | "n" | "no" | "off" | "0" => Ok(Value::Boolean(false)),
                _ => refuse("write true or false"),
            };
        }
        Kind::Uuid => {
            return match reading::uuid(text) {
                Some(uuid) => Ok(Value::Uuid(uuid)),
                None => refuse("a UUID has 32 hexadecimal digits"),
            };
        }
        Kind::Bytes => {
            return match text.strip_prefix("\\x").and_then(hexadecimal) {
                Some(bytes) => Ok(Value::Bytes(bytes)),
                None => refuse("bytes are written in hexadecimal, '\\x0aff'"),
            };
        }
        Kind::Date => Form::Date,
        Kind::Timestamp => Form::Timestamp,
        Kind::Zoned => Form::Zoned,
        Kind::Time => Form::Time,
    };
    moment::from_literal(form, text).map(Value::Moment).or_else(refuse)
}

/// A whole number that a type has room for.
fn integer(kind: Kind, text: &str) -> Result<Constant, Refusal> {
    let fits = |number: &i64| match kind {
        Kind::Int2 => i16::try_from(*number).is_ok(),
        Kind::Int4 => i32::try_from(*number).is_ok(),
        _ => true,
    };
    text.parse().ok().filter(fits).map(Value::Integer).ok_or_else(|| {
        let message = format!("{text} cannot be read as {}", kind.name());
        Refusal::new(NOT_OF_TYPE, message).hint("write a whole number that the type has room for")
    })
}

/// A number, read as a type.
pub(super) fn number(kind: Kind, text: &str) -> Result<Constant, Refusal> {
    let refusal = || {
        let message = format!("{text} cannot be read as {}", kind.name());
        Refusal::new(NOT_OF_TYPE, message)
            .hint(format!("write a number of at most {NUMBER_DIGITS_MAX} digits"))
    };
    let decimal = Decimal::parse_word(text)
        .filter(|decimal| decimal.extent() <= NUMBER_DIGITS_MAX)
        .ok_or_else(refusal)?;
    match kind {
        Kind::Int2 | Kind::Int4 | Kind::Int8 => integer(kind, text),
        Kind::Numeric => Ok(Value::Decimal(decimal)),
        Kind::Float4 | Kind::Float8 => real(kind, &decimal).map(Value::Real).ok_or_else(refusal),
        _ => Err(refusal()),
    }
}

/// The real nearest to a number. One so large or small that it would be infinity or zero is refused,
/// as the database does.
fn real(kind: Kind, decimal: &Decimal) -> Option<f64> {
    let text = decimal.to_string();
    let real = match kind {
        Kind::Float4 => f64::from(text.parse::<f32>().ok()?),
        _ => text.parse::<f64>().ok()?,
    };
    let is_zero = decimal.precision() == 0;
    match decimal {
        Decimal::Finite(_) => (real.is_finite() && (real != 0.0 || is_zero)).then_some(real),
        _ => Some(real),
    }
}

fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    text.as_bytes().chunks(2).map(pair).collect()
}
