//! Whether initial rows and changes are what the query gives when it is run again, at every place
//! that is reported for it (invariants Q1 to Q3).
//!
//! Random tables, rows, queries and transactions on real stores; the engine is driven as a node drives
//! it, but one step at a time, with every delay that there can be. At each place of the log that a
//! client was told, the tables are made anew from the log's images alone, the database is asked what
//! the client asked, and the client must have that. What was compared is counted by construct, plan
//! and kind of hand-over; what was never compared fails.
//!
//! `TIDEWIRE_ORACLE_SEED` plays the history of one seed; `TIDEWIRE_ORACLE_MINUTES` goes on for so long;
//! `TIDEWIRE_ORACLE_REFUSALS` says which queries were refused, by us or by the database.
//! A failure is cut down and written to `tests/oracle/regressions`, whose cases are played first.

mod case;
mod client;
mod columns;
mod conjuncts;
mod driver;
mod fixture;
mod history;
mod joins;
mod row;
mod selects;
mod shadow;
mod shrink;
mod verdict;

use std::time::{Duration, Instant};

use tidewire_capture::Source;

use case::Case;
use columns::Sort;
use fixture::Fixture;
use verdict::Verdict;

/// Queries with a history that are compared on SQLite, and on each way of capturing PostgreSQL.
const SQLITE_CASES: u64 = 1_000;
const POSTGRES_CASES: u64 = 500;
/// The first history's seed; the others follow.
const FIRST_SEED: u64 = 1;
/// Queries of a history that are compared at least, on the whole.
const OF_HISTORY_MIN: u64 = 10;

fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")))
}

/// Plays histories until there were enough of them.
async fn judge(mut fixture: Fixture, on: &'static str, wanted: u64) {
    let mut verdict = Verdict::new(on, fixture.sort);
    for case in shrink::regressions(on) {
        verdict.play(&mut fixture, &case).await;
    }
    let minutes =
        setting("TIDEWIRE_ORACLE_MINUTES").map(|minutes| Duration::from_secs(60 * minutes));
    let one = setting("TIDEWIRE_ORACLE_SEED");
    let began = Instant::now();
    // Whoever goes on for long wants other histories than those of every run.
    let first = minutes.map_or(FIRST_SEED, |_| rand::random_range(1_000..1 << 40));
    let mut seed = one.unwrap_or(first);
    eprintln!("live queries on {on}, from TIDEWIRE_ORACLE_SEED={seed}");
    loop {
        let case: Case = history::case(seed, fixture.sort);
        verdict.play(&mut fixture, &case).await;
        seed += 1;
        let enough = match minutes {
            Some(minutes) => began.elapsed() >= minutes,
            None => verdict.cases() >= wanted,
        };
        let too_few = minutes.is_none() && (seed - first) * OF_HISTORY_MIN > wanted;
        assert!(!too_few || one.is_some(), "only {} were compared on {on}", verdict.cases());
        if enough || one.is_some() || verdict.has_failed() {
            break;
        }
    }
    fixture.strike().await;
    verdict.tell(one.is_none());
}

#[tokio::test]
async fn live_queries_are_what_sqlite_says() {
    judge(Fixture::sqlite().await, "sqlite", SQLITE_CASES).await;
}

#[tokio::test]
async fn live_queries_are_what_postgres_says_by_triggers() {
    judge(Fixture::postgres(Source::Outbox).await, "outbox", POSTGRES_CASES).await;
}

#[tokio::test]
async fn live_queries_are_what_postgres_says_by_its_log() {
    judge(Fixture::postgres(Source::Wal).await, "wal", POSTGRES_CASES).await;
}

/// A generator that has gone blind would find nothing.
#[test]
fn queries_of_every_kind_are_made() {
    for sort in [Sort::Sqlite, Sort::Postgres] {
        let mut found = std::collections::BTreeSet::new();
        for seed in 0..60 {
            let case = history::case(seed, sort);
            found.extend(case.queries.into_iter().flat_map(|query| query.constructs));
        }
        for construct in verdict::constructs(sort) {
            assert!(found.contains(construct), "no query has {construct} for {sort:?}");
        }
        for construct in &found {
            let known = verdict::constructs(sort).contains(&construct.as_str());
            assert!(known, "{construct} is not counted for {sort:?}");
        }
    }
}

/// Most of what is made is SQL: what the database refuses is compared with nothing.
#[test]
fn most_queries_are_sql_to_sqlite() {
    let mut asked = Asked::default();
    for seed in 0..40 {
        let case = history::case(seed, Sort::Sqlite);
        let memory = rusqlite::Connection::open_in_memory().expect("a database");
        for table in &case.tables {
            memory.execute_batch(&table.create(Sort::Sqlite, "TABLE")).expect("a table");
        }
        for query in &case.queries {
            let answer = memory.prepare(&query.truth()).map(drop);
            asked.count(&query.truth(), answer.map_err(|error| error.to_string()));
        }
    }
    asked.judge();
}

#[tokio::test]
async fn most_queries_are_sql_to_postgres() {
    let database = tidewire_store_postgres::testing::fresh_database().await;
    let sql = database.connect().await;
    let mood = "CREATE TYPE mood AS ENUM ('sad', 'fine', 'glad')";
    sql.batch_execute(mood).await.expect("a type");
    let mut asked = Asked::default();
    for seed in 0..20 {
        let case = history::case(seed, Sort::Postgres);
        for table in &case.tables {
            let create = table.create(Sort::Postgres, "TEMPORARY TABLE");
            sql.batch_execute(&create).await.unwrap_or_else(|error| panic!("{create}: {error:?}"));
        }
        for query in &case.queries {
            let answer = sql.prepare(&query.truth()).await.map(drop);
            asked.count(&query.truth(), answer.map_err(|error| format!("{error:?}")));
        }
        for table in &case.tables {
            sql.batch_execute(&format!("DROP TABLE {}", table.name)).await.expect("it was there");
        }
    }
    drop(sql);
    database.drop_database().await;
    asked.judge();
}

/// What a database took for SQL.
#[derive(Default)]
struct Asked {
    good: usize,
    bad: Vec<String>,
}

impl Asked {
    fn count(&mut self, query: &str, answer: Result<(), String>) {
        match answer {
            Ok(()) => self.good += 1,
            Err(error) => self.bad.push(format!("{query}\n    {error}")),
        }
    }

    fn judge(&self) {
        let bad = self.bad.len();
        assert!(bad * 5 < self.good, "{bad} beside {}:\n{}", self.good, self.bad.join("\n"));
    }
}
