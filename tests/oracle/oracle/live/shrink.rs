//! Cuts a case that fails down to what it needs, and keeps it for ever.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::case::{Case, Compare, Select, Step};
use super::fixture::Fixture;
use super::verdict::{Failure, play};
use crate::tally::Tally;

/// How long a case is cut down.
const TIME_MAX: Duration = Duration::from_secs(120);

/// A case that has failed once, as it is written down.
#[derive(Debug, Serialize, Deserialize)]
struct Regression {
    /// Where it failed: `sqlite`, `outbox` or `wal`.
    on: String,
    /// What was wrong.
    why: String,
    case: Case,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("regressions")
}

/// What has failed once on a store.
pub(crate) fn regressions(on: &str) -> Vec<Case> {
    let Ok(entries) = std::fs::read_dir(folder()) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a file").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("a readable file");
        let found: Result<Regression, _> = serde_json::from_str(&text);
        found.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let all = paths.into_iter().map(read).filter(|regression| regression.on == on);
    all.map(|regression| regression.case).collect()
}

/// Writes a case down. Where.
pub(crate) fn write(on: &str, case: &Case, why: &str) -> String {
    let regression = Regression { on: on.to_owned(), why: why.to_owned(), case: case.clone() };
    let text = serde_json::to_string_pretty(&regression).expect("a case is data");
    let name = format!("{on}-{}.json", case.seed);
    std::fs::create_dir_all(folder()).expect("a folder");
    std::fs::write(folder().join(&name), text + "\n").expect("it can be written");
    format!("tests/oracle/regressions/{name}")
}

/// The smallest case that was found to fail still. None if it fails only now and then.
pub(crate) async fn shrink(
    fixture: &mut Fixture,
    case: &Case,
    failure: Failure,
) -> Option<(Case, Failure)> {
    let mut shrinker =
        Shrinker { fixture, until: Instant::now() + TIME_MAX, best: case.clone(), failure };
    if !shrinker.attempt(case.clone()).await {
        return None;
    }
    if let Some(query) = shrinker.failure.query {
        shrinker.attempt(alone(case, query)).await;
    }
    let mut size = shrinker.best.steps.len() / 2;
    while size > 0 {
        let mut at = 0;
        while at < shrinker.best.steps.len() {
            let mut smaller = shrinker.best.clone();
            let end = (at + size).min(smaller.steps.len());
            smaller.steps.drain(at..end);
            if !shrinker.attempt(smaller).await {
                at += size;
            }
        }
        size /= 2;
    }
    shrinker.clauses().await;
    Some((shrinker.best, shrinker.failure))
}

struct Shrinker<'a> {
    fixture: &'a mut Fixture,
    until: Instant,
    best: Case,
    failure: Failure,
}

impl Shrinker<'_> {
    /// Whether a case fails too; then it is the best so far.
    async fn attempt(&mut self, case: Case) -> bool {
        if Instant::now() > self.until {
            return false;
        }
        match play(self.fixture, &case, &mut Tally::default()).await {
            Ok(_) => false,
            Err(failure) => {
                self.best = case;
                self.failure = failure;
                true
            }
        }
    }

    /// Leaves out parts of the query.
    async fn clauses(&mut self) {
        let [query] = &self.best.queries[..] else { return };
        for (part, count) in [
            query.conjuncts.len(),
            query.having.len(),
            query.order.len(),
            query.select.len(),
            query.group.len(),
            1,
            1,
        ]
        .into_iter()
        .enumerate()
        {
            for at in (0..count).rev() {
                let mut smaller = self.best.clone();
                if leave_out(&mut smaller.queries[0], part, at) {
                    self.attempt(smaller).await;
                }
            }
        }
        let mut smaller = self.best.clone();
        let text = smaller.queries[0].truth();
        smaller.tables.retain(|table| text.contains(&table.name));
        self.attempt(smaller).await;
    }
}

fn leave_out(query: &mut Select, part: usize, at: usize) -> bool {
    let list = match part {
        0 => &mut query.conjuncts,
        1 => &mut query.having,
        // An order that says less would leave more to chance.
        2 if query.compare == Compare::Rows => &mut query.order,
        3 if query.select.len() > 1 => &mut query.select,
        4 => &mut query.group,
        5 => return query.limit.take().is_some(),
        6 => return query.offset.take().is_some(),
        _ => return false,
    };
    list.remove(at);
    true
}

/// The case with one of its queries.
fn alone(case: &Case, query: usize) -> Case {
    let step = |step: &Step| match step {
        Step::Subscribe(at) => (*at == query).then_some(Step::Subscribe(0)),
        Step::Leave(at) => (*at == query).then_some(Step::Leave(0)),
        Step::Return(at) => (*at == query).then_some(Step::Return(0)),
        Step::Again(at) => (*at == query).then_some(Step::Again(0)),
        other => Some(other.clone()),
    };
    let mut alone = case.clone();
    alone.queries = vec![case.queries[query].clone()];
    alone.steps = case.steps.iter().filter_map(step).collect();
    alone
}
