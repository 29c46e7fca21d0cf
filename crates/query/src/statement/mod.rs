//! From the text of a SELECT to a query that can be kept live.
//!
//! The text is cut into tokens ([`tokens`]), which are parsed; every node of what was parsed is visited
//! and every name in it found ([`walk`], [`select`], [`from`], [`expression`]); and the same tokens,
//! with a subquery in the place of each table ([`barrier`]), are what the database runs ([`emit`]).
//!
//! - `any`: `column = ANY('{1,2}')`, which is `column IN ('1', '2')` where the array is written out
//! - `begins`: the token that something begins with, or nearly
//! - `bind`: a statement whose names were all found, and the tables that they were found in
//! - `clock`: words in strings that PostgreSQL reads as times of its own clock
//! - `extent`: which tokens an expression is made of
//! - `functions`: the functions that live queries may call
//! - `growth`: what makes larger values of smaller ones is measured where it does
//! - `guard`: which rows of a table its caller may see
//! - `identities`: who asks, as the literals that it becomes
//! - `names`: a table's name that stands alone, outside of any statement
//! - `parameters`: parameters as the literals that they become
//! - `path`: JSON paths, which may search by regular expressions
//! - `rule`: row rules that only the database can tell
//! - `scope`: which names mean what
//! - `search`: what a client looks for in texts, and in what texts
//! - `series`: how long a `generate_series` is must be written in the query
//! - `title`: what a result's column is called if the query does not say
//! - `where`: a SELECT's WHERE, and the parts of it that are about one table alone
//! - `words`: words that are syntax, and words that are types
//! - `wrap`: what is put around computed values that are searched, or that may be large, so that
//!   the database measures them

mod any;
mod barrier;
mod begins;
mod bind;
mod clock;
mod emit;
mod expression;
mod extent;
mod from;
mod functions;
mod growth;
mod guard;
mod identities;
mod names;
mod parameters;
mod path;
mod rule;
mod scope;
mod search;
mod select;
mod series;
#[cfg(test)]
mod tests;
mod title;
mod tokens;
mod walk;
mod r#where;
mod words;
mod wrap;

use std::fmt;
use std::sync::Arc;

use serde_json::value::RawValue;
use sqlparser::ast::Query as Statement;
use sqlparser::dialect::{Dialect as Grammar, PostgreSqlDialect, SQLiteDialect};
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Word};

pub(crate) use self::bind::Bound;
use self::growth::SPARED_MAX;
pub use self::rule::{RuleUse, check_rule, read_as_condition, rule_tables};
pub(crate) use self::scope::Output;
use self::select::{Ctes, NameScope};
use self::tokens::{Piece, too_large};
pub(crate) use self::walk::Occurrence;
use self::walk::{Walk, not_supported, token_of};
use crate::caller::Caller;
use crate::parse::place_in_words;
use crate::plan::{self, PlanName, Query};
use crate::refusal::{QUERY_SYNTAX, Refusal};
use crate::shape::{Access, QueryLimits, TableName, TableShape};
use crate::table::Dialect;
pub use tidewire_suggest::nearest;

/// Calls of the parser within each other, at most.
pub(crate) const CALLS_MAX: usize = 50;

/// Tables in FROM, at most, of a query whose caller may see part of a table only. What the database's planner
/// expects tells of all rows, so nobody of those is refused by it.
const NARROWED_TABLES_MAX: usize = 16;
/// Rows that `generate_series` makes for such a query, multiplied, at most.
const NARROWED_GENERATED_MAX: u64 = 1_000_000;

/// A SELECT that was read and checked, and is bound to no tables yet.
#[derive(Debug, Clone)]
pub struct Draft {
    dialect: Dialect,
    pieces: Vec<Piece>,
    statement: Arc<Statement>,
    tables: Vec<TableName>,
}

/// What a draft is bound to.
pub struct Binding<'a> {
    /// Of each of the draft's tables, and of those that rules read ([`rule_tables`]), what it is.
    pub tables: &'a [(TableName, Arc<TableShape>)],
    /// What the caller may see of a table, by the name that its events have.
    pub access: &'a dyn Fn(&str) -> Access,
    /// Who asks.
    pub caller: &'a dyn Caller,
    /// How large it may be.
    pub limits: QueryLimits,
}

impl fmt::Debug for Binding<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Binding").field("tables", &self.tables).finish_non_exhaustive()
    }
}

impl Draft {
    /// Reads one SELECT with its parameters.
    pub fn parse(sql: &str, params: &[Box<RawValue>], dialect: Dialect) -> Result<Draft, Refusal> {
        let pieces = tokens::read(sql, params, dialect)?;
        let statement = parse(&pieces, dialect)?;
        let mut walk = Walk::new(dialect, &pieces, None);
        let ctes = Ctes::default();
        walk.query(&statement, NameScope { scope: None, ctes: &ctes })?;
        walk.audit()?;
        let tables = walk.tables;
        Ok(Draft { dialect, pieces, statement: Arc::new(statement), tables })
    }

    /// The base tables that it reads, each once.
    pub fn tables(&self) -> &[TableName] {
        &self.tables
    }

    /// Makes the query of it: for these tables as they are, and this caller.
    pub fn bind(&self, with: &Binding<'_>) -> Result<Query, Refusal> {
        self.bound(with, |bound| plan::choose(bound, with.limits))
    }

    /// Where in the client's text a character of [`Query::rerun`] comes from, both counted from 1: for
    /// what the database says about the one it was given.
    pub fn origin(&self, with: &Binding<'_>, position: usize) -> Option<usize> {
        let origin = |bound: &Bound<'_>| {
            let is_requery = plan::choose(bound, with.limits)?.plan.name() == PlanName::Requery;
            Ok(bound.emit(is_requery).origin(position))
        };
        self.bound(with, origin).ok().flatten()
    }

    /// Finds all names, and hands on what they are.
    fn bound<T>(
        &self,
        with: &Binding<'_>,
        then: impl FnOnce(&Bound<'_>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let pieces = identities::fill(&self.pieces, with.caller, self.dialect)?;
        let asks_who = self.pieces.iter().any(|piece| piece.identity.is_some());
        let statement = match asks_who {
            true => Arc::new(parse(&pieces, self.dialect)?),
            false => Arc::clone(&self.statement),
        };
        let known = bind::known(&self.tables, with, self.dialect)?;
        let walked = |spares_none: bool| {
            let mut walk = Walk::new(self.dialect, &pieces, Some(&known));
            walk.spares_none = spares_none;
            let outputs =
                walk.query(&statement, NameScope { scope: None, ctes: &Ctes::default() })?;
            walk.audit()?;
            Ok::<_, Refusal>((walk, outputs))
        };
        let (mut walk, mut outputs) = walked(false)?;
        if walk.spared > SPARED_MAX {
            // Like expressions have to stay alike, so that it is all of them or none.
            (walk, outputs) = walked(true)?;
        }
        let outputs = outputs.ok_or_else(|| not_supported("a result of unknown columns"))?;
        let guards = guard::guards(&known, with.tables, with.caller, self.dialect)?;
        if guards.iter().any(|guard| !guard.sql.is_empty()) {
            within_structure(&walk)?;
        }
        let hide_timing = with.limits.hide_timing;
        let statement = &statement;
        then(&Bound { walk, known: &known, guards, outputs, statement, hide_timing })
    }
}

/// Refuses what is large by its structure: all that bounds, besides time, those who see part of a table.
fn within_structure(walk: &Walk<'_>) -> Result<(), Refusal> {
    if walk.occurrences.len() > NARROWED_TABLES_MAX {
        let what = format!("reads more than {NARROWED_TABLES_MAX} tables");
        return Err(too_large(&what));
    }
    if walk.generated > NARROWED_GENERATED_MAX {
        let what = format!("generates more than {NARROWED_GENERATED_MAX} rows");
        return Err(too_large(&what));
    }
    Ok(())
}

/// Parses tokens. Every span in what comes of it counts tokens: the first is in column 1.
fn parse(pieces: &[Piece], dialect: Dialect) -> Result<Statement, Refusal> {
    let (postgres, sqlite) = (PostgreSqlDialect {}, SQLiteDialect {});
    let grammar: &dyn Grammar = match dialect {
        Dialect::Postgres => &postgres,
        Dialect::Sqlite => &sqlite,
    };
    let begins = pieces.first().map(|piece| &piece.token);
    let is_select = match begins {
        Some(Token::Word(Word { value, quote_style: None, .. })) => {
            ["select", "with", "values"].iter().any(|word| value.eq_ignore_ascii_case(word))
        }
        Some(Token::LParen) => true,
        _ => false,
    };
    if !is_select {
        return Err(Refusal::new(QUERY_SYNTAX, "a live query begins with SELECT, WITH or VALUES")
            .hint("subscribe to a SELECT; other statements go to /v1/sql")
            .at(pieces.first().map(|piece| piece.at)));
    }
    let location = |column: usize| Location { line: 1, column: column as u64 };
    let token = |(at, piece): (usize, &Piece)| TokenWithSpan {
        token: piece.token.clone(),
        span: Span { start: location(at + 1), end: location(at + 2) },
    };
    let tokens = pieces.iter().enumerate().map(token).collect();
    let mut parser =
        Parser::new(grammar).with_recursion_limit(CALLS_MAX).with_tokens_with_locations(tokens);
    let position = |at: Option<usize>| {
        let piece = at.and_then(|at| pieces.get(at)).or(pieces.last());
        piece.map(|piece| piece.at)
    };
    let statement = parser.parse_query().map_err(|error| match error {
        ParserError::RecursionLimitExceeded => too_large("is nested too deeply"),
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => {
            let (message, place) = place_in_words(&text);
            let at = place.and_then(|place| usize::try_from(place.column).ok()?.checked_sub(1));
            Refusal::new(QUERY_SYNTAX, message).at(position(at))
        }
    })?;
    let rest = parser.peek_token();
    if rest.token != Token::EOF {
        let message = format!("{} does not belong to the query", rest.token);
        return Err(Refusal::new(QUERY_SYNTAX, message).at(position(token_of(rest.span))));
    }
    Ok(*statement)
}
