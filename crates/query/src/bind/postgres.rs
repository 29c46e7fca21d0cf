//! Comparisons as PostgreSQL settles them: which operator two types have, and what becomes of a value
//! that has no type of its own.

use super::cast;
use super::field;
use super::kind::{Kind, Support, support};
use super::operand::{Literal, Operand, Side};
use crate::condition::Test;
use crate::operator::Operator;
use crate::reading::Reading;
use crate::refusal::{NOT_EXACT, NOT_OF_TYPE, Refusal, SYNTAX};
use crate::table::Column;
use crate::value::{Collation, Constant, Value};

/// A column against a value.
pub(super) fn constant(
    column: &Column,
    explicit: Option<&str>,
    literal: &Literal,
    operator: Operator,
) -> Result<(Reading, Collation, Constant), Refusal> {
    let kind = compared(column)?;
    let collation = collation(kind, Some(column), explicit, operator.orders())?;
    if let Literal::Text(text) = literal {
        return Ok((kind.reading(), collation, cast::input(kind, text)?));
    }
    let beside = kind_of(literal);
    let no_operator = || {
        let (name, type_name) = (&column.name, &column.type_name);
        let message = format!(
            "the column {name} of type {type_name} cannot be compared with a value of type {}",
            beside.name()
        );
        Refusal::new(NOT_OF_TYPE, message).hint("write the value in quotes, without a cast")
    };
    // An integer column against a float is compared as floats, and in a list so is all the rest.
    if !kind.is_float() && beside.is_float() {
        return Err(no_operator());
    }
    let (reading, read_beside) = pair(kind, beside).ok_or_else(no_operator)?;
    Ok((reading, collation, convert(literal, read_beside)?))
}

/// Two columns.
pub(super) fn columns(
    left: &Column,
    right: &Column,
    explicit: Option<&str>,
    operator: Operator,
) -> Result<(Reading, Reading, Collation), Refusal> {
    let (kind, beside) = (compared(left)?, compared(right)?);
    let no_operator = || {
        let message = format!(
            "the columns {} of type {} and {} of type {} cannot be compared",
            left.name, left.type_name, right.name, right.type_name
        );
        Refusal::new(NOT_EXACT, message)
    };
    let same_enum = kind != Kind::Enum || left.type_name == right.type_name;
    let same_collation = !kind.is_text() || explicit.is_some() || left.collation == right.collation;
    // A numeric column may hold what no float can: the database would fail for such a row.
    let overflows = |kind: Kind, beside: Kind| kind.is_float() && beside == Kind::Numeric;
    let fails = overflows(kind, beside) || overflows(beside, kind);
    if !same_enum || !same_collation || fails {
        return Err(no_operator());
    }
    let (reading, read_beside) = pair(kind, beside).ok_or_else(no_operator)?;
    let collation = collation(kind, Some(left), explicit, operator.orders())?;
    Ok((reading, read_beside, collation))
}

/// Two values. Without types they are text.
pub(super) fn literals(
    left: &Literal,
    right: &Literal,
    explicit: Option<&str>,
    operator: Operator,
) -> Result<(Constant, Constant, Collation), Refusal> {
    let untyped = |literal: &Literal| matches!(literal, Literal::Text(_));
    let kind = if untyped(left) { kind_of(right) } else { kind_of(left) };
    let beside = if untyped(right) { kind } else { kind_of(right) };
    let (reading, read_beside) = pair(kind, beside).ok_or_else(|| {
        let message = format!("{} cannot be compared with {}", kind.name(), beside.name());
        Refusal::new(NOT_OF_TYPE, message)
    })?;
    let collation = collation(kind, None, explicit, operator.orders())?;
    let value = |literal: &Literal, reading| match literal {
        Literal::Text(text) => cast::input(kind, text),
        typed => convert(typed, reading),
    };
    Ok((value(left, reading)?, value(right, read_beside)?, collation))
}

/// A list has one type for all, and for numbers of single precision that makes them so. Quotes avoid it.
pub(super) fn may_be_listed(tested: &Side<'_>, member: &Side<'_>) -> Result<(), Refusal> {
    let single = |side: &Side<'_>| match &side.operand {
        Operand::Column(column) => support(&column.type_name) == Support::Compared(Kind::Float4),
        Operand::Literal(literal) => matches!(literal, Literal::Typed(Kind::Float4, _)),
    };
    let quoted = matches!(member.operand, Operand::Literal(Literal::Text(_) | Literal::Null));
    if quoted || !(single(tested) || single(member)) {
        return Ok(());
    }
    let message = "numbers in a list of single precision are rounded by the list as a whole";
    Err(Refusal::new(NOT_EXACT, message).hint("write them in quotes, or with = and OR"))
}

/// Whether it can be said that a column is NULL.
pub(super) fn may_be_null(column: &Column) -> Result<(), Refusal> {
    match support(&column.type_name) {
        Support::Nothing(why) => Err(not_compared(column, why)),
        _ => Ok(()),
    }
}

/// A column that is a condition by itself.
pub(super) fn holds(column: &Column) -> Result<Test, Refusal> {
    if support(&column.type_name) != Support::Compared(Kind::Boolean) {
        let (name, type_name) = (&column.name, &column.type_name);
        let message = format!("the column {name} of type {type_name} is not a condition");
        return Err(Refusal::new(SYNTAX, message).hint("compare it with a value"));
    }
    Ok(Test::Compare {
        field: field(column, Reading::Boolean),
        operator: Operator::Equal,
        value: Value::Boolean(true),
        collation: Collation::Bytes,
    })
}

/// How a text is read for LIKE, and whether ASCII letters are folded.
pub(super) fn like(
    column: Option<&Column>,
    explicit: Option<&str>,
    ignores_case: bool,
) -> Result<(Reading, bool), Refusal> {
    let kind = column.map_or(Ok(Kind::Text), compared)?;
    if !kind.is_text() {
        let message = format!("LIKE of {} is not supported", kind.name());
        return Err(Refusal::new(NOT_EXACT, message).hint("LIKE is for text"));
    }
    // Case is folded by the locale, and by ASCII's rules only where there is none.
    collation(kind, column, explicit, ignores_case)?;
    Ok((Reading::Text, ignores_case))
}

/// Two collations that were said must be one.
pub(super) fn collations_agree(left: Option<&str>, right: Option<&str>) -> Result<(), Refusal> {
    match (left, right) {
        (Some(left), Some(right)) if left != right => {
            let message = format!("the collations {left} and {right} are both asked for");
            Err(Refusal::new(SYNTAX, message))
        }
        _ => Ok(()),
    }
}

pub(super) fn compared(column: &Column) -> Result<Kind, Refusal> {
    match support(&column.type_name) {
        Support::Compared(kind) => Ok(kind),
        Support::NullOnly(why) | Support::Nothing(why) => Err(not_compared(column, why)),
    }
}

fn not_compared(column: &Column, why: &str) -> Refusal {
    let (name, type_name) = (&column.name, &column.type_name);
    let message = format!(
        "the column {name} of type {type_name} cannot be tested exactly as PostgreSQL would: {why}"
    );
    Refusal::new(NOT_EXACT, message)
        .hint("test another column, or keep what you test in a column of a plain type")
}

/// The type that a value has by itself.
fn kind_of(literal: &Literal) -> Kind {
    match literal {
        Literal::Null | Literal::Text(_) => Kind::Text,
        Literal::Number(digits) => cast::kind_of_number(digits),
        Literal::Boolean(_) => Kind::Boolean,
        Literal::Typed(kind, _) => *kind,
    }
}

/// How two types are read to be compared, if there is an operator for them whose answer does not depend
/// on settings and cannot fail.
fn pair(left: Kind, right: Kind) -> Option<(Reading, Reading)> {
    let exact = |kind: Kind| kind.is_integer() || kind == Kind::Numeric;
    let dated = |kind: Kind| matches!(kind, Kind::Date | Kind::Timestamp);
    match (left, right) {
        _ if left.is_integer() && right.is_integer() => Some((Reading::Integer, Reading::Integer)),
        _ if exact(left) && exact(right) => Some((Reading::Decimal, Reading::Decimal)),
        _ if left.is_float() && exact(right) => Some((left.reading(), Reading::Double)),
        _ if left.is_integer() && right.is_float() => Some((Reading::Double, right.reading())),
        _ if left.is_float() && right.is_float() => Some((left.reading(), right.reading())),
        _ if dated(left) && dated(right) => Some((left.reading(), right.reading())),
        _ if left == right => Some((left.reading(), right.reading())),
        _ => None,
    }
}

/// A value with a type, for a reading.
fn convert(literal: &Literal, reading: Reading) -> Result<Constant, Refusal> {
    let kind = match reading {
        Reading::Integer => Kind::Int8,
        Reading::Decimal => Kind::Numeric,
        _ => Kind::Float8,
    };
    match literal {
        Literal::Number(digits) => cast::number(kind, digits),
        Literal::Boolean(value) => Ok(Value::Boolean(*value)),
        Literal::Typed(_, Value::Integer(number)) => cast::number(kind, &number.to_string()),
        Literal::Typed(_, Value::Decimal(number)) => cast::number(kind, &number.to_string()),
        Literal::Typed(_, value) => Ok(value.clone()),
        // Those without a type were read by that of the other side.
        Literal::Text(text) => cast::input(kind, text),
        Literal::Null => cast::input(kind, ""),
    }
}

/// When texts are the same. Under all collations but those of users that is when their bytes are; order
/// is known of few.
pub(super) fn collation(
    kind: Kind,
    column: Option<&Column>,
    explicit: Option<&str>,
    orders: bool,
) -> Result<Collation, Refusal> {
    let of = column.map_or_else(String::new, |column| format!(" of the column {}", column.name));
    if kind == Kind::Enum && orders {
        let message = format!("the labels{of} are ordered by the database alone");
        return Err(Refusal::new(NOT_EXACT, message).hint("list the labels: IN ('a', 'b')"));
    }
    if !kind.is_text() {
        return match explicit {
            None => Ok(Collation::Bytes),
            Some(_) => {
                let message = format!("{} has no collation", kind.name());
                Err(Refusal::new(SYNTAX, message).hint("leave COLLATE out"))
            }
        };
    }
    let name = match (explicit, column) {
        (Some(name), _) => name,
        (None, Some(column)) => column.collation.as_deref().unwrap_or("default"),
        (None, None) => "default",
    };
    let known = if orders { is_by_bytes(name) } else { is_deterministic(name) };
    // A cluster has whatever locales its system has; only these two are the same on all of them.
    if !known || (explicit.is_some() && !is_by_bytes(name)) {
        let message = if explicit.is_some() || orders {
            format!("the order and case of text{of} under the collation {name} are the database's")
        } else {
            format!("the collation {name}{of} may find different texts equal")
        };
        let hint = format!(
            "write COLLATE \"C\" after the {}, if the order of bytes is what you want",
            if column.is_some() { "column" } else { "value" }
        );
        return Err(Refusal::new(NOT_EXACT, message).hint(hint));
    }
    Ok(if kind == Kind::Padded { Collation::Rtrim } else { Collation::Bytes })
}

fn is_by_bytes(name: &str) -> bool {
    matches!(name, "C" | "POSIX")
}

/// Whether it is a collation of the system's: those are deterministic. They are called by a language and a
/// territory, or say that they are ICU's.
fn is_deterministic(name: &str) -> bool {
    let own = ["default", "ucs_basic", "unicode", "C.UTF-8", "C.UTF8", "C.utf8"];
    is_by_bytes(name) || own.contains(&name) || name.ends_with("-x-icu") || is_locale(name)
}

/// Whether it is called as the system's locales are: `de_DE`, `en_US.utf8`, `sr_RS@latin`.
fn is_locale(name: &str) -> bool {
    let Some((language, rest)) = name.split_once('_') else { return false };
    let (territory, variant) = rest.split_at_checked(2).unwrap_or((rest, ""));
    let lower = |byte: u8| byte.is_ascii_lowercase();
    let plain = |c: char| c.is_ascii_alphanumeric() || ".@-_".contains(c);
    (2..=3).contains(&language.len())
        && language.bytes().all(lower)
        && territory.len() == 2
        && territory.bytes().all(|byte| byte.is_ascii_uppercase())
        && (variant.is_empty() || variant.starts_with(['.', '@']))
        && variant.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collations_of_users_are_told_from_those_of_the_system() {
        for name in
            ["C", "POSIX", "default", "en_US", "en_US.utf8", "sr_RS.utf8@latin", "und-x-icu"]
        {
            assert!(is_deterministic(name), "{name}");
        }
        for name in
            ["", "en", "en_ci", "case_insensitive", "en_USx", "\"app\".\"de_DE\"", "_US", "EN_us"]
        {
            assert!(!is_deterministic(name), "{name}");
        }
    }
}
