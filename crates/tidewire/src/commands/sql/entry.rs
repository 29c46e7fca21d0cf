//! The input of a person: whether a statement is complete, and the commands that are not SQL.

/// Something to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entry<'a> {
    Nothing,
    Sql(&'a str),
    /// `\d`, with a table's name or without.
    Describe(Option<&'a str>),
    /// `\x`
    Expand,
    /// `\w`
    Watches,
    /// `\?`
    Help,
    /// `\q`
    Quit,
    Unknown(&'a str),
}

/// What a complete entry asks for.
pub(super) fn read(text: &str) -> Entry<'_> {
    let text = text.trim();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim().trim_end_matches(';').trim_end();
    let rest = Some(rest).filter(|rest| !rest.is_empty());
    match word.trim_end_matches(';') {
        "" => Entry::Nothing,
        "\\d" => Entry::Describe(rest),
        "\\x" => Entry::Expand,
        "\\w" => Entry::Watches,
        "\\?" | "\\h" | "help" if rest.is_none() => Entry::Help,
        "\\q" | "exit" | "quit" if rest.is_none() => Entry::Quit,
        other if other.starts_with('\\') => Entry::Unknown(other),
        _ => Entry::Sql(text),
    }
}

/// Whether an entry is to be run, or goes on in the next line: SQL ends with a semicolon that nothing
/// hides.
pub(super) fn is_complete(text: &str) -> bool {
    !matches!(read(text), Entry::Sql(_)) || ends_with_semicolon(text)
}

fn ends_with_semicolon(text: &str) -> bool {
    let mut rest = text;
    let mut ended = false;
    // In the body of a trigger or a function statements end without ending the whole.
    let (mut words, mut blocks) = (Vec::new(), 0usize);
    while let Some(next) = rest.chars().next() {
        let length = match next {
            _ if next.is_whitespace() => next.len_utf8(),
            '-' if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => match rest.find("*/") {
                Some(end) => end + 2,
                None => return false,
            },
            ';' => {
                ended = blocks == 0;
                if ended {
                    words.clear();
                }
                1
            }
            _ => {
                ended = false;
                let Some(length) = token(rest, next) else { return false };
                if next.is_ascii_alphabetic() {
                    let word = rest[..length].to_ascii_uppercase();
                    match word.as_str() {
                        "BEGIN" if makes_routine(&words) => blocks += 1,
                        "CASE" if blocks > 0 => blocks += 1,
                        "END" => blocks = blocks.saturating_sub(1),
                        _ => {}
                    }
                    words.push(word);
                }
                length
            }
        };
        rest = &rest[length..];
    }
    ended
}

/// The bytes of a token, or none if it does not end.
fn token(rest: &str, next: char) -> Option<usize> {
    match next {
        '\'' | '"' => rest[1..].find(next).map(|end| end + 2),
        '$' => {
            let tag = rest[1..].find('$').map(|end| &rest[..end + 2]);
            let name = |tag: &&str| {
                let name = &tag[1..tag.len() - 1];
                !name.starts_with(|c: char| c.is_ascii_digit())
                    && name.chars().all(|c| c.is_alphanumeric() || c == '_')
            };
            match tag.filter(name) {
                Some(tag) => rest[tag.len()..].find(tag).map(|end| end + 2 * tag.len()),
                None => Some(1),
            }
        }
        _ if next.is_alphanumeric() || next == '_' => {
            let part = |c: char| c.is_alphanumeric() || c == '_';
            Some(rest.find(|c: char| !part(c)).unwrap_or(rest.len()))
        }
        _ => Some(next.len_utf8()),
    }
}

fn makes_routine(words: &[String]) -> bool {
    let makes = |word: &String| matches!(word.as_str(), "TRIGGER" | "FUNCTION" | "PROCEDURE");
    words.first().is_some_and(|first| first == "CREATE") && words.iter().take(4).any(makes)
}

/// Where in a text a character is: its line, that line, and the characters before it there.
pub(super) fn place(text: &str, position: usize) -> Option<(usize, &str, usize)> {
    let mut before = position.checked_sub(1)?;
    for (number, line) in text.split('\n').enumerate() {
        let length = line.chars().count();
        if before <= length {
            return Some((number + 1, line, before));
        }
        before -= length + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sql_goes_on_until_its_semicolon() {
        for text in [
            "SELECT 1;",
            "SELECT ';'; -- done",
            "\\d",
            "\\q",
            "",
            "SELECT $$;$$ ;",
            "CREATE TRIGGER t AFTER INSERT ON a BEGIN DELETE FROM b; END;",
            "SELECT CASE WHEN true THEN 1 END;",
            "BEGIN; SELECT 1;",
        ] {
            assert!(is_complete(text), "{text}");
        }
        for text in [
            "SELECT 1",
            "SELECT ';",
            "SELECT 1 -- ;",
            "SELECT 1; SELECT",
            "SELECT \"a;\nb",
            "SELECT $f$;$$;",
            "/* ; ",
            "CREATE TRIGGER t AFTER INSERT ON a BEGIN DELETE FROM b;",
        ] {
            assert!(!is_complete(text), "{text}");
        }
    }

    #[test]
    fn commands_are_told_from_sql() {
        assert_eq!(read("  \\d orders ;"), Entry::Describe(Some("orders")));
        assert_eq!(read("\\d"), Entry::Describe(None));
        assert_eq!(read("\\q"), Entry::Quit);
        assert_eq!(read("\\nope x"), Entry::Unknown("\\nope"));
        assert_eq!(read("select 1;"), Entry::Sql("select 1;"));
        assert_eq!(read(" "), Entry::Nothing);
    }

    #[test]
    fn a_position_is_found_in_its_line() {
        assert_eq!(place("SELECT 'ä'\nFORM t", 12), Some((2, "FORM t", 0)));
        assert_eq!(place("SELECT 1", 9), Some((1, "SELECT 1", 8)));
        assert_eq!(place("SELECT 1", 99), None);
    }
}
