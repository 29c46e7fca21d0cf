//! From tokens to SQL: one space between them, and nothing that was not checked.

use std::collections::BTreeMap;

use sqlparser::tokenizer::{Token, Word};

use super::tokens::Piece;

/// What stands in the place of some tokens.
#[derive(Debug, Default)]
pub(crate) struct Edits {
    /// By the first token: the one after the last, and what is there instead.
    instead: BTreeMap<usize, (usize, String)>,
    /// What comes before a token.
    before: BTreeMap<usize, &'static str>,
    /// What is put around tokens: by the first, and by the one after the last.
    opened: BTreeMap<usize, Vec<(usize, String)>>,
    closed: BTreeMap<usize, Vec<(usize, String)>>,
}

impl Edits {
    pub(crate) fn replace(&mut self, from: usize, to: usize, text: String) {
        self.instead.insert(from, (to, text));
    }

    /// Puts something around tokens. What is around fewer of them is within what is around more; of the same,
    /// what comes later is within what came before.
    pub(crate) fn put_around(
        &mut self,
        from: usize,
        to: usize,
        (before, behind): (String, String),
    ) {
        let opened = self.opened.entry(from).or_default();
        opened.push((to, before));
        opened.sort_by_key(|(to, _)| std::cmp::Reverse(*to));
        let closed = self.closed.entry(to).or_default();
        closed.insert(0, (from, behind));
        closed.sort_by_key(|(from, _)| std::cmp::Reverse(*from));
    }

    pub(crate) fn put_before(&mut self, at: usize, text: &'static str) {
        self.before.insert(at, text);
    }
}

/// SQL, and of each of its tokens where it begins and where the client wrote it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Emitted {
    pub(crate) text: String,
    /// Characters from 1: here, and in the client's text. Ascending.
    places: Vec<(usize, usize)>,
    characters: usize,
}

impl Emitted {
    /// Where in the client's text a character comes from.
    pub(crate) fn origin(&self, position: usize) -> Option<usize> {
        let after = self.places.partition_point(|(here, _)| *here <= position);
        self.places.get(after.checked_sub(1)?).map(|(_, origin)| *origin)
    }

    fn push(&mut self, text: &str, origin: usize) {
        if !self.text.is_empty() {
            self.text.push(' ');
            self.characters += 1;
        }
        self.places.push((self.characters + 1, origin));
        self.text.push_str(text);
        self.characters += text.chars().count();
    }
}

/// The SQL of some tokens.
pub(crate) fn emit(pieces: &[Piece], from: usize, to: usize, edits: &Edits) -> Emitted {
    let mut emitted = Emitted::default();
    let mut at = from;
    while at < to {
        let piece = &pieces[at];
        for (_, before) in edits.opened.get(&at).into_iter().flatten() {
            emitted.push(before, piece.at);
        }
        match (edits.instead.get(&at), edits.before.get(&at)) {
            (Some((end, text)), _) => {
                emitted.push(text, piece.at);
                at = *end;
            }
            (None, before) => {
                let before = before.copied().unwrap_or_default();
                emitted.push(&format!("{before}{}", text(&piece.token)), piece.at);
                at += 1;
            }
        }
        for (_, behind) in edits.closed.get(&at).into_iter().flatten() {
            emitted.push(behind, piece.at);
        }
    }
    emitted
}

/// A token as SQL.
pub(super) fn text(token: &Token) -> String {
    match token {
        Token::Word(Word { value, quote_style: Some(_), .. }) => quoted(value),
        Token::Word(Word { value, quote_style: None, .. }) => value.clone(),
        Token::SingleQuotedString(text) => string(text),
        Token::Number(digits, _) => digits.clone(),
        other => other.to_string(),
    }
}

/// A name in quotes.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A string in quotes.
pub(crate) fn string(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
