//! Words in strings that PostgreSQL reads as times of its own clock: `'today'`, `'now'`.

use sqlparser::tokenizer::{Token, Word};

use super::bind::Bound;
use super::words;
use crate::refusal::{QUERY_NOT_SUPPORTED, Refusal};
use crate::table::Dialect;

const WORDS: [&str; 4] = ["now", "today", "tomorrow", "yesterday"];
const TYPES: [&str; 6] = ["date", "time", "timestamp", "timestamptz", "timetz", "datetime"];

impl Bound<'_> {
    /// Refuses strings that may be times of the clock. Which type a string has is known to the database
    /// alone; so it is one of these if it looks like it, and times are spoken of at all.
    pub(crate) fn without_clock(&self) -> Result<(), Refusal> {
        if self.dialect() == Dialect::Sqlite || !self.speaks_of_times() {
            return Ok(());
        }
        let pieces = self.walk.pieces;
        for (at, piece) in pieces.iter().enumerate() {
            let Token::SingleQuotedString(text) = &piece.token else { continue };
            let token = |at: usize| pieces.get(at).map(|piece| &piece.token);
            let is_text = token(at + 1) == Some(&Token::DoubleColon)
                && is_word(token(at + 2), |word| word == "text" || word == "varchar");
            let mut words = text.split(|letter: char| !letter.is_alphanumeric());
            let asks = words.any(|word| WORDS.iter().any(|it| word.eq_ignore_ascii_case(it)));
            if asks && !is_text {
                let message = format!("'{text}' may be a time of the database's clock");
                return Err(Refusal::new(QUERY_NOT_SUPPORTED, message)
                    .hint("pass the time as a parameter; if it is a text, write '…'::text")
                    .at(Some(piece.at)));
            }
        }
        Ok(())
    }

    fn speaks_of_times(&self) -> bool {
        let is_time = |word: &str| TYPES.contains(&word);
        let in_types =
            self.walk.pieces.iter().any(|piece| {
                is_word(Some(&piece.token), |word| is_time(word) && words::is_type(word))
            });
        let in_columns = self.occurrences().iter().enumerate().any(|(at, it)| {
            let columns = self.shape(at).columns.iter().zip(&it.read);
            let mut read = columns.filter(|(_, read)| **read).map(|(column, _)| column);
            read.any(|column| is_time(column.column.type_name.trim_start_matches('_')))
        });
        in_types || in_columns
    }
}

fn is_word(token: Option<&Token>, is: impl Fn(&str) -> bool) -> bool {
    matches!(token, Some(Token::Word(Word { value, quote_style: None, .. }))
        if is(&value.to_ascii_lowercase()))
}
