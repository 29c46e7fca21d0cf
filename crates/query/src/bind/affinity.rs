//! SQLite's affinities: what a column's declared type makes of the values that are put into it.

/// What a column prefers. None of them is a promise, but for one: a column that prefers text holds no
/// numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Affinity {
    /// `INTEGER`, `REAL` and `NUMERIC`, which differ in how numbers are kept, not in how they compare.
    Number,
    Text,
    /// Anything is kept as it is.
    Blob,
}

impl Affinity {
    /// By the declared type, in the order that SQLite looks for its parts.
    pub(crate) fn of(declared: &str) -> Affinity {
        let declared = declared.to_ascii_uppercase();
        let has = |part: &str| declared.contains(part);
        if has("INT") {
            Affinity::Number
        } else if has("CHAR") || has("CLOB") || has("TEXT") {
            Affinity::Text
        } else if has("BLOB") || declared.is_empty() || declared == "ANY" {
            // ANY is a number in most tables, and anything in strict ones.
            Affinity::Blob
        } else {
            Affinity::Number
        }
    }
}

/// What SQLite makes of a text that meets a column of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NumericText {
    /// Like a number, which is in this part of it.
    Number(usize, usize),
    /// Like text.
    Text,
}

/// Whether a text looks like a number to SQLite: one may stand between spaces.
pub(crate) fn looks(text: &str) -> NumericText {
    let is_space = |byte: u8| byte == b' ' || (b'\t'..=b'\r').contains(&byte);
    let bytes = text.as_bytes();
    let start = bytes.iter().position(|byte| !is_space(*byte)).unwrap_or(bytes.len());
    let end = bytes.iter().rposition(|byte| !is_space(*byte)).map_or(start, |at| at + 1);
    let number = text.get(start..end).unwrap_or_default();
    match crate::decimal::Decimal::parse(number) {
        Some(_) => NumericText::Number(start, end),
        // An exponent too large to be read is still a number there.
        None if is_number_of_any_size(number) => NumericText::Number(start, end),
        None => NumericText::Text,
    }
}

fn is_number_of_any_size(text: &str) -> bool {
    let Some((mantissa, exponent)) = text.split_once(['e', 'E']) else { return false };
    let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain && crate::decimal::Decimal::parse(mantissa).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_types_are_read_as_sqlite_does() {
        for (declared, affinity) in [
            ("INTEGER", Affinity::Number),
            ("bigint", Affinity::Number),
            ("CHARINT", Affinity::Number),
            ("FLOATING POINT", Affinity::Number),
            ("VARCHAR(20)", Affinity::Text),
            ("clob", Affinity::Text),
            ("BLOB", Affinity::Blob),
            ("", Affinity::Blob),
            ("any", Affinity::Blob),
            ("REAL", Affinity::Number),
            ("DOUBLE", Affinity::Number),
            ("DATETIME", Affinity::Number),
            ("STRING", Affinity::Number),
            ("DECIMAL(10,2)", Affinity::Number),
        ] {
            assert_eq!(Affinity::of(declared), affinity, "{declared}");
        }
    }

    #[test]
    fn some_texts_look_like_numbers() {
        for text in ["5", " 5\n", "-5.", ".5", "+5e3", "5E-3", "0012", "1e99999999999999999999999"]
        {
            assert!(matches!(looks(text), NumericText::Number(..)), "{text:?}");
        }
        for text in ["", " ", "a", "5a", "5 5", "2024-01-01", "1e", "0x10", "\u{a0}5", ".", "-"] {
            assert_eq!(looks(text), NumericText::Text, "{text:?}");
        }
    }
}
