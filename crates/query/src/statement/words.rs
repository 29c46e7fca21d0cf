//! Words that are syntax, and words that are types. Every other word of a statement is a name that was
//! found to be one, or the statement is refused.

use crate::table::Dialect;

/// Words that mean something to the grammar of a SELECT.
const SYNTAX: &[&str] = &[
    "all",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "at",
    "between",
    "both",
    "by",
    "case",
    "cast",
    "ceil",
    "ceiling",
    "collate",
    "cross",
    "cube",
    "current",
    "desc",
    "distinct",
    "else",
    "end",
    "escape",
    "except",
    "exists",
    "extract",
    "false",
    "fetch",
    "filter",
    "first",
    "floor",
    "following",
    "for",
    "from",
    "full",
    "glob",
    "group",
    "grouping",
    "groups",
    "having",
    "ilike",
    "in",
    "inner",
    "intersect",
    "interval",
    "is",
    "isnull",
    "join",
    "last",
    "lateral",
    "leading",
    "left",
    "like",
    "limit",
    "materialized",
    "natural",
    "next",
    "not",
    "notnull",
    "null",
    "nulls",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "ordinality",
    "outer",
    "over",
    "overlay",
    "partition",
    "placing",
    "position",
    "preceding",
    "range",
    "recursive",
    "right",
    "rollup",
    "row",
    "rows",
    "select",
    "sets",
    "similar",
    "some",
    "substr",
    "substring",
    "symmetric",
    "then",
    "ties",
    "time",
    "to",
    "trailing",
    "trim",
    "true",
    "unbounded",
    "union",
    "unknown",
    "unnest",
    "using",
    "values",
    "when",
    "where",
    "window",
    "with",
    "within",
    "without",
    "zone",
];

/// Words of types that the parser knows by itself.
const TYPES: &[&str] = &[
    "bigint",
    "bit",
    "blob",
    "bool",
    "boolean",
    "bytea",
    "char",
    "character",
    "date",
    "datetime",
    "dec",
    "decimal",
    "double",
    "float",
    "float4",
    "float8",
    "int",
    "int2",
    "int4",
    "int8",
    "integer",
    "interval",
    "json",
    "jsonb",
    "numeric",
    "precision",
    "real",
    "smallint",
    "text",
    "time",
    "timestamp",
    "timestamptz",
    "timetz",
    "uuid",
    "varbit",
    "varchar",
    "varying",
];

/// Types that may have a length after them.
const WITH_LENGTH: &[&str] = &[
    "bit",
    "char",
    "character",
    "dec",
    "decimal",
    "float",
    "interval",
    "numeric",
    "time",
    "timestamp",
    "timestamptz",
    "varbit",
    "varchar",
    "varying",
];

/// Types that the parser takes for someone's own.
const MORE_TYPES: &[&str] = &[
    "bpchar",
    "cidr",
    "citext",
    "daterange",
    "hstore",
    "inet",
    "int4range",
    "int8range",
    "macaddr",
    "macaddr8",
    "money",
    "name",
    "numrange",
    "tsrange",
    "tstzrange",
    "tsvector",
    "tsquery",
    "point",
];

/// Types whose values are looked up in the catalog as they are read: a cast would tell what there is.
const CATALOG_TYPES: &[&str] = &[
    "regclass",
    "regcollation",
    "regconfig",
    "regdatabase",
    "regdictionary",
    "regnamespace",
    "regoper",
    "regoperator",
    "regproc",
    "regprocedure",
    "regrole",
    "regtype",
];

/// Parts of a date, in `EXTRACT(year FROM …)` and `INTERVAL '1' day`.
const FIELDS: &[&str] = &[
    "century",
    "day",
    "decade",
    "dow",
    "doy",
    "epoch",
    "hour",
    "isodow",
    "isoyear",
    "julian",
    "microseconds",
    "millennium",
    "milliseconds",
    "minute",
    "month",
    "quarter",
    "second",
    "timezone",
    "timezone_hour",
    "timezone_minute",
    "week",
    "year",
];

/// What of the database's surroundings a word stands for: it would be another at another time.
pub(crate) const MOMENTS: &[&str] = &[
    "clock_timestamp",
    "current_date",
    "current_time",
    "current_timestamp",
    "localtime",
    "localtimestamp",
    "now",
    "statement_timestamp",
    "timeofday",
    "transaction_timestamp",
];

pub(crate) fn is_syntax(word: &str) -> bool {
    SYNTAX.contains(&word)
}

pub(crate) fn is_type(word: &str) -> bool {
    TYPES.contains(&word)
}

pub(crate) fn has_length(word: &str) -> bool {
    WITH_LENGTH.contains(&word)
}

pub(crate) fn is_field(word: &str) -> bool {
    FIELDS.contains(&word)
}

/// Whether a cast may name a type that the parser does not know.
pub(crate) fn is_known_type(name: &str, dialect: Dialect) -> bool {
    dialect == Dialect::Postgres && MORE_TYPES.contains(&name)
}

/// Whether a type, or the array of it that is called `_type`, asks the catalog what a value means.
pub(crate) fn is_catalog_type(name: &str) -> bool {
    CATALOG_TYPES.contains(&name.trim_start_matches('_').to_ascii_lowercase().as_str())
}
