//! Groups equal a recount of all rows, whatever happens to them.

use proptest::prelude::*;

use super::*;
use crate::plan::aggregate::plan;
use crate::plan::sample;
use crate::table::Dialect;

/// A row of `t`.
#[derive(Debug, Clone, PartialEq)]
struct Model {
    status: Option<u8>,
    n: Option<i32>,
    cents: i64,
}

impl Model {
    fn json(&self) -> String {
        let status = self.status.map_or("null".to_owned(), |status| format!("\"s{status}\""));
        let n = self.n.map_or("null".to_owned(), |n| n.to_string());
        format!(r#"{{"status":{status},"n":{n},"total":{}}}"#, money(self.cents))
    }
}

fn money(cents: i64) -> String {
    let sign = if cents < 0 { "-" } else { "" };
    format!("{sign}{}.{:02}", cents.abs() / 100, cents.abs() % 100)
}

const QUERIES: [&str; 6] = [
    "SELECT count(*), count(n), sum(n), min(n), max(n), sum(total) FROM t",
    "SELECT status, count(*), min(n), max(n) FROM t GROUP BY status",
    "SELECT status, n, count(*), sum(total) FROM t GROUP BY status, n",
    "SELECT status, sum(n) FROM t GROUP BY status HAVING count(*) > 2 AND sum(n) >= 10",
    "SELECT status, count(*) AS c, max(n) FROM t GROUP BY status ORDER BY c DESC, status LIMIT 2 OFFSET 1",
    "SELECT n, count(*) FROM t GROUP BY n HAVING count(*) > 1 ORDER BY n DESC NULLS LAST",
];

/// Rows of the model by what a query groups by.
fn partition(query: usize, rows: &[Model]) -> Vec<Vec<&Model>> {
    let name = |row: &Model| match query {
        0 => (None, None),
        2 => (row.status, row.n),
        5 => (None, row.n),
        _ => (row.status, None),
    };
    let mut groups: BTreeMap<_, Vec<&Model>> = BTreeMap::new();
    if query == 0 {
        groups.insert((None, None), Vec::new());
    }
    rows.iter().for_each(|row| groups.entry(name(row)).or_default().push(row));
    groups.into_values().collect()
}

/// What a query shows of a group, and by what it is sorted.
fn show(query: usize, rows: &[&Model]) -> Option<(String, Vec<i64>)> {
    let null = || "null".to_owned();
    let numbers: Vec<i64> = rows.iter().filter_map(|row| row.n.map(i64::from)).collect();
    let text = |number: Option<i64>| number.map_or_else(null, |number| number.to_string());
    let some = |number: i64| (!numbers.is_empty()).then_some(number);
    let (least, most) = (numbers.iter().min().copied(), numbers.iter().max().copied());
    let sum: i64 = numbers.iter().sum();
    let total: i64 = rows.iter().map(|row| row.cents).sum();
    let total = if rows.is_empty() { null() } else { money(total) };
    let status = || rows[0].status.map_or_else(null, |status| format!("\"s{status}\""));
    let n = || text(rows[0].n.map(i64::from));
    let count = i64::try_from(rows.len()).expect("few");
    let by_status = || rows[0].status.map_or(i64::MAX, i64::from);
    let (shown, sort) = match query {
        0 => {
            let (sum, least, most) = (text(some(sum)), text(least), text(most));
            (vec![count.to_string(), numbers.len().to_string(), sum, least, most, total], vec![])
        }
        1 => (vec![status(), count.to_string(), text(least), text(most)], vec![]),
        2 => (vec![status(), n(), count.to_string(), total], vec![]),
        3 => {
            let seen = count > 2 && some(sum).is_some_and(|sum| sum >= 10);
            (seen.then(|| vec![status(), sum.to_string()])?, vec![])
        }
        4 => (vec![status(), count.to_string(), text(most)], vec![-count, by_status()]),
        _ => {
            let by = rows[0].n.map_or(i64::MAX, |n| -i64::from(n));
            ((count > 1).then(|| vec![n(), count.to_string()])?, vec![by])
        }
    };
    let members = shown.iter().enumerate().map(|(at, json)| format!("\"c{at}\":{json}"));
    Some((format!("{{{}}}", members.collect::<Vec<_>>().join(",")), sort))
}

/// The result of a query over the model.
fn recount(query: usize, rows: &[Model]) -> Vec<String> {
    let groups = partition(query, rows);
    let mut shown: Vec<(String, Vec<i64>)> =
        groups.iter().filter_map(|rows| show(query, rows)).collect();
    shown.sort_by(|(left, one), (right, other)| one.cmp(other).then_with(|| left.cmp(right)));
    let texts = shown.into_iter().map(|(text, _)| text);
    if query == 4 { texts.skip(1).take(2).collect() } else { texts.collect() }
}

/// What the state SELECT would give.
fn read_state(groups: &Groups, query: usize, rows: &[Model]) -> Vec<Vec<Box<RawValue>>> {
    let row = |members: Vec<&Model>| {
        let images: Vec<String> = members.iter().map(|row| row.json()).collect();
        let images: Vec<Row<'_>> =
            images.iter().map(|json| Row::parse(json.as_bytes()).expect("an object")).collect();
        let get = |row: &Row<'_>, name: &str| row.get(name).expect("a column").get().to_owned();
        let mut values: Vec<String> =
            groups.plan.groups.iter().map(|(name, _)| get(&images[0], name)).collect();
        values.push(images.len().to_string());
        for tally in &groups.plan.tallies {
            let all = images.iter().map(|row| get(row, &tally.column));
            let all: Vec<String> = all.filter(|json| json != "null").collect();
            let of = |wanted: bool, value: Option<String>| {
                wanted.then(|| value.unwrap_or_else(|| "null".to_owned()))
            };
            let number = |json: &String| json.replace('.', "").parse::<i64>().expect("digits");
            let sum: i64 = all.iter().map(number).sum();
            let sum = if &*tally.column == "total" { money(sum) } else { sum.to_string() };
            values.push(all.len().to_string());
            let least = all.iter().min_by_key(|json| number(json)).cloned();
            let most = all.iter().max_by_key(|json| number(json)).cloned();
            values.extend(of(tally.sum.is_some(), (!all.is_empty()).then_some(sum)));
            values.extend(of(tally.least.is_some(), least));
            values.extend(of(tally.greatest.is_some(), most));
        }
        values.into_iter().map(|json| RawValue::from_string(json).expect("JSON")).collect()
    };
    partition(query, rows).into_iter().map(row).collect()
}

#[derive(Debug, Clone)]
enum TestStep {
    Change(Option<usize>, Option<Model>),
    Tell,
    Load,
}

fn model() -> impl Strategy<Value = Model> {
    let status = prop_oneof![1 => Just(None), 6 => (0_u8..4).prop_map(Some)];
    let n = prop_oneof![1 => Just(None), 4 => (-5_i32..12).prop_map(Some)];
    (status, n, -500_i64..500).prop_map(|(status, n, cents)| Model { status, n, cents })
}

fn step() -> impl Strategy<Value = TestStep> {
    prop_oneof![
        5 => model().prop_map(|row| TestStep::Change(None, Some(row))),
        4 => (0_usize..100, model()).prop_map(|(at, row)| TestStep::Change(Some(at), Some(row))),
        5 => (0_usize..100).prop_map(|at| TestStep::Change(Some(at), None)),
        6 => Just(TestStep::Tell),
        1 => Just(TestStep::Load),
    ]
}

fn start(query: &str) -> Groups {
    let columns = ["status text C", "n int4", "total numeric(2)"];
    let (plan, _) =
        sample::with(query, &sample::table(&columns, &[]), Dialect::Postgres, plan).expect(query);
    let names: Vec<Box<str>> = (0..plan.shown.len()).map(|at| format!("c{at}").into()).collect();
    Groups::new(&plan, &names)
}

fn follow(query: usize, steps: &[TestStep]) -> Result<(), TestCaseError> {
    let mut groups = start(QUERIES[query]);
    let mut rows: Vec<Model> = Vec::new();
    let mut told: Vec<RowText> = Vec::new();
    let load = |groups: &mut Groups, rows: &[Model]| {
        let read = read_state(groups, query, rows);
        groups.load(&read).expect("groups");
    };
    load(&mut groups, &rows);
    for step in steps.iter().chain(&[TestStep::Tell]) {
        match step {
            TestStep::Change(at, after) => {
                let at = match at {
                    Some(_) if rows.is_empty() => continue,
                    Some(at) => Some(at % rows.len()),
                    None => None,
                };
                let (before, json) =
                    (at.map(|at| rows[at].json()), after.as_ref().map(Model::json));
                let old = before.as_ref().map(|it| Row::parse(it.as_bytes()).expect("an object"));
                let new = json.as_ref().map(|it| Row::parse(it.as_bytes()).expect("an object"));
                groups.change(old.as_ref(), new.as_ref()).expect("images are whole");
                match (at, after) {
                    (Some(at), Some(after)) => rows[at] = after.clone(),
                    (Some(at), None) => drop(rows.swap_remove(at)),
                    (None, after) => rows.extend(after.clone()),
                }
            }
            TestStep::Load => load(&mut groups, &rows),
            TestStep::Tell => {
                let delta = match groups.tell() {
                    Ok(delta) => delta,
                    Err(lost) => {
                        prop_assert_eq!(lost, StateError::Dry);
                        load(&mut groups, &rows);
                        groups.tell().expect("all was read")
                    }
                };
                let idle = delta.updated.iter().any(|(old, new)| old == new);
                prop_assert!(delta.places.is_some() || !idle);
                told = delta.apply(&told).expect("it is of what was told");
                let mut expected = recount(query, &rows);
                let mut result: Vec<String> =
                    groups.result().expect("it was told").iter().map(ToString::to_string).collect();
                let mut told: Vec<String> = told.iter().map(ToString::to_string).collect();
                if groups.sorted.is_none() {
                    expected.sort();
                    result.sort();
                    told.sort();
                }
                prop_assert_eq!(&told, &expected);
                prop_assert_eq!(&result, &expected);
                prop_assert!(groups.tell().expect("it was told").is_empty());
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn groups_equal_a_recount(
        query in 0..QUERIES.len(),
        steps in prop::collection::vec(step(), 0..80),
    ) {
        follow(query, &steps)?;
    }
}

#[test]
fn a_group_that_no_image_can_be_of_is_unsure() {
    let mut groups = start("SELECT status, sum(n) FROM t GROUP BY status");
    groups.load(&[]).expect("nothing");
    for image in [
        r#"{"status":"a"}"#,
        r#"{"status":5,"n":1}"#,
        r#"{"status":"a","n":1.5}"#,
        r#"{"n":1,"total":1.00}"#,
    ] {
        let row = Row::parse(image.as_bytes()).expect("an object");
        assert_eq!(groups.change(None, Some(&row)), Err(StateError::Unsure), "{image}");
    }
    let row = Row::parse(br#"{"status":"b","n":1}"#).expect("an object");
    assert_eq!(groups.change(Some(&row), None), Err(StateError::Unsure), "it was never there");
}
