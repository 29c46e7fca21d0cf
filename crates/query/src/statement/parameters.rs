//! Parameters and identities as the literals that they become.

use serde_json::Value as Json;
use serde_json::value::RawValue;
use sqlparser::tokenizer::Token;

use super::tokens::{Identity, Piece, within_text};
use crate::caller::Caller;
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

fn string(text: String) -> Result<Token, Refusal> {
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

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Fills in who asks. As many tokens as before, at the same places.
pub(super) fn fill(pieces: &mut [Piece], caller: &dyn Caller) -> Result<(), Refusal> {
    let mut length = 0;
    for piece in pieces {
        let text = match &piece.identity {
            None => continue,
            Some(Identity::User) => caller.user_id().map(str::to_owned),
            Some(Identity::Host) => caller.host_id().map(str::to_owned),
            Some(Identity::Claim(name)) => match caller.claim(name) {
                None | Some(Json::Null) => None,
                Some(Json::String(text)) => Some(text),
                Some(other) => Some(other.to_string()),
            },
        };
        // A claim may be long, and asked for at each of many places.
        length += text.as_ref().map_or(0, String::len);
        within_text(length).map_err(|refusal| refusal.at(Some(piece.at)))?;
        piece.token = match text {
            Some(text) => string(text).map_err(|refusal| refusal.at(Some(piece.at)))?,
            None => Token::make_word("NULL", None),
        };
    }
    Ok(())
}
