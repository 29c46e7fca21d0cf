//! Windows and groups against real databases.
//!
//! Queries go the whole way, from their text to what the engine tells, while rows of every type that
//! can be sorted, grouped or summed come, change and go. After each change what was told must be what
//! the database answers to the same query, text for text.

use std::fmt::Write as _;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use serde_json::value::RawValue;
use tidewire_query::{
    Access, Binding, Change, Column, Dialect, Draft, Engine, EngineOptions, Event, Kind, Output,
    PlanName, Position, Query, QueryId, QueryLimits, RowText, Rows, ShapeColumn, Snapshot,
    Subscriber, TableName, TableShape,
};
use tidewire_stories::postgres::{Sql, drop_database, fresh_database};

use crate::judge;

const CHANGES: usize = 150;
/// Rows that may be there; of half of them it begins.
const ROWS: usize = 60;
const LIMITS: QueryLimits = QueryLimits { rows_max: 1_000, window_slack: 2, hide_timing: true };
const OPTIONS: EngineOptions = EngineOptions {
    rows_max: LIMITS.rows_max,
    transaction_rows_max: 1_000,
    state_bytes_max: 1 << 24,
    total_state_bytes_max: 1 << 28,
    unindexed_max: usize::MAX,
};

/// A column: its name, how SQL declares it, its type and collation, and its values as SQL.
struct Spec(
    &'static str,
    &'static str,
    &'static str,
    Option<&'static str>,
    &'static [&'static str],
);

const TEXTS: &[&str] = &[
    "''",
    "'a'",
    "'A'",
    "'ab'",
    "'b '",
    "'ä'",
    "'Ä'",
    "'it''s'",
    "'😀'",
    "'\u{fb01}'",
    "'10'",
    "'2'",
];

const POSTGRES: &[Spec] = &[
    Spec("c_bool", "boolean", "bool", None, &["true", "false"]),
    Spec("c_int2", "smallint", "int2", None, &["0", "1", "-1", "32767"]),
    Spec("c_int4", "integer", "int4", None, &["0", "1", "-1", "7", "2147483647"]),
    Spec("c_int8", "bigint", "int8", None, &["0", "1", "9223372036854775807", "-9007199254740993"]),
    Spec("c_free", "numeric", "numeric", None, &["0", "1.5", "1.50", "-1e10", "'NaN'", "1e-9"]),
    Spec("c_money", "numeric(12,2)", "numeric", None, &["0", "1.5", "-0.01", "123456.78"]),
    Spec(
        "c_float",
        "double precision",
        "float8",
        None,
        &["0", "'-0'", "1.5", "'NaN'", "'Infinity'"],
    ),
    Spec("c_text", "text COLLATE \"C\"", "text", Some("C"), TEXTS),
    Spec("c_local", "text", "text", Some("default"), TEXTS),
    Spec("c_char", "char(4) COLLATE \"C\"", "bpchar", Some("C"), &["'a'", "'a b'", "''", "'B'"]),
    Spec(
        "c_uuid",
        "uuid",
        "uuid",
        None,
        &["'00000000-0000-0000-0000-000000000000'", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"],
    ),
    Spec("c_date", "date", "date", None, &["'2024-02-29'", "'0044-03-15 BC'", "'infinity'"]),
    Spec(
        "c_made",
        "timestamptz",
        "timestamptz",
        None,
        &["'2024-02-29 10:00+00'", "'2024-02-29 12:00:00.5+02'", "'-infinity'"],
    ),
    Spec("c_time", "time", "time", None, &["'00:00'", "'10:00:00.5'", "'24:00:00'"]),
];

const SQLITE: &[Spec] = &[
    Spec(
        "c_int",
        "INTEGER",
        "INTEGER",
        None,
        &["0", "1", "-1", "7", "'5'", "2.0", "1099511627776"],
    ),
    Spec("c_real", "REAL", "REAL", None, &["0", "-0.0", "1.5", "3", "1e300", "9e999"]),
    Spec("c_num", "DECIMAL(10,2)", "DECIMAL(10,2)", None, &["0", "1.5", "3", "9007199254740993"]),
    Spec("c_text", "TEXT", "TEXT", Some("BINARY"), TEXTS),
    Spec("c_nocase", "TEXT COLLATE NOCASE", "TEXT", Some("NOCASE"), TEXTS),
];

/// Queries, the plan each is kept by, and the order that makes the answer one.
const OF_POSTGRES: &[(&str, PlanName, &str)] = &[
    ("SELECT * FROM t ORDER BY c_int4 DESC LIMIT 5", PlanName::Window, ", id"),
    ("SELECT id, c_free FROM t ORDER BY c_free LIMIT 6 OFFSET 2", PlanName::Window, ", id"),
    (
        "SELECT id, c_text AS x FROM t ORDER BY x, c_int2 NULLS FIRST LIMIT 7",
        PlanName::Window,
        ", id",
    ),
    ("SELECT c_local FROM t ORDER BY c_local COLLATE \"C\" DESC LIMIT 4", PlanName::Window, ", id"),
    (
        "SELECT id FROM t WHERE c_bool ORDER BY c_float DESC NULLS LAST LIMIT 9",
        PlanName::Window,
        ", id",
    ),
    ("SELECT id, c_char FROM t ORDER BY 2, c_uuid DESC", PlanName::Window, ", id"),
    ("SELECT c_made, c_date FROM t ORDER BY c_made, c_date DESC LIMIT 8", PlanName::Window, ", id"),
    (
        "SELECT id FROM t WHERE c_int4 >= 0 ORDER BY c_time, c_bool DESC LIMIT 3",
        PlanName::Window,
        ", id",
    ),
    ("SELECT id FROM t ORDER BY c_local LIMIT 5", PlanName::Requery, ", id"),
    (
        "SELECT count(*), count(c_int4), sum(c_int2), sum(c_int8), avg(c_int4), sum(c_money), avg(c_money) FROM t",
        PlanName::Aggregate,
        "",
    ),
    ("SELECT avg(c_int8), min(c_int8), max(c_int8) FROM t WHERE c_bool", PlanName::Aggregate, ""),
    (
        "SELECT c_bool, count(*) AS n, min(c_text), max(c_made), min(c_date), max(c_time) FROM t GROUP BY c_bool",
        PlanName::Aggregate,
        "",
    ),
    ("SELECT c_local, sum(c_money) FROM t GROUP BY 1", PlanName::Aggregate, ""),
    ("SELECT c_money, c_uuid, count(*) FROM t GROUP BY c_money, c_uuid", PlanName::Aggregate, ""),
    (
        "SELECT c_int4, count(*) FROM t GROUP BY c_int4 HAVING count(*) > 1 AND avg(c_int2) < 9000.5",
        PlanName::Aggregate,
        "",
    ),
    (
        "SELECT c_text, avg(c_int4) AS a FROM t GROUP BY c_text ORDER BY a DESC, c_text LIMIT 3 OFFSET 1",
        PlanName::Aggregate,
        "",
    ),
    ("SELECT c_date, max(c_money) FROM t GROUP BY c_date ORDER BY c_date", PlanName::Aggregate, ""),
    ("SELECT c_free, count(*) FROM t GROUP BY c_free", PlanName::Requery, ""),
    ("SELECT sum(c_float) FROM t", PlanName::Requery, ""),
];

const OF_SQLITE: &[(&str, PlanName, &str)] = &[
    ("SELECT * FROM t ORDER BY c_int DESC LIMIT 5", PlanName::Window, ", id"),
    ("SELECT id, c_num FROM t ORDER BY c_num LIMIT 6 OFFSET 2", PlanName::Window, ", id"),
    (
        "SELECT id, c_text AS x FROM t ORDER BY x NULLS LAST, c_int LIMIT 7",
        PlanName::Window,
        ", id",
    ),
    ("SELECT c_nocase FROM t ORDER BY c_nocase DESC LIMIT 4", PlanName::Window, ", id"),
    ("SELECT c_nocase FROM t ORDER BY c_nocase COLLATE BINARY LIMIT 4", PlanName::Window, ", id"),
    ("SELECT id FROM t WHERE c_int > 0 ORDER BY c_text DESC LIMIT 2, 5", PlanName::Window, ", id"),
    ("SELECT id, c_real FROM t WHERE c_real < 1000000 ORDER BY c_real", PlanName::Window, ", id"),
    (
        "SELECT count(*), count(c_real), sum(c_int), avg(c_int), max(c_text) FROM t",
        PlanName::Aggregate,
        "",
    ),
    (
        "SELECT c_text, count(*), min(c_int), max(c_int) FROM t GROUP BY c_text",
        PlanName::Aggregate,
        "",
    ),
    (
        "SELECT c_int, count(*) FROM t GROUP BY 1 HAVING count(*) > 1 AND c_int < 100",
        PlanName::Aggregate,
        "",
    ),
    (
        "SELECT c_text, avg(c_int) AS a FROM t GROUP BY c_text ORDER BY a DESC, c_text LIMIT 3 OFFSET 1",
        PlanName::Aggregate,
        "",
    ),
    ("SELECT sum(c_real) FROM t", PlanName::Requery, ""),
    ("SELECT c_nocase, count(*) FROM t GROUP BY c_nocase", PlanName::Requery, ""),
];

enum Database {
    Postgres(Sql),
    Sqlite(Connection),
}

impl Database {
    async fn run(&self, sql: &str) {
        match self {
            Database::Postgres(postgres) => {
                postgres.batch_execute(sql).await.unwrap_or_else(|why| panic!("{sql}: {why:?}"));
            }
            Database::Sqlite(sqlite) => {
                sqlite.execute_batch(sql).unwrap_or_else(|why| panic!("{sql}: {why}"));
            }
        }
    }

    /// What a SELECT gives, as events would have it.
    async fn rows(&self, sql: &str) -> Vec<Vec<Box<RawValue>>> {
        match self {
            Database::Postgres(postgres) => {
                let question = format!("SELECT row_to_json(q)::text FROM ({sql}) AS q");
                let rows = postgres.query(&question, &[]).await;
                let rows = rows.unwrap_or_else(|why| panic!("{sql}: {why:?}"));
                rows.iter().map(|row| members(row.get(0))).collect()
            }
            Database::Sqlite(sqlite) => {
                let mut statement =
                    sqlite.prepare(sql).unwrap_or_else(|why| panic!("{sql}: {why}"));
                let columns = statement.column_count();
                let rows = statement.query_map([], |row| {
                    let values = (0..columns).map(|at| Ok(value(row.get_ref(at)?)));
                    values.collect::<Result<Vec<_>, _>>()
                });
                rows.expect("rows").map(|row| row.expect("a row")).collect()
            }
        }
    }

    /// A row as an event has it.
    async fn image(&self, columns: &[String], id: usize) -> Option<String> {
        let rows =
            self.rows(&format!("SELECT {} FROM t WHERE id = {id}", columns.join(", "))).await;
        rows.first().map(|row| object(columns.iter().map(String::as_str), row))
    }
}

/// A value of SQLite as JSON.
fn value(value: ValueRef<'_>) -> Box<RawValue> {
    let json = match value {
        ValueRef::Null => "null".to_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) if number.is_finite() => format!("{number:?}"),
        ValueRef::Real(number) => {
            format!("\"{}Infinity\"", if number > 0.0 { "" } else { "-" })
        }
        ValueRef::Text(text) => serde_json::Value::from(String::from_utf8_lossy(text)).to_string(),
        ValueRef::Blob(bytes) => format!("\"{}\"", STANDARD.encode(bytes)),
    };
    RawValue::from_string(json).expect("JSON")
}

/// The values of an object in their order, whatever their names. Zero has one sign in events.
fn members(json: &str) -> Vec<Box<RawValue>> {
    struct Members;
    impl<'de> serde::de::Visitor<'de> for Members {
        type Value = Vec<Box<RawValue>>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<M: serde::de::MapAccess<'de>>(
            self,
            mut map: M,
        ) -> Result<Self::Value, M::Error> {
            let mut values = Vec::new();
            while let Some((_, value)) = map.next_entry::<String, Box<RawValue>>()? {
                let zero = RawValue::from_string("0".to_owned()).expect("JSON");
                values.push(if value.get() == "-0" { zero } else { value });
            }
            Ok(values)
        }
    }
    let mut reader = serde_json::Deserializer::from_str(json);
    serde::Deserializer::deserialize_map(&mut reader, Members).expect("an object")
}

fn object<'a>(names: impl Iterator<Item = &'a str>, values: &[Box<RawValue>]) -> String {
    let mut text = String::new();
    for (name, value) in names.zip(values) {
        let begin = if text.is_empty() { '{' } else { ',' };
        write!(text, "{begin}{}:{}", serde_json::Value::from(name), value.get()).expect("a string");
    }
    text.push('}');
    text
}

fn shape(dialect: Dialect, specs: &[Spec]) -> TableShape {
    let column = |name: &str, type_name: &str, collation: Option<&str>, scale| ShapeColumn {
        column: Column {
            name: name.to_owned(),
            type_name: type_name.to_owned(),
            collation: collation.map(str::to_owned),
        },
        generated: false,
        scale,
        json_text: false,
    };
    let (id, sql_name) = match dialect {
        Dialect::Postgres => ("int4", "\"public\".\"t\""),
        Dialect::Sqlite => ("INTEGER", "\"t\""),
    };
    let mut columns = vec![column("id", id, None, None)];
    columns.extend(specs.iter().map(|Spec(name, sql, type_name, collation, _)| {
        column(name, type_name, *collation, (*sql == "numeric(12,2)").then_some(2))
    }));
    TableShape {
        name: "t".to_owned(),
        sql_name: sql_name.to_owned(),
        columns,
        key: vec!["id".to_owned()],
        host_column: None,
        fingerprint: 1,
        row_security: false,
        inherited: false,
    }
}

/// Someone who follows a query.
struct Follower {
    sql: &'static str,
    /// The same query with one answer.
    truth: String,
    query: Arc<Query>,
    id: Option<QueryId>,
    told: Vec<RowText>,
}

impl Follower {
    /// Whether what was told is what the database says.
    async fn check(&self, database: &Database) {
        let rows = database.rows(&self.truth).await;
        let names = || self.query.columns.iter().map(|name| &**name);
        let mut truth: Vec<String> = rows.iter().map(|row| object(names(), row)).collect();
        let mut told: Vec<String> = self.told.iter().map(ToString::to_string).collect();
        if !self.query.ordered {
            truth.sort();
            told.sort();
        }
        assert_eq!(told, truth, "{}", self.sql);
    }
}

fn follower(
    (sql, plan, tie): &(&'static str, PlanName, &'static str),
    dialect: Dialect,
    shape: &Arc<TableShape>,
) -> Follower {
    let draft = Draft::parse(sql, &[], dialect).unwrap_or_else(|why| panic!("{sql}: {why}"));
    let name = TableName { schema: None, name: "t".into() };
    let binding = Binding {
        tables: &[(name, Arc::clone(shape))],
        access: &|_| Access::default(),
        caller: &(),
        limits: LIMITS,
    };
    let query = draft.bind(&binding).unwrap_or_else(|why| panic!("{sql}: {why}"));
    assert_eq!(query.plan.name(), *plan, "{sql}: {:?}", query.why);
    let (before, after) = match sql.find(" LIMIT").or_else(|| sql.find(" OFFSET")) {
        Some(at) => sql.split_at(at),
        None => (*sql, ""),
    };
    let truth = format!("{before}{tie}{after}");
    Follower { sql, truth, query: Arc::new(query), id: None, told: Vec::new() }
}

/// Who follows a query.
fn of(followers: &mut [Follower], query: QueryId) -> &mut Follower {
    followers.iter_mut().find(|follower| follower.id == Some(query)).expect("a follower")
}

/// Runs what the engine asks for, and notes what it tells.
async fn attend(
    engine: &mut Engine,
    out: &mut Vec<Output>,
    followers: &mut [Follower],
    database: &Database,
) -> usize {
    let mut asked = 0;
    while !out.is_empty() {
        for output in std::mem::take(out) {
            match output {
                Output::Ask { ask, sql, .. } => {
                    asked += 1;
                    let rows = database.rows(&sql).await;
                    let tip = engine.position();
                    let rows = Rows { tip, snapshot: Snapshot::Position, settled: true, rows };
                    engine.rows(ask, Ok(rows), out);
                }
                Output::Begin { to, rows, .. } => {
                    let tidewire_query::Recipients::Only(query, _) = to else { panic!("{to:?}") };
                    of(followers, query).told = rows.to_vec();
                }
                Output::Change { to, delta, .. } => {
                    let tidewire_query::Recipients::All(query) = to else { panic!("{to:?}") };
                    let follower = of(followers, query);
                    let told = delta.apply(&follower.told);
                    follower.told = told.unwrap_or_else(|why| panic!("{}: {why}", follower.sql));
                }
                Output::Settled { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }
    asked
}

fn write(random: &mut StdRng, specs: &[Spec], id: usize, is_there: bool) -> (Kind, String) {
    let mut value = |Spec(name, .., values): &Spec| {
        let value = match random.random_bool(0.12) {
            true => "NULL",
            false => values.choose(random).expect("a value"),
        };
        (*name, value)
    };
    let values: Vec<(&str, &str)> = specs.iter().map(&mut value).collect();
    if !is_there {
        let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
        let values: Vec<&str> = values.iter().map(|(_, value)| *value).collect();
        let (names, values) = (names.join(", "), values.join(", "));
        return (Kind::Insert, format!("INSERT INTO t (id, {names}) VALUES ({id}, {values})"));
    }
    if random.random_bool(0.45) {
        return (Kind::Delete, format!("DELETE FROM t WHERE id = {id}"));
    }
    let some = random.random_range(1..=values.len());
    let sets =
        values.choose_multiple(random, some).map(|(name, value)| format!("{name} = {value}"));
    let sets = sets.collect::<Vec<_>>().join(", ");
    (Kind::Update, format!("UPDATE t SET {sets} WHERE id = {id}"))
}

async fn follow(database: Database, dialect: Dialect) {
    let (specs, queries) = match dialect {
        Dialect::Postgres => (POSTGRES, OF_POSTGRES),
        Dialect::Sqlite => (SQLITE, OF_SQLITE),
    };
    let declared = specs.iter().map(|Spec(name, sql, ..)| format!("{name} {sql}"));
    let declared = declared.collect::<Vec<_>>().join(", ");
    database.run(&format!("CREATE TABLE t (id integer PRIMARY KEY, {declared})")).await;
    let shape = Arc::new(shape(dialect, specs));
    let columns: Vec<String> = shape.columns.iter().map(|it| it.column.name.clone()).collect();
    let mut random = judge::random();
    for id in 0..ROWS / 2 {
        let (_, sql) = write(&mut random, specs, id, false);
        database.run(&sql).await;
    }
    let mut engine = Engine::new(OPTIONS, Position(0));
    let followers = queries.iter().map(|query| follower(query, dialect, &shape));
    // What is run again has more than one answer: which of 1.5 and 1.50 is shown, how floats are summed.
    let mut followers: Vec<Follower> =
        followers.filter(|it| it.query.plan.name() != PlanName::Requery).collect();
    let mut out = Vec::new();
    for (who, follower) in (0..).map(Subscriber).zip(&mut followers) {
        follower.id = Some(engine.subscribe(Arc::clone(&follower.query), who, &mut out));
    }
    attend(&mut engine, &mut out, &mut followers, &database).await;
    let mut refills = 0;
    for change in 1..=CHANGES {
        let id = random.random_range(0..ROWS);
        let before = database.image(&columns, id).await;
        let (kind, sql) = write(&mut random, specs, id, before.is_some());
        database.run(&sql).await;
        let after = database.image(&columns, id).await;
        let bytes = |image: &'_ Option<String>| image.as_ref().map(|it| it.clone().into_bytes());
        let (before, after) = (bytes(&before), bytes(&after));
        let (before, after) = (before.as_deref(), after.as_deref());
        let at = u64::try_from(change).expect("a number");
        let change = Some(Change { table: "t", kind, before, after });
        let txid = i64::try_from(at).ok();
        engine.apply(&Event { at: Position(at), txid, tx_last: true, change }, &mut out);
        refills += attend(&mut engine, &mut out, &mut followers, &database).await;
        for follower in &followers {
            follower.check(&database).await;
        }
    }
    assert!(refills > 0, "no window ran dry");
    let demoted = engine.stats().demotions;
    assert_eq!(demoted, 0, "queries became re-queries");
    if let Database::Postgres(sql) = database {
        drop(sql);
    }
}

#[tokio::test]
async fn windows_and_groups_are_what_postgres_says() {
    let url = fresh_database().await;
    let sql = Sql::connect(&url).await.expect("a connection");
    sql.batch_execute("SET TimeZone = 'UTC'").await.expect("a setting");
    follow(Database::Postgres(sql), Dialect::Postgres).await;
    drop_database(&url).await;
}

#[tokio::test]
async fn windows_and_groups_are_what_sqlite_says() {
    let sqlite = Connection::open_in_memory().expect("a database");
    follow(Database::Sqlite(sqlite), Dialect::Sqlite).await;
}
