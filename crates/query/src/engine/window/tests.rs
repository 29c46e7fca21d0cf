//! A window equals the first rows of all that there are, whatever happens to them.

use proptest::prelude::*;

use super::*;
use crate::plan::sample;
use crate::plan::window::plan;
use crate::table::Dialect;

/// A row of `t`: the key, what is sorted by, and what else is seen.
#[derive(Debug, Clone, PartialEq)]
struct Model {
    id: i64,
    rank: Option<i64>,
    note: String,
}

impl Model {
    fn json(&self) -> String {
        let rank = self.rank.map_or("null".to_owned(), |rank| rank.to_string());
        format!(r#"{{"id":{},"rank":{rank},"note":"{}"}}"#, self.id, self.note)
    }

    fn read(&self, window: &Window) -> Vec<Box<RawValue>> {
        let json = self.json();
        let row = Row::parse(json.as_bytes()).expect("an object");
        let values = window.plan.read.iter().map(|name| row.get(name).expect("a column"));
        values.map(ToOwned::to_owned).collect()
    }
}

#[derive(Debug, Clone)]
enum TestStep {
    Insert(Option<i64>, u8),
    Update(usize, Option<i64>, u8),
    Rename(usize),
    Delete(usize),
    Tell,
    Load,
}

fn rank() -> impl Strategy<Value = Option<i64>> {
    prop_oneof![1 => Just(None), 6 => (0_i64..12).prop_map(Some)]
}

fn step() -> impl Strategy<Value = TestStep> {
    prop_oneof![
        6 => (rank(), 0_u8..3).prop_map(|(rank, note)| TestStep::Insert(rank, note)),
        5 => (0_usize..100, rank(), 0_u8..3).prop_map(|(at, rank, note)| TestStep::Update(at, rank, note)),
        1 => (0_usize..100).prop_map(TestStep::Rename),
        5 => (0_usize..100).prop_map(TestStep::Delete),
        6 => Just(TestStep::Tell),
        1 => Just(TestStep::Load),
    ]
}

const QUERIES: [&str; 7] = [
    "SELECT * FROM t ORDER BY rank LIMIT 4",
    "SELECT note FROM t ORDER BY rank DESC LIMIT 3 OFFSET 2",
    "SELECT note FROM t ORDER BY rank NULLS FIRST, note DESC LIMIT 1",
    "SELECT id, 1 AS one FROM t ORDER BY note, rank DESC NULLS LAST",
    "SELECT id FROM t ORDER BY id DESC LIMIT 5 OFFSET 1",
    "SELECT note, rank FROM t ORDER BY note OFFSET 3",
    "SELECT id FROM t ORDER BY rank LIMIT 98",
];

/// The rows of the model in the order of one of the queries.
fn sorted(query: usize, rows: &[Model]) -> Vec<Model> {
    let mut rows = rows.to_vec();
    let last = |rank: Option<i64>| (rank.is_none(), rank);
    let reversed = |rank: Option<i64>| std::cmp::Reverse(rank.unwrap_or(i64::MAX));
    rows.sort_by(|a, b| {
        let order = match query {
            0 | 6 => last(a.rank).cmp(&last(b.rank)),
            1 => reversed(a.rank).cmp(&reversed(b.rank)),
            2 => a.rank.cmp(&b.rank).then_with(|| b.note.cmp(&a.note)),
            3 => {
                let rank = |rank: Option<i64>| (rank.is_none(), std::cmp::Reverse(rank));
                a.note.cmp(&b.note).then_with(|| rank(a.rank).cmp(&rank(b.rank)))
            }
            4 => b.id.cmp(&a.id),
            _ => a.note.cmp(&b.note),
        };
        let all = |row: &Model| (row.id, last(row.rank), row.note.clone());
        order.then_with(|| all(a).cmp(&all(b)))
    });
    rows
}

fn follow(query: usize, steps: &[TestStep], keyed: bool) -> Result<(), TestCaseError> {
    let key: &[&str] = if keyed { &["id"] } else { &[] };
    let shape = sample::table(&["id int8", "rank int4", "note text C"], key);
    let (plan, _) =
        sample::with(QUERIES[query], &shape, Dialect::Postgres, plan).expect("a window");
    let names: Vec<Box<str>> = (0..plan.shown.len()).map(|at| format!("c{at}").into()).collect();
    let mut window = Window::new(&plan, &names);
    let mut rows: Vec<Model> = Vec::new();
    let mut told: Vec<RowText> = Vec::new();
    let mut next_id = 0;
    let load = |window: &mut Window, rows: &[Model]| {
        let sorted = sorted(query, rows);
        let kept = plan.kept.unwrap_or(usize::MAX);
        let read: Vec<_> = sorted.iter().take(kept).map(|row| row.read(window)).collect();
        window.load(&read).expect("rows in order");
    };
    load(&mut window, &rows);
    let note = |note: u8| format!("n{note}");
    for step in steps.iter().chain(&[TestStep::Tell]) {
        let some = |at: usize| at.checked_rem(rows.len());
        let (before, after) = match step {
            TestStep::Insert(rank, text) => {
                // Rows without a key may be there twice.
                next_id += i64::from(keyed || *text == 0);
                (None, Some(Model { id: next_id, rank: *rank, note: note(*text) }))
            }
            TestStep::Update(at, rank, text) => match some(*at) {
                None => continue,
                Some(at) => {
                    let after = Model { id: rows[at].id, rank: *rank, note: note(*text) };
                    (Some(at), Some(after))
                }
            },
            TestStep::Rename(at) => match some(*at) {
                None => continue,
                Some(at) => {
                    next_id += 1;
                    (Some(at), Some(Model { id: next_id, ..rows[at].clone() }))
                }
            },
            TestStep::Delete(at) => match some(*at) {
                None => continue,
                Some(at) => (Some(at), None),
            },
            TestStep::Tell => {
                let delta = match window.tell() {
                    Ok(delta) => delta,
                    Err(lost) => {
                        prop_assert_eq!(lost, StateError::Dry);
                        load(&mut window, &rows);
                        window.tell().expect("enough was read")
                    }
                };
                told = delta.apply(&told).expect("it is of what was told");
                let all = sorted(query, &rows).into_iter().map(|row| {
                    let values = row.read(&window);
                    let values: Vec<&str> = values.iter().map(|value| value.get()).collect();
                    window.entry([].into(), &values).text.clone()
                });
                let seen = all.skip(plan.limits.skip).take(plan.limits.take.unwrap_or(usize::MAX));
                let seen: Vec<RowText> = seen.collect();
                prop_assert_eq!(&told, &seen);
                prop_assert_eq!(window.result().expect("it was told"), seen);
                prop_assert!(window.tell().expect("it was told").is_empty());
                for (old, new) in &delta.updated {
                    prop_assert!(keyed, "without a key {} is not {}", old, new);
                }
                continue;
            }
            TestStep::Load => {
                load(&mut window, &rows);
                continue;
            }
        };
        let before_json = before.map(|at| rows[at].json());
        let after_json = after.as_ref().map(Model::json);
        let old =
            before_json.as_deref().map(|json| Row::parse(json.as_bytes()).expect("an object"));
        let new = after_json.as_deref().map(|json| Row::parse(json.as_bytes()).expect("an object"));
        window.change(old.as_ref(), new.as_ref()).expect("images are whole");
        match (before, after) {
            (Some(at), Some(after)) => rows[at] = after,
            (Some(at), None) => drop(rows.swap_remove(at)),
            (None, Some(after)) => rows.push(after),
            (None, None) => {}
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn a_window_equals_the_sorted_prefix(
        query in 0..QUERIES.len(),
        steps in prop::collection::vec(step(), 0..80),
    ) {
        follow(query, &steps, true)?;
    }

    #[test]
    fn so_does_one_of_rows_that_nothing_tells_apart(
        query in 0..QUERIES.len(),
        steps in prop::collection::vec(step(), 0..80),
    ) {
        follow(query, &steps, false)?;
    }
}
