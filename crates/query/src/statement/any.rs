//! `column = ANY('{1,2}')`, which is `column IN ('1', '2')` where the array is written out.

use sqlparser::tokenizer::{Token, Word};

use super::emit::{Edits, string};
use super::tokens::Piece;
use crate::bind::{ARRAY_ELEMENTS, array_elements};

/// Puts IN in the place of each `= ANY` of an array that is written out.
pub(super) fn as_lists(pieces: &[Piece], (from, to): (usize, usize), edits: &mut Edits) {
    for at in from..to {
        if let Some((length, list)) = list(&pieces[at..to]) {
            edits.replace(at, at + length, list);
        }
    }
}

/// The list that tokens begin with as `= ANY('…')`, and how many they are.
fn list(pieces: &[Piece]) -> Option<(usize, String)> {
    let token = |at: usize| pieces.get(at).map(|piece| &piece.token);
    let word = |at: usize| match token(at) {
        Some(Token::Word(Word { value, quote_style: None, .. })) => {
            Some(value.to_ascii_lowercase())
        }
        _ => None,
    };
    let is_any = token(0) == Some(&Token::Eq)
        && matches!(word(1).as_deref(), Some("any" | "some"))
        && token(2) == Some(&Token::LParen);
    let Some(Token::SingleQuotedString(array)) = token(3).filter(|_| is_any) else { return None };
    let is_cast = token(4) == Some(&Token::DoubleColon)
        && word(5).is_some_and(|name| ARRAY_ELEMENTS.contains(&name.as_str()))
        && token(6) == Some(&Token::LBracket)
        && token(7) == Some(&Token::RBracket);
    let end = if is_cast { 8 } else { 4 };
    if token(end) != Some(&Token::RParen) {
        return None;
    }
    let elements = array_elements(array).filter(|elements| !elements.is_empty())?;
    let literal = |element: &Option<String>| match element {
        Some(text) => string(text),
        None => "NULL".to_owned(),
    };
    let elements: Vec<String> = elements.iter().map(literal).collect();
    Some((end + 1, format!("IN ( {} )", elements.join(" , "))))
}
