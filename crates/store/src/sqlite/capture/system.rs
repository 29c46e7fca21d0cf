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
