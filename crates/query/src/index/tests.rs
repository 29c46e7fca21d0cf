//! The index against a scan of all queries: what is true of a row, or would be if the row said more,
//! is found.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::predicate::Predicate;
use crate::shape::TenantRule;
use crate::table::{Column, Dialect, Table};

/// Columns, and what their images may have. The last of each is of another type.
type Columns = &'static [(&'static str, &'static str, &'static [&'static str])];

const POSTGRES: Columns = &[
    ("id", "int8", &["1", "2", "3", "null", "true"]),
    ("price", "numeric", &["1", "1.50", "1.5", "-2.5e3", "\"NaN\"", "null", "true"]),
    ("ratio", "float8", &["0.5", "-0.0", "0", "\"NaN\"", "\"Infinity\"", "null", "\"x\""]),
    ("code", "text", &["\"a\"", "\"b\"", "\"sixteen letters, and a\"", "null", "5"]),
    ("fixed", "bpchar", &["\"a\"", "\"a  \"", "\"b \"", "null", "5"]),
    ("active", "bool", &["true", "false", "null", "1"]),
    ("day", "date", &["\"2024-02-29\"", "\"2025-01-01\"", "null", "5"]),
    ("host", "text", &["\"7\"", "\"8\"", "null", "5"]),
];
const SQLITE: Columns = &[
    ("id", "INTEGER", &["1", "2", "3.0", "\"paid\"", "\"Infinity\"", "null", "[]"]),
    ("price", "REAL", &["1", "1.0", "1.5", "-2500.0", "\"b\"", "null", "[]"]),
    ("ratio", "NUMERIC", &["0", "0.5", "-0.0", "\"x!\"", "null", "[]"]),
    ("code", "TEXT", &["\"a\"", "\"A\"", "\"b\"", "\"sixteen letters, and a\"", "null", "5"]),
    ("nick", "TEXT", &["\"a\"", "\"A\"", "\"b\"", "null", "5"]),
    ("host", "INTEGER", &["7", "8", "null", "\"7\"", "[]"]),
];

fn table(dialect: Dialect) -> (Table, Columns) {
    let columns = match dialect {
        Dialect::Postgres => POSTGRES,
        Dialect::Sqlite => SQLITE,
    };
    let column = |(name, type_name, _): &(&str, &str, &[&str])| Column {
        name: (*name).into(),
        type_name: (*type_name).into(),
        collation: match (dialect, *name) {
            (Dialect::Sqlite, "nick") => Some("NOCASE".into()),
            (Dialect::Sqlite, _) => None,
            (Dialect::Postgres, "code" | "fixed" | "host") => Some("C".into()),
            (Dialect::Postgres, _) => None,
        },
    };
    (Table { dialect, columns: columns.iter().map(column).collect() }, columns)
}

/// A value that a condition compares a column with: from what its images may have, mostly.
fn constant(values: &'static [&'static str]) -> impl Strategy<Value = String> {
    let known = &values[..values.len() - 1];
    prop_oneof![
        9 => (0..known.len()).prop_map(move |at| match known[at].strip_prefix('"') {
            Some(text) => format!("'{}'", text.trim_end_matches('"')),
            None => known[at].to_owned(),
        }),
        1 => prop_oneof![Just("1.0".to_owned()), Just("'1'".to_owned()), Just("2.5".to_owned())],
    ]
}

fn test(columns: Columns) -> impl Strategy<Value = String> {
    (0..columns.len()).prop_flat_map(move |at| {
        let (name, _, values) = columns[at];
        let operator =
            prop_oneof!["=", "=", "=", "<>", "<", "<=", ">", ">=", "IS NOT DISTINCT FROM"];
        let value = || constant(values);
        prop_oneof![
            6 => (operator, value()).prop_map(move |(op, value)| format!("{name} {op} {value}")),
            2 => proptest::collection::vec(value(), 1..4)
                .prop_map(move |values| format!("{name} IN ({})", values.join(", "))),
            1 => proptest::collection::vec(value(), 1..3)
                .prop_map(move |values| format!("{name} NOT IN ({})", values.join(", "))),
            2 => (value(), value()).prop_map(move |(a, b)| format!("{name} BETWEEN {a} AND {b}")),
            1 => Just(format!("{name} IS NULL")),
            1 => Just(format!("{name} IS NOT NULL")),
            1 => Just(format!("{name} LIKE 'a%'")),
            1 => (value()).prop_map(move |value| format!("({name} = {value}) IS TRUE")),
            1 => (value()).prop_map(move |value| format!("({name} = {value}) IS NOT TRUE")),
        ]
    })
}

fn condition(columns: Columns) -> impl Strategy<Value = String> {
    test(columns).boxed().prop_recursive(3, 10, 3, |inner| {
        prop_oneof![
            4 => proptest::collection::vec(inner.clone(), 2..4)
                .prop_map(|parts| format!("({})", parts.join(" AND "))),
            2 => proptest::collection::vec(inner.clone(), 2..4)
                .prop_map(|parts| format!("({})", parts.join(" OR "))),
            1 => inner.prop_map(|part| format!("NOT ({part})")),
        ]
    })
}

fn tenants() -> impl Strategy<Value = Option<TenantRule>> {
    let hosts = proptest::collection::vec(prop_oneof!["7", "8", "9"], 0..3);
    proptest::option::weighted(
        0.3,
        (hosts, any::<bool>())
            .prop_map(|(hosts, shared)| TenantRule { hosts: Arc::from(hosts), shared }),
    )
}

/// Which value of each column an image has, and which columns it lacks.
fn image(columns: Columns) -> impl Strategy<Value = (Vec<usize>, Vec<bool>)> {
    let values: Vec<_> = columns.iter().map(|(_, _, values)| 0..values.len()).collect();
    (values, proptest::collection::vec(proptest::bool::weighted(0.1), columns.len()))
}

fn text(columns: Columns, values: &[usize], missing: &[bool]) -> String {
    let members = columns.iter().zip(values).zip(missing).filter(|(_, missing)| !**missing);
    let members = members.map(|(((name, _, all), at), _)| format!("\"{name}\":{}", all[*at]));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

/// An image that lacks nothing, and has another value where one is of another type. (A tenant's name
/// has none.)
fn whole(columns: Columns, values: &[usize]) -> String {
    let typed = columns
        .iter()
        .zip(values)
        .map(|((name, _, all), at)| if at + 1 == all.len() && *name != "host" { 0 } else { *at });
    text(columns, &typed.collect::<Vec<_>>(), &vec![false; columns.len()])
}

fn row(image: &str) -> Row<'_> {
    Row::parse(image.as_bytes()).expect("an object")
}

/// The queries, and for each change of a row its two images: what both have, and what they lack.
type Case = (Vec<(Vec<String>, Option<TenantRule>)>, Vec<[(Vec<usize>, Vec<bool>); 2]>);

fn case(columns: Columns) -> impl Strategy<Value = Case> {
    let query = (proptest::collection::vec(condition(columns), 0..3), tenants());
    let queries = proptest::collection::vec(query, 1..60);
    (queries, proptest::collection::vec([image(columns), image(columns)], 1..8))
}

fn check(dialect: Dialect, (queries, changes): Case) -> Result<(), TestCaseError> {
    let (table, columns) = table(dialect);
    let mut index = Index::default();
    let mut all = Vec::new();
    for (at, (texts, tenants)) in queries.iter().enumerate() {
        let predicates: Result<Vec<Predicate>, _> =
            texts.iter().map(|text| Predicate::parse(text, &table, &())).collect();
        let Ok(predicates) = predicates else { continue };
        let tenants = tenants.clone().map(|rule| ("host".into(), rule));
        let query = QueryId(u32::try_from(at / 2).expect("it is small"));
        let conditions = Conditions { predicates, tenants };
        index.insert(query, &conditions);
        all.push((query, conditions));
    }
    for round in 0..2 {
        for [before, after] in &changes {
            let texts = [before, after]
                .map(|(values, missing)| [text(columns, values, missing), whole(columns, values)]);
            let images = [0, 1].map(|at| (row(&texts[at][0]), row(&texts[at][1])));
            let mut found = vec![QueryId(u32::MAX)];
            index.candidates(Some(&images[0].0), Some(&images[1].0), &mut found);
            prop_assert_eq!(found.remove(0), QueryId(u32::MAX));
            prop_assert!(found.is_sorted_by(|left, right| left < right), "{:?}", found);
            for (query, conditions) in &all {
                // Whatever an image does not say may be what the whole one has.
                let holds = images.iter().any(|(said, whole)| {
                    conditions.admit(said) == Ok(true) || conditions.admit(whole) == Ok(true)
                });
                prop_assert!(!holds || found.contains(query), "{:?} {:?}", conditions, images);
            }
            for (at, (image, _)) in images.iter().enumerate() {
                let mut alone = Vec::new();
                let (before, after) =
                    if at == 0 { (Some(image), None) } else { (None, Some(image)) };
                index.candidates(before, after, &mut alone);
                prop_assert!(alone.iter().all(|query| found.contains(query)));
            }
        }
        if round == 0 {
            // Half of them go, and what is left is found as before.
            for (query, conditions) in all.split_off(all.len() / 2) {
                index.remove(query, &conditions);
            }
        }
    }
    for (query, conditions) in all {
        index.remove(query, &conditions);
    }
    prop_assert!(index.forms.is_empty() && index.unindexed() == 0);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn what_holds_of_an_image_is_found_in_postgres(case in case(POSTGRES)) {
        check(Dialect::Postgres, case)?;
    }

    #[test]
    fn what_holds_of_an_image_is_found_in_sqlite(case in case(SQLITE)) {
        check(Dialect::Sqlite, case)?;
    }
}

fn conditions(text: &str) -> Conditions {
    let (table, _) = table(Dialect::Postgres);
    let predicate = Predicate::parse(text, &table, &()).expect("a condition");
    Conditions { predicates: vec![predicate], tenants: None }
}

fn found(index: &Index, image: &str) -> Vec<u32> {
    let mut found = Vec::new();
    index.candidates(None, Some(&row(image)), &mut found);
    found.into_iter().map(|query| query.0).collect()
}

fn index(texts: &[&str]) -> Index {
    let mut index = Index::default();
    for (query, text) in (0..).zip(texts) {
        index.insert(QueryId(query), &conditions(text));
    }
    index
}

#[test]
fn equalities_are_looked_up_together() {
    let index = index(&["id = 1 AND code = 'a'", "id = 1 AND code = 'b'", "id = 2 AND code = 'a'"]);
    assert_eq!(index.unindexed(), 0);
    assert_eq!(found(&index, r#"{"id":1,"code":"b"}"#), [1]);
    assert_eq!(found(&index, r#"{"id":3,"code":"b"}"#), [0; 0]);
}

#[test]
fn a_range_narrows_what_equalities_find() {
    let index = index(&[
        "id = 1 AND price > 10",
        "id = 1 AND price BETWEEN 1 AND 5 AND code <> 'a'",
        "id = 2 AND price > 10",
        "price < 3",
    ]);
    assert_eq!(index.unindexed(), 0);
    assert_eq!(found(&index, r#"{"id":1,"price":11,"code":"b"}"#), [0]);
    assert_eq!(found(&index, r#"{"id":1,"price":2,"code":"b"}"#), [1, 3]);
    assert_eq!(found(&index, r#"{"id":1,"price":7,"code":"b"}"#), [0; 0]);
}

#[test]
fn lists_and_alternatives_are_looked_up_each() {
    let many: Vec<String> = (1000..1100).map(|id| id.to_string()).collect();
    let many = format!("id IN ({})", many.join(","));
    let index = index(&["id IN (1, 2, NULL)", "id = 2 OR code = 'a'", "id IS NULL", &many]);
    assert_eq!(index.unindexed(), 0);
    assert_eq!(found(&index, r#"{"id":2,"code":"a"}"#), [0, 1]);
    assert_eq!(found(&index, r#"{"id":3,"code":"a"}"#), [1]);
    assert_eq!(found(&index, r#"{"id":null,"code":null}"#), [2]);
    assert_eq!(found(&index, r#"{"id":1050,"code":null}"#), [3]);
}

#[test]
fn what_cannot_be_looked_up_is_counted_and_always_found() {
    let index = index(&["code LIKE 'a%'", "id <> 1", "id = 1 OR id <> 5", "id = 1 AND FALSE"]);
    assert_eq!(index.unindexed(), 3);
    assert_eq!(found(&index, r#"{"id":7,"code":"b"}"#), [0, 1, 2]);
}

#[test]
fn a_column_that_an_image_lacks_is_every_value() {
    let index = index(&["id = 1 AND code = 'a'", "id = 2", "price > 5"]);
    assert_eq!(found(&index, r#"{"id":1,"price":1}"#), [0]);
    assert_eq!(found(&index, r#"{"code":"x","price":1}"#), [0, 1]);
    assert_eq!(found(&index, r#"{"code":null,"price":1}"#), [1]);
    assert_eq!(found(&index, r#"{"id":2,"code":"a"}"#), [1, 2]);
}

#[test]
fn a_condition_is_small() {
    // There may be a million of them.
    assert!(size_of::<Predicate>() <= 112, "{}", size_of::<Predicate>());
}
