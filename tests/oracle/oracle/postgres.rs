//! Against PostgreSQL.

use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use tidewire_query::{Column, Dialect, Table};
use tidewire_stories::postgres::{Sql, drop_database, fresh_database};

use crate::condition::{Generator, Subject};
use crate::judge::{self, Judge, Taken};
use crate::who::for_database;

const ROWS: usize = 40;
/// Conditions that are asked in one statement.
const BATCH: usize = 40;

/// How the values of a column are written.
#[derive(Clone, Copy, PartialEq)]
enum Written {
    /// In quotes only.
    Quoted,
    /// Also without quotes, where they are numbers.
    Number,
    /// Also with the type before or behind them.
    Typed(&'static str),
}

/// A column: its name, its type in SQL, what the catalogs call that, its collation, its values.
struct Spec {
    name: &'static str,
    sql: &'static str,
    type_name: &'static str,
    collation: Option<&'static str>,
    written: Written,
    like_it: &'static [&'static str],
    values: &'static [&'static str],
}

const TEXTS: &[&str] = &[
    "", "a", "A", "ab", "aB", "b", "a%b", "a_b", "a\\b", "ä", "Ä", "äb", "zz", "it's", " a", "a ",
    "Z", "😀", "\u{fb01}", "a\nb", "2", "10", "true",
];
const SHORT_TEXTS: &[&str] = &["", "a", "A", "ab", "b ", " b", "a_b", "äb", "2", "a\nb"];
const WHOLE: &[&str] = &["0", "1", "-1", "2", "7", "32767", "-32768"];
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "2.0",
    "0.1",
    "-0.1",
    "0.10000000000000000555",
    "1e10",
    "123456789.125",
    "1e-7",
    "9007199254740993",
    "16777217",
];
const ZONED: &[&str] = &[
    "2024-02-29 10:00:00+00",
    "2024-02-29 12:00:00+02",
    "2024-02-29T10:00:00.000001Z",
    "1999-12-31 23:59:59.999999-0330",
    "infinity",
    "-infinity",
    "2024-02-29",
    "2024-02-29 10:00",
];

#[rustfmt::skip]
const SPECS: &[Spec] = &[
    Spec { name: "c_bool", sql: "boolean", type_name: "bool", collation: None, written: Written::Typed("boolean"),
        like_it: &["c_bool"], values: &["true", "false", "t", "off", "1"] },
    Spec { name: "c_int2", sql: "smallint", type_name: "int2", collation: None, written: Written::Number,
        like_it: &["c_int4", "c_int8", "c_numeric", "c_float4"], values: WHOLE },
    Spec { name: "c_int4", sql: "integer", type_name: "int4", collation: None, written: Written::Number,
        like_it: &["c_int2", "c_float8", "\"Odd Name\""], values: &["0", "1", "-1", "2", "2147483647", "-2147483648"] },
    Spec { name: "c_int8", sql: "bigint", type_name: "int8", collation: None, written: Written::Number,
        like_it: &["c_numeric", "c_float8", "c_int4"],
        values: &["0", "1", "2", "9007199254740992", "9007199254740993", "9223372036854775807", "-9223372036854775808"] },
    Spec { name: "\"Odd Name\"", sql: "integer", type_name: "int4", collation: None, written: Written::Typed("int4"),
        like_it: &["C_INT4"], values: WHOLE },
    Spec { name: "c_numeric", sql: "numeric", type_name: "numeric", collation: None, written: Written::Number,
        like_it: &["c_int8", "c_numeric"],
        values: &["0", "0.00", "1", "1.0", "-1.5", "0.1", "0.10000000000000000000000000000000000001", "1e40", "-1e-40",
                  "9007199254740993", "9007199254740993.5", "NaN", "Infinity", "-Infinity"] },
    Spec { name: "c_float4", sql: "real", type_name: "float4", collation: None, written: Written::Number,
        like_it: &["c_float8", "c_int2"],
        values: &["0", "-0", "0.1", "1", "2", "1.5", "16777216", "3.4e38", "1e-45", "NaN", "Infinity", "-Infinity"] },
    Spec { name: "c_float8", sql: "double precision", type_name: "float8", collation: None, written: Written::Number,
        like_it: &["c_float4", "c_int8"],
        values: &["0", "0.1", "0.10000000149011612", "1", "9007199254740992", "9007199254740993", "1e308", "5e-324",
                  "123456789.125", "NaN", "Infinity", "-Infinity"] },
    Spec { name: "c_text", sql: "text", type_name: "text", collation: Some("default"), written: Written::Typed("text"),
        like_it: &["c_text", "c_varchar"], values: TEXTS },
    Spec { name: "c_text_c", sql: "text COLLATE \"C\"", type_name: "text", collation: Some("C"), written: Written::Quoted,
        like_it: &["c_text_c"], values: TEXTS },
    Spec { name: "c_text_icu", sql: "text COLLATE \"und-x-icu\"", type_name: "text", collation: Some("und-x-icu"),
        written: Written::Quoted, like_it: &["c_text_icu", "c_text"], values: TEXTS },
    Spec { name: "c_varchar", sql: "varchar(20)", type_name: "varchar", collation: Some("default"),
        written: Written::Typed("varchar"), like_it: &["c_text"], values: TEXTS },
    Spec { name: "c_char", sql: "char(5)", type_name: "bpchar", collation: Some("default"), written: Written::Quoted,
        like_it: &["c_char"], values: SHORT_TEXTS },
    Spec { name: "c_char_c", sql: "char(4) COLLATE \"C\"", type_name: "bpchar", collation: Some("C"),
        written: Written::Quoted, like_it: &["c_char_c"], values: SHORT_TEXTS },
    Spec { name: "c_uuid", sql: "uuid", type_name: "uuid", collation: None, written: Written::Typed("uuid"),
        like_it: &["c_uuid"],
        values: &["00000000-0000-0000-0000-000000000000", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
                  "{a0eebc999c0b4ef8bb6d6bb9bd380a12}", "ffffffff-ffff-ffff-ffff-ffffffffffff"] },
    Spec { name: "c_date", sql: "date", type_name: "date", collation: None, written: Written::Typed("date"),
        like_it: &["c_timestamp", "c_date"],
        values: &["2024-02-29", "2024-03-01", "1999-12-31", "0001-01-01", "9999-12-31", "infinity", "-infinity",
                  "0044-03-15 BC", "10000-01-01"] },
    Spec { name: "c_timestamp", sql: "timestamp", type_name: "timestamp", collation: None,
        written: Written::Typed("timestamp"), like_it: &["c_date"],
        values: &["2024-02-29", "2024-02-29 00:00:00.000001", "2024-02-29 10:00:00", "2024-02-29T10:00", "infinity",
                  "1969-12-31 23:59:59.5", "0044-03-15 12:00:00 BC"] },
    Spec { name: "c_timestamptz", sql: "timestamptz", type_name: "timestamptz", collation: None,
        written: Written::Typed("timestamptz"), like_it: &["c_timestamptz"], values: ZONED },
    Spec { name: "c_time", sql: "time", type_name: "time", collation: None, written: Written::Typed("time"),
        like_it: &["c_time"], values: &["00:00", "10:00:00", "10:00:00.5", "23:59:59.999999", "24:00:00"] },
    Spec { name: "c_bytea", sql: "bytea", type_name: "bytea", collation: None, written: Written::Typed("bytea"),
        like_it: &["c_bytea"], values: &["\\x", "\\x00", "\\x00ff", "\\xff", "\\x6162"] },
    Spec { name: "c_mood", sql: "mood", type_name: "enum mood", collation: None, written: Written::Quoted,
        like_it: &["c_mood"], values: &["sad", "fine", "glad"] },
    // Of these it can be said only whether they are NULL, and of the last not even that.
    Spec { name: "c_array", sql: "integer[]", type_name: "_int4", collation: None, written: Written::Quoted,
        like_it: &["c_array"], values: &["{}", "{1,NULL}"] },
    Spec { name: "c_interval", sql: "interval", type_name: "interval", collation: None, written: Written::Quoted,
        like_it: &["c_interval"], values: &["1 day", "24:00:00"] },
    Spec { name: "c_jsonb", sql: "jsonb", type_name: "jsonb", collation: None, written: Written::Quoted,
        like_it: &["c_jsonb"], values: &["null", "{}", "1"] },
];

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

impl Spec {
    /// Its values in all the ways that they can be written.
    fn literals(&self) -> Vec<String> {
        let mut literals: Vec<String> = self.values.iter().map(|value| quoted(value)).collect();
        match self.written {
            Written::Quoted => {}
            Written::Number => {
                let of_numbers = NUMBERS.iter().chain(self.values);
                let plain =
                    of_numbers.filter(|value| value.ends_with(|c: char| c.is_ascii_digit()));
                literals.extend(plain.flat_map(|value| {
                    let sql = self.sql;
                    [
                        value.to_string(),
                        value.to_string(),
                        format!("{value}::{sql}"),
                        format!("({value})::numeric"),
                    ]
                }));
            }
            Written::Typed(name) => literals.extend(self.values.iter().flat_map(|value| {
                let value = quoted(value);
                [
                    format!("{name} {value}"),
                    format!("{value}::{name}"),
                    format!("CAST({value} AS {name})"),
                ]
            })),
        }
        if self.type_name == "bool" {
            literals.extend(["true".into(), "FALSE".into()]);
        }
        literals
    }

    fn subject(&self) -> Subject {
        let is_text = ["text", "varchar", "bpchar"].contains(&self.type_name);
        Subject {
            name: self.name,
            type_name: if self.collation == Some("C") { "text in order" } else { self.type_name },
            values: self.literals(),
            is_text,
            is_condition: self.type_name == "bool",
            like_it: self.like_it,
            suffixes: if is_text {
                &["", "", " COLLATE \"C\"", " COLLATE \"POSIX\""]
            } else {
                &[""]
            },
        }
    }

    fn column(&self) -> Column {
        Column {
            name: self.name.trim_matches('"').to_owned(),
            type_name: self.type_name.to_owned(),
            collation: self.collation.map(ToOwned::to_owned),
        }
    }
}

async fn make_table(sql: &Sql, random: &mut StdRng) {
    sql.batch_execute("CREATE TYPE mood AS ENUM ('sad', 'fine', 'glad')").await.expect("a type");
    let columns: Vec<String> =
        SPECS.iter().map(|spec| format!("{} {}", spec.name, spec.sql)).collect();
    let create = format!("CREATE TABLE t (n serial PRIMARY KEY, {})", columns.join(", "));
    sql.batch_execute(&create).await.expect("a table");
    let names: Vec<&str> = SPECS.iter().map(|spec| spec.name).collect();
    // As many rows as the longest list of values at least, so that each value is there.
    for row in 0..ROWS {
        let value = |spec: &Spec| match spec.values.get(row) {
            Some(value) => quoted(value),
            None if random.random_bool(0.2) => "NULL".to_owned(),
            None => quoted(spec.values.choose(random).expect("a value")),
        };
        let values: Vec<String> = SPECS.iter().map(value).collect();
        let insert = format!("INSERT INTO t ({}) VALUES ({})", names.join(", "), values.join(", "));
        sql.batch_execute(&insert).await.unwrap_or_else(|error| panic!("{insert}: {error:?}"));
    }
}

/// The rows as events have them.
async fn images(sql: &Sql) -> Vec<String> {
    let image = "SELECT (to_jsonb(t) || jsonb_build_object(
            'c_bytea', translate(encode(c_bytea, 'base64'), E'\\n', '')
        ))::text FROM t ORDER BY n";
    sql.batch_execute("SET TimeZone = 'UTC'").await.expect("a setting");
    let rows = sql.query(image, &[]).await.expect("images");
    rows.iter().map(|row| row.get(0)).collect()
}

/// What the database says to conditions, for each row.
async fn ask(sql: &Sql, batch: &[Taken]) -> Result<Vec<Vec<Option<bool>>>, String> {
    // By itself a NULL would be text; after WHEN it is a condition.
    let asked = |taken: &Taken| {
        let condition = for_database(&taken.made.text);
        format!("CASE WHEN ({condition}\n) THEN true WHEN NOT ({condition}\n) THEN false END")
    };
    let conditions: Vec<String> = batch.iter().map(asked).collect();
    let question = format!("SELECT {} FROM t ORDER BY n", conditions.join(",\n"));
    let rows = sql.query(&question, &[]).await.map_err(|error| match error.as_db_error() {
        Some(error) => error.message().to_owned(),
        None => format!("{error:?}"),
    })?;
    Ok((0..batch.len()).map(|at| rows.iter().map(|row| row.get(at)).collect()).collect())
}

#[tokio::test]
async fn predicates_are_what_postgres_says() {
    let url = fresh_database().await;
    let sql = Sql::connect(&url).await.expect("a connection");
    let mut random = judge::random();
    make_table(&sql, &mut random).await;
    let subjects: Vec<Subject> = SPECS.iter().map(Spec::subject).collect();
    let table =
        Table { dialect: Dialect::Postgres, columns: SPECS.iter().map(Spec::column).collect() };
    // Nothing can be compared of the type that nothing can be said of.
    let known: Vec<&Subject> = subjects.iter().filter(|it| it.type_name != "jsonb").collect();
    assert_eq!(known.len() + 1, subjects.len());
    let mut judge = Judge::new(table, images(&sql).await, &subjects[..known.len()], false);
    // Whoever asks has settings of their own, and predicates must not depend on them.
    let settings = "SET TimeZone = 'America/St_Johns'; SET DateStyle = 'German, DMY';
        SET IntervalStyle = 'sql_standard'; SET extra_float_digits = 0; SET bytea_output = 'escape'";
    sql.batch_execute(settings).await.expect("settings");
    let mut left = judge::conditions();
    while left > 0 {
        let mut batch = Vec::new();
        while batch.len() < BATCH && left > 0 {
            left -= 1;
            let (likes, truths) = (
                &["LIKE", "ILIKE"][..],
                &["TRUE", "NOT TRUE", "FALSE", "NOT FALSE", "UNKNOWN", "NOT UNKNOWN", "NULL"][..],
            );
            let mut generator =
                Generator { subjects: &subjects, random: &mut random, likes, truths };
            batch.extend(judge.take(generator.condition()));
        }
        put(&sql, &mut judge, &batch).await;
    }
    judge.verdict("PostgreSQL");
    drop(sql);
    drop_database(&url).await;
}

/// Asks about a batch; if the database refuses it, about each by itself.
async fn put(sql: &Sql, judge: &mut Judge, batch: &[Taken]) {
    if let Ok(answers) = ask(sql, batch).await {
        for (taken, answers) in batch.iter().zip(answers) {
            judge.compare(taken, &answers);
        }
        return;
    }
    for taken in batch.chunks(1) {
        match ask(sql, taken).await {
            Ok(answers) => judge.compare(&taken[0], &answers[0]),
            // A label that is not there yet is equal to none here, and an error to the database.
            Err(error) if error.starts_with("invalid input value for enum") => {}
            Err(error) => judge.failed(&taken[0], &error),
        }
    }
}
