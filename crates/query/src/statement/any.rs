//! `column = ANY('{1,2}')`, which is `column IN ('1', '2')` where the array is written out.

use sqlparser::tokenizer::{Token, Word};

use super::emit::{Edits, string};
use super::tokens::Piece;

/// Types of elements whose equality is that of the column they are compared with.
const ELEMENTS: [&str; 8] = ["bigint", "int", "int4", "int8", "integer", "text", "uuid", "varchar"];

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
        && word(5).is_some_and(|name| ELEMENTS.contains(&name.as_str()))
        && token(6) == Some(&Token::LBracket)
        && token(7) == Some(&Token::RBracket);
    let end = if is_cast { 8 } else { 4 };
    if token(end) != Some(&Token::RParen) {
        return None;
    }
    let elements = elements(array).filter(|elements| !elements.is_empty())?;
    let literal = |element: &Option<String>| match element {
        Some(text) => string(text),
        None => "NULL".to_owned(),
    };
    let elements: Vec<String> = elements.iter().map(literal).collect();
    Some((end + 1, format!("IN ( {} )", elements.join(" , "))))
}

/// The elements of an array as PostgreSQL writes it, if it is a plain one.
fn elements(array: &str) -> Option<Vec<Option<String>>> {
    let mut rest = array.strip_prefix('{')?.strip_suffix('}')?.chars().peekable();
    let mut elements = Vec::new();
    if rest.peek().is_none() {
        return Some(elements);
    }
    loop {
        if rest.next_if_eq(&'"').is_some() {
            let mut text = String::new();
            loop {
                match rest.next()? {
                    '"' => break,
                    '\\' => text.push(rest.next()?),
                    other => text.push(other),
                }
            }
            elements.push(Some(text));
        } else {
            let mut text = String::new();
            while let Some(letter) =
                rest.next_if(|it| it.is_ascii_alphanumeric() || "-+._".contains(*it))
            {
                text.push(letter);
            }
            if text.is_empty() {
                return None;
            }
            elements.push((!text.eq_ignore_ascii_case("null")).then_some(text));
        }
        match rest.next() {
            None => return Some(elements),
            Some(',') => {}
            Some(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_arrays_are_read_and_others_are_left_to_the_database() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(elements("{}"), Some(vec![]));
        assert_eq!(
            elements(r#"{1,-2.5,"a \"b\", c",NULL,"null"}"#),
            Some(vec![some("1"), some("-2.5"), some("a \"b\", c"), None, some("null")])
        );
        for text in ["", "{1", "{1,}", "{ 1}", "{{1},{2}}", "[0:1]={1,2}", "{a b}", "{\"a\"b}"] {
            assert_eq!(elements(text), None, "{text}");
        }
    }
}
