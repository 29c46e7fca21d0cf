//! PostgreSQL's types: which are compared here, and why the others are not.

use crate::moment::Form;
use crate::reading::Reading;

/// A type whose values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Boolean,
    Int2,
    Int4,
    Int8,
    Numeric,
    Float4,
    Float8,
    /// `text` and `varchar`, which differ in what they let in only.
    Text,
    /// `bpchar`, which is `char(n)`: spaces at the end do not count.
    Padded,
    Uuid,
    Date,
    Timestamp,
    Zoned,
    Time,
    Bytes,
    /// Labels, whose order only the database knows.
    Enum,
}

/// What can be asked of a column of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Support {
    Compared(Kind),
    /// Whether it is NULL, and nothing else, for a reason.
    NullOnly(&'static str),
    /// Nothing, for a reason.
    Nothing(&'static str),
}

impl Kind {
    /// How a column of the type is read to be compared with one of its own.
    pub(crate) fn reading(self) -> Reading {
        match self {
            Kind::Boolean => Reading::Boolean,
            Kind::Int2 | Kind::Int4 | Kind::Int8 => Reading::Integer,
            Kind::Numeric => Reading::Decimal,
            Kind::Float4 => Reading::Single,
            Kind::Float8 => Reading::Double,
            Kind::Text | Kind::Padded | Kind::Enum => Reading::Text,
            Kind::Uuid => Reading::Uuid,
            Kind::Date => Reading::Moment(Form::Date),
            Kind::Timestamp => Reading::Moment(Form::Timestamp),
            Kind::Zoned => Reading::Moment(Form::Zoned),
            Kind::Time => Reading::Moment(Form::Time),
            Kind::Bytes => Reading::Bytes,
        }
    }

    /// The type's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Boolean => "boolean",
            Kind::Int2 => "smallint",
            Kind::Int4 => "integer",
            Kind::Int8 => "bigint",
            Kind::Numeric => "numeric",
            Kind::Float4 => "real",
            Kind::Float8 => "double precision",
            Kind::Text => "text",
            Kind::Padded => "character",
            Kind::Uuid => "uuid",
            Kind::Date => "date",
            Kind::Timestamp => "timestamp",
            Kind::Zoned => "timestamptz",
            Kind::Time => "time",
            Kind::Bytes => "bytea",
            Kind::Enum => "enum",
        }
    }

    pub(crate) fn is_integer(self) -> bool {
        matches!(self, Kind::Int2 | Kind::Int4 | Kind::Int8)
    }

    pub(crate) fn is_float(self) -> bool {
        matches!(self, Kind::Float4 | Kind::Float8)
    }

    pub(crate) fn is_text(self) -> bool {
        matches!(self, Kind::Text | Kind::Padded)
    }
}

/// What can be asked of a type, by its name in `pg_type`.
pub(crate) fn support(type_name: &str) -> Support {
    Support::Compared(match type_name {
        "bool" => Kind::Boolean,
        "int2" => Kind::Int2,
        "int4" => Kind::Int4,
        "int8" => Kind::Int8,
        "numeric" => Kind::Numeric,
        "float4" => Kind::Float4,
        "float8" => Kind::Float8,
        "text" | "varchar" => Kind::Text,
        "bpchar" => Kind::Padded,
        "uuid" => Kind::Uuid,
        "date" => Kind::Date,
        "timestamp" => Kind::Timestamp,
        "timestamptz" => Kind::Zoned,
        "time" => Kind::Time,
        "bytea" => Kind::Bytes,
        name if name.starts_with("enum ") => Kind::Enum,
        name => return not_compared(name),
    })
}

fn not_compared(type_name: &str) -> Support {
    match type_name {
        "json" | "jsonb" => Support::Nothing(
            "equal JSON has many texts, and a JSON null looks like NULL in the image of a row",
        ),
        name if name.rsplit('.').next() == Some("citext") => {
            Support::NullOnly("case is folded by the database's locale")
        }
        "interval" => Support::NullOnly("an interval's length depends on how months are counted"),
        "timetz" => Support::NullOnly("a time of day with a zone has no order of its own"),
        "money" => Support::NullOnly("its text depends on the database's locale"),
        "name" | "char" | "oid" | "inet" | "cidr" | "macaddr" | "macaddr8" | "bit" | "varbit"
        | "xml" | "tsvector" | "pg_lsn" => {
            Support::NullOnly("the rules of this type are the database's alone")
        }
        array if is_array(array) => Support::NullOnly("arrays are compared element by element"),
        _ => Support::Nothing("what it means is known to the database alone"),
    }
}

/// Whether it is an array of a type that is known. A type of a user's may be called like one.
fn is_array(type_name: &str) -> bool {
    let Some(element) = type_name.strip_prefix('_') else { return false };
    !element.starts_with("enum ") && !matches!(support(element), Support::Nothing(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_that_are_not_known_are_not_compared() {
        for name in ["", "_", "mood", "_mood", "domain email", "json", "_json", "enum", "app.text"]
        {
            assert!(matches!(support(name), Support::Nothing(_)), "{name}");
        }
        for name in ["_int4", "_text", "public.citext", "interval", "inet", "__int4"] {
            assert!(matches!(support(name), Support::NullOnly(_)), "{name}");
        }
        assert_eq!(support("enum mood"), Support::Compared(Kind::Enum));
    }
}
