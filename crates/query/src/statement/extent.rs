//! Which tokens an expression is made of.
//!
//! The parser does not say where an expression ends, nor for all of them where they begin. So the tokens
//! that may be it are read once more, and are it if the same comes of them.

use sqlparser::ast::Expr;
use sqlparser::dialect::{Dialect as Grammar, PostgreSqlDialect, Precedence, SQLiteDialect};
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Word};

use super::CALLS_MAX;
use super::begins::Begins;
use super::tokens::Piece;
use super::walk::Walk;
use crate::table::Dialect;

/// Tokens of an expression before the one that it is said to begin with, at most.
const BEFORE_MAX: usize = 64;

/// From a token up to another, which is not in it.
pub(crate) type Extent = (usize, usize);

impl Walk<'_> {
    /// The tokens of what stands before an operator, which is the token `operator`.
    pub(crate) fn extent_before(&self, expr: &Expr, operator: usize) -> Option<Extent> {
        let near = self.token(expr.begins()?)?;
        let mut starts = (near.saturating_sub(BEFORE_MAX)..=near).rev();
        starts.find(|from| self.is_exactly((*from, operator), expr)).map(|from| (from, operator))
    }

    /// The tokens of what stands behind an operator, which is the token `operator`.
    pub(crate) fn extent_behind(&self, expr: &Expr, operator: usize) -> Option<Extent> {
        let grammar = grammar(self.dialect);
        let is_word = matches!(self.pieces.get(operator)?.token, Token::Word(_));
        let mut parser = parser(&*grammar, self.pieces, (operator, self.pieces.len()));
        let precedence = match is_word {
            true => grammar.prec_value(Precedence::Like),
            false => parser.get_next_precedence().ok()?,
        };
        parser.next_token();
        let found = parser.parse_subexpr(precedence).ok()?;
        // The parser has an index of the tokens that it was given.
        (found == *expr).then(|| (operator + 1, operator + parser.index()))
    }

    /// The last of some words or signs that stands before an expression, with nothing between but what the
    /// expression begins with.
    pub(crate) fn operator_before(
        &self,
        expr: &Expr,
        is_it: impl Fn(&Token) -> bool,
    ) -> Option<usize> {
        let near = self.token(expr.begins()?)?;
        (near.saturating_sub(BEFORE_MAX)..near).rev().find(|at| is_it(&self.pieces[*at].token))
    }

    /// The arguments of the call whose parenthesis opens at a token, as they are parted by commas or by one
    /// of these words.
    pub(crate) fn arguments(&self, open: usize, words: &[&str]) -> Option<Vec<Extent>> {
        let mut parts = Vec::new();
        let (mut depth, mut from) = (0_usize, open + 1);
        for (at, piece) in self.pieces.iter().enumerate().skip(open) {
            let is_parted = match &piece.token {
                Token::LParen | Token::LBracket => {
                    depth += 1;
                    false
                }
                Token::RParen | Token::RBracket if depth == 1 => {
                    parts.push((from, at));
                    return Some(parts);
                }
                Token::RParen | Token::RBracket => {
                    depth -= 1;
                    false
                }
                token if is(token, "case") => {
                    depth += 1;
                    false
                }
                token if is(token, "end") => {
                    depth = depth.checked_sub(1)?;
                    false
                }
                Token::Comma => depth == 1,
                token => depth == 1 && words.iter().any(|word| is(token, word)),
            };
            if is_parted {
                parts.push((from, at));
                from = at + 1;
            }
        }
        None
    }

    /// Where the parenthesis opens of a call that the grammar has words of its own for, by an expression in
    /// it.
    pub(crate) fn call_around(&self, name: &str, call: &Expr, inner: &Expr) -> Option<usize> {
        let near = self.token(inner.begins()?)?;
        let is_call = |at: &usize| {
            is(&self.pieces[*at].token, name)
                && self.pieces.get(at + 1).is_some_and(|next| next.token == Token::LParen)
        };
        let mut names = (near.saturating_sub(BEFORE_MAX)..near).rev().filter(is_call);
        let is_whole = |at: &usize| {
            let last = self.arguments(at + 1, &[]).and_then(|parts| parts.last().copied());
            last.is_some_and(|(_, close)| self.is_exactly((*at, close + 1), call))
        };
        names.find(is_whole).map(|at| at + 1)
    }

    /// Whether tokens are an expression, and nothing else.
    pub(crate) fn is_exactly(&self, (from, to): Extent, expr: &Expr) -> bool {
        if from >= to {
            return false;
        }
        let grammar = grammar(self.dialect);
        let mut parser = parser(&*grammar, self.pieces, (from, to));
        let found = parser.parse_expr();
        parser.peek_token().token == Token::EOF && found.is_ok_and(|found| found == *expr)
    }
}

/// Whether a token is a word of the grammar.
pub(super) fn is(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(Word { value, quote_style: None, .. })
        if value.eq_ignore_ascii_case(word))
}

fn grammar(dialect: Dialect) -> Box<dyn Grammar> {
    match dialect {
        Dialect::Postgres => Box::new(PostgreSqlDialect {}),
        Dialect::Sqlite => Box::new(SQLiteDialect {}),
    }
}

/// A parser of some tokens, whose spans count all of them.
fn parser<'g>(grammar: &'g dyn Grammar, pieces: &[Piece], (from, to): Extent) -> Parser<'g> {
    let location = |column: usize| Location { line: 1, column: column as u64 };
    let token = |(at, piece): (usize, &Piece)| TokenWithSpan {
        token: piece.token.clone(),
        span: Span { start: location(at + 1), end: location(at + 2) },
    };
    let tokens = pieces.iter().enumerate().take(to).skip(from).map(token).collect();
    Parser::new(grammar).with_recursion_limit(CALLS_MAX).with_tokens_with_locations(tokens)
}
