//! How the values of a type become JSON: the rules of PostgreSQL's `to_jsonb`.
//!
//! What `to_jsonb` does not know a better form for, it writes as the text of the type's output
//! function, and that is what the slot sends. So few kinds need a hand here; what would need the
//! catalogs (composite types, types with a cast of their own to JSON) is left to the database.

use super::database::TypeRow;

/// How a value is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `t` and `f`.
    Boolean,
    /// Digits as they are; `NaN` and infinities as strings.
    Number,
    /// JSON as it is.
    Json,
    /// A date and time, with a `T` between; where it has a zone, minutes are always said.
    Time,
    /// Bytes in base64.
    Bytes,
    /// Bytes inside of something else: as their type writes them.
    Text,
    /// An array of a kind, whose elements are parted by a character.
    Array(Box<Kind>, u8),
    /// Of a generated column: left out of events.
    LeftOut,
    /// Only the database knows; it is asked with the type's full name.
    Database(String),
}

impl Kind {
    /// The kind of a column of a type.
    pub(crate) fn of(row: &TypeRow) -> Kind {
        if row.special {
            return Kind::Database(row.name.clone());
        }
        match row.element {
            Some(element) => Kind::Array(Box::new(inner(element)), row.delimiter),
            None if row.base == BYTEA => Kind::Bytes,
            None => inner(row.base),
        }
    }
}

const BYTEA: u32 = 17;

/// The kind of a base type that is not a column's own: there bytes are left as they are written.
fn inner(type_id: u32) -> Kind {
    match type_id {
        16 => Kind::Boolean,
        // int8, int2, int4, float4, float8, numeric
        20 | 21 | 23 | 700 | 701 | 1700 => Kind::Number,
        114 | 3802 => Kind::Json,
        // timestamp, timestamptz
        1114 | 1184 => Kind::Time,
        _ => Kind::Text,
    }
}
