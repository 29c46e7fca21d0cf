//! From text to an expression: `sqlparser`, within limits.
//!
//! What it reads is only a candidate. Where it might understand a text otherwise than the database
//! does, `bind` refuses.

use sqlparser::ast::{Expr, Spanned};
use sqlparser::dialect::{PostgreSqlDialect, SQLiteDialect};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, Word};

use crate::refusal::{NOT_SUPPORTED, Refusal, SYNTAX, TOO_LARGE};
use crate::table::Dialect;

/// Bytes of a predicate, at most: room for a list of thousands of ids.
pub(crate) const TEXT_BYTES_MAX: usize = 256 * 1024;
/// Words and signs, at most, without commas and values. Expressions nest as deep as there are of these,
/// and are walked and dropped by recursion.
const WORDS_MAX: usize = 1_000;
/// Parentheses within each other, and NOTs before them, at most. The parser goes down by recursion, and
/// what it takes of the stack for a level is a tenth of a megabyte where it is not optimised.
pub(crate) const NESTING_MAX: usize = 12;
/// Calls of the parser within each other, at most: what else nests, and operators between parentheses.
const CALLS_MAX: usize = 32;

/// A predicate's text, which knows where things are.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    text: &'a str,
    /// How many characters come before each line.
    lines: Vec<usize>,
}

impl<'a> Source<'a> {
    pub(crate) fn new(text: &'a str) -> Source<'a> {
        let mut before = 0;
        let line = |line: &str| {
            before += line.chars().count();
            before
        };
        let ends = text.split_inclusive('\n').map(line);
        Source { text, lines: std::iter::once(0).chain(ends).collect() }
    }

    /// Reads the text as one expression.
    pub(crate) fn parse(&self, dialect: Dialect) -> Result<Expr, Refusal> {
        if self.text.len() > TEXT_BYTES_MAX {
            return Err(too_large(&format!("is longer than {TEXT_BYTES_MAX} bytes")));
        }
        let (postgres, sqlite) = (PostgreSqlDialect {}, SQLiteDialect {});
        let grammar: &dyn sqlparser::dialect::Dialect = match dialect {
            Dialect::Postgres => &postgres,
            Dialect::Sqlite => &sqlite,
        };
        let mut tokenizer = Tokenizer::new(grammar, self.text);
        let tokens = tokenizer.tokenize_with_location().map_err(|error| {
            Refusal::new(SYNTAX, error.message).at(self.position(error.location))
        })?;
        self.check(&tokens, dialect)?;
        let mut parser = Parser::new(grammar)
            .with_recursion_limit(CALLS_MAX)
            .with_tokens_with_locations(with_current_user(tokens));
        let expression = parser.parse_expr().map_err(|error| self.refusal(error))?;
        let rest = parser.peek_token();
        if rest.token != Token::EOF {
            let message = format!("{} does not belong to the condition", rest.token);
            return Err(Refusal::new(SYNTAX, message).at(self.position(rest.span.start)));
        }
        Ok(expression)
    }

    /// Where an expression begins, in characters from 1.
    pub(crate) fn position_of(&self, expression: &Expr) -> Option<usize> {
        self.position(expression.span().start)
    }

    /// Where a place of the parser's is, in characters from 1.
    pub(crate) fn position(&self, location: Location) -> Option<usize> {
        let line = usize::try_from(location.line).ok()?.checked_sub(1)?;
        let column = usize::try_from(location.column).ok()?;
        let before = self.lines.get(line)?;
        (column > 0).then_some(before + column)
    }

    /// Refuses what is too much, or means something else than it seems.
    fn check(&self, tokens: &[TokenWithSpan], dialect: Dialect) -> Result<(), Refusal> {
        let mut words = 0;
        let mut nesting = Nesting::default();
        let mut after_operator = false;
        let mut unequal_until = None;
        for TokenWithSpan { token, span } in tokens {
            let refuse = |code, message: &str| {
                Err(Refusal::new(code, message).at(self.position(span.start)))
            };
            match token {
                Token::Whitespace(_) | Token::Comma | Token::Number(..) => {}
                Token::SingleQuotedString(text) if text.contains('\0') => {
                    return refuse(NOT_SUPPORTED, "a text has the character U+0000 in it");
                }
                Token::SingleQuotedString(_) => {}
                Token::DoubleEq if dialect == Dialect::Postgres => {
                    return refuse(SYNTAX, "PostgreSQL has no operator ==; equal is =");
                }
                // To PostgreSQL the sign is a part of the operator there.
                Token::Minus | Token::Plus
                    if dialect == Dialect::Postgres && unequal_until == Some(span.start) =>
                {
                    return refuse(SYNTAX, "a space is missing before the sign");
                }
                // Both would nest without parentheses.
                Token::Word(Word { keyword: Keyword::CASE, quote_style: None, .. }) => {
                    return refuse(NOT_SUPPORTED, "CASE is not supported in a condition");
                }
                Token::Word(Word { keyword: Keyword::NOT, .. }) if after_operator => {
                    return refuse(SYNTAX, "NOT follows an operator without parentheses");
                }
                _ => words += 1,
            }
            unequal_until = (*token == Token::Neq).then_some(span.end);
            if !matches!(token, Token::Whitespace(_)) {
                let value = [Token::LParen, Token::RParen, Token::RBracket, Token::Comma];
                after_operator = !value.contains(token) && !is_value(token);
            }
            if words > WORDS_MAX {
                let what = format!("has more than {WORDS_MAX} words and signs besides its values");
                return Err(too_large(&what).at(self.position(span.start)));
            }
            if nesting.after(token) > NESTING_MAX {
                let what = format!("is nested deeper than {NESTING_MAX} levels");
                return Err(too_large(&what).at(self.position(span.start)));
            }
        }
        Ok(())
    }

    fn refusal(&self, error: ParserError) -> Refusal {
        let text = match error {
            ParserError::RecursionLimitExceeded => {
                return too_large("is nested too deeply");
            }
            ParserError::TokenizerError(text) | ParserError::ParserError(text) => text,
        };
        let (message, location) = place_in_words(&text);
        let position = location.and_then(|location| self.position(location));
        Refusal::new(SYNTAX, message)
            .hint("a condition over the table's columns, such as status = 'paid', is expected")
            .at(position)
    }
}

/// What a parser says, and where: it tells the place in words only.
pub(crate) fn place_in_words(text: &str) -> (&str, Option<Location>) {
    let place = text.rsplit_once(" at Line: ").and_then(|(message, place)| {
        let (line, column) = place.split_once(", Column: ")?;
        let location = Location { line: line.parse().ok()?, column: column.parse().ok()? };
        Some((message, Some(location)))
    });
    place.unwrap_or((text, None))
}

/// Whether a token is a word or a value, and no sign.
fn is_value(token: &Token) -> bool {
    matches!(token, Token::Word(_) | Token::Number(..) | Token::SingleQuotedString(_))
}

/// How deep a text is nested, counted as it is read.
#[derive(Debug, Default)]
pub(crate) struct Nesting {
    /// What each open parenthesis added, itself and the prefixes before it; and the postfixes that
    /// were counted outside of it.
    open: Vec<(usize, usize)>,
    /// Prefixes in a row that nothing has followed yet.
    prefixes: usize,
    /// Casts, collations and IS that follow each other: each holds all that is before it.
    postfixes: usize,
}

impl Nesting {
    /// Says that what the last parenthesis opened is deeper than others are.
    pub(crate) fn deepen(&mut self) {
        if let Some((depth, _)) = self.open.last_mut() {
            *depth += 1;
        }
    }

    /// The depth after a token.
    pub(crate) fn after(&mut self, token: &Token) -> usize {
        match token {
            Token::Whitespace(_) => {}
            Token::LParen | Token::LBracket | Token::LBrace => self.enter(),
            Token::RParen | Token::RBracket | Token::RBrace => self.leave(),
            Token::Minus | Token::Plus => {
                self.prefixes += 1;
                self.postfixes = 0;
            }
            Token::DoubleColon => self.postfixes += 1,
            Token::Word(Word { keyword, quote_style: None, .. }) => match keyword {
                Keyword::CASE => self.enter(),
                Keyword::END => self.leave(),
                Keyword::NOT => self.prefixes += 1,
                Keyword::IS | Keyword::NOTNULL | Keyword::COLLATE | Keyword::AT => {
                    self.prefixes = 0;
                    self.postfixes += 1;
                }
                Keyword::AND
                | Keyword::OR
                | Keyword::WHEN
                | Keyword::THEN
                | Keyword::ELSE
                | Keyword::SELECT
                | Keyword::FROM
                | Keyword::WHERE
                | Keyword::ON
                | Keyword::BY
                | Keyword::HAVING => {
                    self.prefixes = 0;
                    self.postfixes = 0;
                }
                _ => self.prefixes = 0,
            },
            Token::Word(_) | Token::Number(..) | Token::SingleQuotedString(_) | Token::Period => {
                self.prefixes = 0;
            }
            _ => {
                self.prefixes = 0;
                self.postfixes = 0;
            }
        }
        let open: usize = self.open.iter().map(|(depth, _)| depth).sum();
        open + self.prefixes + self.postfixes
    }

    fn enter(&mut self) {
        self.open.push((1 + self.prefixes, self.postfixes));
        self.prefixes = 0;
        self.postfixes = 0;
    }

    fn leave(&mut self) {
        self.prefixes = 0;
        self.postfixes = self.open.pop().map_or(0, |(_, outside)| outside);
    }
}

fn too_large(what: &str) -> Refusal {
    Refusal::new(TOO_LARGE, format!("the condition {what}"))
        .hint("subscribe with several smaller conditions, or with one that is wider")
}

/// `CURRENT_USER()` is another way to write `auth.user_id()`. To the parser the word alone would be the
/// database's user, whom it must not be taken for.
fn with_current_user(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_call = |at: usize| {
        let mut next = tokens[at..].iter().filter(|it| !matches!(it.token, Token::Whitespace(_)));
        let mut token = || next.next().map(|it| &it.token);
        let word = |token: Option<&Token>| {
            matches!(token, Some(Token::Word(Word { value, quote_style: None, .. }))
                if value.eq_ignore_ascii_case("current_user"))
        };
        !matches!(tokens[at].token, Token::Whitespace(_))
            && word(token())
            && token() == Some(&Token::LParen)
            && token() == Some(&Token::RParen)
    };
    let calls: Vec<bool> = (0..tokens.len()).map(is_call).collect();
    let renamed = |(token, is_call): (TokenWithSpan, bool)| {
        if !is_call {
            return vec![token];
        }
        let words =
            [Token::make_word("auth", None), Token::Period, Token::make_word("user_id", None)];
        words.into_iter().map(|word| TokenWithSpan { token: word, span: token.span }).collect()
    };
    tokens.into_iter().zip(calls).flat_map(renamed).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refused(text: &str) -> Refusal {
        let refusal = Source::new(text).parse(Dialect::Postgres);
        refusal.expect_err(&format!("{text} is refused"))
    }

    #[test]
    fn places_are_counted_in_characters() {
        for (text, position) in [
            ("a = = 1", Some(5)),
            ("'ü' = \n a ) b", Some(11)),
            ("a = 1 b", Some(7)),
            ("a = 'x", Some(5)),
            ("a == 1", Some(3)),
            ("a!=-1", Some(4)),
        ] {
            let refusal = refused(text);
            assert_eq!((refusal.code, refusal.position), (SYNTAX, position), "{text}: {refusal}");
        }
    }

    #[test]
    fn what_is_too_much_is_refused() {
        let deep = format!("{}a{}", "(".repeat(200), ")".repeat(200));
        let long = format!("a = '{}'", "x".repeat(TEXT_BYTES_MAX));
        let wide = vec!["a = 1"; 500].join(" OR ");
        let nots = format!("{} a", "NOT ".repeat(200));
        let minuses = format!("a = {}1", "- ".repeat(200));
        let casts = format!("a{} = 1", "::numeric(5, 2)".repeat(100));
        let tests = format!("a{}", " IS NULL".repeat(200));
        for text in [deep, long, wide, nots, minuses, casts, tests] {
            assert_eq!(refused(&text).code, TOO_LARGE);
        }
        // Others are stopped by the parser, and it does not always say why.
        for word in ["CASE ", "CASE WHEN ", "EXISTS ", "PRIOR ", "ARRAY[", "INTERVAL ", "NOT a = "]
        {
            refused(&word.repeat(100));
        }
    }

    #[test]
    fn what_is_nested_as_deep_as_it_may_be_is_read() {
        let level = |inner: String, _| format!("(a = 1 AND b = 2 OR {inner})");
        let deep = (0..NESTING_MAX).fold("a = 1".to_owned(), level);
        assert!(Source::new(&deep).parse(Dialect::Postgres).is_ok());
    }

    #[test]
    fn a_list_may_be_long() {
        let ids: Vec<String> = (0..20_000).map(|id| id.to_string()).collect();
        let text = format!("id IN ({})", ids.join(","));
        assert!(Source::new(&text).parse(Dialect::Sqlite).is_ok());
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in "\\PC{0,60}|[a-c0-9 =<>()'\"\\[\\],.;:+-]{0,60}") {
            for dialect in [Dialect::Postgres, Dialect::Sqlite] {
                let _ = Source::new(&text).parse(dialect);
            }
        }
    }
}
