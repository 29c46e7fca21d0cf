//! `system.live_queries`, under which other systems list live queries. SQLite has no schemas but files, so
//! the name is put in the place of a view's of the same length: positions in the text stay as they are.

use std::borrow::Cow;

/// The view.
pub(crate) const LIVE_QUERY_VIEW: &str = "tidewire_live_query";

const SCHEMA: &str = "system";
const TABLE: &str = "live_queries";

// Otherwise errors would be told of other places than they are at.
const _: () = assert!(LIVE_QUERY_VIEW.len() == SCHEMA.len() + 1 + TABLE.len());

/// The text with the view's name where `system.live_queries` stands, outside of strings, quoted names and
/// comments.
pub(crate) fn with_view(sql: &str) -> Cow<'_, str> {
    let mut replaced: Option<String> = None;
    let mut at = 0;
    let mut after_dot = false;
    while let Some(next) = sql[at..].chars().next() {
        let rest = &sql[at..];
        if let Some(length) = skipped(rest, next) {
            at += length;
            continue;
        }
        if !is_word(next) {
            after_dot = next == '.';
            at += next.len_utf8();
            continue;
        }
        let word = word_of(rest);
        let whole = format!("{SCHEMA}.{TABLE}");
        let named = rest.get(..whole.len()).is_some_and(|start| start.eq_ignore_ascii_case(&whole));
        if named && !after_dot && !rest[whole.len()..].starts_with(is_word) {
            let text = replaced.get_or_insert_with(|| sql.to_owned());
            text.replace_range(at..at + whole.len(), LIVE_QUERY_VIEW);
            at += whole.len();
        } else {
            at += word.len();
        }
        after_dot = false;
    }
    replaced.map_or(Cow::Borrowed(sql), Cow::Owned)
}

/// Whether a text gives the view's name to something of its own: `WITH name AS (…)`, also with columns after
/// the name. What is read under it would look as if the view had read it.
pub(crate) fn takes_the_views_name(sql: &str) -> bool {
    let mut tokens = Tokens { sql, at: 0 };
    while let Some(token) = tokens.next() {
        if token.is_name(LIVE_QUERY_VIEW) && tokens.clone().give_it_a_meaning() {
            return true;
        }
    }
    false
}

/// The words, quoted names, strings and single characters of a text, without its comments.
#[derive(Clone)]
struct Tokens<'a> {
    sql: &'a str,
    at: usize,
}

struct Token<'a>(&'a str);

impl Token<'_> {
    fn is_word(&self, word: &str) -> bool {
        self.0.eq_ignore_ascii_case(word)
    }

    /// SQLite takes names in any of its quotes, those of strings too.
    fn is_name(&self, name: &str) -> bool {
        let inner = ["''", "\"\"", "``", "[]"].iter().find_map(|quotes| {
            let (open, close) = quotes.split_at(1);
            self.0.strip_prefix(open)?.strip_suffix(close)
        });
        inner.unwrap_or(self.0).eq_ignore_ascii_case(name)
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            let rest = &self.sql[self.at..];
            let first = rest.chars().next()?;
            let quoted = skipped(rest, first);
            let length = match quoted {
                Some(length) => length,
                None if is_word(first) => word_of(rest).len(),
                None => first.len_utf8(),
            };
            self.at += length;
            let is_comment = quoted.is_some() && matches!(first, '-' | '/');
            if !is_comment && !first.is_whitespace() {
                return Some(Token(&rest[..length]));
            }
        }
    }
}

impl Tokens<'_> {
    /// Whether `AS (` follows, after columns in parentheses or without. `AS MATERIALIZED (` and `AS NOT
    /// MATERIALIZED (` are the same.
    fn give_it_a_meaning(&mut self) -> bool {
        let mut token = self.next();
        if token.as_ref().is_some_and(|token| token.is_word("(")) {
            while token.as_ref().is_some_and(|token| !token.is_word(")")) {
                token = self.next();
            }
            token = self.next();
        }
        if !token.is_some_and(|token| token.is_word("AS")) {
            return false;
        }
        let mut token = self.next();
        for word in ["NOT", "MATERIALIZED"] {
            if token.as_ref().is_some_and(|token| token.is_word(word)) {
                token = self.next();
            }
        }
        token.is_some_and(|token| token.is_word("("))
    }
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '$') || !character.is_ascii()
}

fn word_of(text: &str) -> &str {
    let end = text.find(|character| !is_word(character)).unwrap_or(text.len());
    &text[..end]
}

/// How long what stands here is, if it is a string, a quoted name or a comment.
fn skipped(rest: &str, first: char) -> Option<usize> {
    let until = |skip: usize, end: &str| {
        rest.get(skip..)
            .and_then(|text| text.find(end))
            .map_or(rest.len(), |at| skip + at + end.len())
    };
    match first {
        '\'' => Some(until(1, "'")),
        '"' => Some(until(1, "\"")),
        '`' => Some(until(1, "`")),
        '[' => Some(until(1, "]")),
        '-' if rest.starts_with("--") => Some(until(2, "\n")),
        '/' if rest.starts_with("/*") => Some(until(2, "*/")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_replaced_where_it_is_one() {
        for (sql, expected) in [
            ("SELECT * FROM system.live_queries", "SELECT * FROM tidewire_live_query"),
            (
                "SELECT SYSTEM.Live_Queries.node FROM System.Live_Queries;",
                "SELECT tidewire_live_query.node FROM tidewire_live_query;",
            ),
            ("SELECT 'ä', x FROM(system.live_queries)", "SELECT 'ä', x FROM(tidewire_live_query)"),
        ] {
            assert_eq!(with_view(sql), expected);
        }
    }

    #[test]
    fn nothing_else_is_called_like_the_view() {
        for sql in [
            "WITH tidewire_live_query AS (SELECT 1) SELECT 1",
            "WITH a AS (SELECT 1), \"Tidewire_Live_Query\"/**/(a, b)AS NOT MATERIALIZED(SELECT 1) SELECT 1",
            "CREATE VIEW v AS WITH [tidewire_live_query] as materialized (SELECT 1) SELECT 1",
            "WITH 'tidewire_live_query' --\nAS\n(SELECT 1) SELECT 1",
            "WITH `tidewire_live_query` AS (SELECT 1) SELECT 1",
            "SELECT 1; WITH RECURSIVE tidewire_live_query(x) AS (SELECT 1) SELECT 1",
        ] {
            assert!(takes_the_views_name(sql), "{sql}");
        }
        for sql in [
            "SELECT * FROM tidewire_live_query",
            "SELECT * FROM tidewire_live_query AS q, (SELECT 1) AS r",
            "SELECT * FROM (tidewire_live_query) AS q",
            "SELECT 'tidewire_live_query AS (' -- tidewire_live_query AS (",
            "WITH log AS (SELECT 1) SELECT 1 FROM log",
            "WITH q AS (SELECT * FROM tidewire_live_query) SELECT 1",
            "tidewire_live_query (",
        ] {
            assert!(!takes_the_views_name(sql), "{sql}");
        }
    }

    #[test]
    fn other_texts_are_left_alone() {
        for sql in [
            "SELECT 'system.live_queries'",
            "SELECT 'it''s system.live_queries'",
            "SELECT \"system.live_queries\", `system.live_queries`, [system.live_queries]",
            "SELECT 1 -- system.live_queries",
            "SELECT 1 /* system.live_queries */",
            "SELECT mysystem.live_queries, system.live_queries_2, a.system.live_queries",
            "SELECT 'system.live_queries",
            "/* system.live_queries",
            "",
        ] {
            assert_eq!(with_view(sql), sql);
        }
    }
}
