//! The tokens of a statement: only those of a list, within limits, with its parameters in it as literals.
//!
//! What is sent to the database is made of these and of nothing else. So whatever a token could mean that
//! is not meant here (a string with escapes, a comment, an operator of someone's own) never gets there.

use serde_json::value::RawValue;
use sqlparser::dialect::{Dialect as Grammar, PostgreSqlDialect, SQLiteDialect};
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer, Word};

use super::parameters::literal;
use crate::parse::{NESTING_MAX, Nesting, Source, TEXT_BYTES_MAX};
use crate::refusal::{PARAMETER, QUERY_NOT_SUPPORTED, QUERY_SYNTAX, QUERY_TOO_LARGE, Refusal};
use crate::table::Dialect;

/// Words and signs, at most, without commas and values: statements are walked and dropped by recursion.
pub(crate) const WORDS_MAX: usize = 2_000;
/// Tokens of every kind, at most: each is looked at many times, and kept as long as the query is.
pub(crate) const TOKENS_MAX: usize = 20_000;
/// Bytes of a name on PostgreSQL, at most: it would take the first of them for the whole.
const NAME_BYTES_MAX: usize = 63;

/// What to do about parameters that are too many or too few.
const ONE_EACH: &str = "`params` has a value for each of $1, $2 and so on, and no other";

/// A token, and where it stands in the client's text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Piece {
    pub(crate) token: Token,
    /// In characters from 1.
    pub(crate) at: usize,
    /// Who asks: the token is a literal that is filled in when it is known who that is.
    pub(crate) identity: Option<Identity>,
}

/// What of a caller a statement asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Identity {
    /// `CURRENT_USER()` or `auth.user_id()`.
    User,
    /// `auth.host_id()`.
    Host,
    /// `auth.claim('…')`.
    Claim(String),
}

/// Reads a statement's tokens.
pub(crate) fn read(
    sql: &str,
    params: &[Box<RawValue>],
    dialect: Dialect,
) -> Result<Vec<Piece>, Refusal> {
    let given = params.iter().map(|param| param.get().len()).sum::<usize>();
    let mut length = sql.len() + given;
    within_text(length)?;
    let source = Source::new(sql);
    let tokens = tokenize(sql, dialect)
        .map_err(|(message, at)| Refusal::new(QUERY_SYNTAX, message).at(source.position(at)))?;
    let mut pieces = Vec::with_capacity(tokens.len());
    let mut used = vec![false; params.len()];
    let mut next_question = 0;
    for TokenWithSpan { token, span } in tokens {
        let at = source.position(span.start).unwrap_or(1);
        match token {
            Token::Whitespace(_) | Token::EOF => {}
            Token::Placeholder(name) => {
                let number = parameter_number(&name, &mut next_question, dialect)
                    .map_err(|refusal| refusal.at(Some(at)))?;
                let param = params.get(number).ok_or_else(|| {
                    let given = params.len();
                    let message =
                        format!("the parameter {name} was not given: `params` has {given} values");
                    Refusal::new(PARAMETER, message).hint(ONE_EACH).at(Some(at))
                })?;
                // A parameter becomes as many literals as it has places.
                if std::mem::replace(&mut used[number], true) {
                    length += param.get().len();
                    within_text(length).map_err(|refusal| refusal.at(Some(at)))?;
                }
                let tokens = literal(param, dialect).map_err(|refusal| refusal.at(Some(at)))?;
                pieces.extend(tokens.into_iter().map(|token| Piece { token, at, identity: None }));
            }
            token => {
                check(&token, dialect).map_err(|refusal| refusal.at(Some(at)))?;
                pieces.push(Piece { token, at, identity: None });
            }
        }
    }
    if let Some(unused) = used.iter().position(|used| !used) {
        let message = format!("the parameter {} is not used in the query", unused + 1);
        let refusal = Refusal::new(PARAMETER, message);
        // On PostgreSQL it is an operator of JSON documents.
        return Err(match pieces.iter().find(|piece| piece.token == Token::Question) {
            Some(piece) => refusal
                .hint("parameters are written $1, $2 on PostgreSQL, not ?")
                .at(Some(piece.at)),
            None => refusal.hint(ONE_EACH),
        });
    }
    end_once(&mut pieces)?;
    let pieces = with_identities(pieces);
    within_limits(&pieces)?;
    Ok(pieces)
}

/// The tokens of a rule of the operator's, with who asks in it as in statements.
pub(crate) fn read_rule(text: &str, dialect: Dialect) -> Result<Vec<Piece>, Refusal> {
    read(text, &[], dialect)
}

pub(crate) fn tokenize(
    sql: &str,
    dialect: Dialect,
) -> Result<Vec<TokenWithSpan>, (String, sqlparser::tokenizer::Location)> {
    let (postgres, sqlite) = (PostgreSqlDialect {}, SQLiteDialect {});
    let grammar: &dyn Grammar = match dialect {
        Dialect::Postgres => &postgres,
        Dialect::Sqlite => &sqlite,
    };
    let mut tokenizer = Tokenizer::new(grammar, sql);
    tokenizer.tokenize_with_location().map_err(|error| (error.message, error.location))
}

/// Which parameter a placeholder stands for, counted from 0.
fn parameter_number(name: &str, next: &mut usize, dialect: Dialect) -> Result<usize, Refusal> {
    let (signs, hint): (&[char], _) = match dialect {
        Dialect::Postgres => (&['$'], "parameters are written $1, $2"),
        Dialect::Sqlite => (&['$', '?'], "parameters are written $1, $2, or ?1, ?2, or ?"),
    };
    let refusal = || Refusal::new(PARAMETER, format!("{name} is no parameter")).hint(hint);
    let digits = name.strip_prefix(signs).ok_or_else(refusal)?;
    if name == "?" {
        *next += 1;
        return Ok(*next - 1);
    }
    let number: usize = digits.parse().map_err(|_| refusal())?;
    let at = number.checked_sub(1).ok_or_else(refusal)?;
    *next = (*next).max(number);
    Ok(at)
}

/// Whether a token may be in a statement.
fn check(token: &Token, dialect: Dialect) -> Result<(), Refusal> {
    let refuse = |what: &str, hint: &str| {
        Err(Refusal::new(QUERY_NOT_SUPPORTED, format!("{what} is not supported in a live query"))
            .hint(hint))
    };
    let plain = "write a string as 'text', with '' for a quote in it, or pass it as a parameter";
    match token {
        Token::SingleQuotedString(text) | Token::Word(Word { value: text, .. })
            if text.contains('\0') =>
        {
            refuse("the character U+0000", plain)
        }
        Token::Word(Word { value, .. })
            if dialect == Dialect::Postgres && value.len() > NAME_BYTES_MAX =>
        {
            let what = format!("a name of more than {NAME_BYTES_MAX} bytes");
            refuse(&what, "PostgreSQL cuts longer names off: write the name as it has it")
        }
        Token::Number(_, true) => refuse("a number with letters", "write its digits only"),
        Token::Word(_)
        | Token::Number(..)
        | Token::SingleQuotedString(_)
        | Token::Comma
        | Token::Eq
        | Token::Neq
        | Token::Lt
        | Token::Gt
        | Token::LtEq
        | Token::GtEq
        | Token::Plus
        | Token::Minus
        | Token::Mul
        | Token::Div
        | Token::Mod
        | Token::StringConcat
        | Token::LParen
        | Token::RParen
        | Token::Period
        | Token::SemiColon
        | Token::Ampersand
        | Token::Pipe
        | Token::Tilde
        | Token::ShiftLeft
        | Token::ShiftRight
        | Token::Arrow
        | Token::LongArrow => Ok(()),
        Token::DoubleEq if dialect == Dialect::Sqlite => Ok(()),
        Token::Colon
        | Token::DoubleColon
        | Token::LBracket
        | Token::RBracket
        | Token::Caret
        | Token::Sharp
        | Token::Overlap
        | Token::TildeAsterisk
        | Token::ExclamationMarkTilde
        | Token::ExclamationMarkTildeAsterisk
        | Token::HashArrow
        | Token::HashLongArrow
        | Token::HashMinus
        | Token::AtArrow
        | Token::ArrowAt
        | Token::AtQuestion
        | Token::AtAt
        | Token::Question
        | Token::QuestionAnd
        | Token::QuestionPipe
            if dialect == Dialect::Postgres =>
        {
            Ok(())
        }
        Token::EscapedStringLiteral(_)
        | Token::UnicodeStringLiteral(_)
        | Token::NationalStringLiteral(_)
        | Token::DollarQuotedString(_)
        | Token::HexStringLiteral(_)
        | Token::SingleQuotedByteStringLiteral(_) => refuse("this kind of string", plain),
        other => refuse(&format!("the sign {other}"), "use the operators that PROTOCOL.md lists"),
    }
}

/// A statement may end with `;`, and has none elsewhere.
fn end_once(pieces: &mut Vec<Piece>) -> Result<(), Refusal> {
    while pieces.last().is_some_and(|piece| piece.token == Token::SemiColon) {
        pieces.pop();
    }
    match pieces.iter().find(|piece| piece.token == Token::SemiColon) {
        Some(piece) => Err(Refusal::new(QUERY_NOT_SUPPORTED, "a live query is one statement")
            .hint("subscribe once for each statement")
            .at(Some(piece.at))),
        None => Ok(()),
    }
}

pub(super) fn within_limits(pieces: &[Piece]) -> Result<(), Refusal> {
    if let Some(piece) = pieces.get(TOKENS_MAX) {
        let what = format!("has more than {TOKENS_MAX} words, signs and values");
        return Err(too_large(&what).at(Some(piece.at)));
    }
    let mut words = 0;
    let mut nesting = Nesting::default();
    let mut is_opened = false;
    for piece in pieces {
        // A subquery takes the parser and everyone after it deeper than an expression does.
        let is_select = matches!(&piece.token, Token::Word(Word { value, quote_style: None, .. })
            if ["select", "with", "values"].iter().any(|word| value.eq_ignore_ascii_case(word)));
        if is_opened && is_select {
            nesting.deepen();
        }
        is_opened = piece.token == Token::LParen;
        let is_value =
            matches!(piece.token, Token::Comma | Token::Number(..) | Token::SingleQuotedString(_));
        words += usize::from(!is_value);
        if words > WORDS_MAX {
            let what = format!("has more than {WORDS_MAX} words and signs besides its values");
            return Err(too_large(&what).at(Some(piece.at)));
        }
        if nesting.after(&piece.token) > NESTING_MAX {
            let what = format!("is nested deeper than {NESTING_MAX} levels");
            return Err(too_large(&what).at(Some(piece.at)));
        }
    }
    Ok(())
}

/// Whether a statement with all that is filled in is short enough.
pub(super) fn within_text(length: usize) -> Result<(), Refusal> {
    if length > TEXT_BYTES_MAX {
        let what = format!("is longer than {TEXT_BYTES_MAX} bytes with its parameters");
        return Err(too_large(&what));
    }
    Ok(())
}

pub(crate) fn too_large(what: &str) -> Refusal {
    Refusal::new(QUERY_TOO_LARGE, format!("the query {what}"))
        .hint("subscribe to several smaller queries, or to a wider one")
}

/// Puts one literal in the place of each call that asks who asks.
fn with_identities(pieces: Vec<Piece>) -> Vec<Piece> {
    let mut found = Vec::with_capacity(pieces.len());
    let mut at = 0;
    while at < pieces.len() {
        let before = found.last().map(|piece: &Piece| &piece.token);
        match identity(&pieces[at..]).filter(|_| before != Some(&Token::Period)) {
            Some((identity, length)) => {
                let token = Token::SingleQuotedString(String::new());
                found.push(Piece { token, at: pieces[at].at, identity: Some(identity) });
                at += length;
            }
            None => {
                found.push(pieces[at].clone());
                at += 1;
            }
        }
    }
    found
}

/// Who is asked for by the call that these begin with, and how many tokens it has.
fn identity(pieces: &[Piece]) -> Option<(Identity, usize)> {
    let token = |at: usize| pieces.get(at).map(|piece| &piece.token);
    let word = |at: usize| match token(at) {
        Some(Token::Word(Word { value, quote_style: None, .. })) => {
            Some(value.to_ascii_lowercase())
        }
        _ => None,
    };
    let is_call =
        |at: usize| token(at) == Some(&Token::LParen) && token(at + 1) == Some(&Token::RParen);
    match word(0)?.as_str() {
        "current_user" if is_call(1) => Some((Identity::User, 3)),
        "auth" if token(1) == Some(&Token::Period) => match (word(2)?.as_str(), token(4)) {
            ("user_id", _) if is_call(3) => Some((Identity::User, 5)),
            ("host_id", _) if is_call(3) => Some((Identity::Host, 5)),
            ("claim", Some(Token::SingleQuotedString(name)))
                if token(3) == Some(&Token::LParen) && token(5) == Some(&Token::RParen) =>
            {
                Some((Identity::Claim(name.clone()), 6))
            }
            _ => None,
        },
        _ => None,
    }
}
