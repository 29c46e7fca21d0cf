//! Against SQLite.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use serde_json::json;
use tidewire_query::{Column, Dialect, Table};

use crate::condition::{Generator, Subject};
use crate::judge::{self, Judge};
use crate::who::for_database;

const ROWS: usize = 60;

/// A column: its name, its declared type, its collation, and what its rows hold besides.
struct Spec {
    name: &'static str,
    declared: &'static str,
    collation: Option<&'static str>,
    like_it: &'static [&'static str],
    /// Values for conditions and rows, as SQL.
    values: &'static [&'static str],
    /// Values for rows only: SQLite lets a column hold anything.
    strays: &'static [&'static str],
}

const TEXTS: &[&str] = &[
    "''",
    "'a'",
    "'A'",
    "'ab'",
    "'aB'",
    "'b'",
    "'a%b'",
    "'a_b'",
    "'a\\b'",
    "'ä'",
    "'Ä'",
    "'it''s'",
    "'a '",
    "' a'",
    "'😀'",
    "'paid'",
    "'5'",
    "'5.0'",
    "5",
    "-7",
    "true",
    "'2024-01-02'",
    "'AP8='",
];
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "5",
    "-7",
    "5.0",
    "5.5",
    "-0.0",
    "0.1",
    "1e10",
    "1e15",
    "9007199254740993",
    "9007199254740992",
    "9223372036854775807",
    "-9223372036854775808",
    "'5'",
    "' 5 '",
    "'5.5'",
    "'+5e0'",
    "'abc-d'",
    "'5x'",
    "''",
    "true",
    "FALSE",
    "'2024-01-02'",
    "'2024-01-02 10:00:00'",
    ".5",
    "5.",
    "-.25",
    "- 7",
    "+5",
    "1E3",
    "007",
    "'.5'",
    "' -7\t'",
    "'5e'",
];
const STRAYS: &[&str] = &[
    "'abc-d'",
    "'paid'",
    "'zz'",
    "x'00ff'",
    "x''",
    "9e999",
    "-9e999",
    "'Infinity'",
    "'5x'",
    "0.1",
    "1e300",
];

#[rustfmt::skip]
const SPECS: &[Spec] = &[
    Spec { name: "c_integer", declared: "INTEGER", collation: None, like_it: &["c_real", "c_bigint", "c_numeric"],
        values: NUMBERS, strays: STRAYS },
    Spec { name: "c_bigint", declared: "BIGINT NOCASE", collation: None, like_it: &["c_integer"],
        values: NUMBERS, strays: STRAYS },
    Spec { name: "c_real", declared: "REAL", collation: None, like_it: &["c_integer", "c_numeric"],
        values: NUMBERS, strays: STRAYS },
    Spec { name: "c_numeric", declared: "DECIMAL(10, 2)", collation: Some("NOCASE"), like_it: &["c_real"],
        values: NUMBERS, strays: STRAYS },
    Spec { name: "c_boolean", declared: "BOOLEAN", collation: None, like_it: &["c_integer"],
        values: &["true", "false", "1", "0"], strays: &["2", "0.5", "'yes!'"] },
    Spec { name: "c_datetime", declared: "DATETIME", collation: None, like_it: &["c_datetime"],
        values: &["'2024-01-02'", "'2024-01-02 10:00:00'", "'2023-12-31T23:59:59Z'", "1704189600", "'1704189600'"],
        strays: &["'paid'"] },
    Spec { name: "c_text", declared: "TEXT", collation: None, like_it: &["c_varchar", "c_nocase"],
        values: TEXTS, strays: &["5.5", "1e300"] },
    Spec { name: "c_varchar", declared: "VARCHAR(10)", collation: Some("BINARY"), like_it: &["c_text", "c_integer"],
        values: TEXTS, strays: &[] },
    Spec { name: "c_nocase", declared: "TEXT", collation: Some("NOCASE"), like_it: &["c_text", "c_rtrim"],
        values: TEXTS, strays: &[] },
    Spec { name: "c_rtrim", declared: "CLOB", collation: Some("RTRIM"), like_it: &["c_nocase"],
        values: TEXTS, strays: &["'a   '", "'a\t'"] },
    // Of these it can be said only whether they are NULL.
    Spec { name: "c_blob", declared: "BLOB", collation: None, like_it: &["c_blob"],
        values: &["'paid'", "5"], strays: &["x'00ff'"] },
    Spec { name: "c_none", declared: "", collation: None, like_it: &["c_none"],
        values: &["'paid'", "5"], strays: &["x'00ff'"] },
];

impl Spec {
    fn is_text(&self) -> bool {
        ["TEXT", "VARCHAR(10)", "CLOB"].contains(&self.declared)
    }

    fn subject(&self) -> Subject {
        let is_blob = ["BLOB", ""].contains(&self.declared);
        Subject {
            name: self.name,
            type_name: if self.declared.is_empty() { "(none)" } else { self.declared },
            values: self.values.iter().map(ToString::to_string).collect(),
            is_text: self.is_text(),
            is_condition: !self.is_text() && !is_blob,
            like_it: self.like_it,
            suffixes: &["", "", "", " COLLATE NOCASE", " COLLATE binary", " COLLATE RTRIM"],
        }
    }

    fn column(&self) -> Column {
        Column {
            name: self.name.to_owned(),
            type_name: self.declared.to_owned(),
            collation: self.collation.map(ToOwned::to_owned),
        }
    }
}

fn make_table(database: &Connection, random: &mut StdRng) {
    let column = |spec: &Spec| {
        let collation = spec.collation.map_or(String::new(), |name| format!("COLLATE {name}"));
        format!("{} {} {collation}", spec.name, spec.declared)
    };
    let columns: Vec<String> = SPECS.iter().map(column).collect();
    let create = format!("CREATE TABLE t (n INTEGER PRIMARY KEY, {})", columns.join(", "));
    database.execute_batch(&create).expect("a table");
    for row in 0..ROWS {
        let value = |spec: &Spec| {
            let all: Vec<&str> = spec.values.iter().chain(spec.strays).copied().collect();
            match all.get(row) {
                Some(value) => *value,
                None if random.random_bool(0.15) => "NULL",
                None => *all.choose(random).expect("a value"),
            }
        };
        let values: Vec<&str> = SPECS.iter().map(value).collect();
        let insert = format!("INSERT INTO t VALUES ({row}, {})", values.join(", "));
        database.execute_batch(&insert).unwrap_or_else(|error| panic!("{insert}: {error}"));
    }
}

/// The rows as events have them.
fn images(database: &Connection) -> Vec<String> {
    let mut select = database.prepare("SELECT * FROM t ORDER BY n").expect("a query");
    let names: Vec<String> = select.column_names().map(ToOwned::to_owned).collect();
    let image = |row: &rusqlite::Row<'_>| {
        let member = |(at, name): (usize, &String)| {
            Ok(format!("{}: {}", json!(name), value(row.get_ref(at)?)))
        };
        let members: rusqlite::Result<Vec<String>> = names.iter().enumerate().map(member).collect();
        Ok(format!("{{{}}}", members?.join(", ")))
    };
    let images = select.query_map([], image).expect("rows");
    images.map(|image| image.expect("a row")).collect()
}

/// A value in the canonical form of events.
pub(crate) fn value(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "null".to_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) if number.is_finite() => format!("{number:?}"),
        ValueRef::Real(number) if number > 0.0 => "\"Infinity\"".to_owned(),
        ValueRef::Real(_) => "\"-Infinity\"".to_owned(),
        ValueRef::Text(text) => json!(String::from_utf8_lossy(text)).to_string(),
        ValueRef::Blob(bytes) => json!(STANDARD.encode(bytes)).to_string(),
    }
}

/// What the database says to a condition, for each row. A number is a condition there, so that it is
/// asked for as one.
fn ask(database: &Connection, condition: &str) -> rusqlite::Result<Vec<Option<bool>>> {
    let condition = for_database(condition);
    let question = format!(
        "SELECT CASE WHEN ({condition}\n) THEN 1 WHEN NOT ({condition}\n) THEN 0 END FROM t ORDER BY n"
    );
    let mut select = database.prepare(&question)?;
    let answers = select.query_map([], |row| row.get::<_, Option<bool>>(0))?;
    answers.collect()
}

#[test]
fn predicates_are_what_sqlite_says() {
    let database = Connection::open_in_memory().expect("a database");
    let mut random = judge::random();
    make_table(&database, &mut random);
    let subjects: Vec<Subject> = SPECS.iter().map(Spec::subject).collect();
    let table =
        Table { dialect: Dialect::Sqlite, columns: SPECS.iter().map(Spec::column).collect() };
    let mut judge = Judge::new(table, images(&database), &subjects, true);
    for _ in 0..judge::conditions() {
        let mut generator = Generator {
            subjects: &subjects,
            random: &mut random,
            likes: &["LIKE"],
            truths: &["TRUE", "NOT TRUE", "FALSE", "NOT FALSE", "NULL", "NOT NULL"],
        };
        let Some(taken) = judge.take(generator.condition()) else { continue };
        match ask(&database, &taken.made.text) {
            Ok(answers) => judge.compare(&taken, &answers),
            Err(error) => judge.failed(&taken, &error.to_string()),
        }
    }
    judge.verdict("SQLite");
}
