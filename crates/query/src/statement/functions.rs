//! The functions that live queries may call: those whose result is made of their arguments alone.
//!
//! Not on the list, and never to be: what reads tables or files (`query_to_xml`, `pg_read_file`,
//! `dblink`), changes something (`set_config`, `nextval`, advisory locks), asks the clock, a random
//! number or who is logged in, makes much of little (`repeat`, `lpad`, `format`, `zeroblob`), or compares
//! all of one text with all of another where no deadline interrupts it (SQLite's `instr`).

use crate::table::Dialect;

/// Both databases have these, and the grammar knows them: they have no schema.
const GRAMMAR: &[&str] = &["coalesce", "nullif"];
const POSTGRES_GRAMMAR: &[&str] = &["greatest", "least", "grouping"];

const POSTGRES: &[&str] = &[
    // numbers
    "abs",
    "cbrt",
    "ceil",
    "ceiling",
    "degrees",
    "div",
    "exp",
    "floor",
    "gcd",
    "lcm",
    "ln",
    "log",
    "log10",
    "mod",
    "pi",
    "power",
    "radians",
    "round",
    "scale",
    "sign",
    "sqrt",
    "trim_scale",
    "trunc",
    "width_bucket",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "atan2",
    // text
    "ascii",
    "bit_length",
    "btrim",
    "char_length",
    "character_length",
    "chr",
    "concat",
    "concat_ws",
    "decode",
    "encode",
    "initcap",
    "left",
    "length",
    "lower",
    "ltrim",
    "md5",
    "octet_length",
    "regexp_match",
    "regexp_replace",
    "regexp_split_to_array",
    "replace",
    "reverse",
    "right",
    "rtrim",
    "sha256",
    "sha512",
    "split_part",
    "starts_with",
    "strpos",
    "substr",
    "substring",
    "translate",
    "upper",
    // times, under the settings that are fixed where queries run
    "age",
    "date_bin",
    "date_part",
    "date_trunc",
    "isfinite",
    "justify_days",
    "justify_hours",
    "justify_interval",
    "make_date",
    "make_interval",
    "make_time",
    "make_timestamp",
    "make_timestamptz",
    "timezone",
    "to_char",
    "to_date",
    "to_number",
    "to_timestamp",
    // JSON
    "json_array_length",
    "json_build_array",
    "json_build_object",
    "json_extract_path",
    "json_extract_path_text",
    "json_strip_nulls",
    "json_typeof",
    "jsonb_array_length",
    "jsonb_build_array",
    "jsonb_build_object",
    "jsonb_extract_path",
    "jsonb_extract_path_text",
    "jsonb_insert",
    "jsonb_path_exists",
    "jsonb_path_match",
    "jsonb_path_query_array",
    "jsonb_path_query_first",
    "jsonb_pretty",
    "jsonb_set",
    "jsonb_strip_nulls",
    "jsonb_typeof",
    "to_json",
    "to_jsonb",
    // arrays
    "array_append",
    "array_cat",
    "array_length",
    "array_lower",
    "array_ndims",
    "array_position",
    "array_positions",
    "array_prepend",
    "array_remove",
    "array_replace",
    "array_to_string",
    "array_upper",
    "cardinality",
    "string_to_array",
    // ranges
    "isempty",
    "lower_inc",
    "lower_inf",
    "upper_inc",
    "upper_inf",
    // aggregates
    "array_agg",
    "avg",
    "bit_and",
    "bit_or",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "covar_pop",
    "covar_samp",
    "every",
    "json_agg",
    "json_object_agg",
    "jsonb_agg",
    "jsonb_object_agg",
    "max",
    "min",
    "mode",
    "percentile_cont",
    "percentile_disc",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "string_agg",
    "sum",
    "var_pop",
    "var_samp",
    "variance",
    // windows
    "cume_dist",
    "dense_rank",
    "first_value",
    "lag",
    "last_value",
    "lead",
    "nth_value",
    "ntile",
    "percent_rank",
    "rank",
    "row_number",
];

const SQLITE: &[&str] = &[
    // numbers
    "abs",
    "round",
    "sign",
    // text and values
    "char",
    "concat",
    "concat_ws",
    "hex",
    "ifnull",
    "iif",
    "length",
    "lower",
    "ltrim",
    "octet_length",
    "replace",
    "rtrim",
    "substr",
    "substring",
    "trim",
    "typeof",
    "unicode",
    "upper",
    // times of values that are given
    "date",
    "datetime",
    "julianday",
    "strftime",
    "time",
    "unixepoch",
    // JSON
    "json",
    "json_array",
    "json_array_length",
    "json_extract",
    "json_insert",
    "json_object",
    "json_patch",
    "json_quote",
    "json_remove",
    "json_replace",
    "json_set",
    "json_type",
    "json_valid",
    // aggregates
    "avg",
    "count",
    "group_concat",
    "json_group_array",
    "json_group_object",
    "max",
    "min",
    "string_agg",
    "sum",
    "total",
    // windows
    "cume_dist",
    "dense_rank",
    "first_value",
    "lag",
    "last_value",
    "lead",
    "nth_value",
    "ntile",
    "percent_rank",
    "rank",
    "row_number",
];

/// Functions that look for something in their first argument, and which of the others say for what, or what
/// is put in its place: that too makes much of little.
const POSTGRES_SEARCHING: &[(&str, &[usize])] = &[
    ("btrim", &[1]),
    ("ltrim", &[1]),
    ("rtrim", &[1]),
    ("replace", &[1, 2]),
    ("translate", &[1, 2]),
    ("strpos", &[1]),
    ("split_part", &[1]),
    ("string_to_array", &[1]),
    ("regexp_match", &[1]),
    ("regexp_replace", &[1, 2]),
    ("regexp_split_to_array", &[1]),
];
const SQLITE_SEARCHING: &[(&str, &[usize])] =
    &[("trim", &[1]), ("ltrim", &[1]), ("rtrim", &[1]), ("replace", &[1, 2])];

/// What a function makes that may be larger than what it is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResultSize {
    /// A text about as long as its arguments together.
    Text,
    /// A text in which others stand in the place of what was found.
    Replaced,
    /// A text that is longer the deeper a document is.
    Pretty,
    /// An array or a document.
    Value,
    /// Something of all rows.
    AllRows,
    Number,
}

const POSTGRES_MAKING: &[(&str, ResultSize)] = &[
    ("array_agg", ResultSize::AllRows),
    ("array_append", ResultSize::Value),
    ("array_cat", ResultSize::Value),
    ("array_prepend", ResultSize::Value),
    ("array_replace", ResultSize::Value),
    ("array_to_string", ResultSize::Text),
    ("concat", ResultSize::Text),
    ("concat_ws", ResultSize::Text),
    ("encode", ResultSize::Text),
    ("exp", ResultSize::Number),
    ("json_agg", ResultSize::AllRows),
    ("json_build_array", ResultSize::Value),
    ("json_build_object", ResultSize::Value),
    ("json_object_agg", ResultSize::AllRows),
    ("jsonb_agg", ResultSize::AllRows),
    ("jsonb_build_array", ResultSize::Value),
    ("jsonb_build_object", ResultSize::Value),
    ("jsonb_insert", ResultSize::Value),
    ("jsonb_object_agg", ResultSize::AllRows),
    ("jsonb_path_query_array", ResultSize::Value),
    ("jsonb_pretty", ResultSize::Pretty),
    ("jsonb_set", ResultSize::Value),
    ("lcm", ResultSize::Number),
    ("power", ResultSize::Number),
    ("regexp_replace", ResultSize::Replaced),
    ("regexp_split_to_array", ResultSize::Value),
    ("replace", ResultSize::Replaced),
    ("string_agg", ResultSize::AllRows),
    ("string_to_array", ResultSize::Value),
    ("to_char", ResultSize::Text),
    ("to_json", ResultSize::Value),
    ("to_jsonb", ResultSize::Value),
    ("to_number", ResultSize::Number),
];
/// What is JSON to SQLite is so only as long as no other function has had it: those are not here.
const SQLITE_MAKING: &[(&str, ResultSize)] = &[
    ("concat", ResultSize::Text),
    ("concat_ws", ResultSize::Text),
    ("hex", ResultSize::Text),
    ("replace", ResultSize::Replaced),
];

/// PostgreSQL's aggregates that keep all they are given.
pub(crate) const GATHERING: &[&str] =
    &["array_agg", "json_agg", "json_object_agg", "jsonb_agg", "jsonb_object_agg", "string_agg"];

/// Functions whose result has a few bytes.
pub(crate) const SMALL: &[&str] = &[
    "array_length",
    "ascii",
    "cardinality",
    "char_length",
    "character_length",
    "chr",
    "count",
    "date",
    "date_part",
    "date_trunc",
    "datetime",
    "dense_rank",
    "json_array_length",
    "jsonb_array_length",
    "length",
    "md5",
    "octet_length",
    "rank",
    "row_number",
    "strpos",
    "time",
    "typeof",
    "unicode",
];

/// What a function makes that may be larger than what it is given, if it does.
pub(crate) fn made(name: &str, dialect: Dialect) -> Option<ResultSize> {
    let all = match dialect {
        Dialect::Postgres => POSTGRES_MAKING,
        Dialect::Sqlite => SQLITE_MAKING,
    };
    all.iter().find(|(known, _)| *known == name).map(|(_, made)| *made)
}

/// Functions whose result has no more characters than their first argument, or very few.
pub(crate) const SHRINKING: &[&str] = &[
    "btrim",
    "initcap",
    "left",
    "lower",
    "ltrim",
    "max",
    "md5",
    "min",
    "reverse",
    "right",
    "rtrim",
    "split_part",
    "substr",
    "substring",
    "trim",
    "upper",
];

/// Functions whose result may be an array.
pub(crate) const MAKE_ARRAYS: &[&str] = &[
    "array",
    "array_agg",
    "array_append",
    "array_cat",
    "array_prepend",
    "array_remove",
    "array_replace",
    "coalesce",
    "first_value",
    "greatest",
    "lag",
    "last_value",
    "lead",
    "least",
    "max",
    "min",
    "mode",
    "nth_value",
    "nullif",
    "regexp_match",
    "regexp_split_to_array",
    "string_to_array",
];

/// PostgreSQL's aggregates and window functions.
pub(crate) const AGGREGATES: &[&str] = &[
    "array_agg",
    "avg",
    "bit_and",
    "bit_or",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "covar_pop",
    "covar_samp",
    "cume_dist",
    "dense_rank",
    "every",
    "first_value",
    "grouping",
    "json_agg",
    "json_object_agg",
    "jsonb_agg",
    "jsonb_object_agg",
    "lag",
    "last_value",
    "lead",
    "max",
    "min",
    "mode",
    "nth_value",
    "ntile",
    "percent_rank",
    "percentile_cont",
    "percentile_disc",
    "rank",
    "row_number",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "string_agg",
    "sum",
    "var_pop",
    "var_samp",
    "variance",
];

/// SQLite's functions of times, and how many arguments come before the time: without one, or with
/// `'now'`, they ask the clock, and `'localtime'` and `'utc'` the machine's zone.
const SQLITE_TIMES: &[(&str, usize)] = &[
    ("date", 0),
    ("time", 0),
    ("datetime", 0),
    ("julianday", 0),
    ("unixepoch", 0),
    ("strftime", 1),
];

/// How a function is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Callable {
    /// By the grammar.
    Grammar,
    /// By its name, in `pg_catalog` where there are schemas.
    Function,
}

/// Whether a function may be called.
pub(crate) fn callable(name: &str, dialect: Dialect) -> Option<Callable> {
    let (grammar, functions): (&[&str], _) = match dialect {
        Dialect::Postgres => (POSTGRES_GRAMMAR, POSTGRES),
        Dialect::Sqlite => (&[], SQLITE),
    };
    if GRAMMAR.contains(&name) || grammar.contains(&name) {
        return Some(Callable::Grammar);
    }
    functions.contains(&name).then_some(Callable::Function)
}

/// All functions of a database, to name one that is near.
pub(crate) fn names(dialect: Dialect) -> impl Iterator<Item = &'static str> {
    let functions = match dialect {
        Dialect::Postgres => POSTGRES,
        Dialect::Sqlite => SQLITE,
    };
    functions.iter().copied()
}

/// Of a function that searches its first argument, which of the others say for what.
pub(crate) fn searching(name: &str, dialect: Dialect) -> Option<&'static [usize]> {
    let all = match dialect {
        Dialect::Postgres => POSTGRES_SEARCHING,
        Dialect::Sqlite => SQLITE_SEARCHING,
    };
    all.iter().find(|(known, _)| *known == name).map(|(_, patterns)| *patterns)
}

/// Of SQLite's functions of times, how many arguments come before the time.
pub(crate) fn time_argument(name: &str) -> Option<usize> {
    SQLITE_TIMES.iter().find(|(known, _)| *known == name).map(|(_, before)| *before)
}

/// The columns of a function in FROM; none if it may not be there. `true` if its result is one value,
/// which the alias stands for too.
pub(crate) fn table_columns(
    name: &str,
    dialect: Dialect,
) -> Option<(&'static [&'static str], bool)> {
    const EACH: &[&str] = &["key", "value"];
    const TREE: &[&str] = &["key", "value", "type", "atom", "id", "parent", "fullkey", "path"];
    match (dialect, name) {
        (Dialect::Sqlite, "json_each" | "json_tree") => Some((TREE, false)),
        (Dialect::Postgres, "unnest" | "generate_series") => Some((&[], true)),
        (Dialect::Postgres, "json_each" | "json_each_text" | "jsonb_each" | "jsonb_each_text") => {
            Some((EACH, false))
        }
        (
            Dialect::Postgres,
            "json_array_elements"
            | "json_array_elements_text"
            | "jsonb_array_elements"
            | "jsonb_array_elements_text",
        ) => Some((&["value"], true)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_is_in_the_protocol() {
        let protocol = include_str!("../../../../PROTOCOL.md");
        for dialect in [Dialect::Postgres, Dialect::Sqlite] {
            for name in names(dialect) {
                assert!(protocol.contains(&format!("`{name}`")), "{name} is not in PROTOCOL.md");
            }
        }
    }
}
