//! The columns that random tables have: their types in both dialects, and the values in them.
//!
//! Values are few, so that rows meet in groups, ties and joins.

use serde::{Deserialize, Serialize};
use tidewire_query::Dialect;

use crate::condition::Subject;

/// Which database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Sort {
    Sqlite,
    Postgres,
}

impl Sort {
    pub(crate) fn dialect(self) -> Dialect {
        match self {
            Sort::Sqlite => Dialect::Sqlite,
            Sort::Postgres => Dialect::Postgres,
        }
    }
}

/// What can be done with a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Whole,
    /// `numeric(p, s)`.
    Scaled,
    /// A number whose equal values can have several texts.
    Loose,
    /// A float: its sums depend on their order.
    Float,
    Text,
    /// A text of which several are equal.
    Folded,
    Bool,
    /// An instant or a part of one, and whatever else is ordered and has one text for each value.
    Ordered,
    /// A JSON document.
    Json,
    Bytes,
    /// Nothing but whether it is NULL is asked of it.
    Opaque,
}

/// A column that a table may have.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
    pub(crate) kind: Kind,
    /// As they are written into rows and conditions.
    pub(crate) values: &'static [&'static str],
    /// Values that only rows have.
    pub(crate) strays: &'static [&'static str],
    like_it: &'static [&'static str],
    suffixes: &'static [&'static str],
}

/// The column that all tables have, and that joins go by.
pub(crate) const ID: &str = "id";

const WHOLE: &[&str] = &["0", "1", "2", "3", "-1", "7", "5"];
const TEXTS: &[&str] =
    &["''", "'a'", "'A'", "'ab'", "'aB'", "'b'", "'ä'", "'Ä'", "'a_b'", "'a%b'", "'it''s'", "'Z'"];
const DOCUMENTS: &[&str] = &[
    "'{\"a\": 1, \"b\": \"x\"}'",
    "'{\"a\": 2}'",
    "'{\"a\": null, \"b\": \"x\"}'",
    "'{}'",
    "'[1, 2, {\"a\": 1}]'",
    "'{\"a\": {\"b\": [true, 1.50]}}'",
];

#[rustfmt::skip]
const POSTGRES: &[Field] = &[
    field("id", "integer", Kind::Whole, WHOLE).like(&["c_small"]),
    field("c_int", "integer", Kind::Whole, WHOLE).like(&["id", "c_small", "c_big"]),
    field("c_small", "smallint", Kind::Whole, WHOLE).like(&["c_int", "c_money"]),
    field("c_big", "bigint", Kind::Whole, &["0", "1", "2", "9007199254740993", "9223372036854775807", "-5"]).like(&["c_int"]),
    field("c_money", "numeric(10,2)", Kind::Scaled, &["0", "1.5", "1.50", "2.00", "-3.25", "99999999.99"]).strays(&["'NaN'"]).like(&["c_int", "c_free"]),
    field("c_price", "numeric(6,3)", Kind::Scaled, &["0.001", "1.5", "2", "-0.125"]).like(&["c_money"]),
    field("c_free", "numeric", Kind::Loose, &["0", "1", "1.0", "1.50", "1.5", "-2"]).strays(&["'NaN'", "'Infinity'", "1e40"]).like(&["c_money"]),
    // Images do not tell -0 from 0, so that it is no value here.
    field("c_float", "double precision", Kind::Float, &["0", "0.1", "1.5", "-2", "1e10"]).strays(&["'NaN'", "'Infinity'", "1e300"]).like(&["c_int"]),
    field("c_text", "text", Kind::Text, TEXTS).like(&["c_varchar"]).suffixes(&["", "", " COLLATE \"C\""]),
    field("c_name", "text COLLATE \"C\"", Kind::Text, TEXTS).like(&["c_name"]),
    field("c_icu", "text COLLATE \"und-x-icu\"", Kind::Text, TEXTS).like(&["c_icu"]).suffixes(&["", " COLLATE \"C\""]),
    field("c_varchar", "varchar(20)", Kind::Text, TEXTS).like(&["c_text"]),
    field("c_char", "char(5)", Kind::Text, &["'a'", "'A'", "'ab'", "'b '", "''"]).like(&["c_char"]),
    field("c_bool", "boolean", Kind::Bool, &["true", "false"]).like(&["c_bool"]),
    field("c_uuid", "uuid", Kind::Ordered, &["'00000000-0000-0000-0000-000000000000'", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"]),
    field("c_date", "date", Kind::Ordered, &["'2024-02-29'", "'2024-03-01'", "'1999-12-31'", "'infinity'"]).like(&["c_stamp"]),
    field("c_stamp", "timestamp", Kind::Ordered, &["'2024-02-29 10:00:00'", "'2024-02-29'", "'1969-12-31 23:59:59.5'"]).like(&["c_date"]),
    field("c_at", "timestamptz", Kind::Ordered, &["'2024-02-29 10:00:00+00'", "'2024-02-29 12:00:00+02'", "'1999-12-31 23:59:59.999999-0330'", "'infinity'"]),
    field("c_time", "time", Kind::Ordered, &["'00:00'", "'10:00:00.5'", "'24:00:00'"]),
    field("c_bytes", "bytea", Kind::Bytes, &["'\\x'", "'\\x00ff'", "'\\x6162'"]),
    field("c_mood", "mood", Kind::Opaque, &["'sad'", "'fine'", "'glad'"]),
    field("c_doc", "jsonb", Kind::Json, DOCUMENTS),
    field("c_json", "json", Kind::Json, DOCUMENTS),
    field("c_tags", "integer[]", Kind::Opaque, &["'{}'", "'{1,NULL}'", "'{3,4}'"]),
];

#[rustfmt::skip]
const SQLITE: &[Field] = &[
    field("id", "INTEGER", Kind::Whole, WHOLE).like(&["c_int"]),
    field("c_int", "INTEGER", Kind::Whole, WHOLE).strays(&["'abc'", "9007199254740993"]).like(&["id", "c_real"]),
    field("c_big", "BIGINT", Kind::Whole, &["0", "1", "2", "4503599627370497", "-5"]).like(&["c_int"]),
    field("c_real", "REAL", Kind::Float, &["0", "0.5", "1.5", "-2", "1e10"]).strays(&["-0.0", "'abc'"]).like(&["c_int"]),
    field("c_numeric", "DECIMAL(10, 2)", Kind::Float, &["0", "1", "1.5", "2.0", "-3.25"]).strays(&["'abc'"]).like(&["c_real"]),
    field("c_bool", "BOOLEAN", Kind::Bool, &["true", "false", "1", "0"]),
    field("c_text", "TEXT", Kind::Text, TEXTS).strays(&["5", "5.5"]).like(&["c_varchar"]).suffixes(&["", "", " COLLATE NOCASE"]),
    field("c_varchar", "VARCHAR(20)", Kind::Text, TEXTS).like(&["c_text"]),
    field("c_nocase", "TEXT COLLATE NOCASE", Kind::Folded, TEXTS).like(&["c_text"]).suffixes(&["", " COLLATE BINARY"]),
    field("c_rtrim", "TEXT COLLATE RTRIM", Kind::Folded, &["'a'", "'a '", "'b'", "' a'"]),
    field("c_at", "DATETIME", Kind::Ordered, &["'2024-01-02'", "'2024-01-02 10:00:00'", "'2023-12-31T23:59:59Z'"]),
    field("c_json", "TEXT", Kind::Json, DOCUMENTS),
    field("c_blob", "BLOB", Kind::Bytes, &["x'00ff'", "x''", "x'6162'"]),
];

const fn field(
    name: &'static str,
    sql: &'static str,
    kind: Kind,
    values: &'static [&'static str],
) -> Field {
    Field { name, sql, kind, values, strays: &[], like_it: &[], suffixes: &[""] }
}

impl Field {
    const fn strays(mut self, strays: &'static [&'static str]) -> Field {
        self.strays = strays;
        self
    }

    const fn like(mut self, like_it: &'static [&'static str]) -> Field {
        self.like_it = like_it;
        self
    }

    const fn suffixes(mut self, suffixes: &'static [&'static str]) -> Field {
        self.suffixes = suffixes;
        self
    }

    /// Equal values have one text, so that groups and DISTINCT have one answer.
    pub(crate) fn has_one_text(&self) -> bool {
        matches!(self.kind, Kind::Whole | Kind::Scaled | Kind::Text | Kind::Bool | Kind::Ordered)
    }

    /// It can be ordered by, and equal places mean equal texts.
    pub(crate) fn is_ordered(&self) -> bool {
        self.has_one_text()
    }

    /// For the generator of conditions; among these columns only.
    pub(crate) fn subject(&self, beside: &[&str]) -> Subject {
        let is_there = self.like_it.iter().any(|name| beside.contains(name));
        let plain = self.kind != Kind::Json && self.kind != Kind::Opaque;
        Subject {
            name: self.name,
            type_name: self.sql,
            values: self.values.iter().map(ToString::to_string).collect(),
            is_text: matches!(self.kind, Kind::Text | Kind::Folded),
            is_condition: self.kind == Kind::Bool,
            // All or none, because the generator takes any of them.
            like_it: match plain && is_there && self.like_it.iter().all(|it| beside.contains(it)) {
                true => self.like_it,
                false => &[],
            },
            suffixes: self.suffixes,
        }
    }
}

/// All columns there can be.
pub(crate) fn fields(sort: Sort) -> &'static [Field] {
    match sort {
        Sort::Sqlite => SQLITE,
        Sort::Postgres => POSTGRES,
    }
}

/// One of them.
pub(crate) fn named(sort: Sort, name: &str) -> &'static Field {
    let found = fields(sort).iter().find(|field| field.name == name);
    found.unwrap_or_else(|| panic!("no column is called {name}"))
}
