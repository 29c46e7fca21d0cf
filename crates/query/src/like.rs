//! `LIKE` and `ILIKE`.
//!
//! Patterns are matched character by character, whatever the collation. In time that grows with the
//! product of pattern and text at most: only the last `%` is ever tried again.

use std::fmt;

/// A pattern, read once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Pattern {
    pieces: Vec<Piece>,
    /// Whether ASCII letters are alike in both cases.
    folds_ascii: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Piece {
    /// `%`: any characters, or none.
    Any,
    /// `_`: one character.
    One,
    /// The character itself.
    Same(char),
}

/// The escape character stands at the end, with nothing to escape. Databases differ on what this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EndsInEscape;

impl Pattern {
    /// Reads a pattern with an escape character, or none.
    pub(crate) fn parse(
        text: &str,
        escape: Option<char>,
        folds_ascii: bool,
    ) -> Result<Pattern, EndsInEscape> {
        let fold = |c: char| if folds_ascii { c.to_ascii_lowercase() } else { c };
        let mut pieces = Vec::with_capacity(text.len());
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            pieces.push(match c {
                c if Some(c) == escape => Piece::Same(fold(chars.next().ok_or(EndsInEscape)?)),
                // Two in a row say no more than one.
                '%' if pieces.last() == Some(&Piece::Any) => continue,
                '%' => Piece::Any,
                '_' => Piece::One,
                c => Piece::Same(fold(c)),
            });
        }
        Ok(Pattern { pieces, folds_ascii })
    }

    /// Whether a text is like it.
    pub(crate) fn matches(&self, text: &str) -> bool {
        let mut rest = text.chars();
        let mut at = 0;
        // Where to go on after the last `%`, with one character more left to it.
        let mut retry: Option<(usize, std::str::Chars<'_>)> = None;
        loop {
            if self.pieces.get(at) == Some(&Piece::Any) {
                at += 1;
                retry = Some((at, rest.clone()));
                continue;
            }
            let mut next = rest.clone();
            let fits = match (self.pieces.get(at), next.next()) {
                (None, None) => return true,
                (Some(Piece::One), Some(_)) => true,
                (Some(Piece::Same(wanted)), Some(c)) => *wanted == self.fold(c),
                _ => false,
            };
            if fits {
                at += 1;
                rest = next;
                continue;
            }
            let Some((after, from)) = retry.as_mut() else { return false };
            if from.next().is_none() {
                return false;
            }
            at = *after;
            rest = from.clone();
        }
    }

    fn fold(&self, c: char) -> char {
        if self.folds_ascii { c.to_ascii_lowercase() } else { c }
    }
}

/// The pattern in one form, with a backslash to escape.
impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.folds_ascii { "ILIKE " } else { "LIKE " })?;
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Any => text.push('%'),
                Piece::One => text.push('_'),
                Piece::Same(c) => {
                    if ['%', '_', '\\'].contains(c) {
                        text.push('\\');
                    }
                    text.push(*c);
                }
            }
        }
        write!(f, "{text:?}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn like(text: &str, pattern: &str) -> bool {
        Pattern::parse(pattern, Some('\\'), false).expect("a pattern").matches(text)
    }

    #[test]
    fn wildcards_take_what_they_should() {
        for (text, pattern, expected) in [
            ("", "", true),
            ("", "%", true),
            ("", "_", false),
            ("abc", "abc", true),
            ("abc", "ABC", false),
            ("abc", "a%", true),
            ("abc", "%c", true),
            ("abc", "%b%", true),
            ("abc", "a_c", true),
            ("abc", "a__", true),
            ("abc", "____", false),
            ("aXbXc", "a%X%c", true),
            ("mississippi", "m%iss%ip%", true),
            ("mississippi", "m%iss%ix%", false),
            ("grün", "gr_n", true),
            ("50%", "50\\%", true),
            ("50x", "50\\%", false),
            ("a\nb", "a%b", true),
            ("a\\b", "a\\\\b", true),
        ] {
            assert_eq!(like(text, pattern), expected, "{text:?} LIKE {pattern:?}");
        }
    }

    #[test]
    fn case_is_folded_for_ascii_only() {
        let pattern = Pattern::parse("gRÜn%", None, true).expect("a pattern");
        assert!(pattern.matches("GrÜnau"));
        assert!(!pattern.matches("grün"));
    }

    #[test]
    fn a_pattern_does_not_end_in_its_escape() {
        assert_eq!(Pattern::parse("a!", Some('!'), false), Err(EndsInEscape));
        assert!(Pattern::parse("a\\", None, false).is_ok());
    }

    /// As the standard has it, and slow.
    fn slowly(text: &[char], pattern: &[char]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some(('%', rest)) => (0..=text.len()).any(|skip| slowly(&text[skip..], rest)),
            Some((c, rest)) => text
                .split_first()
                .is_some_and(|(first, text)| (*c == '_' || c == first) && slowly(text, rest)),
        }
    }

    proptest! {
        #[test]
        fn fast_and_slow_agree(text in "[abü]{0,10}", pattern in "[abü%_]{0,7}") {
            let chars = |text: &str| text.chars().collect::<Vec<char>>();
            prop_assert_eq!(like(&text, &pattern), slowly(&chars(&text), &chars(&pattern)));
        }
    }
}
