//! `LIKE` and `ILIKE`.
//!
//! Patterns are matched character by character, whatever the collation. A short text is gone through with
//! only the last `%` ever tried again, which takes the product of pattern and text at most. Of a long one
//! the parts between the `%` are searched in turn (`search`), in time that grows with the text alone as long
//! as a pattern has no more characters than a client's may have.

mod search;

use std::fmt;

use crate::refusal::{Refusal, TOO_LARGE};

/// Characters of a pattern that a client sends, of what it looks for in a text, and of a set of characters.
/// The work that a database does for one, and does not let itself be interrupted at, grows with it.
pub(crate) const PATTERN_CHARS_MAX: usize = 256;

/// Why a pattern, or what else is looked for in a text, is not taken from a client.
pub(crate) fn too_long(what: &str) -> Refusal {
    let message = format!("{what} has more than {PATTERN_CHARS_MAX} characters");
    Refusal::new(TOO_LARGE, message).hint("look for something shorter, or compare with =")
}

/// Bytes of a text that a client's pattern is tried on where others wait for it.
pub(crate) const SHARED_TEXT_BYTES_MAX: usize = 64 << 10;

/// Up to this product of a text's bytes and a pattern's parts nothing is prepared to search it: that would
/// take longer.
const DIRECT_STEPS_MAX: usize = 16 << 10;

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
        match text.len().saturating_mul(self.pieces.len()) <= DIRECT_STEPS_MAX {
            true => self.matches_directly(text),
            false => self.matches_by_search(text),
        }
    }

    fn matches_directly(&self, text: &str) -> bool {
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

        /// Both ways to match, on texts and patterns that are almost alike, folded or not.
        #[test]
        fn a_search_finds_what_going_through_finds(
            text in "[abAü]{0,12}",
            pattern in "[abAü%_]{0,9}",
            folds in proptest::bool::ANY,
        ) {
            let read = Pattern::parse(&pattern, None, folds).expect("a pattern");
            prop_assert_eq!(read.matches_by_search(&text), read.matches_directly(&text));
        }

        /// Parts of more than 64 characters have masks of more than one word.
        #[test]
        fn long_parts_are_found_too(
            before in "[ab]{0,90}",
            part in "[abü_]{60,200}",
            after in "[ab]{0,90}",
            other in "[abü]",
            at in 0usize..60,
        ) {
            let read = Pattern::parse(&format!("%{part}%"), None, false).expect("a pattern");
            let mut found: Vec<char> = part.replace('_', "a").chars().collect();
            for _ in 0..2 {
                let text = format!("{before}{}{after}", found.iter().collect::<String>());
                prop_assert_eq!(read.matches_by_search(&text), read.matches_directly(&text));
                found[at] = other.chars().next().expect("a character");
            }
        }
    }

    /// The product of the two would be 2 · 10^9 steps.
    #[test]
    fn a_long_text_is_gone_through_once() {
        let text = "a".repeat(8 << 20);
        for part in ["a".repeat(255), "a_".repeat(127)] {
            assert!(!like(&text, &format!("%{part}b%")));
            assert!(like(&text, &format!("%{part}%a")));
        }
        let many = "%a".repeat(120);
        assert!(!like(&text, &format!("{many}%b")));
        assert!(like(&text, &many));
    }
}
