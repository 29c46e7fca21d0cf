//! A SELECT's WHERE, and the parts of it that are about one table alone.

use sqlparser::tokenizer::{Token, Word};

use super::any;
use super::bind::Bound;
use super::emit::{Edits, Emitted, emit, quoted};
use super::tokens::Piece;
use super::walk::Claim;
use crate::condition::{Condition, Test};
use crate::operator::Operator;
use crate::predicate::Predicate;
use crate::refusal::{NOT_SUPPORTED, Refusal};
use crate::row::Row;
use crate::table::Dialect;
use crate::truth::Truth;

/// A part of a WHERE that is about one table, and is tested on images.
#[derive(Debug, Clone)]
pub(crate) struct Conjunct {
    pub(crate) predicate: Predicate,
    /// It over the table's own columns.
    pub(crate) sql: String,
}

impl Conjunct {
    /// The column that it gives one value, if that is all it says.
    pub(crate) fn value_of(&self) -> Option<&str> {
        match self.predicate.condition() {
            Condition::Test(Test::Compare { field, operator: Operator::Equal, .. }) => {
                Some(field.name())
            }
            _ => None,
        }
    }
}

impl Bound<'_> {
    /// The tokens of the WHERE of the SELECT that begins with a token.
    pub(crate) fn where_tokens(&self, select: usize) -> Option<(usize, usize)> {
        let pieces = self.walk.pieces;
        let mut depth = 0_usize;
        let mut from = None;
        for (at, piece) in pieces.iter().enumerate().skip(select + 1) {
            match &piece.token {
                Token::LParen => depth += 1,
                Token::RParen if depth == 0 => return from.map(|from| (from, at)),
                Token::RParen => depth -= 1,
                _ if depth > 0 || self.walk.claims[at] != Claim::None => {}
                Token::Word(Word { value, quote_style: None, .. }) => {
                    match value.to_ascii_lowercase().as_str() {
                        "where" => from = Some(at + 1),
                        "group" | "having" | "window" | "order" | "limit" | "offset" | "fetch"
                        | "union" | "intersect" | "except" => {
                            return from.map(|from| (from, at));
                        }
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        from.map(|from| (from, pieces.len()))
    }

    /// A condition over the columns of one occurrence of a table, by those columns' own names.
    pub(crate) fn condition(
        &self,
        occurrence: usize,
        (from, to): (usize, usize),
    ) -> Result<Conjunct, Refusal> {
        let table = self.occurrences()[occurrence].table;
        let emitted = self.over_own_columns(occurrence, (from, to))?;
        let predicate = Predicate::of_client(&emitted.text, &self.guards[table].table, &());
        let predicate = predicate.map_err(|mut refusal| {
            refusal.position = refusal.position.and_then(|at| emitted.origin(at));
            refusal.at(self.walk.pieces.get(from).map(|piece| piece.at))
        })?;
        Ok(Conjunct { predicate, sql: emitted.text })
    }

    fn over_own_columns(
        &self,
        occurrence: usize,
        (from, to): (usize, usize),
    ) -> Result<Emitted, Refusal> {
        let mut edits = Edits::default();
        let shape = &self.known[self.occurrences()[occurrence].table].shape;
        for at in from..to {
            match self.walk.claims[at] {
                Claim::Column { occurrence: of, column, from: first } if of == occurrence => {
                    edits.replace(first, at + 1, quoted(&shape.columns[column].column.name));
                }
                Claim::Column { .. } | Claim::OtherColumn => {
                    let message = "the condition is not about the columns of one table alone";
                    let position = self.walk.pieces[at].at;
                    return Err(Refusal::new(NOT_SUPPORTED, message).at(Some(position)));
                }
                _ => {}
            }
        }
        if self.dialect() == Dialect::Postgres {
            any::as_lists(self.walk.pieces, (from, to), &mut edits);
        }
        Ok(emit(self.walk.pieces, from, to, &edits))
    }

    /// Those conjuncts that are about an occurrence of a table alone, and without which no row of it has
    /// anything to do with the SELECT: they do not hold of a row of NULLs, which is what an outer join
    /// puts in the place of one that is missing.
    pub(crate) fn conjuncts(&self, occurrence: usize) -> Vec<Conjunct> {
        let it = &self.occurrences()[occurrence];
        let Some(tokens) = self.where_tokens(it.select) else { return Vec::new() };
        let parts = split(self.walk.pieces, tokens).into_iter();
        let parts = parts.filter_map(|part| self.condition(occurrence, part).ok());
        let named = parts.filter(|part| !part.predicate.columns().is_empty());
        let shape = &self.known[it.table].shape;
        let nulls: serde_json::Map<String, serde_json::Value> = shape
            .columns
            .iter()
            .map(|column| (column.column.name.clone(), serde_json::Value::Null))
            .collect();
        let nulls = serde_json::Value::Object(nulls).to_string();
        let Ok(nulls) = Row::parse(nulls.as_bytes()) else { return Vec::new() };
        let is_strict = |part: &Conjunct| matches!(part.predicate.test(&nulls), Ok(truth) if truth != Truth::True);
        named.filter(is_strict).collect()
    }
}

/// The parts of `a AND b AND c`; all of it if there is an OR beside them.
fn split(pieces: &[Piece], (from, to): (usize, usize)) -> Vec<(usize, usize)> {
    let mut parts = Vec::new();
    let mut begin = from;
    let mut depth = 0_usize;
    let mut betweens = 0_usize;
    for (at, piece) in pieces.iter().enumerate().take(to).skip(from) {
        match &piece.token {
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen | Token::RBracket => depth = depth.saturating_sub(1),
            Token::Word(Word { value, quote_style: None, .. }) => {
                match value.to_ascii_lowercase().as_str() {
                    "case" => depth += 1,
                    "end" => depth = depth.saturating_sub(1),
                    _ if depth > 0 => {}
                    "or" => return vec![(from, to)],
                    "between" => betweens += 1,
                    "and" if betweens > 0 => betweens -= 1,
                    "and" => {
                        parts.push((begin, at));
                        begin = at + 1;
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }
    parts.push((begin, to));
    parts
}
