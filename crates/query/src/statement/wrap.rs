//! What is put around computed values that are searched, so that the database measures them.
//!
//! PostgreSQL: the value with a character behind it goes through the assignment of a `varchar`, which
//! refuses one that is longer than its length (that last character keeps it from cutting off blanks), and the
//! character is taken off again. So the value is written once, and an aggregate stays where it is. The CASE
//! around it asks something that the planner cannot know, and on the way to the answer PostgreSQL looks
//! whether it is to stop: between two searches it can be interrupted, whatever they are made of. SQLite: a
//! function of ours does the same.

use crate::table::Dialect;

/// Characters of a computed text that is searched, at most.
pub(crate) const SEARCHED_CHARS_MAX: usize = 1 << 20;
/// Bytes of a computed collection that is compared part by part, at most.
const COLLECTION_BYTES_MAX: usize = 64 << 10;

/// Tokens that something is put around.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wrap {
    pub(crate) from: usize,
    /// The token behind the last.
    pub(crate) to: usize,
    pub(crate) kind: Wrapped,
}

/// What tokens are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrapped {
    /// A text that is searched.
    Text,
    /// What is looked for.
    Pattern,
    /// An array or a document whose parts are looked for in another, or among whose parts others are.
    Collection,
    /// Something whose size is known, where the clock is to be looked at.
    Watched,
}

/// PostgreSQL's number for a `varchar` of so many characters, and the one that is put behind.
const fn varchar(chars_max: usize) -> usize {
    chars_max + 1 + 4
}

/// True, and not known to the planner.
const WATCHED: &str = "(CASE WHEN pg_catalog.jsonb_path_exists_tz('0', '$') THEN";

impl Wrapped {
    /// What comes before the tokens, and behind them.
    pub(crate) fn around(self, dialect: Dialect) -> (String, String) {
        match dialect {
            Dialect::Postgres => self.in_postgres(),
            Dialect::Sqlite => {
                let max = match self {
                    Wrapped::Text => SEARCHED_CHARS_MAX.to_string(),
                    Wrapped::Pattern => crate::like::PATTERN_CHARS_MAX.to_string(),
                    Wrapped::Collection => COLLECTION_BYTES_MAX.to_string(),
                    Wrapped::Watched => "NULL".to_owned(),
                };
                ("tidewire_within(".to_owned(), format!(", {max})"))
            }
        }
    }

    fn in_postgres(self) -> (String, String) {
        let chars_max = match self {
            Wrapped::Text => SEARCHED_CHARS_MAX,
            Wrapped::Pattern => crate::like::PATTERN_CHARS_MAX,
            Wrapped::Watched => return (WATCHED.to_owned(), "END)".to_owned()),
            Wrapped::Collection => {
                let size = "pg_catalog.pg_column_size(\"value\")";
                // The text of the error is not known before the value is, so it is not made before.
                let before = format!(
                    "(SELECT CASE WHEN CASE WHEN {size} > {COLLECTION_BYTES_MAX} THEN \
                     ('{COLLECTION_ERROR}' || {size})::pg_catalog.bool ELSE true END \
                     THEN \"value\" END FROM (SELECT ("
                );
                return (before, ") AS \"value\" OFFSET 0) AS \"measured\")".to_owned());
            }
        };
        let before = format!("{WATCHED} pg_catalog.\"left\"(pg_catalog.\"varchar\"((");
        (before, format!(") || 'x', {}, false), -1) END)", varchar(chars_max)))
    }
}

/// By which the store knows that a collection was too large.
pub(crate) const COLLECTION_ERROR: &str = "tidewire: a collection has too many bytes: ";
