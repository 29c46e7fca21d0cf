//! Comparisons as SQLite settles them: by affinities, then by what kind of value is there.
//!
//! Bytes are base64 in the image of a row and so look like text. Columns that may hold bytes by their
//! declaration are not compared. In those of numbers, where bytes and text are strays, both are tried,
//! and it is unsure only where that makes a difference. A column of text is taken at its word: bytes
//! that were put into one count as the text that events show.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::affinity::{Affinity, NumericText, looks};
use super::field;
use super::operand::Literal;
use crate::condition::Test;
use crate::decimal::Decimal;
use crate::operator::Operator;
use crate::reading::Reading;
use crate::refusal::{NOT_EXACT, NOT_OF_TYPE, NOT_SUPPORTED, Refusal, SYNTAX};
use crate::table::Column;
use crate::value::{Collation, Constant, Value};

/// Digits of a real, at most: so many, and no more, are turned into the same real by everyone.
const REAL_DIGITS_MAX: usize = 15;
/// Places that the point of a real may be moved by, at most, for the same reason.
const REAL_EXTENT_MAX: u64 = 22;

/// A column against a value.
pub(super) fn constant(
    column: &Column,
    explicit: Option<&str>,
    literal: &Literal,
) -> Result<(Reading, Collation, Constant), Refusal> {
    let collation = collation(Some(column), explicit)?;
    let (reading, value) = match compared(column)? {
        Affinity::Text => (Reading::StoredText, as_text(column, literal)?),
        _ => (Reading::Stored, as_number(column, literal)?),
    };
    Ok((reading, collation, value))
}

/// Refuses `IS [NOT] DISTINCT FROM TRUE`, which SQLite reads as `IS [NOT] TRUE`: a question of another kind.
pub(super) fn may_be_distinct(literal: &Literal, operator: Operator) -> Result<(), Refusal> {
    let distinct = matches!(operator, Operator::DistinctFrom | Operator::NotDistinctFrom);
    if !distinct || !matches!(literal, Literal::Boolean(_)) {
        return Ok(());
    }
    let message = "SQLite does not compare with TRUE or FALSE there, but asks whether it holds";
    Err(Refusal::new(NOT_EXACT, message).hint("write IS TRUE, or compare with 1 or 0"))
}

/// Two columns. The collation is that of the left one.
pub(super) fn columns(
    left: &Column,
    right: &Column,
    explicit: Option<&str>,
) -> Result<(Reading, Reading, Collation), Refusal> {
    let collation = collation(Some(left), explicit)?;
    let reading = match (compared(left)?, compared(right)?) {
        (Affinity::Text, Affinity::Text) => Reading::StoredText,
        (Affinity::Number, Affinity::Number) => Reading::Stored,
        _ => {
            let message = format!(
                "the columns {} of type {} and {} of type {} are made alike by SQLite row by row",
                left.name, left.type_name, right.name, right.type_name
            );
            return Err(Refusal::new(NOT_EXACT, message).hint("compare columns of like types"));
        }
    };
    Ok((reading, reading, collation))
}

/// Two values, which have no affinity.
pub(super) fn literals(
    left: &Literal,
    right: &Literal,
    explicit: Option<&str>,
) -> Result<(Constant, Constant, Collation), Refusal> {
    Ok((plain(left)?, plain(right)?, collation(None, explicit)?))
}

/// A column that is a condition by itself: a number that is not zero.
pub(super) fn holds(column: &Column) -> Result<Test, Refusal> {
    if compared(column)? != Affinity::Number {
        let (name, type_name) = (&column.name, &column.type_name);
        let message = format!("the column {name} of type {type_name} is not a condition");
        return Err(Refusal::new(SYNTAX, message).hint("compare it with a value"));
    }
    Ok(Test::Holds { field: field(column, Reading::Stored), negated: false })
}

/// How a text is read for LIKE, which folds ASCII letters.
pub(super) fn like(
    column: Option<&Column>,
    ignores_case: bool,
) -> Result<(Reading, bool), Refusal> {
    if ignores_case {
        let refusal = Refusal::new(SYNTAX, "SQLite has no ILIKE");
        return Err(refusal.hint("LIKE ignores the case of ASCII letters there"));
    }
    if let Some(column) = column
        && compared(column)? != Affinity::Text
    {
        let (name, type_name) = (&column.name, &column.type_name);
        let message = format!(
            "LIKE of the column {name} of type {type_name}: SQLite would turn its numbers into text"
        );
        return Err(Refusal::new(NOT_EXACT, message).hint("LIKE is for columns of text"));
    }
    Ok((Reading::StoredText, true))
}

pub(super) fn compared(column: &Column) -> Result<Affinity, Refusal> {
    match Affinity::of(&column.type_name) {
        Affinity::Blob => {
            let (name, type_name) = (&column.name, &column.type_name);
            let declared =
                if type_name.is_empty() { "no type".into() } else { format!("type {type_name}") };
            let message = format!(
                "the column {name} of {declared} may hold bytes, which the image of a row does not \
                 tell from text"
            );
            let hint = "declare the column as TEXT, INTEGER, REAL or NUMERIC";
            Err(Refusal::new(NOT_EXACT, message).hint(hint))
        }
        affinity => Ok(affinity),
    }
}

/// A value that meets a column of text becomes text.
fn as_text(column: &Column, literal: &Literal) -> Result<Constant, Refusal> {
    match plain(literal)? {
        Value::Integer(number) => Ok(Value::Text(number.to_string().into())),
        Value::Real(_) => {
            let message = format!(
                "the column {} holds text, and SQLite would turn the number into text to compare it",
                column.name
            );
            Err(Refusal::new(NOT_OF_TYPE, message).hint("write the text that is meant, in quotes"))
        }
        value => Ok(value),
    }
}

/// A text that meets a column of numbers becomes a number if it looks like one.
fn as_number(column: &Column, literal: &Literal) -> Result<Constant, Refusal> {
    let Literal::Text(text) = literal else { return plain(literal) };
    match looks(text) {
        NumericText::Number(start, end) => number(text.get(start..end).unwrap_or_default()),
        // Equal to a text and to bytes that look the same: it would be unsure just where it matters.
        NumericText::Text if STANDARD.decode(text).is_ok() => {
            let (name, type_name) = (&column.name, &column.type_name);
            let message = format!(
                "the column {name} of type {type_name} is one of numbers to SQLite, and its image does \
                 not tell the text '{text}' from bytes"
            );
            let hint = format!("declare the column {name} as TEXT");
            Err(Refusal::new(NOT_EXACT, message).hint(hint))
        }
        NumericText::Text => Ok(Value::Text(text.clone().into())),
    }
}

/// A value as it is.
fn plain(literal: &Literal) -> Result<Constant, Refusal> {
    match literal {
        Literal::Text(text) => Ok(Value::Text(text.clone().into())),
        Literal::Number(digits) => number(digits),
        Literal::Boolean(value) => Ok(Value::Integer(i64::from(*value))),
        Literal::Null | Literal::Typed(..) => {
            Err(Refusal::new(NOT_SUPPORTED, "a cast is not supported in SQLite"))
        }
    }
}

fn number(text: &str) -> Result<Constant, Refusal> {
    if let Ok(integer) = text.parse() {
        return Ok(Value::Integer(integer));
    }
    let exact = |decimal: &Decimal| {
        decimal.precision() <= REAL_DIGITS_MAX && decimal.extent() <= REAL_EXTENT_MAX
    };
    let real = Decimal::parse(text).filter(exact).and_then(|_| text.parse().ok());
    real.map(Value::Real).ok_or_else(|| {
        let message = format!("{text} is a real that is not read the same way everywhere");
        let hint = format!("write at most {REAL_DIGITS_MAX} digits, or a whole number of 64 bits");
        Refusal::new(NOT_EXACT, message).hint(hint)
    })
}

pub(super) fn collation(
    column: Option<&Column>,
    explicit: Option<&str>,
) -> Result<Collation, Refusal> {
    let declared = column.and_then(|column| column.collation.as_deref());
    let name = explicit.or(declared).unwrap_or("BINARY");
    match name.to_ascii_uppercase().as_str() {
        "BINARY" => Ok(Collation::Bytes),
        "NOCASE" => Ok(Collation::Nocase),
        "RTRIM" => Ok(Collation::Rtrim),
        _ => {
            let message = format!("the collation {name} is known to its application alone");
            Err(Refusal::new(NOT_EXACT, message)
                .hint("write COLLATE BINARY after the column, if that is what you want"))
        }
    }
}
