//! Parameters as the literals that they become.

use serde_json::value::RawValue;
use sqlparser::tokenizer::Token;

use crate::refusal::{PARAMETER, Refusal};
use crate::table::Dialect;

/// Arrays within each other, at most: PostgreSQL has no more dimensions. Without a limit the client would
/// say how deep the recursion goes, and the stack would end before the text does.
const DIMENSIONS_MAX: usize = 6;

/// The tokens that stand for a parameter.
pub(super) fn literal(param: &RawValue, dialect: Dialect) -> Result<Vec<Token>, Refusal> {
    let text = param.get().trim();
    let invalid = |error: serde_json::Error| {
        Refusal::new(PARAMETER, format!("a parameter is no JSON: {error}"))
    };
    Ok(match text.as_bytes().first() {
        Some(b'"') => vec![string(serde_json::from_str(text).map_err(invalid)?)?],
        Some(b'-') => vec![
            Token::LParen,
            Token::Minus,
            Token::Number(text[1..].to_owned(), false),
            Token::RParen,
        ],
        Some(b'0'..=b'9') => vec![Token::Number(text.to_owned(), false)],
        Some(b'n') => vec![Token::make_word("NULL", None)],
        Some(b't') => vec![Token::make_word("TRUE", None)],
        Some(b'f') => vec![Token::make_word("FALSE", None)],
        Some(b'[') if dialect == Dialect::Postgres => {
            vec![string(array_text(text, DIMENSIONS_MAX)?)?]
        }
        Some(b'[' | b'{') => vec![string(text.to_owned())?],
        _ => return Err(Refusal::new(PARAMETER, "a parameter is no JSON value")),
    })
}

pub(super) fn string(text: String) -> Result<Token, Refusal> {
    if text.contains('\0') {
        return Err(Refusal::new(PARAMETER, "a parameter has the character U+0000 in it"));
    }
    Ok(Token::SingleQuotedString(text))
}

/// An array as PostgreSQL writes it: `{1,"a b",NULL}`. Numbers keep all their digits.
fn array_text(array: &str, dimensions: usize) -> Result<String, Refusal> {
    let Some(inner) = dimensions.checked_sub(1) else {
        let message = format!("a parameter is an array of more than {DIMENSIONS_MAX} dimensions");
        return Err(Refusal::new(PARAMETER, message)
            .hint("pass JSON that is nested deeper as a string, and cast it to jsonb"));
    };
    let invalid = |error: serde_json::Error| {
        Refusal::new(PARAMETER, format!("a parameter is no JSON: {error}"))
    };
    let elements: Vec<&RawValue> = serde_json::from_str(array).map_err(invalid)?;
    let element = |element: &&RawValue| {
        let text = element.get().trim();
        Ok(match text.as_bytes().first() {
            Some(b'n') => "NULL".to_owned(),
            Some(b'[') => array_text(text, inner)?,
            Some(b'"') => quoted(&serde_json::from_str::<String>(text).map_err(invalid)?),
            Some(b'{') => quoted(text),
            _ => text.to_owned(),
        })
    };
    let elements: Vec<String> = elements.iter().map(element).collect::<Result<_, Refusal>>()?;
    Ok(format!("{{{}}}", elements.join(",")))
}

pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
