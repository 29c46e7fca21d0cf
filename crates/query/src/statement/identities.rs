//! Who asks, as the literals that it becomes: one, or those of a claim that is a list.
//!
//! A list of the caller's is looked through by `IN (auth.claim('rooms'))`, where its values stand in the place of the
//! claim, and by `= ANY(auth.claim('rooms'))` and `<> ALL(…)`, which are `IN` and `NOT IN` on SQLite and take an array
//! on PostgreSQL. Everywhere else a claim that is no text is its JSON.

use serde_json::Value as Json;
use sqlparser::tokenizer::{Token, Word};

use super::parameters::{quoted, string};
use super::tokens::{Identity, Piece, within_limits, within_text};
use crate::caller::{Caller, Element, elements};
use crate::refusal::{QUERY_NOT_SUPPORTED, Refusal};
use crate::table::Dialect;

/// Fills in who asks.
pub(super) fn fill(
    pieces: &[Piece],
    caller: &dyn Caller,
    dialect: Dialect,
) -> Result<Vec<Piece>, Refusal> {
    let mut filled = Filled { pieces: Vec::with_capacity(pieces.len()), length: 0, dialect };
    let mut rest = pieces;
    while let Some((piece, after)) = rest.split_first() {
        rest = match &piece.identity {
            None => {
                filled.pieces.push(piece.clone());
                after
            }
            Some(identity) => {
                let after = filled.identity(piece.at, identity, after, caller);
                after.map_err(|refusal| refusal.at(Some(piece.at)))?
            }
        };
    }
    // A list may be of more values than there were words.
    within_limits(&filled.pieces)?;
    Ok(filled.pieces)
}

struct Filled {
    pieces: Vec<Piece>,
    /// Bytes of all that was filled in: a claim may be long, and asked for at each of many places.
    length: usize,
    dialect: Dialect,
}

impl Filled {
    /// Puts in one identity; what is left of the tokens after it.
    fn identity<'p>(
        &mut self,
        at: usize,
        identity: &Identity,
        after: &'p [Piece],
        caller: &dyn Caller,
    ) -> Result<&'p [Piece], Refusal> {
        let name = match identity {
            Identity::User => return self.value(at, caller.user_id().map(Json::from), after),
            Identity::Host => return self.value(at, caller.host_id().map(Json::from), after),
            Identity::Claim(name) => name,
        };
        let claim = caller.claim(name);
        let is_list = matches!(claim, Some(Json::Array(_)));
        let last = token(after, 0) == Some(&Token::RParen);
        if last && self.ends_with_quantifier() {
            let elements = elements(claim, self.dialect);
            return self.quantified(at, elements).map(|()| after);
        }
        if is_list && self.dialect == Dialect::Postgres && is_cast_to_array(after) {
            let elements = elements(claim, self.dialect).unwrap_or_default();
            return self.array(at, &elements).map(|()| after);
        }
        if is_list && (last || token(after, 0) == Some(&Token::Comma)) && self.is_in_list() {
            let elements = elements(claim, self.dialect).unwrap_or_default();
            return self.listed(at, &elements, after);
        }
        self.value(at, claim, after)
    }

    /// One value.
    fn value<'p>(
        &mut self,
        at: usize,
        value: Option<Json>,
        after: &'p [Piece],
    ) -> Result<&'p [Piece], Refusal> {
        let token = match value {
            None | Some(Json::Null) => Token::make_word("NULL", None),
            Some(Json::String(text)) => self.string(text)?,
            Some(other) => self.string(other.to_string())?,
        };
        self.push(at, token);
        Ok(after)
    }

    /// What stands in `= ANY (…)`.
    fn quantified(&mut self, at: usize, elements: Option<Vec<Element>>) -> Result<(), Refusal> {
        if self.dialect == Dialect::Postgres {
            match elements {
                Some(elements) => self.array(at, &elements)?,
                None => self.push(at, Token::make_word("NULL", None)),
            }
            return Ok(());
        }
        let from = self.pieces.len().saturating_sub(3);
        let negated = match (token(&self.pieces, from), word(&self.pieces, from + 1).as_deref()) {
            (Some(Token::Eq | Token::DoubleEq), Some("any" | "some")) => false,
            (Some(Token::Neq), Some("all")) => true,
            _ => {
                let message = "a claim that is a list is compared by = ANY or <> ALL on SQLite";
                return Err(Refusal::new(QUERY_NOT_SUPPORTED, message)
                    .hint("write = ANY(auth.claim('…')), or IN (auth.claim('…'))"));
            }
        };
        let place = self.pieces[from].at;
        self.pieces.truncate(from);
        for name in if negated { &["NOT", "IN"][..] } else { &["IN"] } {
            self.push(place, Token::make_word(name, None));
        }
        self.push(place, Token::LParen);
        self.elements(at, &elements.unwrap_or_else(|| vec![Element::Null]))
    }

    /// The values in a list, in the place of the claim.
    fn listed<'p>(
        &mut self,
        at: usize,
        elements: &[Element],
        after: &'p [Piece],
    ) -> Result<&'p [Piece], Refusal> {
        if !elements.is_empty() {
            return self.elements(at, elements).map(|()| after);
        }
        if token(after, 0) == Some(&Token::Comma) {
            return Ok(&after[1..]);
        }
        if self.pieces.last().is_some_and(|piece| piece.token == Token::Comma) {
            self.pieces.pop();
            return Ok(after);
        }
        // A list of nothing, which PostgreSQL has no word for but an array.
        if self.dialect == Dialect::Postgres {
            self.pieces.truncate(self.pieces.len().saturating_sub(2));
            let end = self.pieces.len();
            let negated = end > 0 && word(&self.pieces, end - 1).as_deref() == Some("not");
            self.pieces.truncate(end - usize::from(negated));
            let (sign, name) = if negated { (Token::Neq, "ALL") } else { (Token::Eq, "ANY") };
            self.push(at, sign);
            self.push(at, Token::make_word(name, None));
            self.push(at, Token::LParen);
            self.array(at, &[])?;
        }
        Ok(after)
    }

    /// Values with commas between them.
    fn elements(&mut self, at: usize, elements: &[Element]) -> Result<(), Refusal> {
        for (number, element) in elements.iter().enumerate() {
            if number > 0 {
                self.push(at, Token::Comma);
            }
            let token = match element {
                Element::Null => Token::make_word("NULL", None),
                Element::Text(text) => self.string(text.clone())?,
                Element::Number(digits) => match digits.strip_prefix('-') {
                    Some(digits) => {
                        self.push(at, Token::Minus);
                        Token::Number(digits.to_owned(), false)
                    }
                    None => Token::Number(digits.clone(), false),
                },
            };
            self.push(at, token);
        }
        Ok(())
    }

    /// An array as PostgreSQL writes it.
    fn array(&mut self, at: usize, elements: &[Element]) -> Result<(), Refusal> {
        let element = |element: &Element| match element {
            Element::Null => "NULL".to_owned(),
            Element::Number(text) | Element::Text(text) => quoted(text),
        };
        let elements: Vec<String> = elements.iter().map(element).collect();
        let token = self.string(format!("{{{}}}", elements.join(",")))?;
        self.push(at, token);
        Ok(())
    }

    fn push(&mut self, at: usize, token: Token) {
        self.pieces.push(Piece { token, at, identity: None });
    }

    fn string(&mut self, text: String) -> Result<Token, Refusal> {
        self.length += text.len();
        within_text(self.length)?;
        string(text)
    }

    /// Whether what is there ends with `ANY (`.
    fn ends_with_quantifier(&self) -> bool {
        let Some(at) = self.pieces.len().checked_sub(2) else { return false };
        token(&self.pieces, at + 1) == Some(&Token::LParen)
            && matches!(word(&self.pieces, at).as_deref(), Some("any" | "some" | "all"))
    }

    /// Whether what comes next is a value of its own in `IN (…`.
    fn is_in_list(&self) -> bool {
        let begins = self.pieces.last().map(|piece| &piece.token);
        if !matches!(begins, Some(Token::LParen | Token::Comma)) {
            return false;
        }
        let mut depth = 0_usize;
        for (at, piece) in self.pieces.iter().enumerate().rev() {
            match piece.token {
                Token::RParen => depth += 1,
                Token::LParen if depth == 0 => {
                    return at > 0 && word(&self.pieces, at - 1).as_deref() == Some("in");
                }
                Token::LParen => depth -= 1,
                _ => {}
            }
        }
        false
    }
}

fn token(pieces: &[Piece], at: usize) -> Option<&Token> {
    pieces.get(at).map(|piece| &piece.token)
}

fn word(pieces: &[Piece], at: usize) -> Option<String> {
    match token(pieces, at) {
        Some(Token::Word(Word { value, quote_style: None, .. })) => {
            Some(value.to_ascii_lowercase())
        }
        _ => None,
    }
}

/// Whether what follows is `::type[]` or `AS type[]`.
fn is_cast_to_array(after: &[Piece]) -> bool {
    let is_cast =
        token(after, 0) == Some(&Token::DoubleColon) || word(after, 0).as_deref() == Some("as");
    is_cast && word(after, 1).is_some() && token(after, 2) == Some(&Token::LBracket)
}
