//! Writing values as JSON: the text of a column to what `to_jsonb` makes of it.
//!
//! What is written here is read by the database as `jsonb`, which settles spaces, the order of keys
//! and the form of numbers.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::kind::Kind;

/// A value that is not what its type says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ValueError {
    #[error("{0:?} is not a boolean")]
    NotBoolean(String),
    #[error("bytes are not in hexadecimal; bytea_output must be hex")]
    NotHex,
    #[error("an array ends too early or too late")]
    NotArray,
    #[error("only the database can write values of {0}")]
    NeedsDatabase(String),
}

/// Appends a string in quotes.
pub(crate) fn string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c < ' ' => {
                out.push_str("\\u");
                out.push_str(&format!("{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Appends a value, given as its type's output function writes it.
pub(crate) fn value(out: &mut String, kind: &Kind, text: &str) -> Result<(), ValueError> {
    match kind {
        Kind::Boolean => out.push_str(match text {
            "t" => "true",
            "f" => "false",
            other => return Err(ValueError::NotBoolean(other.to_owned())),
        }),
        Kind::Number if is_number(text) => out.push_str(text),
        Kind::Number | Kind::Text | Kind::LeftOut => string(out, text),
        Kind::Json => out.push_str(&without_zeros(text)),
        Kind::Time => string(out, &time(text)),
        Kind::Bytes => bytes(out, text)?,
        Kind::Array(element, delimiter) => array(out, element, *delimiter, text)?,
        Kind::Database(name) => return Err(ValueError::NeedsDatabase(name.clone())),
    }
    Ok(())
}

/// The type `json` takes the character U+0000 and `jsonb` does not: it becomes U+FFFD. (The backslashes
/// before it are pairs, or it is not that character.)
fn without_zeros(text: &str) -> Cow<'_, str> {
    const ZERO: &str = "\\u0000";
    if !text.contains(ZERO) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        // An escape is two characters at least, and never ends the text.
        let (escape, written) = if rest.starts_with(ZERO) {
            (ZERO.len(), "\\ufffd")
        } else {
            let length = rest.chars().take(2).map(char::len_utf8).sum();
            (length, &rest[..length])
        };
        out.push_str(written);
        rest = &rest[escape..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Whether it is digits, rather than `NaN` or an infinity.
fn is_number(text: &str) -> bool {
    text.bytes().last().is_some_and(|byte| byte.is_ascii_digit())
}

/// `2024-02-03 04:05:06.7+00 BC` to `2024-02-03T04:05:06.7+00:00 BC`. In UTC a zone is always `+00`.
fn time(text: &str) -> String {
    let (moment, era) = match text.strip_suffix(" BC") {
        Some(moment) => (moment, " BC"),
        None => (text, ""),
    };
    let with_t = moment.replacen(' ', "T", 1);
    let minutes = if moment.ends_with("+00") { ":00" } else { "" };
    format!("{with_t}{minutes}{era}")
}

fn bytes(out: &mut String, text: &str) -> Result<(), ValueError> {
    let digits = text.strip_prefix("\\x").ok_or(ValueError::NotHex)?.as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    let bytes: Option<Vec<u8>> = digits.chunks(2).map(pair).collect();
    out.push('"');
    STANDARD.encode_string(bytes.ok_or(ValueError::NotHex)?, out);
    out.push('"');
    Ok(())
}

/// `{1,NULL,"a b"}`, nested for each dimension; with `[2:4]=` before it where counting does not start
/// at one, which JSON cannot say.
fn array(out: &mut String, element: &Kind, delimiter: u8, text: &str) -> Result<(), ValueError> {
    let braces = if text.starts_with('[') {
        text.split_once('=').ok_or(ValueError::NotArray)?.1
    } else {
        text
    };
    let mut parser = ArrayText { rest: braces, delimiter: char::from(delimiter) };
    parser.level(out, element)?;
    if parser.rest.is_empty() { Ok(()) } else { Err(ValueError::NotArray) }
}

/// What is left of an array's text.
struct ArrayText<'a> {
    rest: &'a str,
    delimiter: char,
}

impl ArrayText<'_> {
    fn take(&mut self, wanted: char) -> bool {
        let rest = self.rest.strip_prefix(wanted);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// One level of braces. As deep as arrays have dimensions: six at most, but bytes may say more,
    /// so the depth is walked in a loop.
    fn level(&mut self, out: &mut String, element: &Kind) -> Result<(), ValueError> {
        let mut depth = 0_usize;
        loop {
            // A value or an opening brace stands here.
            if self.take('{') {
                out.push('[');
                depth += 1;
                if !self.take('}') {
                    continue;
                }
                out.push(']');
                depth -= 1;
            } else if depth > 0 {
                self.element(out, element)?;
            } else {
                return Err(ValueError::NotArray);
            }
            // A delimiter or closing braces stand here.
            while depth > 0 && self.take('}') {
                out.push(']');
                depth -= 1;
            }
            if depth == 0 {
                return Ok(());
            }
            if !self.take(self.delimiter) {
                return Err(ValueError::NotArray);
            }
            out.push(',');
        }
    }

    fn element(&mut self, out: &mut String, element: &Kind) -> Result<(), ValueError> {
        if self.take('"') {
            let mut text = String::new();
            let mut chars = self.rest.char_indices();
            loop {
                match chars.next() {
                    Some((at, '"')) => {
                        self.rest = &self.rest[at + 1..];
                        return value(out, element, &text);
                    }
                    Some((_, '\\')) => text.push(chars.next().ok_or(ValueError::NotArray)?.1),
                    Some((_, c)) => text.push(c),
                    None => return Err(ValueError::NotArray),
                }
            }
        }
        let end = self.rest.find([self.delimiter, '}']).ok_or(ValueError::NotArray)?;
        let text = &self.rest[..end];
        self.rest = &self.rest[end..];
        match text {
            "" => Err(ValueError::NotArray),
            "NULL" => {
                out.push_str("null");
                Ok(())
            }
            text => value(out, element, text),
        }
    }
}

#[cfg(test)]
mod tests;
