//! What is put around computed values that are searched, or that may be large, so that the database measures
//! them.
//!
//! PostgreSQL: the value with a character behind it goes through the assignment of a `varchar`, which
//! refuses one that is longer than its length (that last character keeps it from cutting off blanks), and the
//! character is taken off again. So the value is written once, and an aggregate stays where it is. The CASE
//! around it asks something that the planner cannot know, and on the way to the answer PostgreSQL looks
//! whether it is to stop: between two searches it can be interrupted, whatever they are made of. SQLite: a
//! function of ours does the same.

use crate::table::Dialect;

/// Characters of a computed text that is searched, and bytes of a computed value, at most; and so much at least
/// is left to each where there are many.
pub(crate) const SEARCHED_CHARS_MAX: usize = 1 << 20;
const COMPUTED_BYTES_MIN: usize = 16 << 10;
/// Bytes of all values that a statement may make of one row, about.
const ROW_BYTES_MAX: usize = 64 << 20;
/// Bytes of a computed number, at most, and of what is read as one: about a thousand digits.
const NUMBER_BYTES_MAX: usize = 1 << 10;
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
    /// A JSON path, which may say what is looked for.
    Path,
    /// An array or a document whose parts are looked for in another, or among whose parts others are.
    Collection,
    /// A value of any type that is made of others.
    Grown,
    /// A number that is made of others, or what is read as a number.
    Number,
    /// Something whose size is known, where the clock is to be looked at.
    Watched,
}

/// Bytes that each of so many computed values may have. Those of a row are there at the same time.
pub(crate) fn computed_bytes_max(values: usize) -> usize {
    (ROW_BYTES_MAX / values.max(1)).clamp(COMPUTED_BYTES_MIN, SEARCHED_CHARS_MAX)
}

/// PostgreSQL's number for a `varchar` of so many characters, and the one that is put behind.
const fn varchar(chars_max: usize) -> usize {
    chars_max + 1 + 4
}

/// True, and not known to the planner.
const WATCHED: &str = "(CASE WHEN pg_catalog.jsonb_path_exists_tz('0', '$') THEN";

impl Wrapped {
    /// What comes before the tokens, and behind them.
    pub(crate) fn around(self, dialect: Dialect, computed_max: usize) -> (String, String) {
        match dialect {
            Dialect::Postgres => self.in_postgres(computed_max),
            Dialect::Sqlite => {
                let max = match self {
                    Wrapped::Text | Wrapped::Grown | Wrapped::Number => computed_max.to_string(),
                    Wrapped::Pattern | Wrapped::Path => crate::like::PATTERN_CHARS_MAX.to_string(),
                    Wrapped::Collection => COLLECTION_BYTES_MAX.to_string(),
                    Wrapped::Watched => "NULL".to_owned(),
                };
                ("tidewire_within(".to_owned(), format!(", {max})"))
            }
        }
    }

    fn in_postgres(self, computed_max: usize) -> (String, String) {
        let chars_max = match self {
            Wrapped::Text => computed_max,
            Wrapped::Pattern | Wrapped::Path => crate::like::PATTERN_CHARS_MAX,
            Wrapped::Watched => return (WATCHED.to_owned(), "END)".to_owned()),
            Wrapped::Collection => return subselect(COLLECTION_BYTES_MAX, COLLECTION_ERROR),
            Wrapped::Grown => return subselect(computed_max, VALUE_ERROR),
            Wrapped::Number => return subselect(NUMBER_BYTES_MAX, NUMBER_ERROR),
        };
        let before = format!("{WATCHED} pg_catalog.\"left\"(pg_catalog.\"varchar\"((");
        let behind =
            |cast: &str| format!("){cast} || 'x', {}, false), -1) END)", varchar(chars_max));
        match self {
            // As text it has the characters that a text search would have.
            Wrapped::Path => {
                (format!("({before}"), behind("::pg_catalog.text") + "::pg_catalog.jsonpath)")
            }
            _ => (before, behind("")),
        }
    }
}

/// Measures a value of any type. On the way to it PostgreSQL looks whether it is to stop.
fn subselect(bytes_max: usize, error: &str) -> (String, String) {
    let size = "pg_catalog.pg_column_size(\"value\")";
    // The text of the error is not known before the value is, so it is not made before.
    let before = format!(
        "(SELECT CASE WHEN CASE WHEN {size} > {bytes_max} THEN \
         ('{error}' || {size})::pg_catalog.bool ELSE pg_catalog.jsonb_path_exists_tz('0', '$') END \
         THEN \"value\" END FROM (SELECT ("
    );
    (before, ") AS \"value\" OFFSET 0) AS \"measured\")".to_owned())
}

/// A condition that holds of each row until what was gathered of rows like it is too much: the sum is kept in
/// a setting of the transaction's.
pub(crate) fn within_gathered(values: &[String]) -> String {
    let sizes: Vec<String> = values
        .iter()
        .map(|value| format!("coalesce(pg_catalog.pg_column_size({value}), 0)"))
        .collect();
    let so_far = format!("pg_catalog.current_setting('{GATHERED}', true)");
    let sum = format!(
        "pg_catalog.set_config('{GATHERED}', (coalesce(nullif({so_far}, ''), '0')::pg_catalog.int8 \
         + {GATHERED_OVERHEAD} + {})::pg_catalog.text, true)::pg_catalog.int8",
        sizes.join(" + ")
    );
    format!(
        "CASE WHEN {sum} > {GATHERED_BYTES_MAX} THEN \
         ('{GATHERED_ERROR}' || {so_far})::pg_catalog.bool ELSE true END"
    )
}

/// The same around a value that is gathered.
pub(crate) fn gathered_once() -> (String, String) {
    let condition = within_gathered(&["\"value\"".to_owned()]);
    let before = format!("(SELECT CASE WHEN {condition} THEN \"value\" END FROM (SELECT (");
    (before, ") AS \"value\" OFFSET 0) AS \"measured\")".to_owned())
}

/// Where the sum of what was gathered is kept.
const GATHERED: &str = "tidewire.gathered_bytes";
/// Bytes that aggregates may gather in one read, and about what each part takes besides.
const GATHERED_BYTES_MAX: usize = 64 << 20;
const GATHERED_OVERHEAD: usize = 16;

/// By which the store knows that a collection was too large.
pub(crate) const COLLECTION_ERROR: &str = "tidewire: a collection has too many bytes: ";
/// Or a computed value.
pub(crate) const VALUE_ERROR: &str = "tidewire: a computed value has too many bytes: ";
/// Or a computed number.
pub(crate) const NUMBER_ERROR: &str = "tidewire: a computed number has too many bytes: ";
/// Or all that aggregates have gathered.
pub(crate) const GATHERED_ERROR: &str = "tidewire: aggregates have gathered too many bytes: ";
