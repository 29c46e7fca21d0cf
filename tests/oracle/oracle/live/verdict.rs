//! Plays cases, compares what clients have with what the database says, and counts.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use tidewire_query::{PlanName, Position};

use super::case::{Case, Compare};
use super::columns::Sort;
use super::driver::{Driver, Report};
use super::fixture::Fixture;
use super::row::{Canonical, canonical};
use super::shadow::Shadow;
use super::shrink;
use crate::tally::Tally;

/// What queries can have in them, in both dialects.
const CONSTRUCTS: [&str; 54] = [
    "=",
    "<>",
    "<",
    "AND",
    "OR",
    "NOT",
    "BETWEEN",
    "IN",
    "LIKE",
    "IS NULL",
    "IS DISTINCT FROM",
    "CASE",
    "COALESCE",
    "cast",
    "JSON operator",
    "arithmetic",
    "function",
    "parameter",
    "identity",
    "generated",
    "star",
    "alias",
    "literal",
    "ORDER BY",
    "DESC",
    "NULLS",
    "LIMIT",
    "OFFSET",
    "ties",
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "GROUP BY",
    "HAVING",
    "inner join",
    "left join",
    "self join",
    "IN subquery",
    "EXISTS",
    "scalar subquery",
    "CTE",
    "recursive CTE",
    "UNION",
    "UNION ALL",
    "INTERSECT",
    "EXCEPT",
    "DISTINCT",
    "window function",
    "rule",
    "tenants",
    "no key",
    "hidden column",
];
/// Those that one of them has not.
const OF_POSTGRES: [&str; 3] = ["ILIKE", "lateral", "DISTINCT ON"];
const KEY_OF_TWO: &str = "key of two";

/// What is counted for a database.
pub(crate) fn constructs(sort: Sort) -> Vec<&'static str> {
    let mut all = CONSTRUCTS.to_vec();
    all.push(KEY_OF_TWO);
    if sort == Sort::Postgres {
        all.extend(OF_POSTGRES);
    }
    all
}

/// What went wrong, and with which query if it was one.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) query: Option<usize>,
    pub(crate) message: String,
}

/// What was compared on one store.
pub(crate) struct Verdict {
    on: &'static str,
    tally: Tally,
    cases: u64,
    failures: Vec<String>,
}

/// Says which history it was if the engine gives up in the middle of it.
struct Seed(&'static str, u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("on {}, in the history of TIDEWIRE_ORACLE_SEED={}", self.0, self.1);
        }
    }
}

impl Verdict {
    pub(crate) fn new(on: &'static str, sort: Sort) -> Verdict {
        let mut tally = Tally::default();
        tally.expect("construct", &constructs(sort));
        tally.expect("plan", &["filter", "window", "aggregate", "requery"]);
        tally.expect("hand-over", &["begin", "refill", "requery", "again", "resumed"]);
        tally.expect("told", &["change"]);
        // What PostgreSQL's columns hold is always of their types, and its log is never the database.
        if sort == Sort::Sqlite {
            tally.expect("hand-over", &["demoted"]);
        }
        if on != "wal" {
            tally.expect("hand-over", &["settled at once"]);
        }
        if sort == Sort::Postgres {
            tally.expect("hand-over", &["settled by a mark", "begun without a position"]);
            tally.expect("told", &["settled"]);
        }
        Verdict { on, tally, cases: 0, failures: Vec::new() }
    }

    /// Queries with a history that were compared.
    pub(crate) fn cases(&self) -> u64 {
        self.cases
    }

    pub(crate) fn has_failed(&self) -> bool {
        !self.failures.is_empty()
    }

    /// Plays a case; what fails is cut down and written down.
    pub(crate) async fn play(&mut self, fixture: &mut Fixture, case: &Case) {
        let seed = Seed(self.on, case.seed);
        let failure = match play(fixture, case, &mut self.tally).await {
            Ok(compared) => {
                self.cases += compared;
                return;
            }
            Err(failure) => failure,
        };
        let message = failure.message.clone();
        let (small, message) = match shrink::shrink(fixture, case, failure).await {
            Some((small, failure)) => (small, failure.message),
            None => (case.clone(), message),
        };
        let file = shrink::write(self.on, &small, &message);
        self.failures.push(format!(
            "TIDEWIRE_ORACLE_SEED={}, cut down to {} steps in {file}:\n{message}",
            case.seed,
            small.steps.len()
        ));
        drop(seed);
    }

    /// Says what was compared, and fails if anything differed or was never compared.
    pub(crate) fn tell(self, whole: bool) {
        eprintln!("live queries on {}: {} compared\n{}", self.on, self.cases, self.tally);
        assert!(self.failures.is_empty(), "{}", self.failures.join("\n\n"));
        let zeros = self.tally.zeros();
        assert!(!whole || zeros.is_empty(), "never compared on {}: {zeros:?}", self.on);
    }
}

/// Plays a case. How many of its queries were compared.
pub(crate) async fn play(
    fixture: &mut Fixture,
    case: &Case,
    tally: &mut Tally,
) -> Result<u64, Failure> {
    fixture.set(&case.tables).await;
    let played = play_on(fixture, case, tally).await;
    fixture.clear(&case.tables).await;
    played
}

async fn play_on(fixture: &mut Fixture, case: &Case, tally: &mut Tally) -> Result<u64, Failure> {
    let mut driver = Driver::new(case, fixture, tally).await;
    let mut told = Ok(());
    for step in &case.steps {
        told = driver.step(step).await;
        if told.is_err() {
            break;
        }
    }
    if told.is_ok() {
        told = driver.finish().await;
    }
    let (events, reports) =
        (std::mem::take(&mut driver.events), std::mem::take(&mut driver.reports));
    drop(driver);
    if let Err(message) = told {
        let query = message.strip_prefix("query ").and_then(|rest| rest.split_once(' '));
        let query = query.and_then(|(number, _)| number.parse().ok());
        return Err(Failure { query, message });
    }
    let mut shadow = Shadow::new(fixture, &case.tables).await;
    let mut by_position: BTreeMap<Position, Vec<Report>> = BTreeMap::new();
    for report in reports {
        by_position.entry(report.position).or_default().push(report);
    }
    let mut compared: BTreeMap<usize, BTreeSet<PlanName>> = BTreeMap::new();
    let of_log = |message| Failure { query: None, message };
    for (position, reports) in by_position {
        shadow.advance(&events, position).await.map_err(of_log)?;
        compare(&shadow, case, &reports, &mut compared, tally).await?;
    }
    shadow.advance(&events, Position(u64::MAX)).await.map_err(of_log)?;
    shadow.compare_with_tables(fixture).await.map_err(of_log)?;
    for (query, plans) in &compared {
        for plan in plans {
            tally.add("plan", plan.as_str(), 1);
        }
        for construct in constructs(case.sort) {
            let has = case.queries[*query].constructs.iter().any(|known| known == construct);
            tally.add("construct", construct, u64::from(has));
        }
    }
    Ok(u64::try_from(compared.len()).expect("a count"))
}

/// Compares what clients had at a place with what the database says of it.
async fn compare(
    shadow: &Shadow<'_>,
    case: &Case,
    reports: &[Report],
    compared: &mut BTreeMap<usize, BTreeSet<PlanName>>,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let mut answers: BTreeMap<usize, Result<Vec<Canonical>, String>> = BTreeMap::new();
    for report in reports {
        let query = &case.queries[report.query];
        let answer = match answers.entry(report.query) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(shadow.answer(&query.truth()).await),
        };
        let truth = match answer {
            Ok(truth) => truth,
            Err(error) => {
                tally.add("query", "failed at a position", 1);
                if std::env::var("TIDEWIRE_ORACLE_REFUSALS").is_ok() {
                    eprintln!("no truth: {}\n    {error}", query.truth());
                }
                continue;
            }
        };
        let told: Vec<Canonical> = report.rows.iter().map(|row| canonical(row)).collect();
        let is_list = match query.compare {
            Compare::List => true,
            Compare::Ties => matches!(report.plan, PlanName::Window | PlanName::Aggregate),
            Compare::Rows | Compare::Count => false,
        };
        let by_count =
            query.compare == Compare::Count || query.compare == Compare::Ties && !is_list;
        let equal = if is_list {
            told == *truth
        } else if by_count {
            told.len() == truth.len()
        } else {
            sorted(&told) == sorted(truth)
        };
        tally.add("told", if by_count { "counted" } else { "compared" }, 1);
        compared.entry(report.query).or_default().insert(report.plan);
        if !equal {
            let message = format!(
                "query {} ({}) of {:?} at {}:\n  {}\n  has\n    {}\n  and should have\n    {}",
                report.query,
                report.plan,
                report.who,
                report.position.0,
                query.client(case.sort).0,
                told.join("\n    "),
                truth.join("\n    ")
            );
            return Err(Failure { query: Some(report.query), message });
        }
    }
    Ok(())
}

fn sorted(rows: &[Canonical]) -> Vec<&Canonical> {
    let mut sorted: Vec<&Canonical> = rows.iter().collect();
    sorted.sort();
    sorted
}
