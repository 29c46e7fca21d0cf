//! Every node of a statement is visited, and every name in it claimed: as a table, a column, a function,
//! a type, or a name that the statement gives. What is not known is refused, and so is a word that
//! nothing claimed, because the database might understand it otherwise than the parser did.

use std::sync::Arc;

use sqlparser::ast::Ident;
use sqlparser::tokenizer::{Span, Token, Word};

use super::begins::Begins;
use super::growth::CollectingAggregate;
use super::scope::{Found, Scope, folded};
use super::tokens::Piece;
use super::words;
use super::wrap::Wrap;
use crate::bind::VALUE_WORDS;
use crate::refusal::{NO_COLUMN, NO_TABLE, QUERY_NOT_SUPPORTED, Refusal};
use crate::shape::{Access, TableName, TableShape};
use crate::table::Dialect;
use tidewire_suggest::nearest;

/// What a word was found to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    None,
    /// An alias, a CTE, a window, a collation, a type.
    Name,
    /// A column of an occurrence of a base table, with the token that its qualifier begins with.
    Column {
        occurrence: usize,
        column: usize,
        from: usize,
    },
    /// A column of something else, or of more than one table.
    OtherColumn,
    /// A function of `pg_catalog` that is written without it.
    Function,
}

/// A table as its caller may see it.
#[derive(Debug, Clone)]
pub(crate) struct VisibleTable {
    pub(crate) name: TableName,
    pub(crate) shape: Arc<TableShape>,
    pub(crate) access: Access,
    /// Which of its columns are seen.
    pub(crate) visible: Vec<usize>,
}

/// A base table in FROM.
#[derive(Debug, Clone)]
pub(crate) struct Occurrence {
    /// Which of the draft's tables.
    pub(crate) table: usize,
    /// Its name's tokens.
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// What it is called: the alias, or its name.
    pub(crate) alias: String,
    pub(crate) has_alias: bool,
    /// The token of the SELECT that it is in.
    pub(crate) select: usize,
    /// Which of its columns are read.
    pub(crate) read: Vec<bool>,
}

pub(crate) struct Walk<'a> {
    pub(crate) dialect: Dialect,
    pub(crate) pieces: &'a [Piece],
    /// What the tables are; none as long as that is not known.
    pub(crate) known: Option<&'a [VisibleTable]>,
    pub(crate) claims: Vec<Claim>,
    pub(crate) tables: Vec<TableName>,
    pub(crate) occurrences: Vec<Occurrence>,
    /// All CTEs, and where.
    pub(crate) ctes: Vec<(String, usize)>,
    /// How many SELECTs and VALUES there are.
    pub(crate) selects: usize,
    /// Where the first window function is.
    pub(crate) window: Option<usize>,
    /// Rows that are generated, multiplied, as far as that can be told.
    pub(crate) generated: u64,
    /// A client wrote it, and not whoever runs the server.
    pub(crate) of_client: bool,
    /// What the database is to measure.
    pub(crate) wraps: Vec<Wrap>,
    /// Aggregates whose parts the database is to count.
    pub(crate) gathered: Vec<CollectingAggregate>,
    /// Calls, casts and texts put together: each may make a value as large as values may be.
    pub(crate) made: usize,
    /// Stored values that are put together without a measure, so far.
    pub(crate) spared: usize,
    /// Everything is measured that is put together of stored values, however few.
    pub(crate) spares_none: bool,
    /// Characters of literals that are looked for in texts, so far.
    pub(crate) unwatched: usize,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(
        dialect: Dialect,
        pieces: &'a [Piece],
        known: Option<&'a [VisibleTable]>,
    ) -> Self {
        Walk {
            dialect,
            pieces,
            known,
            claims: vec![Claim::None; pieces.len()],
            tables: Vec::new(),
            occurrences: Vec::new(),
            ctes: Vec::new(),
            selects: 0,
            window: None,
            generated: 1,
            of_client: true,
            wraps: Vec::new(),
            gathered: Vec::new(),
            made: 0,
            spared: 0,
            spares_none: false,
            unwatched: 0,
        }
    }

    /// The token that something begins with.
    pub(crate) fn token(&self, span: Span) -> Option<usize> {
        token_of(span).filter(|at| *at < self.pieces.len())
    }

    /// Where something is in the client's text.
    pub(crate) fn position(&self, of: &impl Begins) -> Option<usize> {
        self.token(of.begins()?).map(|at| self.pieces[at].at)
    }

    pub(crate) fn unsupported(&self, what: &str, of: &impl Begins) -> Refusal {
        not_supported(what).at(self.position(of))
    }

    /// Where a word of the grammar is first.
    pub(crate) fn word_position(&self, word: &str) -> Option<usize> {
        let is_it = |piece: &&Piece| {
            matches!(&piece.token, Token::Word(Word { value, quote_style: None, .. })
                if value.eq_ignore_ascii_case(word))
        };
        self.pieces.iter().find(is_it).map(|piece| piece.at)
    }

    /// Says what a name's token is.
    pub(crate) fn claim(&mut self, name: &Ident, claim: Claim) -> Result<usize, Refusal> {
        let at = self.token(name.span);
        let at = at.filter(|at| matches!(self.pieces[*at].token, Token::Word(_)));
        let Some(at) = at else {
            let what = format!("the name {name} written this way");
            return Err(not_supported(&what).hint("put names in double quotes, or in none"));
        };
        self.claims[at] = claim;
        Ok(at)
    }

    pub(crate) fn fold(&self, name: &Ident) -> String {
        folded(name, self.dialect)
    }

    /// A column by its name, with a table before it or not.
    pub(crate) fn column(&mut self, parts: &[Ident], scope: &Scope<'_>) -> Result<(), Refusal> {
        let (found, name, from) = match parts {
            [name] => {
                let word = name.value.to_ascii_lowercase();
                if name.quote_style.is_none() && VALUE_WORDS.contains(&word.as_str()) {
                    return Err(self.value_word(name, &word));
                }
                (scope.column(&self.fold(name), self.dialect), name, name)
            }
            [table, name] => {
                let found = scope.column_of(&self.fold(table), &self.fold(name), self.dialect);
                let Some(found) = found else {
                    let message = format!("{} is no table of this query", table.value);
                    return Err(Refusal::new(NO_TABLE, message).at(self.position(table)));
                };
                self.claim(table, Claim::Name)?;
                (found, name, table)
            }
            [first, ..] => {
                let refusal = self.unsupported("a column with its schema before it", first);
                return Err(refusal.hint("write the table's name or alias and the column's"));
            }
            [] => return Ok(()),
        };
        match found {
            Found::Columns(columns) => {
                for (occurrence, column) in &columns {
                    self.read(*occurrence, *column);
                }
                let from = self.token(from.span).unwrap_or_default();
                let claim = match columns.as_slice() {
                    [(occurrence, column)] => {
                        Claim::Column { occurrence: *occurrence, column: *column, from }
                    }
                    _ => Claim::OtherColumn,
                };
                self.claim(name, claim).map(|_| ())
            }
            Found::Nothing => Err(self.no_column(name, scope)),
        }
    }

    pub(crate) fn read(&mut self, occurrence: usize, column: usize) {
        self.occurrences[occurrence].read[column] = true;
    }

    /// What is not there and what is not seen are answered alike.
    fn no_column(&self, name: &Ident, scope: &Scope<'_>) -> Refusal {
        let written = &name.value;
        let refusal = match nearest(written, scope.names().into_iter()) {
            Some(meant) => {
                let message = format!("column {written} does not exist; did you mean {meant}?");
                Refusal::new(NO_COLUMN, message)
            }
            None => Refusal::new(NO_COLUMN, format!("column {written} does not exist")),
        };
        let refusal = match (self.dialect, name.quote_style) {
            (Dialect::Sqlite, Some('"')) => {
                refusal.hint(format!("a string is written in single quotes: '{written}'"))
            }
            _ if scope.source(&self.fold(name), self.dialect).is_some() => {
                refusal.hint("a table's whole row is no value here: name the columns")
            }
            _ => refusal,
        };
        refusal.at(self.position(name))
    }

    fn value_word(&self, name: &Ident, word: &str) -> Refusal {
        let what = format!("{word}, which is a value of the database,");
        let hint = if words::MOMENTS.contains(&word) {
            "pass the time as a parameter".to_owned()
        } else {
            format!(
                "put a column's name in quotes, \"{}\"; for who asks, use auth.user_id()",
                name.value
            )
        };
        self.unsupported(&what, name).hint(hint)
    }

    /// Whether a token is a function's name without a schema: one that was claimed, or one that the
    /// parser takes for syntax and the database for a call.
    pub(crate) fn is_call(&self, at: usize) -> bool {
        let is_called = self.pieces.get(at + 1).is_some_and(|next| next.token == Token::LParen);
        let is_syntax = || {
            matches!(&self.pieces[at].token, Token::Word(Word { value, quote_style: None, .. })
                if ["ceil", "floor", "substr", "unnest"]
                    .iter()
                    .any(|name| value.eq_ignore_ascii_case(name)))
        };
        match self.claims[at] {
            Claim::Function => true,
            Claim::None => is_called && is_syntax(),
            _ => false,
        }
    }

    /// Refuses what the walk is over and nobody claimed.
    pub(crate) fn audit(&self) -> Result<(), Refusal> {
        for (at, piece) in self.pieces.iter().enumerate() {
            let Token::Word(word) = &piece.token else { continue };
            if self.claims[at] == Claim::None && !self.is_grammar(at, word) {
                let what = format!("{} at this place", piece.token);
                return Err(not_supported(&what).at(Some(piece.at)));
            }
        }
        for (name, at) in &self.ctes {
            let is_table = self.tables.iter().any(|table| *table.name == **name);
            if is_table || name.to_ascii_lowercase().starts_with("pg_") {
                let message = format!("the name {name} in WITH is a table's name too");
                return Err(Refusal::new(QUERY_NOT_SUPPORTED, message)
                    .hint("give it another name")
                    .at(Some(self.pieces[*at].at)));
            }
        }
        Ok(())
    }

    fn is_grammar(&self, at: usize, word: &Word) -> bool {
        if word.quote_style.is_some() {
            return false;
        }
        let lower = word.value.to_ascii_lowercase();
        let token = |at: Option<usize>| at.and_then(|at| self.pieces.get(at)).map(|it| &it.token);
        let is_word = |at: Option<usize>, text: &str| {
            matches!(token(at), Some(Token::Word(Word { value, quote_style: None, .. }))
                if value.eq_ignore_ascii_case(text))
        };
        let is_called = token(Some(at + 1)) == Some(&Token::LParen);
        if words::is_syntax(&lower) {
            return true;
        }
        if words::is_type(&lower) {
            let has_length =
                words::has_length(&lower) && matches!(token(Some(at + 2)), Some(Token::Number(..)));
            return !is_called || has_length;
        }
        let before = at.checked_sub(1);
        let before_that = at.checked_sub(2);
        let extracted = token(before) == Some(&Token::LParen) && is_word(before_that, "extract");
        let of_interval = matches!(token(before), Some(Token::SingleQuotedString(_)))
            && is_word(before_that, "interval");
        words::is_field(&lower) && (extracted || of_interval) && !is_called
    }
}

/// The token that a span begins with: spans of statements count tokens.
pub(crate) fn token_of(span: Span) -> Option<usize> {
    usize::try_from(span.start.column).ok()?.checked_sub(1)
}

pub(crate) fn not_supported(what: &str) -> Refusal {
    Refusal::new(QUERY_NOT_SUPPORTED, format!("{what} is not supported in a live query"))
}
