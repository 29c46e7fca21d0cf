//! Patterns over stream and table names, as scopes have them.
//!
//! `*` is any text within one segment, `**` any text at all, and a lone `*` is everything, as in the
//! scopes `{"tables": ["*"]}`. `{user_id}`, `{host_id}` and the names of a token's claims in braces
//! stand for the caller's own: `user/{user_id}/**`. What a caller brings along is taken literally,
//! and has to be one segment without a star in it: otherwise the user `a` could reach what is the
//! user `a/b`'s.

use std::borrow::Cow;

use tidewire_query::Dialect;

use super::names::{TableNames, Written};

/// A pattern, ready to be matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern(Vec<Token>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Literal(Box<str>),
    /// Any text without a slash.
    Segment,
    /// Any text.
    Anything,
}

/// Bytes of a pattern.
const PATTERN_BYTES_MAX: usize = 1_024;
/// Wild parts of a pattern: matching takes at most as many passes over the name.
const WILD_MAX: usize = 16;

impl Pattern {
    /// Reads a pattern. `own` tells what a name in braces stands for; a pattern with a name that
    /// stands for nothing matches nothing, which is `None`.
    pub(crate) fn parse(
        text: &str,
        own: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Pattern>, String> {
        if text.is_empty() || text.len() > PATTERN_BYTES_MAX {
            return Err(format!("a pattern has 1 to {PATTERN_BYTES_MAX} bytes"));
        }
        if text == "*" {
            return Ok(Some(Pattern(vec![Token::Anything])));
        }
        let mut tokens = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            if let Some(after) = rest.strip_prefix("**") {
                flush(&mut tokens, &mut literal);
                tokens.push(Token::Anything);
                rest = after;
            } else if let Some(after) = rest.strip_prefix('*') {
                flush(&mut tokens, &mut literal);
                tokens.push(Token::Segment);
                rest = after;
            } else if let Some(after) = rest.strip_prefix('{') {
                let (name, after) = after
                    .split_once('}')
                    .ok_or_else(|| format!("{text:?} has a {{ without a }} after it"))?;
                match own(name).filter(|value| is_one_segment(value)) {
                    Some(value) => literal.push_str(&value),
                    None => return Ok(None),
                }
                rest = after;
            } else {
                literal.push(next);
                rest = &rest[next.len_utf8()..];
            }
        }
        flush(&mut tokens, &mut literal);
        if tokens.iter().filter(|token| !matches!(token, Token::Literal(_))).count() > WILD_MAX {
            return Err(format!("{text:?} has more than {WILD_MAX} wild parts"));
        }
        Ok(Some(Pattern(tokens)))
    }

    /// Whether it takes in a name. As in the streams protocol, `doc/**` takes in `doc` itself.
    pub(crate) fn matches(&self, name: &str) -> bool {
        let of_all_below = match self.0.as_slice() {
            [.., Token::Literal(text), Token::Anything] => text.ends_with('/'),
            _ => false,
        };
        matches_tokens(&self.0, name)
            || (of_all_below && matches_tokens(&self.0, &format!("{name}/")))
    }

    /// Whether it takes in everything that a pattern of the streams protocol does. May say no of one
    /// that it would, never yes of one that it would not.
    pub(crate) fn covers(&self, pattern: &str) -> bool {
        match self.0.as_slice() {
            [Token::Anything] => true,
            [Token::Literal(prefix), Token::Anything] => pattern.starts_with(&**prefix),
            // There, one star is a segment too, and nothing else is wild.
            _ => !pattern.contains("**") && self.matches(pattern),
        }
    }
}

/// A pattern over the names of tables, which databases know under several spellings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TablePattern {
    /// Over the names of events, as it is written.
    plain: Pattern,
    other: PatternForm,
}

/// How it may be meant besides.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PatternForm {
    /// It is one table's name.
    Name(Written),
    /// Folded as the database folds names; over tables of the usual schema alone, if it names that.
    Folded { pattern: Pattern, usual_only: bool },
    /// It holds what a caller brings along, which is taken as it is.
    AsItIs,
}

impl TablePattern {
    /// As [`Pattern::parse`].
    pub(crate) fn parse(
        text: &str,
        own: impl Fn(&str) -> Option<String>,
        names: &TableNames,
    ) -> Result<Option<TablePattern>, String> {
        let Some(plain) = Pattern::parse(text, &own)? else { return Ok(None) };
        let other = if text.contains('{') || text == "*" {
            PatternForm::AsItIs
        } else if !text.contains('*') {
            PatternForm::Name(names.read(text))
        } else {
            let folded = text.to_ascii_lowercase();
            let usual = format!("{}.", names.usual_schema());
            let (rest, usual_only) = match folded.strip_prefix(&usual) {
                Some(rest) if !rest.is_empty() => (rest, true),
                _ => (folded.as_str(), false),
            };
            match Pattern::parse(rest, own)? {
                Some(pattern) => PatternForm::Folded { pattern, usual_only },
                None => PatternForm::AsItIs,
            }
        };
        Ok(Some(TablePattern { plain, other }))
    }

    /// Whether it takes in a table, by the name of its events.
    pub(crate) fn matches(&self, table: &str, names: &TableNames) -> bool {
        match &self.other {
            PatternForm::Name(written) => names.grants(written, table),
            PatternForm::AsItIs => self.plain.matches(table),
            PatternForm::Folded { pattern, usual_only } => {
                let folded = match names.dialect() {
                    Dialect::Postgres => Cow::Borrowed(table),
                    Dialect::Sqlite => Cow::Owned(table.to_ascii_lowercase()),
                };
                let of_pattern = !usual_only || is_bare(table);
                self.plain.matches(table) || (of_pattern && pattern.matches(&folded))
            }
        }
    }
}

/// Whether a name of events has no schema in it. A dot of the name itself is in quotes.
fn is_bare(table: &str) -> bool {
    let mut quoted = false;
    !table.chars().any(|sign| {
        quoted ^= sign == '"';
        sign == '.' && !quoted
    })
}

fn flush(tokens: &mut Vec<Token>, literal: &mut String) {
    if !literal.is_empty() {
        tokens.push(Token::Literal(std::mem::take(literal).into()));
    }
}

fn is_one_segment(value: &str) -> bool {
    !value.is_empty() && value != "." && value != ".." && !value.contains(['/', '*'])
}

/// Which beginnings of the name the tokens so far can have matched, a token at a time: the time is
/// bounded by the pattern's length times the name's, whatever they are.
fn matches_tokens(tokens: &[Token], name: &str) -> bool {
    let name = name.as_bytes();
    let mut reached = vec![false; name.len() + 1];
    reached[0] = true;
    for token in tokens {
        let mut next = vec![false; name.len() + 1];
        match token {
            Token::Literal(text) => {
                let text = text.as_bytes();
                for from in (0..=name.len()).filter(|at| reached[*at]) {
                    if name[from..].starts_with(text) {
                        next[from + text.len()] = true;
                    }
                }
            }
            Token::Segment | Token::Anything => {
                let mut open = false;
                for at in 0..=name.len() {
                    open |= reached[at];
                    next[at] = open;
                    if *token == Token::Segment && name.get(at) == Some(&b'/') {
                        open = false;
                    }
                }
            }
        }
        reached = next;
    }
    reached[name.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        let own = |name: &str| match name {
            "user_id" => Some("ann".to_owned()),
            _ => None,
        };
        Pattern::parse(text, own).expect("well formed").unwrap_or(Pattern(Vec::new()))
    }

    #[test]
    fn one_star_stays_within_a_segment() {
        for (text, name, expected) in [
            ("*", "any/thing", true),
            ("doc/*", "doc/1", true),
            ("doc/*", "doc/1/2", false),
            ("doc/*", "doc", false),
            ("doc-*", "doc-1", true),
            ("doc-*", "doc-1/2", false),
            ("doc/**", "doc/1/2", true),
            ("doc/**", "doc", true),
            ("doc/**", "docs", false),
            ("*/b", "a/b", true),
            ("**/b", "x/a/b", true),
            ("a*c", "abc", true),
            ("a*c", "ab/c", false),
            ("a**c", "ab/c", true),
            ("orders", "orders", true),
            ("orders", "orders2", false),
            ("user/{user_id}/*", "user/ann/x", true),
            ("user/{user_id}/*", "user/bob/x", false),
        ] {
            assert_eq!(pattern(text).matches(name), expected, "{text} on {name}");
        }
    }

    #[test]
    fn what_stands_for_nothing_or_for_more_than_a_segment_matches_nothing() {
        let own = |name: &str| match name {
            "sly" => Some("a/b".to_owned()),
            "star" => Some("*".to_owned()),
            _ => None,
        };
        assert_eq!(Pattern::parse("user/{nobody}/**", own), Ok(None));
        assert_eq!(Pattern::parse("user/{sly}/**", own), Ok(None));
        assert_eq!(Pattern::parse("user/{star}", own), Ok(None));
        assert!(Pattern::parse("user/{open", own).is_err());
        assert!(Pattern::parse("", own).is_err());
        assert!(Pattern::parse(&"*a".repeat(17), own).is_err());
    }

    #[test]
    fn a_pattern_covers_no_more_than_it_matches() {
        for (text, other, expected) in [
            ("*", "**", true),
            ("doc/**", "doc/*/x", true),
            ("doc/**", "doc/**", true),
            ("doc/**", "**", false),
            ("doc/**", "docs/*", false),
            ("doc/*", "doc/*", true),
            ("doc/*", "doc/**", false),
            ("doc/*", "doc/1", true),
        ] {
            assert_eq!(pattern(text).covers(other), expected, "{text} over {other}");
        }
    }

    #[test]
    fn patterns_of_tables_are_folded_as_the_database_folds_names() {
        let (orders, sales) =
            (("orders", "public", "orders", true), ("sales.orders", "sales", "orders", false));
        let postgres = TableNames::of(Dialect::Postgres, &[orders, sales]);
        let sqlite = TableNames::of(Dialect::Sqlite, &[("Orders", "main", "Orders", true)]);
        let matches = |text: &str, table: &str, names: &TableNames| {
            let pattern = TablePattern::parse(text, |_| Some("Orders".to_owned()), names);
            pattern.expect("well formed").is_some_and(|pattern| pattern.matches(table, names))
        };
        for (text, table, expected) in [
            ("*", "sales.orders", true),
            ("Ord*", "orders", true),
            ("Ord*", "Ordinals", true),
            ("public.*", "orders", true),
            ("Public.o*", "orders", true),
            ("public.*", "sales.orders", false),
            ("p*", "orders", false),
            ("public*", "orders", false),
            ("sales.*", "sales.orders", true),
            ("sales.*", "orders", false),
            ("public.orders", "orders", true),
            ("\"Orders\"", "orders", false),
            ("{claim}", "orders", false),
            ("{claim}", "Orders", true),
        ] {
            assert_eq!(matches(text, table, &postgres), expected, "{text} on {table}");
        }
        for (text, expected) in
            [("ORD*", true), ("main.*", true), ("main.orders", true), ("public.*", false)]
        {
            assert_eq!(matches(text, "Orders", &sqlite), expected, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn matching_agrees_with_trying_every_split(
            text in "[ab/*]{1,8}",
            name in "[ab/]{0,8}",
        ) {
            fn slowly(pattern: &[u8], name: &[u8]) -> bool {
                match pattern {
                    [] => name.is_empty(),
                    [b'*', b'*', rest @ ..] => {
                        (0..=name.len()).any(|at| slowly(rest, &name[at..]))
                    }
                    [b'*', rest @ ..] => (0..=name.len())
                        .take_while(|at| !name[..*at].contains(&b'/'))
                        .any(|at| slowly(rest, &name[at..])),
                    [first, rest @ ..] => name.first() == Some(first) && slowly(rest, &name[1..]),
                }
            }
            proptest::prop_assume!(text != "*");
            let found = matches_tokens(&pattern(&text).0, &name);
            proptest::prop_assert_eq!(found, slowly(text.as_bytes(), name.as_bytes()));
        }
    }
}
